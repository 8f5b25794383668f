//! Descriptors: messages in a portable form, which a program can carry by its own means. A
//! descriptor has versioned bytes, and the fds to which the bytes refer.

use std::fmt;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::by_fd::{Access, OpenOptions};
use crate::error::{make, Result};
use crate::message::Message;
use crate::sys;

/// The portable form of a message. It keeps the tensors and the fds until it is dropped.
///
/// ```
/// use tenon::{Access, Descriptor, Message, OpenOptions, Tensor};
///
/// let mut message = Message::new()?;
/// message.add("weight", &Tensor::frozen(&[1u8, 2, 3], &[3])?)?;
/// let descriptor = Descriptor::new(&message)?;
///
/// // Elsewhere, with the bytes and the fds in the same order:
/// let opened =
///     Descriptor::open(descriptor.bytes(), descriptor.fds(), Access::Auto, OpenOptions::new())?;
/// assert_eq!(opened.find("weight").unwrap().as_slice::<u8>()?, [1, 2, 3]);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Descriptor {
    raw: NonNull<sys::tenon_descriptor>,
}

handle!(pub Descriptor, tenon_descriptor, tenon_descriptor_release);

impl Descriptor {
    /// Encodes a message.
    pub fn new(message: &Message) -> Result<Descriptor> {
        Descriptor::make(message, 0)
    }

    /// Encodes a message without fds. The opener fetches the fds from this process through `/proc`.
    /// So this process must live and hold the descriptor until then, and the opener must be of the
    /// same user and pid namespace.
    pub fn bytes_only(message: &Message) -> Result<Descriptor> {
        Descriptor::make(message, sys::TENON_DESCRIPTOR_BYTES_ONLY)
    }

    fn make(message: &Message, flags: u32) -> Result<Descriptor> {
        let options = blank!(tenon_descriptor_options { flags: flags });
        Ok(Descriptor {
            // SAFETY: both are borrowed for the call.
            raw: make(|out, err| unsafe {
                sys::tenon_descriptor_new(message.as_raw(), &options, out, err)
            })?,
        })
    }

    /// Returns the bytes to carry.
    pub fn bytes(&self) -> &[u8] {
        let mut nbytes = 0;
        // SAFETY: the bytes are borrowed from the descriptor, and never NULL for a descriptor.
        unsafe {
            std::slice::from_raw_parts(
                sys::tenon_descriptor_bytes(self.as_raw(), &mut nbytes).cast(),
                nbytes,
            )
        }
    }

    /// Returns the fds to carry, in this order. A bytes-only descriptor has none.
    pub fn fds(&self) -> &[BorrowedFd<'_>] {
        let mut count = 0;
        // SAFETY: these are open fds, borrowed from the descriptor, and a BorrowedFd is transparent
        // over such a number. The pointer is NULL if there are none.
        unsafe {
            let fds = sys::tenon_descriptor_fds(self.as_raw(), &mut count);
            if fds.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(fds.cast(), count)
        }
    }

    /// Opens a descriptor from another process, with the fds with which it was made. It does not
    /// trust the bytes: all of them are validated before any is used
    /// ([`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt), with the detail `field`).
    pub fn open(
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        access: Access,
        options: OpenOptions,
    ) -> Result<Message> {
        open(bytes, fds.as_ptr().cast(), fds.len(), access, options)
    }

    /// Opens a descriptor as [`open`](Self::open) does, but gives the fds away, so that they are
    /// not duplicated. After a failure they are closed.
    pub fn open_adopting(
        bytes: &[u8],
        fds: Vec<OwnedFd>,
        access: Access,
        options: OpenOptions,
    ) -> Result<Message> {
        // An OwnedFd has the layout of its number too.
        let message = open(bytes, fds.as_ptr().cast(), fds.len(), access, options.adopting())?;
        for fd in fds {
            // The library owns the fd now.
            let _ = fd.into_raw_fd();
        }
        Ok(message)
    }
}

fn open(
    bytes: &[u8],
    fds: *const i32,
    count: usize,
    access: Access,
    options: OpenOptions,
) -> Result<Message> {
    let options = options.raw(access);
    let fds = if count == 0 { ptr::null() } else { fds };
    // SAFETY: bytes, fds and options are borrowed for the call, and the result is a new reference.
    unsafe {
        let raw = make(|out, err| {
            sys::tenon_descriptor_open(
                bytes.as_ptr().cast(),
                bytes.len(),
                fds,
                count,
                &options,
                out,
                err,
            )
        })?;
        Ok(Message::adopt(raw))
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor")
            .field("nbytes", &self.bytes().len())
            .field("fds", &self.fds().len())
            .finish()
    }
}
