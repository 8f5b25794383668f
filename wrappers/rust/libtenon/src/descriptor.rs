//! Descriptors: the portable form of a message, for transports of one's own: versioned bytes, and
//! the fds that they count on.

use std::fmt;
use std::mem::size_of;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::by_fd::{Access, OpenOptions};
use crate::error::{make, Result};
use crate::message::Message;
use crate::panic;
use crate::sys;

/// The portable form of a message. Keeps the tensors and the fds until it is dropped.
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

// SAFETY: it never changes, and a pointer to const means safe concurrently (rule 8 in tenon.h).
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Encode a message.
    pub fn new(message: &Message) -> Result<Descriptor> {
        Descriptor::make(message, 0)
    }

    /// Encode a message so that no fds travel: the opener fetches them from this process through
    /// `/proc`, so this process must live, and hold the descriptor, until then. Same user and pid
    /// namespace.
    pub fn bytes_only(message: &Message) -> Result<Descriptor> {
        Descriptor::make(message, sys::TENON_DESCRIPTOR_BYTES_ONLY)
    }

    fn make(message: &Message, flags: u32) -> Result<Descriptor> {
        let options = sys::tenon_descriptor_options {
            struct_size: size_of::<sys::tenon_descriptor_options>(),
            flags,
            reserved: 0,
        };
        Ok(Descriptor {
            // SAFETY: both are borrowed for the call.
            raw: make(|out, err| unsafe {
                sys::tenon_descriptor_new(message.as_raw(), &options, out, err)
            })?,
        })
    }

    /// The bytes to carry.
    pub fn bytes(&self) -> &[u8] {
        let mut nbytes = 0;
        // SAFETY: borrowed from the descriptor, never NULL for one.
        unsafe {
            std::slice::from_raw_parts(
                sys::tenon_descriptor_bytes(self.raw.as_ptr(), &mut nbytes).cast(),
                nbytes,
            )
        }
    }

    /// The fds to carry, in this order. None for a bytes-only one.
    pub fn fds(&self) -> &[BorrowedFd<'_>] {
        let mut count = 0;
        // SAFETY: open fds, borrowed from the descriptor; a BorrowedFd is transparent over such a
        // number. NULL if there are none.
        unsafe {
            let fds = sys::tenon_descriptor_fds(self.raw.as_ptr(), &mut count);
            if fds.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(fds.cast(), count)
        }
    }

    /// Open a descriptor that came from another process, with the fds that it was made with. Nobody
    /// is trusted about the bytes: they are validated whole before any of them is used
    /// ([`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt), with the detail `field`).
    pub fn open(
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        access: Access,
        options: OpenOptions,
    ) -> Result<Message> {
        open(bytes, fds.as_ptr().cast(), fds.len(), access, options)
    }

    /// As [`open`](Self::open), with the fds given away: nothing is duplicated. On failure they are
    /// closed.
    pub fn open_adopting(
        bytes: &[u8],
        fds: Vec<OwnedFd>,
        access: Access,
        options: OpenOptions,
    ) -> Result<Message> {
        // An OwnedFd is transparent over its number too.
        let message = open(bytes, fds.as_ptr().cast(), fds.len(), access, options.adopting())?;
        for fd in fds {
            // The library's now.
            let _ = fd.into_raw_fd();
        }
        Ok(message)
    }

    /// The C library's pointer; borrowed, it is released with self.
    pub fn as_raw(&self) -> *mut sys::tenon_descriptor {
        self.raw.as_ptr()
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
    // SAFETY: bytes, fds and options are borrowed for the call; what comes is a new reference.
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

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        panic::release(|| unsafe { sys::tenon_descriptor_release(self.raw.as_ptr()) });
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
