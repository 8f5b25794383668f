//! Storages: counted, contiguous bytes, born shareable.
//!
//! A [`Storage`] can be read, a [`StorageMut`] can be written too; which of the two something is
//! was settled when it was made or opened, and the kernel keeps it.

use std::ffi::c_void;
use std::fmt;
use std::mem::{size_of_val, ManuallyDrop};
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::Element;
use crate::error::{check, make, Result};
use crate::storage_options::StorageOptions;
use crate::sys;
use crate::weak::WeakStorage;
use crate::{panic, view};

/// Who may write to a shared storage. Chosen at birth, because the kernel's seals belong to the
/// memory and not to a lend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Lender and borrowers write.
    #[default]
    Shared,
    /// Only the lender writes; borrowers cannot, whatever they try.
    LenderWrites,
    /// Filled, then frozen: nobody writes again, the lender included.
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

/// Counted, contiguous bytes, to be read. A clone is one more reference to the same; the last one
/// to go frees the bytes.
pub struct Storage {
    raw: NonNull<sys::tenon_storage>,
}

// SAFETY: rule 8 in tenon.h: retain, release and everything on storages are safe concurrently. (The
// one exception, moving private memory, is unsafe here: share_filename_moving.)
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Make a private, read-only storage over memory that belongs to `owner`, without a copy. It
    /// cannot be lent. `owner` is dropped with the last reference, on the thread that gives it
    /// back.
    ///
    /// ```
    /// let storage = tenon::Storage::wrap::<f32, _>(vec![1.0, 2.0, 3.0])?;
    /// assert_eq!(storage.nbytes(), 12);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn wrap<T: Element, O: AsRef<[T]> + Send + 'static>(owner: O) -> Result<Storage> {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: just made, and looked at by nobody else until drop_box takes it back. (Borrowed
        // from the raw pointer, since to move a box is to use what it holds.)
        let data: &[T] = unsafe { &*owner }.as_ref();
        let (start, nbytes) = (data.as_ptr().cast_mut().cast(), size_of_val(data) as u64);
        // SAFETY: what as_ref gave stays as it is as long as the owner is borrowed, which ends in
        // drop_box. READ_ONLY is set.
        unsafe { wrap(start, nbytes, owner, drop_box::<O>, sys::TENON_STORAGE_READ_ONLY) }
    }

    /// Finds the storage that has the `nbytes` bytes at an address, and how many bytes into it they
    /// begin.
    ///
    /// Use it for an address that comes back from another library. A storage is found once its
    /// address was given out, as by a view's pointer or DLPack. Private and empty storages are not
    /// found: an error of kind [`NotFound`](crate::ErrorKind::NotFound). The address is not
    /// dereferenced.
    ///
    /// # Safety
    /// As [`from_raw`](Self::from_raw): a storage of mode FROZEN that C code in this process made,
    /// and whose address it gave out before it froze the storage, must not be asked for until it is
    /// frozen. Nothing else can go wrong, and storages of this crate never are so.
    pub unsafe fn at(address: *const u8, nbytes: u64) -> Result<(Storage, u64)> {
        let mut offset = 0;
        // SAFETY: any address is allowed (storage.h); both results are written on success.
        let raw = make(|out, err| unsafe {
            sys::tenon_storage_at(address.cast(), nbytes, out, &mut offset, err)
        })?;
        // SAFETY: a new reference; of FROZEN ones see above.
        Ok((unsafe { Storage::adopt(raw) }, offset))
    }

    /// The size in bytes.
    pub fn nbytes(&self) -> u64 {
        // SAFETY: self keeps the storage alive; any thread (storage.h).
        unsafe { sys::tenon_storage_nbytes(self.as_raw()) }
    }

    /// The mode: the one chosen at birth, or, for an opened storage, the one that the segment's
    /// seals enforce.
    pub fn mode(&self) -> Mode {
        // SAFETY: as in nbytes.
        Mode::from_raw(unsafe { sys::tenon_storage_mode(self.as_raw()) })
    }

    /// The device in DLPack's numbers: (1, 0) is the CPU, (2, N) CUDA device N.
    pub fn device(&self) -> (i32, i32) {
        // SAFETY: as in nbytes.
        let device = unsafe { sys::tenon_storage_device(self.as_raw()) };
        (device.type_, device.id)
    }

    /// Whether this process must not write to the bytes.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_read_only(self.as_raw()) != 0 }
    }

    /// Whether the bytes lie in memory that can be lent.
    pub fn is_shared(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_shared(self.as_raw()) != 0 }
    }

    /// Whether the kernel holds the size of the segment, so that reading can never meet SIGBUS.
    pub fn is_sealed(&self) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_is_sealed(self.as_raw()) != 0 }
    }

    /// Whether nobody, in any process, can write to these bytes any more, so that a plain `&[T]`
    /// over them is safe. True for frozen storages, and for private ones that are read-only.
    pub fn is_immutable(&self) -> bool {
        // A storage that is being filled is a Filling, so every FROZEN one that gets here is
        // frozen.
        self.is_read_only()
            && (!self.is_shared() || (self.mode() == Mode::Frozen && self.is_sealed()))
    }

    /// Whether both are views of the same bytes.
    pub fn same_memory(&self, other: &Storage) -> bool {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_same_memory(self.as_raw(), other.as_raw()) != 0 }
    }

    /// A number for this storage, never given to another one in this process.
    pub fn id(&self) -> u64 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_id(self.as_raw()) }
    }

    /// Strong references at this moment, for tests and debugging.
    pub fn use_count(&self) -> u64 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_use_count(self.as_raw()) }
    }

    /// Copy bytes out, from `offset` bytes after the start. An error, and no SIGBUS, if the file
    /// under an unsealed storage was cut short. What others write at the same time is there or not,
    /// byte by byte.
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

    /// The bytes as a plain slice, if nobody can write to them any more; else
    /// [`ErrorKind::MayChange`](crate::ErrorKind::MayChange).
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if they are on a device.
    pub fn as_bytes(&self) -> Result<&[u8]> {
        view::for_host(self.device())?;
        if !self.is_immutable() {
            return Err(view::may_change());
        }
        // SAFETY: nobody writes to immutable bytes.
        Ok(unsafe { self.as_bytes_unguarded() })
    }

    /// The bytes as a plain slice, whoever may write to them; empty if they are on a
    /// [`device`](Self::device).
    ///
    /// # Safety
    /// While the slice lives nobody writes to the bytes: no thread of this process, and no other
    /// process that has them.
    pub unsafe fn as_bytes_unguarded(&self) -> &[u8] {
        let data = self.host_ptr();
        if data.is_null() {
            return &[];
        }
        // SAFETY: valid until the last release, and self has a reference.
        unsafe { std::slice::from_raw_parts(data, self.nbytes() as usize) }
    }

    /// Whether the lender is gone and its connection drops what it lent
    /// ([`ConnectionOptions::on_lender_gone`](crate::ConnectionOptions::on_lender_gone)):
    /// [`ErrorKind::PeerGone`](crate::ErrorKind::PeerGone) if so.
    pub fn check_lender(&self) -> Result<()> {
        // SAFETY: as in nbytes.
        check(|err| unsafe { sys::tenon_storage_check_lender(self.as_raw(), err) })
    }

    /// The bytes as cells, which can be read whoever writes to them; none if they are on a
    /// [`device`](Self::device), or if [`check_lender`](Self::check_lender) fails.
    pub fn cells(&self) -> &[ReadCell<u8>] {
        let data = self.host_ptr();
        if data.is_null() {
            return &[];
        }
        // SAFETY: valid until the last release, and self has a reference; a cell takes writers.
        unsafe { std::slice::from_raw_parts(data.cast(), self.nbytes() as usize) }
    }

    /// The address of the first byte, one of [`device`](Self::device), valid as long as a reference
    /// lives; NULL for an empty storage.
    pub fn as_ptr(&self) -> *const u8 {
        // SAFETY: as in nbytes.
        unsafe { sys::tenon_storage_data(self.as_raw()).cast() }
    }

    /// As as_ptr, and NULL for bytes of a device.
    fn host_ptr(&self) -> *const u8 {
        if view::for_host(self.device()).is_ok() {
            self.as_ptr()
        } else {
            ptr::null()
        }
    }

    /// The same storage to write to, or [`ErrorKind::Permission`](crate::ErrorKind::Permission) if
    /// it is read-only here.
    pub fn writable(&self) -> Result<StorageMut> {
        if self.is_read_only() {
            let mut data = ptr::null_mut();
            // The library's own words, and its hint how to open it instead.
            // SAFETY: self keeps the storage alive; data is not used.
            check(|err| unsafe { sys::tenon_storage_data_mut(self.as_raw(), &mut data, err) })?;
        }
        Ok(StorageMut(self.clone()))
    }

    /// A reference that does not keep the bytes alive.
    pub fn downgrade(&self) -> Result<WeakStorage> {
        WeakStorage::new(self)
    }

    /// The C library's pointer; borrowed, it is released with self.
    pub fn as_raw(&self) -> *mut sys::tenon_storage {
        self.raw.as_ptr()
    }

    /// The C library's pointer, with the reference that self had.
    pub fn into_raw(self) -> *mut sys::tenon_storage {
        ManuallyDrop::new(self).as_raw()
    }

    /// Take over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living storage, and one reference of it is given away. If its mode is FROZEN, it
    /// is frozen. If it is private and read-only, nobody writes to its bytes.
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_storage>) -> Storage {
        // SAFETY: as above.
        unsafe { Storage::adopt(raw) }
    }

    /// # Safety
    /// As from_raw.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::tenon_storage>) -> Storage {
        Storage { raw }
    }
}

impl Clone for Storage {
    fn clone(&self) -> Storage {
        // SAFETY: self keeps the storage alive; any thread (storage.h).
        unsafe { sys::tenon_storage_retain(self.as_raw()) };
        Storage { raw: self.raw }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        panic::release(|| unsafe { sys::tenon_storage_release(self.as_raw()) });
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

/// A storage that this process may write to. It can be used wherever a [`Storage`] can.
#[derive(Clone, Debug)]
pub struct StorageMut(pub(crate) Storage);

impl StorageMut {
    /// A storage of `nbytes` bytes by [`StorageOptions::new`].
    pub fn new(nbytes: u64) -> Result<StorageMut> {
        StorageOptions::new().create(nbytes)
    }

    /// As [`Storage::wrap`], over memory that may be written.
    pub fn wrap<T: Element, O: AsMut<[T]> + Send + 'static>(owner: O) -> Result<StorageMut> {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: as in Storage::wrap.
        let data: &mut [T] = unsafe { &mut *owner }.as_mut();
        let (start, nbytes) = (data.as_mut_ptr().cast(), size_of_val(data) as u64);
        // SAFETY: what as_mut gave is nobody else's as long as the owner is borrowed, which ends in
        // drop_box.
        Ok(StorageMut(unsafe { wrap(start, nbytes, owner, drop_box::<O>, 0)? }))
    }

    /// Make a private storage over memory that is somebody else's. `release` is called once, with
    /// the last reference, on the thread that gives it back; if it panics, that goes on in whoever
    /// gave it back. It is dropped without a call if this fails.
    ///
    /// # Safety
    /// The `nbytes` bytes at `data` can be read and written until `release` is called, and nobody
    /// accesses them otherwise than through this storage, or atomically.
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

    /// Copy bytes in, from `offset` bytes after the start.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        write(self, offset, data)
    }

    /// The bytes as cells, which can be read and written whoever else does so; none if they are on
    /// a [`device`](Storage::device).
    pub fn cells(&self) -> &[SharedCell<u8>] {
        let data = self.host_ptr().cast_mut();
        if data.is_null() {
            return &[];
        }
        // SAFETY: writable, and valid until the last release; self has a reference. A cell takes
        // other readers and writers.
        unsafe { std::slice::from_raw_parts(data.cast(), self.nbytes() as usize) }
    }

    /// The bytes as a plain slice to write to; empty if they are on a [`device`](Storage::device).
    ///
    /// # Safety
    /// While the slice lives nobody else reads or writes the bytes: no thread of this process,
    /// through any clone or tensor, and no other process that has them.
    pub unsafe fn as_bytes_mut_unguarded(&mut self) -> &mut [u8] {
        let data = self.host_ptr().cast_mut();
        if data.is_null() {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(data, self.nbytes() as usize) }
    }

    /// The address of the first byte, one of [`device`](Storage::device), valid as long as a
    /// reference lives; NULL for an empty storage.
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

/// Copies bytes in; also into a storage that is being filled.
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
/// As tenon_storage_wrap; `release` takes `context`, which is a box.
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
        // SAFETY: a new reference.
        Ok(raw) => Ok(unsafe { Storage::adopt(raw) }),
        Err(error) => {
            // SAFETY: release was not called and never will be (storage.h).
            drop(unsafe { Box::from_raw(context) });
            Err(error)
        }
    }
}

unsafe extern "C" fn drop_box<O>(context: *mut c_void) {
    // SAFETY: the library gives back, once, the box that wrap gave it.
    panic::callback(|| drop(unsafe { Box::from_raw(context.cast::<O>()) }));
}

unsafe extern "C" fn call_box<F: FnOnce()>(context: *mut c_void) {
    // SAFETY: as above.
    panic::callback(|| unsafe { Box::from_raw(context.cast::<F>()) }());
}

/// Give memory back to the system that the arena keeps warm for later storages. Returns bytes.
pub fn trim() -> u64 {
    // SAFETY: any thread (storage.h).
    unsafe { sys::tenon_storage_trim() }
}
