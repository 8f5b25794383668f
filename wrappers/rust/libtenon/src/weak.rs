//! Weak references: they know a storage without keeping its bytes alive.

use std::fmt;
use std::ptr::NonNull;

use crate::error::{make, Result};
use crate::storage::Storage;
use crate::sys;

/// Knows a storage without keeping its bytes alive. A clone knows the same storage.
///
/// ```
/// let storage = tenon::StorageMut::new(64)?;
/// let weak = storage.downgrade()?;
/// assert_eq!(weak.upgrade().map(|found| found.id()), Some(storage.id()));
/// drop(storage);
/// assert!(weak.upgrade().is_none());
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct WeakStorage {
    raw: NonNull<sys::tenon_weak>,
}

// SAFETY: rule 8 in tenon.h: everything on weak references is safe concurrently.
unsafe impl Send for WeakStorage {}
// SAFETY: as above.
unsafe impl Sync for WeakStorage {}

impl WeakStorage {
    pub(crate) fn new(storage: &Storage) -> Result<WeakStorage> {
        // SAFETY: the storage is borrowed.
        let raw = make(|out, err| unsafe { sys::tenon_weak_ref(storage.as_raw(), out, err) })?;
        Ok(WeakStorage { raw })
    }

    /// The storage, if it is still alive. A race with its last release has one winner.
    pub fn upgrade(&self) -> Option<Storage> {
        // SAFETY: self keeps the weak reference; what comes is a new strong one.
        unsafe {
            NonNull::new(sys::tenon_weak_lock(self.raw.as_ptr())).map(|raw| Storage::adopt(raw))
        }
    }

    /// Whether the storage is gone. Once true, always true.
    pub fn is_expired(&self) -> bool {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_expired(self.raw.as_ptr()) != 0 }
    }

    /// The storage's [`Storage::id`], also after it expired.
    pub fn id(&self) -> u64 {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_id(self.raw.as_ptr()) }
    }
}

impl Clone for WeakStorage {
    fn clone(&self) -> WeakStorage {
        // SAFETY: self keeps the weak reference; what comes is the same one, counted once more, for
        // the copy to release.
        unsafe { sys::tenon_weak_retain(self.raw.as_ptr()) };
        WeakStorage { raw: self.raw }
    }
}

impl Drop for WeakStorage {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        unsafe { sys::tenon_weak_release(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for WeakStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakStorage")
            .field("id", &self.id())
            .field("expired", &self.is_expired())
            .finish()
    }
}
