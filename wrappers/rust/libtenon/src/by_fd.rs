//! Lending by fd: an fd that carries the bytes, and numbers that say where in it the storage lies.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use crate::error::{check, make, Result};
use crate::storage::{Storage, StorageMut};
use crate::sys;

/// What a handle allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// In a lend: what the mode gives. In a handle that is opened: what the memory gives.
    #[default]
    Auto,
    /// The kernel keeps borrowers from writing. Of [`Mode::Shared`](crate::Mode::Shared) memory it
    /// cannot, so that is refused.
    ReadOnly,
    /// Both sides write; [`Mode::Shared`](crate::Mode::Shared) only.
    Writable,
}

impl Access {
    pub(crate) fn raw(self) -> sys::tenon_access {
        match self {
            Access::Auto => sys::TENON_ACCESS_AUTO,
            Access::ReadOnly => sys::TENON_ACCESS_READ_ONLY,
            Access::Writable => sys::TENON_ACCESS_WRITABLE,
        }
    }

    pub(crate) fn from_raw(raw: sys::tenon_access) -> Access {
        match raw {
            sys::TENON_ACCESS_READ_ONLY => Access::ReadOnly,
            sys::TENON_ACCESS_WRITABLE => Access::Writable,
            _ => Access::Auto,
        }
    }

    pub(crate) fn share_options(self) -> sys::tenon_share_options {
        sys::tenon_share_options {
            struct_size: size_of::<sys::tenon_share_options>(),
            access: self.raw(),
            flags: 0,
        }
    }
}

/// How to open what was lent, by fd, by name, or in a descriptor.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    flags: u32,
}

impl OpenOptions {
    /// Everything by default.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Writes stay in this process; pages not written yet still show the lender's later writes.
    pub fn private_cow(self) -> Self {
        self.flag(sys::TENON_OPEN_PRIVATE_COW)
    }

    /// Copy the bytes now: a snapshot, in private memory.
    pub fn private_copy(self) -> Self {
        self.flag(sys::TENON_OPEN_PRIVATE_COPY)
    }

    /// Take memory that its owner can cut short (PyTorch's, plain files). A later load, through
    /// cells or slices, may then meet SIGBUS, which ends the process; [`Storage::read`] gives an
    /// error instead.
    pub fn allow_unsealed(self) -> Self {
        self.flag(sys::TENON_OPEN_ALLOW_UNSEALED)
    }

    /// By name, or by a descriptor's bytes without fds: take memory that belongs to another user.
    pub fn other_user(self) -> Self {
        self.flag(sys::TENON_OPEN_OTHER_USER)
    }

    /// By name: do not tell the manager that the handle names.
    pub fn no_manager(self) -> Self {
        self.flag(sys::TENON_OPEN_NO_MANAGER)
    }

    /// By name: a message was received, so also do what
    /// [`FilenameHandle::decref`](crate::FilenameHandle::decref) does.
    pub fn decref(self) -> Self {
        self.flag(sys::TENON_OPEN_DECREF)
    }

    fn flag(self, flag: u32) -> Self {
        OpenOptions { flags: self.flags | flag }
    }

    pub(crate) fn flags(self) -> u32 {
        self.flags
    }

    pub(crate) fn raw(self, access: Access) -> sys::tenon_open_options {
        sys::tenon_open_options {
            struct_size: size_of::<sys::tenon_open_options>(),
            access: access.raw(),
            flags: self.flags,
        }
    }

    pub(crate) fn adopting(self) -> Self {
        self.flag(sys::TENON_OPEN_ADOPT_FD)
    }
}

/// How to reach a storage by fd. Everything in bytes. The fd is the handle's own, and closed with
/// it.
#[derive(Debug)]
pub struct FdHandle {
    /// Carries the bytes; `None` for an empty storage.
    pub fd: Option<OwnedFd>,
    /// What the handle allows.
    pub access: Access,
    /// Of the storage in the segment.
    pub offset: u64,
    /// Of the storage.
    pub nbytes: u64,
    /// Of the whole segment; 0 in a handle that is opened: ask the fd.
    pub segment_nbytes: u64,
}

impl FdHandle {
    /// A handle on a whole file: its access and size are what the fd gives.
    pub fn new(fd: OwnedFd, offset: u64, nbytes: u64) -> FdHandle {
        FdHandle { fd: Some(fd), access: Access::Auto, offset, nbytes, segment_nbytes: 0 }
    }

    /// Open it, to read. Before anything is mapped the fd is checked: its type, size, access and
    /// seals.
    pub fn open(&self, options: OpenOptions) -> Result<Storage> {
        self.open_as(Access::Auto, options)
    }

    /// Open it mapped read-only, whatever it allows.
    pub fn open_read_only(&self, options: OpenOptions) -> Result<Storage> {
        self.open_as(Access::ReadOnly, options)
    }

    /// Open it to write; [`ErrorKind::Permission`](crate::ErrorKind::Permission) if it is lent
    /// read-only. With [`OpenOptions::private_cow`] or [`OpenOptions::private_copy`] the writes
    /// stay here, and every handle can be opened so.
    pub fn open_writable(&self, options: OpenOptions) -> Result<StorageMut> {
        let private =
            options.flags() & (sys::TENON_OPEN_PRIVATE_COW | sys::TENON_OPEN_PRIVATE_COPY) != 0;
        self.open_as(if private { Access::Auto } else { Access::Writable }, options)?.writable()
    }

    /// As [`open`](Self::open), with the fd given away: nothing is duplicated. On failure it is
    /// closed.
    pub fn into_storage(mut self, options: OpenOptions) -> Result<Storage> {
        let storage = self.open_as(Access::Auto, options.adopting())?;
        if let Some(fd) = self.fd.take() {
            // The library's now.
            let _ = fd.into_raw_fd();
        }
        Ok(storage)
    }

    fn open_as(&self, access: Access, options: OpenOptions) -> Result<Storage> {
        let (handle, options) = (self.raw(), options.raw(access));
        // SAFETY: both are borrowed for the call, and so is the fd.
        let raw = make(|out, err| unsafe { sys::tenon_open_fd(&handle, &options, out, err) })?;
        // SAFETY: a new reference; FROZEN is what the seals say.
        Ok(unsafe { Storage::adopt(raw) })
    }

    fn raw(&self) -> sys::tenon_fd_handle {
        sys::tenon_fd_handle {
            struct_size: size_of::<sys::tenon_fd_handle>(),
            fd: self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            access: self.access.raw(),
            offset: self.offset,
            nbytes: self.nbytes,
            segment_nbytes: self.segment_nbytes,
        }
    }

    /// The fd, borrowed, to send it.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

impl Storage {
    /// Lend it: get an fd, an offset and a size that another process can open. Nothing is copied.
    /// What borrowers may do is what the mode gives. Who is lent one storage of a segment can reach
    /// all of that segment ([`StorageOptions::isolated`](crate::StorageOptions::isolated) gives a
    /// storage a segment of its own).
    pub fn share_fd(&self) -> Result<FdHandle> {
        share(self, Access::Auto)
    }

    /// Lend it so that the kernel keeps borrowers from writing;
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if its mode is
    /// [`Mode::Shared`](crate::Mode::Shared).
    pub fn share_fd_read_only(&self) -> Result<FdHandle> {
        share(self, Access::ReadOnly)
    }
}

impl StorageMut {
    /// Lend it so that borrowers write too; [`ErrorKind::Permission`](crate::ErrorKind::Permission)
    /// if its mode is [`Mode::LenderWrites`](crate::Mode::LenderWrites).
    pub fn share_fd_writable(&self) -> Result<FdHandle> {
        share(self, Access::Writable)
    }
}

fn share(storage: &Storage, access: Access) -> Result<FdHandle> {
    let options = access.share_options();
    let mut raw = sys::tenon_fd_handle {
        struct_size: size_of::<sys::tenon_fd_handle>(),
        fd: -1,
        access: sys::TENON_ACCESS_AUTO,
        offset: 0,
        nbytes: 0,
        segment_nbytes: 0,
    };
    // SAFETY: storage and options are borrowed for the call; raw is of its own struct_size.
    check(|err| unsafe { sys::tenon_share_fd(storage.as_raw(), &options, &mut raw, err) })?;
    // SAFETY: the fd in a handle is the caller's (rule 11 in tenon.h).
    let fd = (raw.fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw.fd) });
    Ok(FdHandle {
        fd,
        access: Access::from_raw(raw.access),
        offset: raw.offset,
        nbytes: raw.nbytes,
        segment_nbytes: raw.segment_nbytes,
    })
}
