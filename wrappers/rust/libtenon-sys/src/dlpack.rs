//! DLPack's structs, which Tenon's header only declares. They are an ABI of their own (DLPack 1.x),
//! which is the same in every language. They have only what is needed to read a tensor and to call
//! its deleter.

use core::ffi::c_void;

/// A device. Type 1 is the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The type of the device: kDLCPU is 1.
    pub device_type: i32,
    /// The number of the device among those of its type.
    pub device_id: i32,
}

/// An element type: the code, the bits of one lane, and the lanes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// The type code: kDLInt is 0, kDLUInt 1, kDLFloat 2, …
    pub code: u8,
    /// The size of one lane in bits.
    pub bits: u8,
    /// How many values one element has; 1 for a scalar.
    pub lanes: u16,
}

/// A tensor with another owner. Sizes and strides count elements, and `byte_offset` counts bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The start of the memory. The first element lies `byte_offset` bytes behind it.
    pub data: *mut c_void,
    /// The device that holds the memory.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// The sizes: `ndim` numbers.
    pub shape: *mut i64,
    /// The strides: `ndim` numbers, or NULL for contiguous elements.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with its deleter, in the form without a version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// The last consumer calls this function once. It may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The version of DLPack that a struct follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// A different major version means a different layout behind `deleter`.
    pub major: u32,
    /// A higher minor version adds flags and element types.
    pub minor: u32,
}

/// This flag says that the bytes must not be written.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;

/// A tensor with its deleter, in the form with a version. Up to `deleter` the layout is the same in
/// every major version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version that the producer follows.
    pub version: DLPackVersion,
    /// Data of the producer.
    pub manager_ctx: *mut c_void,
    /// The last consumer calls this function once. It may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// The flags, `DLPACK_FLAG_BITMASK_*`.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}
