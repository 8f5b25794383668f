//! Making storages: the options, and the filling of a storage that will be frozen.

use std::mem::{size_of, size_of_val};
use std::ptr::{self, NonNull};

use crate::arena::Arena;
use crate::dtype::Element;
use crate::error::{check, make, Result};
use crate::storage::{write, Storage, StorageMut};
use crate::sys;
use crate::wait::Wait;

/// Says how to make a storage. Without options its mode is [`Mode::Shared`](crate::Mode::Shared),
/// it lies in the default home, and its alignment is 64 bytes.
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
    /// All options have their defaults.
    pub fn new() -> Self {
        StorageOptions::default()
    }

    /// Sets [`Mode::LenderWrites`](crate::Mode::LenderWrites): borrowers can read and not write. It
    /// means nothing for frozen and private storages.
    pub fn lender_writes(self) -> Self {
        StorageOptions { lender_writes: true, ..self }
    }

    /// Gives the storage a segment of its own, so that a borrower reaches only this storage.
    pub fn isolated(self) -> Self {
        self.flag(sys::TENON_STORAGE_ISOLATED)
    }

    /// Takes ordinary memory of this process, which cannot be lent.
    pub fn private(self) -> Self {
        self.flag(sys::TENON_STORAGE_PRIVATE)
    }

    /// Makes all bytes 0. Otherwise a reused block may keep the bytes of the storage that lay there
    /// before.
    pub fn zeroed(self) -> Self {
        self.flag(sys::TENON_STORAGE_ZEROED)
    }

    /// The caller promises to write all bytes before it lends or reads them. So a reused block that
    /// was lent before is not cleared. If the caller breaks the promise, a borrower can read bytes
    /// that were lent to another borrower. Together with [`zeroed`](Self::zeroed) this is
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn will_fill(self) -> Self {
        self.flag(sys::TENON_STORAGE_WILL_FILL)
    }

    /// Sets the alignment in bytes, a power of two up to 4096.
    pub fn alignment(self, alignment: u64) -> Self {
        StorageOptions { alignment, ..self }
    }

    /// Makes the storage in this arena, with the arena's mode. If the arena is full, the error is
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted), and its detail
    /// "holders" names the processes that hold leases.
    pub fn arena(self, arena: &'a Arena) -> Self {
        StorageOptions { arena: Some(arena), ..self }
    }

    /// Sets how long to wait for room in a full arena: for storages of this process that are
    /// dropped, and for leases that end. Without this option the call does not wait.
    pub fn wait(self, wait: impl Into<Wait<'a>>) -> Self {
        StorageOptions { wait: Some(wait.into()), ..self }
    }

    pub(crate) fn flag(self, flag: u32) -> Self {
        StorageOptions { flags: self.flags | flag, ..self }
    }

    // The options that `make` gets have their own struct_size, and everything to which they point
    // is borrowed for that call.
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

    /// Makes a storage of `nbytes` bytes. It reserves the memory before it returns, so a machine
    /// without free memory causes an error of this call
    /// ([`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted)) and not a SIGBUS
    /// later.
    pub fn create(&self, nbytes: u64) -> Result<StorageMut> {
        let raw = self.new_raw(false, nbytes)?;
        // SAFETY: the reference is new, and the storage is writable because its mode is not FROZEN.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }

    /// Makes a storage that holds a copy of `data`. This is faster than `create` and `write`.
    pub fn copy_from<T: Element>(&self, data: &[T]) -> Result<StorageMut> {
        let raw = self.new_from(false, data)?;
        // SAFETY: as in create.
        Ok(StorageMut(unsafe { Storage::adopt(raw) }))
    }

    /// Makes a frozen storage that holds a copy of `data`. Nobody will ever write to it.
    pub fn copy_frozen<T: Element>(&self, data: &[T]) -> Result<Storage> {
        let raw = self.new_from(true, data)?;
        // SAFETY: the reference is new, and new_from has frozen the storage.
        Ok(unsafe { Storage::adopt(raw) })
    }

    /// Makes a storage that is filled first and then frozen.
    pub fn fill_frozen(&self, nbytes: u64) -> Result<Filling> {
        let raw = self.new_raw(true, nbytes)?;
        // SAFETY: the reference is new, and nobody gets it before the storage is frozen.
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
            // SAFETY: options and data are borrowed for the call, and a T has no padding (Element).
            make(|out, err| unsafe {
                sys::tenon_storage_new_from(options, data.as_ptr().cast(), nbytes, out, err)
            })
        })
    }
}

/// A storage of mode [`Mode::Frozen`](crate::Mode::Frozen) before it is frozen. It can be filled,
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
    /// Returns the size in bytes.
    pub fn nbytes(&self) -> u64 {
        self.0.nbytes()
    }

    /// Copies bytes in, from `offset` bytes after the start.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        write(&self.0, offset, data)
    }

    /// Ends the filling. From then on the kernel refuses every write, by every process.
    pub fn freeze(self) -> Result<Storage> {
        // SAFETY: self keeps the storage alive.
        check(|err| unsafe { sys::tenon_storage_freeze(self.0.as_raw(), err) })?;
        Ok(self.0)
    }
}
