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

// SAFETY: rule 8 in tenon.h: all functions on weak references may be called concurrently.
unsafe impl Send for WeakStorage {}
// SAFETY: the reason is the same as for Send.
unsafe impl Sync for WeakStorage {}

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
        unsafe {
            NonNull::new(sys::tenon_weak_lock(self.raw.as_ptr())).map(|raw| Storage::adopt(raw))
        }
    }

    /// Says whether the storage is gone. Once it is true, it stays true.
    pub fn is_expired(&self) -> bool {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_expired(self.raw.as_ptr()) != 0 }
    }

    /// Returns the storage's [`Storage::id`], also after the storage is gone.
    pub fn id(&self) -> u64 {
        // SAFETY: self keeps the weak reference.
        unsafe { sys::tenon_weak_id(self.raw.as_ptr()) }
    }
}

impl Clone for WeakStorage {
    fn clone(&self) -> WeakStorage {
        // SAFETY: self keeps the weak reference. The call adds a reference to it, which the copy
        // releases.
        unsafe { sys::tenon_weak_retain(self.raw.as_ptr()) };
        WeakStorage { raw: self.raw }
    }
}

impl Drop for WeakStorage {
    fn drop(&mut self) {
        // SAFETY: the reference belongs to self, and nothing uses it afterwards.
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
