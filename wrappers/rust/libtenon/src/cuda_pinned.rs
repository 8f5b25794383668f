//! Pinned memory: shared host memory that a CUDA device reaches.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::error::{check, Result};
use crate::storage::Storage;
use crate::sys;

impl Storage {
    /// Lets a CUDA device reach the bytes of a shared storage in host memory. It returns the
    /// address that the device uses, which is the same in each call, and NULL for an empty storage.
    /// The whole segment is registered with the driver, once in this process, until the segment is
    /// gone. Work on the device may use the address as long as a reference to the storage is held.
    /// The error is [`ErrorKind::ResourceExhausted`](crate::ErrorKind::ResourceExhausted) if the
    /// segment does not have all of its memory yet, as in an arena that is not reserved.
    pub fn pin(&self, device: i32) -> Result<*mut c_void> {
        let mut out = null_mut();
        // SAFETY: both are borrowed for the call.
        check(|err| unsafe { sys::tenon_storage_pin(self.as_raw(), device, &mut out, err) })?;
        Ok(out)
    }

    /// Says whether this process has pinned the segment in which the bytes lie.
    pub fn is_pinned(&self) -> bool {
        // SAFETY: the storage is borrowed for the call.
        unsafe { sys::tenon_storage_is_pinned(self.as_raw()) != 0 }
    }
}
