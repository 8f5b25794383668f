//! How a storage is made: its options, and the filling of one that is to be frozen.

use std::mem::{size_of, size_of_val};
use std::ptr::{self, NonNull};

use crate::arena::Arena;
use crate::dtype::Element;
use crate::error::{check, make, Result};
use crate::storage::{write, Storage, StorageMut};
use crate::sys;
use crate::wait::Wait;

/// How a storage is made. Without anything: [`Mode::Shared`](crate::Mode::Shared), in the arena,
/// 64-byte aligned.
///
/// ```
/// use tenon::StorageOptions;
///
/// let storage = StorageOptions::new().lender_writes().create(4096)?;
/// storage.write(0, b"only this process can do that")?;
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct StorageOptions<'a> {
    lender_writes: bool,
    flags: u32,
    alignment: u64,
    arena: Option<&'a Arena>,
    wait: Option<Wait<'a>>,
}

impl<'a> StorageOptions<'a> {
    /// Everything by default.
    pub fn new() -> Self {
        StorageOptions::default()
    }

    /// [`Mode::LenderWrites`](crate::Mode::LenderWrites): borrowers can read and not write. Means
    /// nothing for frozen and private storages.
    pub fn lender_writes(self) -> Self {
        StorageOptions { lender_writes: true, ..self }
    }

    /// A segment of its own: a borrower can reach nothing but this storage.
    pub fn isolated(self) -> Self {
        self.flag(sys::TENON_STORAGE_ISOLATED)
    }

    /// Ordinary memory of this process; cannot be lent.
    pub fn private(self) -> Self {
        self.flag(sys::TENON_STORAGE_PRIVATE)
    }

    /// All bytes 0 at birth. Otherwise a block that is used again keeps what its last owner wrote.
    pub fn zeroed(self) -> Self {
        self.flag(sys::TENON_STORAGE_ZEROED)
    }

    /// The caller promises to write all bytes before it lends or reads them, so a reused block that
    /// was lent before is not cleared. If the promise is broken, a borrower can read bytes that
    /// were lent to another borrower. Together with [`zeroed`](Self::zeroed) this is
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn will_fill(self) -> Self {
        self.flag(sys::TENON_STORAGE_WILL_FILL)
    }

    /// Bytes, a power of two up to 4096.
    pub fn alignment(self, alignment: u64) -> Self {
        StorageOptions { alignment, ..self }
    }

    /// Born in this arena, in its mode. If it is full that is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), and the error's
    /// detail "holders" says who holds what.
    pub fn arena(self, arena: &'a Arena) -> Self {
        StorageOptions { arena: Some(arena), ..self }
    }

    /// How long a full arena is waited for: for storages of this process to go, and for leases to
    /// end. Without this: not at all.
    pub fn wait(self, wait: impl Into<Wait<'a>>) -> Self {
        StorageOptions { wait: Some(wait.into()), ..self }
    }

    pub(crate) fn flag(self, flag: u32) -> Self {
        StorageOptions { flags: self.flags | flag, ..self }
    }

    // What `make` is given is of its own struct_size, and what it points to is borrowed for that
    // call.
    pub(crate) fn with_raw<R>(
        &self,
        frozen: bool,
        make: impl FnOnce(&sys::tenon_storage_options) -> R,
    ) -> R {
        let mode = match (frozen, self.lender_writes) {
            (true, _) => sys::TENON_MODE_FROZEN,
            (false, true) => sys::TENON_MODE_LENDER_WRITES,
            (false, false) => sys::TENON_MODE_SHARED,
        };
        let wait = self.wait.map(|wait| wait.raw());
        make(&sys::tenon_storage_options {
            struct_size: size_of::<sys::tenon_storage_options>(),
            mode,
            flags: self.flags,
            alignment: self.alignment,
            arena: self.arena.map_or(ptr::null_mut(), Arena::as_raw),
            wait: wait.as_ref().map_or(ptr::null(), ptr::from_ref),
        })
    }

    /// Make a storage of `nbytes` bytes. Its memory is reserved before this returns: a full machine
    /// is an error here ([`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted)) and
    /// no SIGBUS later.
    pub fn create(&self, nbytes: u64) -> Result<StorageMut> {
        let raw = self.new_raw(false, nbytes)?;
        // SAFETY: a new reference, writable: its mode is not FROZEN.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }

    /// Make a storage that holds a copy of `data`. Faster than to create one and write to it.
    pub fn copy_from<T: Element>(&self, data: &[T]) -> Result<StorageMut> {
        let raw = self.new_from(false, data)?;
        // SAFETY: as in create.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }

    /// Make a storage that holds a copy of `data`, frozen: nobody will ever write to it.
    pub fn copy_frozen<T: Element>(&self, data: &[T]) -> Result<Storage> {
        let raw = self.new_from(true, data)?;
        // SAFETY: a new reference; new_from freezes it.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Make a storage to be filled and then frozen.
    pub fn fill_frozen(&self, nbytes: u64) -> Result<Filling> {
        let raw = self.new_raw(true, nbytes)?;
        // SAFETY: a new reference, which nobody sees before it is frozen.
        Ok(Filling(unsafe { Storage::adopt(raw) }))
    }

    fn new_raw(&self, frozen: bool, nbytes: u64) -> Result<NonNull<sys::tenon_storage>> {
        self.with_raw(frozen, |options| {
            // SAFETY: options is borrowed for the call (rule 4 in tenon.h).
            make(|out, err| unsafe { sys::tenon_storage_new(options, nbytes, out, err) })
        })
    }

    fn new_from<T: Element>(
        &self,
        frozen: bool,
        data: &[T],
    ) -> Result<NonNull<sys::tenon_storage>> {
        let nbytes = size_of_val(data) as u64;
        self.with_raw(frozen, |options| {
            // SAFETY: options and data are borrowed for the call; a T has no padding (Element).
            make(|out, err| unsafe {
                sys::tenon_storage_new_from(options, data.as_ptr().cast(), nbytes, out, err)
            })
        })
    }
}

/// A storage of mode [`Mode::Frozen`](crate::Mode::Frozen) before it is frozen: it can be filled,
/// and nothing else.
///
/// ```
/// let filling = tenon::StorageOptions::new().fill_frozen(8)?;
/// filling.write(0, &[1, 2, 3, 4])?;
/// let storage = filling.freeze()?;
/// assert_eq!(storage.as_bytes()?, [1, 2, 3, 4, 0, 0, 0, 0]);
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Debug)]
pub struct Filling(Storage);

impl Filling {
    /// The size in bytes.
    pub fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }

    /// Copy bytes in, from `offset` bytes after the start.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        write(&self.0, offset, data)
    }

    /// End the filling: from now on the kernel refuses every write, by anybody.
    pub fn freeze(self) -> Result<Storage> {
        // SAFETY: self keeps the storage alive.
        check(|err| unsafe { sys::tenon_storage_freeze(self.0.as_raw(), err) })?;
        Ok(self.0)
    }
}
