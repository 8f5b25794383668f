//! The shape of a tensor: element type, sizes, strides and offset over a storage, and the flags
//! that travel with the tensor.

use std::fmt;
use std::ops::BitOr;
use std::ptr;

use crate::dtype::{DType, Element};
use crate::error::{make, Error, ErrorKind, Result};
use crate::storage::Storage;
use crate::sys;
use crate::tensor::Tensor;

/// Flags that travel with a tensor.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

impl Flags {
    /// No flag is set.
    pub const NONE: Flags = Flags(0);
    /// It means nothing to Tenon.
    pub const REQUIRES_GRAD: Flags = Flags(sys::TENON_TENSOR_REQUIRES_GRAD);
    /// It means nothing to Tenon.
    pub const IS_PARAMETER: Flags = Flags(sys::TENON_TENSOR_IS_PARAMETER);
    /// The elements must be read conjugated.
    pub const CONJ: Flags = Flags(sys::TENON_TENSOR_CONJ);
    /// The elements must be read negated.
    pub const NEG: Flags = Flags(sys::TENON_TENSOR_NEG);

    /// Says whether all flags of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the number that C uses.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Makes flags from the number that C uses. An unknown bit is an error when a tensor is made.
    pub const fn from_raw(bits: u32) -> Flags {
        Flags(bits)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Flags::REQUIRES_GRAD, "REQUIRES_GRAD"),
            (Flags::IS_PARAMETER, "IS_PARAMETER"),
            (Flags::CONJ, "CONJ"),
            (Flags::NEG, "NEG"),
        ];
        f.debug_set()
            .entries(names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| name))
            .finish()
    }
}

/// The shape of a tensor over a storage. Sizes, strides and offset count elements. A stride may be
/// 0 or negative.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct TensorSpec<'a> {
    dtype: DType,
    sizes: &'a [i64],
    strides: Option<&'a [i64]>,
    offset: u64,
    flags: Flags,
}

impl<'a> TensorSpec<'a> {
    /// Describes contiguous elements from the start of the storage, with the last dimension
    /// fastest.
    pub fn new(dtype: DType, sizes: &'a [i64]) -> TensorSpec<'a> {
        TensorSpec { dtype, sizes, strides: None, offset: 0, flags: Flags::NONE }
    }

    /// Describes contiguous elements of a Rust type.
    pub fn of<T: Element>(sizes: &'a [i64]) -> TensorSpec<'a> {
        TensorSpec::new(T::DTYPE, sizes)
    }

    /// Sets the steps between elements along each dimension, in elements. There must be as many as
    /// sizes.
    pub fn strides(self, strides: &'a [i64]) -> Self {
        TensorSpec { strides: Some(strides), ..self }
    }

    /// Sets the distance from the start of the storage to the element with index 0, 0, …, in
    /// elements.
    pub fn offset(self, offset: u64) -> Self {
        TensorSpec { offset, ..self }
    }

    /// Sets the flags that travel with the tensor.
    pub fn flags(self, flags: Flags) -> Self {
        TensorSpec { flags, ..self }
    }

    pub(crate) fn make(&self, storage: &Storage) -> Result<Tensor> {
        if self.strides.is_some_and(|strides| strides.len() != self.sizes.len()) {
            let text = format!(
                "{} sizes and {} strides do not go together",
                self.sizes.len(),
                self.strides.map_or(0, <[i64]>::len)
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let spec = blank!(tenon_tensor_spec {
            dtype: self.dtype.raw(),
            ndim: self.sizes.len().try_into().unwrap_or(i32::MAX),
            sizes: self.sizes.as_ptr(),
            strides: self.strides.map_or(ptr::null(), <[i64]>::as_ptr),
            offset: self.offset,
            flags: self.flags.bits(),
        });
        // SAFETY: storage and spec are borrowed for the call. Sizes and strides have ndim numbers.
        let raw =
            make(|out, err| unsafe { sys::tenon_tensor_new(storage.as_raw(), &spec, out, err) })?;
        // SAFETY: the reference is new.
        Ok(unsafe { Tensor::adopt(raw) })
    }
}
