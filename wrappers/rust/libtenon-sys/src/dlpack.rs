//! DLPack's structs, of which Tenon's header only says that they exist. They are an ABI of their
//! own (DLPack 1.x), the same in every language, and hold only what is needed to read a tensor and
//! to call its deleter.

use core::ffi::c_void;

/// A device: type 1 is the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// kDLCPU is 1.
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

/// An element type: code, bits of a lane, lanes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// kDLInt is 0, kDLUInt 1, kDLFloat 2, …
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// 1 for a scalar.
    pub lanes: u16,
}

/// A tensor that somebody else owns. Sizes and strides count elements, `byte_offset` counts bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The start of the memory; the first element is `byte_offset` behind it.
    pub data: *mut c_void,
    /// Where the memory is.
    pub device: DLDevice,
    /// Dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// `ndim` numbers.
    pub shape: *mut i64,
    /// `ndim` numbers, or NULL: contiguous.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// The form without a version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Called once by the last consumer; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The version of DLPack that a struct follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another major version means another layout behind `deleter`.
    pub major: u32,
    /// More flags and dtypes.
    pub minor: u32,
}

/// The bytes must not be written.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;

/// The form with a version. Up to `deleter` the layout is the same in every major version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// What the producer follows.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Called once by the last consumer; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// `DLPACK_FLAG_BITMASK_*`.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}
