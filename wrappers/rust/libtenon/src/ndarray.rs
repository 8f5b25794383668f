//! Views of tensors of any shape and strides as arrays of the crate ndarray.

use ndarray::{ArrayViewD, Axis, IxDyn, ShapeBuilder};

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Tensor, TensorMut};
use crate::view::{may_change, TensorView};

impl Tensor {
    /// Gives the elements as an array, if nobody can write to them any more. The errors are those
    /// of [`Tensor::as_slice`], but any strides are allowed.
    ///
    /// ```
    /// let weights = tenon::Tensor::frozen(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// assert_eq!(weights.ndarray::<f32>()?[[1, 0]], 4.0);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn ndarray<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        if !self.storage().is_immutable() {
            return Err(may_change());
        }
        // SAFETY: nobody writes to immutable bytes.
        unsafe { self.ndarray_unguarded() }
    }

    /// Gives the elements as an array, even if others may write to them.
    ///
    /// # Safety
    /// While the array lives, nobody writes to these elements: no thread of this process, and no
    /// other process that has them.
    pub unsafe fn ndarray_unguarded<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        let view = self.view();
        // SAFETY: every pattern is a T, and the caller promises that nobody writes.
        unsafe { array(&view, view.element_ptr::<T>()?) }
    }

    /// Gives the elements as an array of cells, which can be read even while others write to them.
    pub fn ndarray_cells<T: Element>(&self) -> Result<ArrayViewD<'_, ReadCell<T>>> {
        let view = self.view();
        // SAFETY: a cell is transparent over a T, and allows concurrent writers.
        unsafe { array(&view, view.element_ptr::<T>()?.cast()) }
    }
}

impl TensorMut {
    /// Gives the elements as an array of cells, which can be read and written even while others do
    /// so.
    pub fn ndarray_cells<T: Element>(&self) -> Result<ArrayViewD<'_, SharedCell<T>>> {
        let view = self.view();
        // SAFETY: as above, and the memory may be written.
        unsafe { array(&view, view.element_ptr::<T>()?.cast()) }
    }
}

/// # Safety
/// All elements that the view can address, from `first` on, are living values of U for 'a.
unsafe fn array<'a, U>(view: &TensorView<'a>, first: *const U) -> Result<ArrayViewD<'a, U>> {
    let too_much = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("ndarray has no array of sizes {:?}", view.sizes()),
        )
    };
    let mut sizes = Vec::with_capacity(view.sizes().len());
    for size in view.sizes() {
        sizes.push(usize::try_from(*size).map_err(|_| too_much())?);
    }
    // ndarray wants the lowest address and strides that are not negative. The axes are reversed
    // afterwards.
    let mut start = first;
    let mut strides = Vec::with_capacity(sizes.len());
    let mut turned = Vec::new();
    for (axis, (size, stride)) in sizes.iter().zip(view.strides()).enumerate() {
        let stride = isize::try_from(*stride).map_err(|_| too_much())?;
        if stride < 0 && *size > 0 && view.numel() > 0 {
            turned.push(axis);
            start = start.wrapping_offset(stride * (*size as isize - 1));
        }
        strides.push(stride.unsigned_abs());
    }
    if view.numel() == 0 {
        strides.fill(0);
    }
    // ndarray panics if the product of the sizes that are not 0 is more than isize::MAX.
    let product = sizes
        .iter()
        .filter(|size| **size != 0)
        .try_fold(1usize, |product, size| product.checked_mul(*size));
    if product.map_or(true, |product| product > isize::MAX as usize) {
        return Err(too_much());
    }
    // SAFETY: the caller's promise. The library has checked that all elements lie inside the
    // storage.
    let mut array =
        unsafe { ArrayViewD::from_shape_ptr(IxDyn(&sizes).strides(IxDyn(&strides)), start) };
    for axis in turned {
        array.invert_axis(Axis(axis));
    }
    Ok(array)
}
