//! Lending storages by fd: a handle has an fd for the bytes, and numbers that say where in it the
//! storage lies.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

use crate::error::{check, make, Result};
use crate::storage::{Storage, StorageMut};
use crate::sys;

/// The access that a handle allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// To lend: the access that the mode gives. To open: the access that the memory gives.
    #[default]
    Auto,
    /// The kernel prevents borrowers from writing. It cannot do that for memory of
    /// [`Mode::Shared`](crate::Mode::Shared), which is refused.
    ReadOnly,
    /// Both sides write. Only [`Mode::Shared`](crate::Mode::Shared) allows it.
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
        blank!(tenon_share_options { access: self.raw() })
    }
}

/// Says how to open a storage that was lent by fd, by name, or in a descriptor.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    flags: u32,
}

impl OpenOptions {
    /// All options have their defaults.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// This process's writes stay in this process. Pages that it has not written yet still show
    /// later writes of the lender.
    pub fn private_cow(self) -> Self {
        self.flag(sys::TENON_OPEN_PRIVATE_COW)
    }

    /// Copies the bytes now into private memory. The result is a snapshot.
    pub fn private_copy(self) -> Self {
        self.flag(sys::TENON_OPEN_PRIVATE_COPY)
    }

    /// Accepts memory that its owner can cut short (PyTorch's memory, plain files). A later load
    /// through cells or slices may then cause a SIGBUS, which ends the process. [`Storage::read`]
    /// returns an error instead.
    pub fn allow_unsealed(self) -> Self {
        self.flag(sys::TENON_OPEN_ALLOW_UNSEALED)
    }

    /// By name, or by a descriptor without fds: accepts memory of another user.
    pub fn other_user(self) -> Self {
        self.flag(sys::TENON_OPEN_OTHER_USER)
    }

    /// By name: does not register with the manager that the handle names.
    pub fn no_manager(self) -> Self {
        self.flag(sys::TENON_OPEN_NO_MANAGER)
    }

    /// By name: a message was received, so this also does what
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

/// Says how to reach a storage by fd. All sizes and offsets are in bytes. The handle owns the fd,
/// and closes it when it is dropped.
#[derive(Debug)]
pub struct FdHandle {
    /// The fd of the segment; `None` for an empty storage.
    pub fd: Option<OwnedFd>,
    /// The access that the handle allows.
    pub access: Access,
    /// Where the storage begins in the segment.
    pub offset: u64,
    /// The size of the storage.
    pub nbytes: u64,
    /// The size of the whole segment. If it is 0 in a handle that is opened, the size is taken from
    /// the fd.
    pub segment_nbytes: u64,
}

impl FdHandle {
    /// Makes a handle for a part of a file. The access and the file's size are taken from the fd.
    pub fn new(fd: OwnedFd, offset: u64, nbytes: u64) -> FdHandle {
        FdHandle { fd: Some(fd), access: Access::Auto, offset, nbytes, segment_nbytes: 0 }
    }

    /// Opens the storage for reading. Before anything is mapped, the fd's type, size, access and
    /// seals are checked.
    pub fn open(&self, options: OpenOptions) -> Result<Storage> {
        self.open_as(Access::Auto, options)
    }

    /// Opens the storage and maps it read-only, whatever the handle allows.
    pub fn open_read_only(&self, options: OpenOptions) -> Result<Storage> {
        self.open_as(Access::ReadOnly, options)
    }

    /// Opens the storage for writing. The error is
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if it is lent read-only. With
    /// [`OpenOptions::private_cow`] or [`OpenOptions::private_copy`] the writes stay in this
    /// process, and every handle can be opened in that way.
    pub fn open_writable(&self, options: OpenOptions) -> Result<StorageMut> {
        let private =
            options.flags() & (sys::TENON_OPEN_PRIVATE_COW | sys::TENON_OPEN_PRIVATE_COPY) != 0;
        self.open_as(if private { Access::Auto } else { Access::Writable }, options)?.writable()
    }

    /// Opens the storage as [`open`](Self::open) does, but gives the fd away, so that it is not
    /// duplicated. After a failure the fd is closed.
    pub fn into_storage(mut self, options: OpenOptions) -> Result<Storage> {
        let storage = self.open_as(Access::Auto, options.adopting())?;
        if let Some(fd) = self.fd.take() {
            // The library owns the fd now.
            let _ = fd.into_raw_fd();
        }
        Ok(storage)
    }

    fn open_as(&self, access: Access, options: OpenOptions) -> Result<Storage> {
        let (handle, options) = (self.raw(), options.raw(access));
        // SAFETY: both are borrowed for the call, and so is the fd.
        let raw = make(|out, err| unsafe { sys::tenon_open_fd(&handle, &options, out, err) })?;
        // SAFETY: the reference is new. The seals say whether the storage is FROZEN.
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

    /// Returns the fd, borrowed, so that it can be sent.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

impl Storage {
    /// Lends the storage: gives an fd, an offset and a size with which another process can open it.
    /// Nothing is copied. Borrowers get the access that the mode gives. A borrower of one storage
    /// reaches the whole segment. ([`StorageOptions::isolated`](crate::StorageOptions::isolated)
    /// gives a storage a segment of its own.)
    pub fn share_fd(&self) -> Result<FdHandle> {
        share(self, Access::Auto)
    }

    /// Lends the storage so that the kernel prevents borrowers from writing. The error is
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if its mode is
    /// [`Mode::Shared`](crate::Mode::Shared).
    pub fn share_fd_read_only(&self) -> Result<FdHandle> {
        share(self, Access::ReadOnly)
    }
}

impl StorageMut {
    /// Lends the storage so that borrowers write too. The error is
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if its mode is
    /// [`Mode::LenderWrites`](crate::Mode::LenderWrites).
    pub fn share_fd_writable(&self) -> Result<FdHandle> {
        share(self, Access::Writable)
    }
}

fn share(storage: &Storage, access: Access) -> Result<FdHandle> {
    let options = access.share_options();
    let mut raw = blank!(tenon_fd_handle { fd: -1 });
    // SAFETY: storage and options are borrowed for the call, and raw has its own struct_size.
    check(|err| unsafe { sys::tenon_share_fd(storage.as_raw(), &options, &mut raw, err) })?;
    // SAFETY: the fd in a handle belongs to the caller (rule 11 in tenon.h).
    let fd = (raw.fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw.fd) });
    Ok(FdHandle {
        fd,
        access: Access::from_raw(raw.access),
        offset: raw.offset,
        nbytes: raw.nbytes,
        segment_nbytes: raw.segment_nbytes,
    })
}
