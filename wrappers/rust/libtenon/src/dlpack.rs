//! DLPack: tensors of other frameworks in this process, in and out, without a copy.

use std::fmt;
use std::ptr::NonNull;

use crate::error::{make, Result};
use crate::panic;
use crate::sys;
use crate::sys::dlpack::{
    DLManagedTensor, DLManagedTensorVersioned, DLTensor, DLPACK_FLAG_BITMASK_READ_ONLY,
};
use crate::tensor::{Tensor, TensorMut};

macro_rules! managed {
    ($(#[$doc:meta])* $name:ident, $raw:ident) => {
        $(#[$doc])*
        pub struct $name(NonNull<$raw>);

        // SAFETY: DLPack lets the deleter be called on any thread, and the tensor is not changed
        // through this.
        unsafe impl Send for $name {}

        impl $name {
            /// Take over a tensor from elsewhere.
            ///
            /// # Safety
            /// It follows DLPack and nobody else calls its deleter, which may be called on any
            /// thread. Until it is called the memory stays valid; if it is flagged read-only nobody
            /// writes to it, and else nobody accesses it but atomically while a thread of this
            /// process does (cells are atomic).
            pub unsafe fn from_raw(raw: NonNull<$raw>) -> $name {
                $name(raw)
            }

            /// Give it to whoever calls its deleter.
            pub fn into_raw(self) -> *mut $raw {
                std::mem::ManuallyDrop::new(self).0.as_ptr()
            }

            /// What it says of its memory.
            pub fn dl_tensor(&self) -> &DLTensor {
                // SAFETY: it lives until its deleter is called.
                unsafe { &self.0.as_ref().dl_tensor }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it lives, and its deleter was not called.
                panic::release(|| unsafe {
                    if let Some(deleter) = self.0.as_ref().deleter {
                        deleter(self.0.as_ptr());
                    }
                });
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(self.dl_tensor()).finish()
            }
        }
    };
}

managed! {
    /// A `DLManagedTensorVersioned`, with the duty to call its deleter.
    DlpackTensor, DLManagedTensorVersioned
}

managed! {
    /// A `DLManagedTensor`, the form without a version, which cannot say read-only.
    DlpackLegacyTensor, DLManagedTensor
}

impl DlpackTensor {
    /// Whether its bytes must not be written.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: it lives until its deleter is called.
        unsafe { self.0.as_ref().flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 }
    }
}

impl Tensor {
    /// Take a tensor from another framework, without a copy. Its storage is private (it cannot be
    /// lent); the read-only flag is honoured. The deleter is called with the last reference, on the
    /// thread that gives it back; on failure at once.
    pub fn from_dlpack(managed: DlpackTensor) -> Result<Tensor> {
        let raw = managed.0.as_ptr();
        // SAFETY: consumed on success, and else dropped here, which calls the deleter.
        let tensor = make(|out, err| unsafe { sys::tenon_tensor_from_dlpack(raw, out, err) })?;
        let _ = managed.into_raw();
        // SAFETY: a new reference; what is private and read-only is not written
        // (DlpackTensor::from_raw).
        Ok(unsafe { Tensor::adopt(tensor) })
    }

    /// As [`from_dlpack`](Self::from_dlpack), for the form without a version: the bytes count as
    /// writable.
    pub fn from_dlpack_legacy(managed: DlpackLegacyTensor) -> Result<Tensor> {
        let raw = managed.0.as_ptr();
        // SAFETY: as above.
        let tensor =
            make(|out, err| unsafe { sys::tenon_tensor_from_dlpack_legacy(raw, out, err) })?;
        let _ = managed.into_raw();
        // SAFETY: a new reference, and writable.
        Ok(unsafe { Tensor::adopt(tensor) })
    }

    /// Hand the tensor to another framework, without a copy. The read-only flag is set if its
    /// storage is read-only.
    pub fn to_dlpack(&self) -> Result<DlpackTensor> {
        // SAFETY: borrowed for the call; what comes is ours.
        Ok(DlpackTensor(make(|out, err| unsafe {
            sys::tenon_tensor_to_dlpack(self.as_raw(), out, err)
        })?))
    }
}

impl TensorMut {
    /// As [`Tensor::to_dlpack`], in the form without a version, which is for writable tensors: its
    /// consumer could not know.
    pub fn to_dlpack_legacy(&self) -> Result<DlpackLegacyTensor> {
        // SAFETY: borrowed for the call; what comes is ours.
        Ok(DlpackLegacyTensor(make(|out, err| unsafe {
            sys::tenon_tensor_to_dlpack_legacy(self.as_raw(), out, err)
        })?))
    }
}
