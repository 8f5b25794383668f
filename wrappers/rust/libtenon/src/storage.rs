//! Storages: the memory that the crate lends. A storage is a contiguous range of bytes on one
//! device, with a reference count.
//!
//! A [`Storage`] can be read, and a [`StorageMut`] can be written too. The type follows from how
//! the storage was made or opened, and the kernel enforces it.

use std::ffi::c_void;
use std::fmt;
use std::mem::size_of_val;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::Element;
use crate::error::{check, make, Result};
use crate::storage_options::StorageOptions;
use crate::sys;
use crate::weak::WeakStorage;
use crate::{panic, view};

/// Says who may write to a shared storage. The mode is chosen when the storage is made, because the
/// kernel's seals belong to the memory and not to a single lend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The lender and its borrowers write.
    #[default]
    Shared,
    /// Only the lender writes. The kernel refuses every write of a borrower.
    LenderWrites,
    /// The storage is filled and then frozen. Afterwards nobody can write to it, not even the
    /// lender.
    Frozen,
}

impl Mode {
    fn from_raw(raw: sys::tenon_mode) -> Mode {
        match raw {
            sys::TENON_MODE_LENDER_WRITES => Mode::LenderWrites,
            sys::TENON_MODE_FROZEN => Mode::Frozen,
            _ => Mode::Shared,
        }
    }
}

/// A storage that this process reads. A clone is one more reference to the same storage. The last
/// reference that is dropped frees the bytes.
pub struct Storage {
    raw: NonNull<sys::tenon_storage>,
}

// Moving private memory may not run beside other calls, so it is unsafe here
// (share_filename_moving).
handle!(
    pub Storage, tenon_storage, tenon_storage_release, retain tenon_storage_retain,
    fn into_raw
);

impl Storage {
    /// Makes a private, read-only storage over memory that belongs to `owner`, without a copy. The
    /// storage cannot be lent. `owner` is dropped with the last reference, on the thread that drops
    /// it.
    ///
    /// ```
    /// let storage = tenon::Storage::wrap::<f32, _>(vec![1.0, 2.0, 3.0])?;
    /// assert_eq!(storage.nbytes(), 12);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn wrap<T: Element, O: AsRef<[T]> + Send + 'static>(owner: O) -> Result<Storage> {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: the box was just made, and nothing uses it until drop_box takes it back. (The
        // slice is borrowed from the raw pointer, because moving a box counts as a use of what it
        // holds.)
        let data: &[T] = unsafe { &*owner }.as_ref();
        let (start, nbytes) = (data.as_ptr().cast_mut().cast(), size_of_val(data) as u64);
        // SAFETY: the slice from as_ref stays valid and unchanged while the owner is borrowed, and
        // that borrow ends in drop_box. READ_ONLY is set.
        unsafe { wrap(start, nbytes, owner, drop_box::<O>, sys::TENON_STORAGE_READ_ONLY) }
    }

    /// Finds the storage that has the `nbytes` bytes at an address. The result also says how many
    /// bytes into the storage they begin.
    ///
    /// Use it for an address that comes back from another library. It finds a storage once its
    /// address was given out, for example by a view's pointer or DLPack. It does not find private
    /// and empty storages: the error is then of kind [`NotFound`](crate::ErrorKind::NotFound). It
    /// does not dereference the address.
    ///
    /// # Safety
    /// The rule is that of [`from_raw`](Self::from_raw). If C code in this process made a storage
    /// of mode FROZEN and gave out its address before it froze the storage, the caller must not
    /// look for that address until the storage is frozen. Storages of this crate never break this
    /// rule.
    pub unsafe fn at(address: *const u8, nbytes: u64) -> Result<(Storage, u64)> {
        let mut offset = 0;
        // SAFETY: any address is allowed (storage.h); both results are written on success.
        let raw = make(|out, err| unsafe {
            sys::tenon_storage_at(address.cast(), nbytes, out, &mut offset, err)
        })?;
        // SAFETY: the reference is new. The caller promises the rest for FROZEN storages.
        Ok((unsafe { Storage::adopt(raw) }, offset))
    }

    /// Returns the size in bytes.
    pub fn nbytes(&self) -> u64 {
        // SAFETY: self keeps the storage alive; any thread (storage.h).
        unsafe { sys::tenon_storage_nbytes(self.as_raw()) }
    }

    /// Returns the mode that was chosen when the storage was made. For an opened storage it is the
    /// mode that the segment's seals enforce.
    pub fn mode(&self) -> Mode {
        // SAFETY: as in nbytes.
        Mode::from_raw(unsafe { sys::tenon_storage_mode(self.as_raw()) })
    }

    /// Returns the device in DLPack's numbers: (1, 0) is the CPU, and (2, N) is CUDA device N.
    pub fn device(&self) -> (i32, i32) {
        // SAFETY: as in nbytes.
        let device = unsafe { sys::tenon_storage_device(self.as_raw()) };
        (device.type_, device.id)
    }

    /// Says whether this process must not write to the bytes.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_read_only(self.as_raw()) != 0 }
    }

    /// Says whether the bytes lie in memory that can be lent.
    pub fn is_shared(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_shared(self.as_raw()) != 0 }
    }

    /// Says whether the kernel guarantees the size of the segment, so that a read never causes a
    /// SIGBUS.
    pub fn is_sealed(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_sealed(self.as_raw()) != 0 }
    }

    /// Says whether nobody, in any process, can write to these bytes any more, so that a plain
    /// `&[T]` over them is safe. It is true for frozen storages, and for private storages that are
    /// read-only.
    pub fn is_immutable(&self) -> bool {
        // A storage that is being filled is a Filling, so every storage of mode FROZEN here is
        // frozen already.
        self.is_read_only()
            && (!self.is_shared() || (self.mode() == Mode::Frozen && self.is_sealed()))
    }

    /// Says whether both storages are views of the same bytes.
    pub fn same_memory(&self, other: &Storage) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_same_memory(self.as_raw(), other.as_raw()) != 0 }
    }

    /// Returns a number for this storage that no other storage of this process ever has.
    pub fn id(&self) -> u64 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_id(self.as_raw()) }
    }

    /// Returns the number of strong references at this moment, for tests and debugging.
    pub fn use_count(&self) -> u64 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_use_count(self.as_raw()) }
    }

    /// Copies bytes out, from `offset` bytes after the start. If the file under an unsealed storage
    /// was cut short, the result is an error and not a SIGBUS. If another thread or process writes
    /// at the same time, each byte has either its old or its new value.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        // SAFETY: `into` has that many bytes.
        check(|err| unsafe {
            sys::tenon_storage_read(
                self.as_raw(),
                offset,
                into.as_mut_ptr().cast(),
                into.len() as u64,
                err,
            )
        })
    }

    /// Gives the bytes as a plain slice. The error is
    /// [`ErrorKind::MayChange`](crate::ErrorKind::MayChange) if somebody can still write to them,
    /// and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if they are on a device.
    pub fn as_bytes(&self) -> Result<&[u8]> {
        view::for_host(self.device())?;
        if !self.is_immutable() {
            return Err(view::may_change());
        }
        // SAFETY: nobody writes to immutable bytes.
        Ok(unsafe { self.as_bytes_unguarded() })
    }

    /// Gives the bytes as a plain slice, even if others may write to them. The slice is empty if
    /// the bytes are on a [`device`](Self::device).
    ///
    /// # Safety
    /// While the slice lives, nobody writes to the bytes: no thread of this process, and no other
    /// process that has them.
    pub unsafe fn as_bytes_unguarded(&self) -> &[u8] {
        let data = self.host_ptr();
        if data.is_null() {
            return &[];
        }
        // SAFETY: the bytes are valid until the last release, and self has a reference.
        unsafe { std::slice::from_raw_parts(data, self.nbytes() as usize) }
    }

    /// Checks whether the lender is gone and its connection drops what it lent
    /// ([`ConnectionOptions::on_lender_gone`](crate::ConnectionOptions::on_lender_gone)). The error
    /// is then [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone).
    pub fn check_lender(&self) -> Result<()> {
        // SAFETY: as in nbytes.
        check(|err| unsafe { sys::tenon_storage_check_lender(self.as_raw(), err) })
    }

    /// Gives the bytes as cells, which can be read even while others write to them. There are no
    /// cells if the bytes are on a [`device`](Self::device), or if
    /// [`check_lender`](Self::check_lender) fails.
    pub fn cells(&self) -> &[ReadCell<u8>] {
        let data = self.host_ptr();
        if data.is_null() {
            return &[];
        }
        // SAFETY: the bytes are valid until the last release, and self has a reference. A cell
        // allows concurrent writers.
        unsafe { std::slice::from_raw_parts(data.cast(), self.nbytes() as usize) }
    }

    /// Returns the address of the first byte, which is an address of [`device`](Self::device). It
    /// is valid as long as a reference lives. It is NULL for an empty storage.
    pub fn as_ptr(&self) -> *const u8 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_data(self.as_raw()).cast() }
    }

    /// As as_ptr, but NULL for bytes on a device.
    fn host_ptr(&self) -> *const u8 {
        if view::for_host(self.device()).is_ok() {
            self.as_ptr()
        } else {
            ptr::null()
        }
    }

    /// Gives the same storage for writing. The error is
    /// [`ErrorKind::Permission`](crate::ErrorKind::Permission) if the storage is read-only in this
    /// process.
    pub fn writable(&self) -> Result<StorageMut> {
        if self.is_read_only() {
            let mut data = ptr::null_mut();
            // The library's own error has a hint how to open the storage instead.
            // SAFETY: self keeps the storage alive; data is not used.
            check(|err| unsafe { sys::tenon_storage_data_mut(self.as_raw(), &mut data, err) })?;
        }
        Ok(StorageMut(self.clone()))
    }

    /// Gives a reference that does not keep the bytes alive.
    pub fn downgrade(&self) -> Result<WeakStorage> {
        WeakStorage::new(self)
    }

    /// Takes over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living storage, and its owner gives one reference away. If its mode is FROZEN, it
    /// is frozen. If it is private and read-only, nobody writes to its bytes.
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_storage>) -> Storage {
        // SAFETY: the caller's promise.
        unsafe { Storage::adopt(raw) }
    }

    /// # Safety
    /// The rules are those of from_raw.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::tenon_storage>) -> Storage {
        Storage { raw }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode();
        let kind: &dyn fmt::Debug = if self.is_shared() { &mode } else { &"private" };
        f.debug_struct("Storage")
            .field("nbytes", &self.nbytes())
            .field("mode", kind)
            .field("read_only", &self.is_read_only())
            .finish()
    }
}

/// A storage that this process may write to. It can be used wherever a [`Storage`] can be used.
#[derive(Clone, Debug)]
pub struct StorageMut(pub(crate) Storage);

impl StorageMut {
    /// Makes a storage of `nbytes` bytes with [`StorageOptions::new`].
    pub fn new(nbytes: u64) -> Result<StorageMut> {
        StorageOptions::new().create(nbytes)
    }

    /// Makes a private storage as [`Storage::wrap`] does, but over memory that may be written.
    pub fn wrap<T: Element, O: AsMut<[T]> + Send + 'static>(owner: O) -> Result<StorageMut> {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: as in Storage::wrap.
        let data: &mut [T] = unsafe { &mut *owner }.as_mut();
        let (start, nbytes) = (data.as_mut_ptr().cast(), size_of_val(data) as u64);
        // SAFETY: nothing else uses the slice from as_mut while the owner is borrowed, and that
        // borrow ends in drop_box.
        Ok(StorageMut(unsafe { wrap(start, nbytes, owner, drop_box::<O>, 0)? }))
    }

    /// Makes a private storage over memory with another owner. `release` is called once, with the
    /// last reference, on the thread that drops it. If `release` panics, the panic continues in the
    /// caller that dropped the reference. If this function fails, `release` is dropped without a
    /// call.
    ///
    /// # Safety
    /// The `nbytes` bytes at `data` can be read and written until `release` is called. Until then
    /// every access to them goes through this storage or is atomic.
    pub unsafe fn wrap_raw<F: FnOnce() + Send + 'static>(
        data: *mut u8,
        nbytes: u64,
        release: F,
    ) -> Result<StorageMut> {
        // SAFETY: the caller's promise.
        Ok(StorageMut(unsafe {
            wrap(data.cast(), nbytes, Box::into_raw(Box::new(release)), call_box::<F>, 0)?
        }))
    }

    /// Copies bytes in, from `offset` bytes after the start.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        write(self, offset, data)
    }

    /// Gives the bytes as cells, which can be read and written even while others do so. There are
    /// no cells if the bytes are on a [`device`](Storage::device).
    pub fn cells(&self) -> &[SharedCell<u8>] {
        let data = self.host_ptr().cast_mut();
        if data.is_null() {
            return &[];
        }
        // SAFETY: the bytes are writable and valid until the last release, and self has a
        // reference. A cell allows concurrent readers and writers.
        unsafe { std::slice::from_raw_parts(data.cast(), self.nbytes() as usize) }
    }

    /// Gives the bytes as a plain slice for writing. It is empty if they are on a
    /// [`device`](Storage::device).
    ///
    /// # Safety
    /// While the slice lives, nobody else reads or writes the bytes: no thread of this process,
    /// through any clone or tensor, and no other process that has them.
    pub unsafe fn as_bytes_mut_unguarded(&mut self) -> &mut [u8] {
        let data = self.host_ptr().cast_mut();
        if data.is_null() {
            return &mut [];
        }
        // SAFETY: the bytes are valid (as in cells), and the caller promises exclusive access.
        unsafe { std::slice::from_raw_parts_mut(data, self.nbytes() as usize) }
    }

    /// Returns the address of the first byte, which is an address of [`device`](Storage::device).
    /// It is valid as long as a reference lives. It is NULL for an empty storage.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.as_ptr().cast_mut()
    }
}

impl Deref for StorageMut {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        &self.0
    }
}

impl AsRef<Storage> for StorageMut {
    fn as_ref(&self) -> &Storage {
        self
    }
}

impl From<StorageMut> for Storage {
    fn from(storage: StorageMut) -> Storage {
        storage.0
    }
}

/// Copies bytes in. It also works for a storage that is being filled.
pub(crate) fn write(storage: &Storage, offset: u64, data: &[u8]) -> Result<()> {
    // SAFETY: `data` has that many bytes.
    check(|err| unsafe {
        sys::tenon_storage_write(
            storage.as_raw(),
            offset,
            data.as_ptr().cast(),
            data.len() as u64,
            err,
        )
    })
}

/// # Safety
/// The rules are those of tenon_storage_wrap. `release` takes `context`, which comes from a box.
unsafe fn wrap<O>(
    data: *mut c_void,
    nbytes: u64,
    context: *mut O,
    release: unsafe extern "C" fn(*mut c_void),
    flags: u32,
) -> Result<Storage> {
    let made = StorageOptions::new().flag(flags).with_raw(false, |options| {
        // SAFETY: the caller's promise.
        make(|out, err| unsafe {
            sys::tenon_storage_wrap(data, nbytes, Some(release), context.cast(), options, out, err)
        })
    });
    match made {
        // SAFETY: the reference is new.
        Ok(raw) => Ok(unsafe { Storage::adopt(raw) }),
        Err(error) => {
            // SAFETY: the library did not call release, and never will after a failure (storage.h).
            drop(unsafe { Box::from_raw(context) });
            Err(error)
        }
    }
}

unsafe extern "C" fn drop_box<O>(context: *mut c_void) {
    // SAFETY: the library gives back, once, the box that wrap gave to it.
    panic::callback(|| drop(unsafe { Box::from_raw(context.cast::<O>()) }));
}

unsafe extern "C" fn call_box<F: FnOnce()>(context: *mut c_void) {
    // SAFETY: as in drop_box.
    panic::callback(|| unsafe { Box::from_raw(context.cast::<F>()) }());
}

/// Returns memory that the library keeps for later storages to the system. The result is in bytes.
pub fn trim() -> u64 {
    // SAFETY: any thread (storage.h).
    unsafe { sys::tenon_storage_trim() }
}
