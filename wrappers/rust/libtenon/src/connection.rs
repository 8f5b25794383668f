//! Connections: one end of a socket that carries messages, and remembers which segments crossed.

use std::ffi::c_void;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};

use crate::by_fd::{Access, OpenOptions};
use crate::error::{check, make, Error, Result};
use crate::message::Message;
use crate::sys;
use crate::wait::Wait;

/// Limits and options of one connection. A limit of 0 means the library's default.
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

/// Says what happens to received memory when its lender is gone. The lender is gone when no process
/// holds the other end of the socket any more: the lender's process ended, or all processes that
/// had this end closed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LenderGone {
    /// Received memory stays valid, and messages that were sent before are still delivered.
    #[default]
    Keep,
    /// Received memory is dropped: later accesses fail with
    /// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone), and so does [`Connection::recv`].
    /// Slices that were given out before stay valid as long as they live. Memory of a CUDA device
    /// is closed as soon as the work in the streams that use it is complete.
    Drop,
}

/// Says who is at the other end of a connection. The kernel reports it as of the moment when the
/// socket was connected. For a pair it is the process that made the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The process id. It is 0 if this process does not see the pid namespace. Another process may
    /// have this pid by now.
    pub pid: i32,
    /// The effective user id.
    pub uid: u32,
    /// The effective group id.
    pub gid: u32,
}

impl ConnectionOptions {
    /// All options have their defaults.
    pub fn new() -> ConnectionOptions {
        ConnectionOptions::default()
    }

    /// Sets how received storages are opened.
    pub fn open(self, access: Access, options: OpenOptions) -> Self {
        ConnectionOptions { access, open: options, ..self }
    }

    /// Sets the largest descriptor that is accepted, in bytes.
    pub fn max_message_nbytes(self, max_message_nbytes: u64) -> Self {
        ConnectionOptions { max_message_nbytes, ..self }
    }

    /// Sets the most tensors that are accepted in one message.
    pub fn max_tensors(self, max_tensors: u64) -> Self {
        ConnectionOptions { max_tensors, ..self }
    }

    /// Sets the most segments that the peer may keep open in this process through this connection.
    pub fn max_segments(self, max_segments: u64) -> Self {
        ConnectionOptions { max_segments, ..self }
    }

    /// Sets the most address space, in bytes, that the peer's memory may take in this process
    /// through this connection.
    pub fn max_mapped_nbytes(self, max_mapped_nbytes: u64) -> Self {
        ConnectionOptions { max_mapped_nbytes, ..self }
    }

    /// Sets what happens to received memory when the lender is gone.
    pub fn on_lender_gone(self, on_lender_gone: LenderGone) -> Self {
        ConnectionOptions { on_lender_gone, ..self }
    }

    /// Refuses a peer whose user is neither this process's user nor root. By default every peer is
    /// accepted, because the program that made the socket has decided who can connect.
    pub fn same_user(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_SAME_USER, ..self }
    }

    /// As [`same_user`](Self::same_user), but accepts the members of a group too.
    pub fn group(self, gid: u32) -> Self {
        ConnectionOptions { group: gid, flags: self.flags | sys::TENON_CONNECTION_GROUP, ..self }
    }

    /// Also accepts named files that Tenon made, although they have no seals, if the peer's user is
    /// this process's user or root.
    pub fn named_files(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_NAMED_FILES, ..self }
    }

    /// Sends through a ring in shared memory, so that a message takes no system call while the
    /// receiver is awake. The receiver needs no option.
    pub fn ring(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_RING, ..self }
    }

    /// Also sends read-only storages on a CUDA device, although their receiver can write to them.
    /// Without this option that is [`ErrorKind::Permission`](crate::ErrorKind::Permission).
    pub fn cuda_let_write(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_CUDA_LET_WRITE, ..self }
    }

    /// As [`CudaOptions::keep_open`](crate::CudaOptions::keep_open), for device memory that is
    /// received.
    pub fn cuda_keep_open(self) -> Self {
        ConnectionOptions { flags: self.flags | sys::TENON_CONNECTION_CUDA_KEEP_OPEN, ..self }
    }

    /// Makes a connection on a socket, as [`Connection::new`] does.
    pub fn connect(&self, socket: impl Into<OwnedFd>) -> Result<Connection> {
        let socket = socket.into();
        let options = self.raw();
        // SAFETY: options is borrowed for the call. The call takes the socket on success, and
        // otherwise it is closed here.
        let raw = make(|out, err| unsafe {
            sys::tenon_connection_new(socket.as_raw_fd(), &options, out, err)
        })?;
        let _ = socket.into_raw_fd();
        Ok(Connection { raw })
    }

    /// The options, with the flag that gives the socket to the new object.
    pub(crate) fn raw(&self) -> sys::tenon_connection_options {
        blank!(tenon_connection_options {
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
        })
    }
}

/// One end of a connected AF_UNIX socket (stream or seqpacket) that carries messages. The other end
/// must be a connection too, in any language. Sends wait for each other, and so do receives. A send
/// and a receive can run at the same time. After `fork` only the process that made the connection
/// may use it.
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

handle!(pub Connection, tenon_connection, tenon_connection_release);

impl Connection {
    /// Makes a connection on a connected socket, with the default options. The connection owns the
    /// socket, which is closed after a failure too.
    pub fn new(socket: impl Into<OwnedFd>) -> Result<Connection> {
        ConnectionOptions::new().connect(socket)
    }

    /// Makes a connection on a stream.
    pub fn from_stream(stream: UnixStream) -> Result<Connection> {
        Connection::new(stream)
    }

    /// Returns an fd that becomes readable when the lender is gone; with [`LenderGone::Drop`], once
    /// the lender's memory was dropped. Poll it, and do not read from it.
    pub fn gone_fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: self keeps the connection.
        check(|err| unsafe { sys::tenon_connection_gone_fd(self.as_raw(), &mut fd, err) })?;
        // SAFETY: the fd belongs to the connection, and is open as long as the connection lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Says who is at the other end.
    pub fn peer(&self) -> Result<Peer> {
        let mut out = blank!(tenon_peer);
        // SAFETY: out belongs to this function, and has the size that it says.
        check(|err| unsafe { sys::tenon_connection_peer(self.as_raw(), &mut out, err) })?;
        Ok(Peer { pid: out.pid, uid: out.uid, gid: out.gid })
    }

    /// Names the stream in which this process uses memory of a CUDA device that it sends or
    /// receives. Without this call it is the default stream. Work that was given to the sender's
    /// stream before a send is complete before the receiver's work begins. Work that is given to
    /// the receiver's stream after a receive waits for the sender's work, and a received storage
    /// counts as used in that stream.
    ///
    /// # Safety
    /// `stream` is a CUDA stream (`CUstream` or `cudaStream_t`) of this process, NULL for the
    /// default stream, or 0x2 for that of the calling thread. It exists until the connection, and
    /// all storages that were received meanwhile, are dropped.
    pub unsafe fn set_stream(&self, device: i32, stream: *mut c_void) -> Result<()> {
        // SAFETY: self keeps the connection, and the caller promises the rest.
        check(|err| unsafe { sys::tenon_connection_set_stream(self.as_raw(), device, stream, err) })
    }

    /// Sends a message. A message arrives whole or not at all, and messages arrive in the order in
    /// which they were sent. If the wait ends first, part of the message may be sent already. The
    /// connection then keeps the message, and the next call continues where this one stopped. That
    /// call can pass the same message, which is still sent only once, or another message, or be
    /// [`flush`](Self::flush). Lent storages stay valid for the peer after the message is dropped
    /// here.
    pub fn send<'w>(&self, message: &Message, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call.
        check(|err| unsafe { sys::tenon_send(self.as_raw(), message.as_raw(), &wait, err) })
    }

    /// Finishes a message that an earlier [`send`](Self::send) left unfinished.
    pub fn flush<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<()> {
        let wait = wait.into().raw();
        // SAFETY: as above, and a NULL message means to finish only.
        check(|err| unsafe { sys::tenon_send(self.as_raw(), ptr::null(), &wait, err) })
    }

    /// Receives the next message. If the wait ends first, nothing is lost, and the next call
    /// continues.
    pub fn recv<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Message> {
        let wait = wait.into().raw();
        // SAFETY: all arguments are borrowed for the call, and the result is a new reference.
        unsafe {
            Ok(Message::adopt(make(|out, err| sys::tenon_recv(self.as_raw(), &wait, out, err))?))
        }
    }
}

/// Gives the socket, for polling. When it is readable, call [`recv`](Connection::recv) with
/// [`Wait::NOT`] until that returns [`WouldBlock`](crate::ErrorKind::WouldBlock), because one read
/// from the socket can take several messages.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket belongs to the connection, and is open as long as the connection
        // lives.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: self keeps the connection, and any thread may call this (connection.h).
        unsafe { sys::tenon_connection_fd(self.as_raw()) }
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

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("fd", &self.as_raw_fd()).finish()
    }
}
