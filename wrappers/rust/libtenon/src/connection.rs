//! Connections: one end of a socket that carries messages, and remembers which segments crossed.

use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};

use crate::by_fd::{Access, OpenOptions};
use crate::error::{check, make, Error, Result};
use crate::message::Message;
use crate::panic;
use crate::sys;
use crate::wait::Wait;

/// Limits and options of one connection. A limit of 0 is the library's.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct ConnectionOptions {
    access: Access,
    open: OpenOptions,
    max_message_nbytes: u64,
    max_tensors: u64,
    max_segments: u64,
    max_mapped_nbytes: u64,
    on_lender_gone: LenderGone,
    flags: u32,
    group: u32,
}

/// What happens to received memory when nobody holds the other end of the socket any more: the
/// lender's process ended, or everybody who had that end closed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LenderGone {
    /// It stays valid, and messages that were sent before are delivered.
    #[default]
    Keep,
    /// Later accesses fail with [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone), and so does
    /// [`Connection::recv`]. Slices that are out stay valid as long as they live. Memory of a CUDA
    /// device is closed as soon as the streams that use it have passed.
    Drop,
}

/// Who is at the other end of a connection, as the kernel told it when the socket was connected;
/// for a pair, who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// 0: of a pid namespace that this process does not see. It can be another process's by now.
    pub pid: i32,
    /// The effective one.
    pub uid: u32,
    /// The effective one.
    pub gid: u32,
}

impl ConnectionOptions {
    /// Everything by default.
    pub fn new() -> ConnectionOptions {
        ConnectionOptions::default()
    }

    /// How what is received is opened.
    pub fn open(self, access: Access, options: OpenOptions) -> Self {
        ConnectionOptions { access, open: options, ..self }
    }

    /// Largest descriptor accepted, in bytes.
    pub fn max_message_nbytes(self, max_message_nbytes: u64) -> Self {
        ConnectionOptions { max_message_nbytes, ..self }
    }

    /// Most tensors accepted in one message.
    pub fn max_tensors(self, max_tensors: u64) -> Self {
        ConnectionOptions { max_tensors, ..self }
    }

    /// Most segments that the peer may have open here through this connection.
    pub fn max_segments(self, max_segments: u64) -> Self {
        ConnectionOptions { max_segments, ..self }
    }

    /// Most address space, in bytes, that the peer's memory may take here through this connection.
    pub fn max_mapped_nbytes(self, max_mapped_nbytes: u64) -> Self {
        ConnectionOptions { max_mapped_nbytes, ..self }
    }

    /// What happens to received memory when the lender is gone.
    pub fn on_lender_gone(self, on_lender_gone: LenderGone) -> Self {
        ConnectionOptions { on_lender_gone, ..self }
    }

    /// Refuse a peer that is neither of this process's user nor root. By default any peer is good:
    /// whoever made the socket has decided.
    pub fn same_user(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_SAME_USER, ..self }
    }

    /// As [`same_user`](Self::same_user), but the members of that group are let in too.
    pub fn group(self, gid: u32) -> Self {
        ConnectionOptions { group: gid, flags: self.flags | sys::TENON_CONNECTION_GROUP, ..self }
    }

    /// Also take named files that Tenon made, although they have no seals, if the peer is of this
    /// process's user or root.
    pub fn named_files(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_NAMED_FILES, ..self }
    }

    /// Send read-only storages on a CUDA device too, though their receiver can write them; else
    /// that is [`ErrorKind::Permission`](crate::ErrorKind::Permission).
    pub fn cuda_let_write(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_CUDA_LET_WRITE, ..self }
    }

    /// As [`CudaOptions::keep_open`](crate::CudaOptions::keep_open), for device memory that is
    /// received.
    pub fn cuda_keep_open(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_CUDA_KEEP_OPEN, ..self }
    }

    /// Put a connection on a socket, as [`Connection::new`] does.
    pub fn connect(&self, socket: impl Into<OwnedFd>) -> Result<Connection> {
        let socket = socket.into();
        let options = sys::tenon_connection_options {
            struct_size: size_of::<sys::tenon_connection_options>(),
            flags: self.flags | sys::TENON_CONNECTION_ADOPT_SOCKET,
            open_access: self.access.raw(),
            open_flags: self.open.flags(),
            group: self.group,
            max_message_nbytes: self.max_message_nbytes,
            max_tensors: self.max_tensors,
            max_segments: self.max_segments,
            max_mapped_nbytes: self.max_mapped_nbytes,
            on_lender_gone: match self.on_lender_gone {
                LenderGone::Keep => sys::TENON_LENDER_GONE_KEEP,
                LenderGone::Drop => sys::TENON_LENDER_GONE_DROP,
            },
            reserved: 0,
        };
        // SAFETY: options is borrowed for the call; the socket is given away if it succeeds, and
        // else closed here.
        let raw = make(|out, err| unsafe {
            sys::tenon_connection_new(socket.as_raw_fd(), &options, out, err)
        })?;
        let _ = socket.into_raw_fd();
        Ok(Connection { raw })
    }
}

/// One end of a connected AF_UNIX socket (stream or seqpacket) that carries messages. The other end
/// must be a connection too, in any language. Sends queue behind each other, receives too; a send
/// and a receive run at the same time. After `fork` only the process that made the connection may
/// use it.
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use std::time::Duration;
/// use tenon::{Connection, Message, TensorMut};
///
/// let (ours, theirs) = UnixStream::pair()?; // theirs would be in another process
/// let (lender, borrower) = (Connection::from_stream(ours)?, Connection::from_stream(theirs)?);
///
/// let weight = TensorMut::zeros::<f32>(&[1000, 1000])?;
/// let mut message = Message::new()?;
/// message.add("weight", &weight)?;
/// lender.send(&message, Duration::from_secs(5))?;
///
/// let received = borrower.recv(Duration::from_secs(5))?;
/// let lent = received.find("weight").unwrap().writable()?;
/// lent.cells::<f32>()?[999_999].set(42.0);
/// assert_eq!(weight.cells::<f32>()?[999_999].get(), 42.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    raw: NonNull<sys::tenon_connection>,
}

// SAFETY: rule 8 in tenon.h and connection.h: any thread may send and receive; calls queue behind
// each other.
unsafe impl Send for Connection {}
// SAFETY: as above; the release, which no other call may meet, needs the connection exclusively
// here.
unsafe impl Sync for Connection {}

impl Connection {
    /// Put a connection on a connected socket, with the defaults. The socket is the connection's,
    /// also on failure.
    pub fn new(socket: impl Into<OwnedFd>) -> Result<Connection> {
        ConnectionOptions::new().connect(socket)
    }

    /// Put a connection on a stream.
    pub fn from_stream(stream: UnixStream) -> Result<Connection> {
        Connection::new(stream)
    }

    /// An fd that is readable once the lender is gone, and what it lent is dropped. Do not read
    /// from it.
    pub fn gone_fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: self keeps the connection.
        check(|err| unsafe { sys::tenon_connection_gone_fd(self.raw.as_ptr(), &mut fd, err) })?;
        // SAFETY: the fd is the connection's, and open as long as it lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Result<Peer> {
        let mut out = sys::tenon_peer {
            struct_size: size_of::<sys::tenon_peer>(),
            pid: 0,
            uid: 0,
            gid: 0,
            reserved: 0,
        };
        // SAFETY: out is ours, and of the size that it says.
        check(|err| unsafe { sys::tenon_connection_peer(self.raw.as_ptr(), &mut out, err) })?;
        Ok(Peer { pid: out.pid, uid: out.uid, gid: out.gid })
    }

    /// Name the stream in which memory of a CUDA device is used here; without this it is the
    /// default one. What was given to it before a send is done before work of the receiver's
    /// begins; what is given to it after a receive waits for the sender's, and what was received
    /// counts as used in it.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default one, or 0x2 for that of the calling thread. It is there until the connection, and
    /// what was received meanwhile, has gone.
    pub unsafe fn set_stream(&self, device: i32, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the connection; the caller's promise.
        check(|err| unsafe {
            sys::tenon_connection_set_stream(self.raw.as_ptr(), device, stream, err)
        })
    }

    /// Send a message: delivered whole or not at all, in order. If the wait ends first the message
    /// may be half sent: the connection keeps it, and the next call goes on where this one stopped
    /// (with the same message, which is sent once all the same, with another, or by
    /// [`flush`](Self::flush)). What is lent stays valid for the peer after the message is gone
    /// here.
    pub fn send<'w>(&self, message: &Message, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: all is borrowed for the call.
        check(|err| unsafe { sys::tenon_send(self.raw.as_ptr(), message.as_raw(), &wait, err) })
    }

    /// Finish what an earlier [`send`](Self::send) left.
    pub fn flush<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: as above; a NULL message only finishes.
        check(|err| unsafe { sys::tenon_send(self.raw.as_ptr(), ptr::null(), &wait, err) })
    }

    /// Receive the next message. If the wait ends first nothing is lost: the next call goes on.
    pub fn recv<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Message> {
        let wait = wait.into().raw();
        // SAFETY: all is borrowed for the call; what comes is a new reference.
        unsafe {
            Ok(Message::adopt(make(|out, err| {
                sys::tenon_recv(self.raw.as_ptr(), &wait, out, err)
            })?))
        }
    }

    /// The C library's pointer; borrowed, it is released with self.
    pub fn as_raw(&self) -> *mut sys::tenon_connection {
        self.raw.as_ptr()
    }
}

/// The socket, to poll. When it is readable, receive with [`Wait::NOT`] until that is
/// [`WouldBlock`](crate::ErrorKind::WouldBlock): several messages can be taken off the socket at
/// once.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is the connection's, and open as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: self keeps the connection; any thread (connection.h).
        unsafe { sys::tenon_connection_fd(self.raw.as_ptr()) }
    }
}

impl TryFrom<UnixStream> for Connection {
    type Error = Error;

    fn try_from(stream: UnixStream) -> Result<Connection> {
        Connection::new(stream)
    }
}

impl TryFrom<OwnedFd> for Connection {
    type Error = Error;

    fn try_from(socket: OwnedFd) -> Result<Connection> {
        Connection::new(socket)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the reference is ours; no other call can be using it, since self is borrowed
        // exclusively.
        panic::release(|| unsafe { sys::tenon_connection_release(self.raw.as_ptr()) });
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("fd", &self.as_raw_fd()).finish()
    }
}
