//! DLPack: exchanging tensors with other frameworks of this process without a copy.

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

        // SAFETY: DLPack allows any thread to call the deleter, and this type does not change the
        // tensor.
        unsafe impl Send for $name {}

        impl $name {
            /// Takes over a tensor from another framework.
            ///
            /// # Safety
            /// The tensor follows DLPack, and nobody else calls its deleter, which any thread may
            /// call. The memory stays valid until the deleter is called. If the tensor is flagged
            /// read-only, nobody writes to it. Otherwise, while a thread of this process accesses
            /// it, all other accesses are atomic (cells are atomic).
            pub unsafe fn from_raw(raw: NonNull<$raw>) -> $name {
                $name(raw)
            }

            /// Gives the tensor away. Its new owner must call the deleter.
            pub fn into_raw(self) -> *mut $raw {
                std::mem::ManuallyDrop::new(self).0.as_ptr()
            }

            /// Describes the tensor's memory.
            pub fn dl_tensor(&self) -> &DLTensor {
                // SAFETY: the tensor lives until its deleter is called.
                unsafe { &self.0.as_ref().dl_tensor }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the tensor lives, and its deleter was not called yet.
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
    /// A `DLManagedTensorVersioned`, together with the duty to call its deleter.
    DlpackTensor, DLManagedTensorVersioned
}

managed! {
    /// A `DLManagedTensor`, which is the form without a version. It cannot say that it is
    /// read-only.
    DlpackLegacyTensor, DLManagedTensor
}

impl DlpackTensor {
    /// Says whether the bytes must not be written.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: the tensor lives until its deleter is called.
        unsafe { self.0.as_ref().flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 }
    }
}

impl Tensor {
    /// Takes a tensor from another framework, without a copy. Its storage is private and cannot be
    /// lent. The read-only flag is respected. The deleter is called with the last reference, on the
    /// thread that drops it. After a failure it is called at once.
    pub fn from_dlpack(managed: DlpackTensor) -> Result<Tensor> {
        let raw = managed.0.as_ptr();
        // SAFETY: the call consumes raw on success. Otherwise it is dropped here, which calls the
        // deleter.
        let tensor = make(|out, err| unsafe { sys::tenon_tensor_from_dlpack(raw, out, err) })?;
        let _ = managed.into_raw();
        // SAFETY: the reference is new. Private, read-only memory is not written, as the caller of
        // DlpackTensor::from_raw promised.
        Ok(unsafe { Tensor::adopt(tensor) })
    }

    /// Takes a tensor as [`from_dlpack`](Self::from_dlpack) does, but in the form without a
    /// version. The bytes count as writable.
    pub fn from_dlpack_legacy(managed: DlpackLegacyTensor) -> Result<Tensor> {
        let raw = managed.0.as_ptr();
        // SAFETY: as above.
        let tensor =
            make(|out, err| unsafe { sys::tenon_tensor_from_dlpack_legacy(raw, out, err) })?;
        let _ = managed.into_raw();
        // SAFETY: the reference is new, and its storage is writable.
        Ok(unsafe { Tensor::adopt(tensor) })
    }

    /// Hands the tensor to another framework, without a copy. The read-only flag is set if its
    /// storage is read-only.
    pub fn to_dlpack(&self) -> Result<DlpackTensor> {
        // SAFETY: the tensor is borrowed for the call, and the result belongs to this function.
        Ok(DlpackTensor(make(|out, err| unsafe {
            sys::tenon_tensor_to_dlpack(self.as_raw(), out, err)
        })?))
    }
}

impl TensorMut {
    /// Hands the tensor over as [`Tensor::to_dlpack`] does, but in the form without a version. That
    /// form is for writable tensors only, because it cannot say that a tensor is read-only.
    pub fn to_dlpack_legacy(&self) -> Result<DlpackLegacyTensor> {
        // SAFETY: the tensor is borrowed for the call, and the result belongs to this function.
        Ok(DlpackLegacyTensor(make(|out, err| unsafe {
            sys::tenon_tensor_to_dlpack_legacy(self.as_raw(), out, err)
        })?))
    }
}
