//! Views: the facts about a tensor, fetched in one call, and the typed slices over its bytes.
//!
//! The checks of those slices are here. They need no call of the C library in most cases, because a
//! view is plain data that borrows from its tensor or message.

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::{DType, Element};
use crate::error::{check, Error, ErrorKind, Result};
use crate::spec::Flags;
use crate::storage::Storage;
use crate::sys;
use crate::tensor::Tensor;

/// A tensor's name and shape, and where its bytes are. It borrows from the tensor or the message
/// that gave it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TensorView<'a> {
    raw: sys::tenon_tensor_view,
    owner: PhantomData<&'a Tensor>,
}

// SAFETY: a view has pointers into a tensor. Reads of a tensor may run concurrently (rule 8 in
// tenon.h), and the borrow keeps the tensor alive.
unsafe impl Send for TensorView<'_> {}
// SAFETY: the reason is the same as for Send.
unsafe impl Sync for TensorView<'_> {}

impl<'a> TensorView<'a> {
    /// # Safety
    /// The library filled in `raw`, and the tensor lives for 'a.
    pub(crate) unsafe fn new(raw: sys::tenon_tensor_view) -> TensorView<'a> {
        TensorView { raw, owner: PhantomData }
    }

    /// Makes an empty view, which the library fills in.
    pub(crate) fn blank() -> sys::tenon_tensor_view {
        // SAFETY: the struct has only numbers and pointers, for which 0 is a valid value (rule 5 in
        // tenon.h).
        let raw: sys::tenon_tensor_view = unsafe { std::mem::zeroed() };
        sys::tenon_tensor_view { struct_size: size_of::<sys::tenon_tensor_view>(), ..raw }
    }

    /// Returns the tensor's name in its message. It is `None` if the tensor is in no message, has
    /// no name, or has a name that is not UTF-8.
    pub fn name(&self) -> Option<&'a str> {
        if self.raw.name.is_null() {
            return None;
        }
        // SAFETY: the name ends with NUL, and is borrowed like the view (tensor.h).
        unsafe { CStr::from_ptr(self.raw.name) }.to_str().ok()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        DType::from_raw(self.raw.dtype)
    }

    /// Returns the sizes of the dimensions, in elements.
    pub fn sizes(&self) -> &'a [i64] {
        // SAFETY: these are ndim numbers, borrowed like the view (tensor.h).
        unsafe { numbers(self.raw.sizes, self.raw.ndim) }
    }

    /// Returns the steps between elements along each dimension, in elements. They can be 0 or
    /// negative.
    pub fn strides(&self) -> &'a [i64] {
        // SAFETY: as above.
        unsafe { numbers(self.raw.strides, self.raw.ndim) }
    }

    /// Returns the distance from the start of the storage to the element with index 0, 0, …, in
    /// elements.
    pub fn offset(&self) -> u64 {
        self.raw.offset
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> u64 {
        self.raw.numel
    }

    /// Returns how many bytes the elements take when they are packed.
    pub fn nbytes(&self) -> u64 {
        self.raw.nbytes
    }

    /// Returns the flags that travel with the tensor.
    pub fn flags(&self) -> Flags {
        Flags::from_raw(self.raw.flags)
    }

    /// Says whether the elements lie packed, with the last dimension fastest.
    pub fn is_contiguous(&self) -> bool {
        self.raw.is_contiguous != 0
    }

    /// Says whether this process must not write to the bytes.
    pub fn is_read_only(&self) -> bool {
        self.raw.data_mut.is_null() && !self.raw.data.is_null()
    }

    /// Returns the device in DLPack's numbers: (1, 0) is the CPU, and (2, N) is CUDA device N.
    pub fn device(&self) -> (i32, i32) {
        (self.raw.device.type_, self.raw.device.id)
    }

    /// Returns the address of the element with index 0, 0, …, which is an address of
    /// [`device`](Self::device). It is NULL over an empty storage, and if the lender was gone when
    /// this view was made ([`Storage::check_lender`]).
    pub fn as_ptr(&self) -> *const u8 {
        self.raw.data.cast()
    }

    /// Returns the tensor itself, with a new reference.
    pub fn to_tensor(&self) -> Tensor {
        // SAFETY: the tensor lives for 'a, and the new reference belongs to the Tensor.
        unsafe { Tensor::adopt(NonNull::new_unchecked(sys::tenon_tensor_retain(self.raw.tensor))) }
    }

    /// Gives the elements as a plain slice. Errors: [`ErrorKind::WrongElement`],
    /// [`ErrorKind::NotContiguous`], [`ErrorKind::Misaligned`], [`ErrorKind::Unsupported`] if they
    /// are on a device, and [`ErrorKind::MayChange`] if somebody can still write to them. In that
    /// last case use [`cells`](Self::cells), a copy ([`Tensor::read_into`]), or
    /// [`as_slice_unguarded`](Self::as_slice_unguarded).
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T]> {
        let (_, len) = self.checked::<T>()?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the tensor lives, and so does its storage, which is only read here.
        let immutable = unsafe {
            let storage = sys::tenon_tensor_storage(self.raw.tensor);
            NonNull::new(storage)
                .is_some_and(|raw| std::mem::ManuallyDrop::new(Storage::adopt(raw)).is_immutable())
        };
        if !immutable {
            return Err(may_change());
        }
        // SAFETY: nobody writes to immutable bytes.
        unsafe { self.as_slice_unguarded() }
    }

    /// Gives the elements as a plain slice, even if others may write to them. The errors are those
    /// of [`as_slice`](Self::as_slice) without `MayChange`.
    ///
    /// # Safety
    /// While the slice lives, nobody writes to these elements: no thread of this process, and no
    /// other process that has them.
    pub unsafe fn as_slice_unguarded<T: Element>(&self) -> Result<&'a [T]> {
        let (data, len) = self.checked::<T>()?;
        // SAFETY: checked has verified that len elements lie there, aligned. Every pattern is a T.
        // The caller promises that nobody writes.
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    /// Gives the elements as cells, which can be read even while others write to them. The errors
    /// are those of [`as_slice`](Self::as_slice) without `MayChange`.
    pub fn cells<T: Element>(&self) -> Result<&'a [ReadCell<T>]> {
        let (data, len) = self.checked::<T>()?;
        // SAFETY: as above, and a cell allows concurrent writers.
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
    }

    /// Gives the elements as cells for writing. The error is [`ErrorKind::Permission`] if the
    /// storage is read-only.
    pub fn cells_mut<T: Element>(&self) -> Result<&'a [SharedCell<T>]> {
        let (data, len) = self.checked::<T>()?;
        if self.is_read_only() {
            return Err(Error::new(ErrorKind::Permission, "the storage is read-only")
                .with("option", "PRIVATE_COW or PRIVATE_COPY when it is opened"));
        }
        // SAFETY: as above, and the memory may be written.
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
    }

    /// Returns where `numel` packed elements of T begin, or an error if the tensor has no such
    /// elements. Without elements the address is dangling, but aligned.
    pub(crate) fn checked<T: Element>(&self) -> Result<(*const T, usize)> {
        let data = self.element_ptr::<T>()?;
        if !self.is_contiguous() {
            let text = format!(
                "a tensor of sizes {:?} and strides {:?} is no slice: its elements do not lie \
                 packed",
                self.sizes(),
                self.strides()
            );
            return Err(Error::new(ErrorKind::NotContiguous, text));
        }
        Ok((data, self.raw.numel as usize))
    }

    /// Returns where the element with index 0, 0, … lies as a T, or an error if it is not a T.
    pub(crate) fn element_ptr<T: Element>(&self) -> Result<*const T> {
        if self.dtype() != T::DTYPE {
            let text = format!(
                "a tensor of {} is no slice of {} ({})",
                self.dtype(),
                std::any::type_name::<T>(),
                T::DTYPE
            );
            return Err(Error::new(ErrorKind::WrongElement, text));
        }
        let data: *const T = self.raw.data.cast();
        if self.raw.numel == 0 || data.is_null() {
            // SAFETY: the tensor lives or is NULL, and both functions accept that.
            check(|err| unsafe {
                sys::tenon_storage_check_lender(sys::tenon_tensor_storage(self.raw.tensor), err)
            })?;
            return Ok(NonNull::dangling().as_ptr());
        }
        for_host(self.device())?;
        if data as usize % align_of::<T>() != 0 {
            let text = format!(
                "the elements begin at {data:p}, which is not aligned to the {} bytes of {}",
                align_of::<T>(),
                T::DTYPE
            );
            return Err(Error::new(ErrorKind::Misaligned, text));
        }
        Ok(data)
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TensorView");
        if let Some(name) = self.name() {
            out.field("name", &name);
        }
        out.field("dtype", &self.dtype()).field("sizes", &self.sizes());
        if !self.is_contiguous() {
            out.field("strides", &self.strides());
        }
        out.field("read_only", &self.is_read_only()).finish()
    }
}

/// # Safety
/// `data` has `ndim` numbers that live for 'a, or is NULL.
pub(crate) unsafe fn numbers<'a>(data: *const i64, ndim: i32) -> &'a [i64] {
    if data.is_null() || ndim <= 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, ndim as usize) }
}

/// Refuses memory of a device, because a slice cannot use an address of a device.
pub(crate) fn for_host(device: (i32, i32)) -> Result<()> {
    // The CPU is decided without a call, because a reader may have thousands of tensors.
    if device.0 == 1 {
        return Ok(());
    }
    // SAFETY: any thread may call this (storage.h).
    check(|err| unsafe {
        sys::tenon_device_check_host(sys::tenon_device { type_: device.0, id: device.1 }, err)
    })
}

/// Makes the error for a plain slice of memory that can still change.
pub(crate) fn may_change() -> Error {
    Error::new(
        ErrorKind::MayChange,
        "the bytes are not frozen, so others could write to them under a plain slice",
    )
    .with("option", "cells, a copy, a frozen storage, or the unsafe unguarded slice")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a view as the library fills it in, over this process's own memory.
    fn view_of<T: Element>(data: &mut [T], sizes: &[i64], strides: &[i64]) -> TensorView<'static> {
        let numel: i64 = sizes.iter().product();
        let raw = sys::tenon_tensor_view {
            data: data.as_mut_ptr().cast_const().cast(),
            sizes: sizes.as_ptr(),
            strides: strides.as_ptr(),
            numel: numel as u64,
            nbytes: numel as u64 * size_of::<T>() as u64,
            dtype: T::DTYPE.raw(),
            ndim: sizes.len() as i32,
            is_contiguous: i32::from(strides.last().map_or(true, |stride| *stride == 1)),
            device: sys::tenon_device { type_: 1, id: 0 },
            ..TensorView::blank()
        };
        // SAFETY: the tests keep the memory to which the view points, and do not use its tensor.
        unsafe { TensorView::new(raw) }
    }

    #[test]
    fn pure_slices() {
        let (mut data, sizes, strides) = ([1.0f32, 2.0, 3.0, 4.0], [4], [1]);
        let view = view_of(&mut data, &sizes, &strides);
        // SAFETY: nobody writes to the elements.
        assert_eq!(unsafe { view.as_slice_unguarded::<f32>() }.unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(view.cells::<f32>().unwrap()[2].get(), 3.0);
        assert_eq!(view.cells_mut::<f32>().unwrap_err().kind(), ErrorKind::Permission);
        assert_eq!(view.sizes(), [4]);
    }

    #[test]
    fn pure_wrong_element() {
        let (mut data, sizes, strides) = ([1.0f32, 2.0], [2], [1]);
        let error = view_of(&mut data, &sizes, &strides).cells::<i32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongElement);
        if !cfg!(miri) {
            assert_eq!(error.message(), "a tensor of float32 is no slice of i32 (int32)");
        }
    }

    #[test]
    fn pure_not_contiguous() {
        let (mut data, sizes, strides) = ([1u8, 2, 3, 4], [2], [2]);
        assert_eq!(
            view_of(&mut data, &sizes, &strides).cells::<u8>().unwrap_err().kind(),
            ErrorKind::NotContiguous
        );
    }

    #[test]
    fn pure_misaligned() {
        let (mut data, sizes, strides) = ([0u32; 3], [2], [1]);
        let mut view = view_of(&mut data, &sizes, &strides);
        view.raw.data = view.raw.data.cast::<u8>().wrapping_add(2).cast();
        let error = view.cells::<u32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misaligned);
        if !cfg!(miri) {
            assert!(error.message().contains("aligned to the 4 bytes of uint32"), "{error}");
        }
    }

    #[test]
    fn pure_empty() {
        let (mut data, sizes, strides): ([f64; 0], _, _) = ([], [0], [1]);
        let mut view = view_of(&mut data, &sizes, &strides);
        view.raw.data = std::ptr::null();
        assert!(view.cells::<f64>().unwrap().is_empty());
        assert!(view.cells_mut::<f64>().unwrap().is_empty());
    }
}
