//! Shared memory of the host that a CUDA device reaches.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::error::{check, Result};
use crate::storage::Storage;
use crate::sys;

impl Storage {
    /// Let a CUDA device reach the bytes, which are shared memory of the host. Gives the address by
    /// which it does, NULL if there are none; again, the same one. The whole segment is registered
    /// with the driver, once in this process, until it goes. Work of the device's may use it as
    /// long as a reference to the storage is held.
    /// [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted) if the segment has not
    /// all of its memory, as that of an arena that is not reserved.
    pub fn pin(&self, device: i32) -> Result<*mut c_void> {
        let mut out = null_mut();
        // SAFETY: both are borrowed for the call.
        check(|err| unsafe { sys::tenon_storage_pin(self.as_raw(), device, &mut out, err) })?;
        Ok(out)
    }

    /// Whether this process has pinned the segment in which the bytes lie.
    pub fn is_pinned(&self) -> bool {
        // SAFETY: borrowed for the call.
        unsafe { sys::tenon_storage_is_pinned(self.as_raw()) != 0 }
    }
}
