//! Views of any shape and strides as ndarray's.

use ndarray::{ArrayViewD, Axis, IxDyn, ShapeBuilder};

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Tensor, TensorMut};
use crate::view::{may_change, TensorView};

impl Tensor {
    /// The elements as an array, if nobody can write to them any more. Errors: as
    /// [`Tensor::as_slice`], but any strides will do.
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

    /// The elements as an array, whoever may write to them.
    ///
    /// # Safety
    /// While the array lives nobody writes to these elements: no thread of this process, and no
    /// other process that has them.
    pub unsafe fn ndarray_unguarded<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        let view = self.view();
        // SAFETY: every pattern is a T, and nobody writes (above).
        unsafe { array(&view, view.element_ptr::<T>()?) }
    }

    /// The elements as an array of cells, which can be read whoever writes to them.
    pub fn ndarray_cells<T: Element>(&self) -> Result<ArrayViewD<'_, ReadCell<T>>> {
        let view = self.view();
        // SAFETY: a cell is transparent over a T, and takes writers.
        unsafe { array(&view, view.element_ptr::<T>()?.cast()) }
    }
}

impl TensorMut {
    /// The elements as an array of cells, which can be read and written whoever else does so.
    pub fn ndarray_cells<T: Element>(&self) -> Result<ArrayViewD<'_, SharedCell<T>>> {
        let view = self.view();
        // SAFETY: as above, and the memory may be written.
        unsafe { array(&view, view.element_ptr::<T>()?.cast()) }
    }
}

/// # Safety
/// All elements that the view names, from `first` on, are living values of U for 'a.
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
    // ndarray wants the lowest address and strides that are not negative; the axes are turned round
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
    // ndarray panics where the product of the sizes that are not 0 is more than isize::MAX.
    let product = sizes
        .iter()
        .filter(|size| **size != 0)
        .try_fold(1usize, |product, size| product.checked_mul(*size));
    if product.map_or(true, |product| product > isize::MAX as usize) {
        return Err(too_much());
    }
    // SAFETY: the caller's promise; the library checked that all elements lie inside the storage.
    let mut array =
        unsafe { ArrayViewD::from_shape_ptr(IxDyn(&sizes).strides(IxDyn(&strides)), start) };
    for axis in turned {
        array.invert_axis(Axis(axis));
    }
    Ok(array)
}
