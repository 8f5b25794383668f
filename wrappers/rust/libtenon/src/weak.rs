//! Weak references, which do not keep the bytes of their storage alive.

use std::fmt;
use std::ptr::NonNull;

use crate::error::{make, Result};
use crate::storage::Storage;
use crate::sys;

/// A reference that does not keep the storage's bytes alive. A clone refers to the same storage.
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

handle!(WeakStorage, tenon_weak, tenon_weak_release, retain tenon_weak_retain);

impl WeakStorage {
    pub(crate) fn new(storage: &Storage) -> Result<WeakStorage> {
        // SAFETY: the storage is borrowed for the call.
        let raw = make(|out, err| unsafe { sys::tenon_weak_ref(storage.as_raw(), out, err) })?;
        Ok(WeakStorage { raw })
    }

    /// Returns the storage, if it is still alive. In a race with its last release, either this call
    /// gets the storage or the release frees it.
    pub fn upgrade(&self) -> Option<Storage> {
        // SAFETY: self keeps the weak reference, and the result is a new strong reference.
        unsafe { NonNull::new(sys::tenon_weak_lock(self.as_raw())).map(|raw| Storage::adopt(raw)) }
    }

    /// Says whether the storage is gone. Once it is true, it stays true.
    pub fn is_expired(&self) -> bool {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_expired(self.as_raw()) != 0 }
    }

    /// Returns the storage's [`Storage::id`], also after the storage is gone.
    pub fn id(&self) -> u64 {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_id(self.as_raw()) }
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
