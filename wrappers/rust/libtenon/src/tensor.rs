//! Tensors: strided elements over one storage. A tensor never changes; a view of part of it is
//! another tensor over the same storage.

use std::fmt;
use std::mem::{size_of, size_of_val, ManuallyDrop};
use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::{DType, Element};
use crate::error::{check, Error, ErrorKind, Result};
use crate::panic;
use crate::spec::{Flags, TensorSpec};
use crate::storage::{Storage, StorageMut};
use crate::storage_options::StorageOptions;
use crate::sys;
use crate::view::{numbers, TensorView};

/// Strided elements over one storage, to be read. A clone is one more reference to the same; the
/// tensor keeps its storage.
pub struct Tensor {
    raw: NonNull<sys::tenon_tensor>,
}

// SAFETY: rule 8 in tenon.h: retain, release and everything on tensors are safe concurrently.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Make a tensor over a storage. Every element that it can name must lie inside; nothing is
    /// read or moved.
    pub fn new(storage: &Storage, spec: &TensorSpec<'_>) -> Result<Tensor> {
        spec.make(storage)
    }

    /// A frozen tensor that holds a copy of `data`: nobody will ever write to it.
    ///
    /// ```
    /// let weights = tenon::Tensor::frozen(&[0.5f32, 1.5, 2.5, 3.5], &[2, 2])?;
    /// assert_eq!(weights.as_slice::<f32>()?[2], 2.5);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn frozen<T: Element>(data: &[T], sizes: &[i64]) -> Result<Tensor> {
        Tensor::new(&StorageOptions::new().copy_frozen(data)?, &TensorSpec::of::<T>(sizes))
    }

    /// Everything about it, in one call.
    pub fn view(&self) -> TensorView<'_> {
        let mut raw = TensorView::blank();
        // SAFETY: self keeps the tensor alive; raw is of its own struct_size.
        let view = check(|err| unsafe { sys::tenon_tensor_get_view(self.as_raw(), &mut raw, err) });
        // Documented to fail only for NULL and for a struct that is too small.
        view.unwrap_or_else(|error| unreachable!("{error}"));
        // SAFETY: the library filled it, and self is borrowed.
        unsafe { TensorView::new(raw) }
    }

    fn spec(&self) -> sys::tenon_tensor_spec {
        let mut raw = sys::tenon_tensor_spec {
            struct_size: size_of::<sys::tenon_tensor_spec>(),
            dtype: DType::U8.raw(),
            ndim: 0,
            sizes: ptr::null(),
            strides: ptr::null(),
            offset: 0,
            flags: 0,
            reserved: 0,
        };
        // SAFETY: as in view.
        let spec = check(|err| unsafe { sys::tenon_tensor_get_spec(self.as_raw(), &mut raw, err) });
        spec.unwrap_or_else(|error| unreachable!("{error}"));
        raw
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        DType::from_raw(self.spec().dtype)
    }

    /// Elements in each dimension.
    pub fn sizes(&self) -> &[i64] {
        let spec = self.spec();
        // SAFETY: ndim numbers, borrowed from the tensor (tensor.h).
        unsafe { numbers(spec.sizes, spec.ndim) }
    }

    /// Elements from one to the next in each dimension; can be 0 or negative.
    pub fn strides(&self) -> &[i64] {
        let spec = self.spec();
        // SAFETY: as above.
        unsafe { numbers(spec.strides, spec.ndim) }
    }

    /// Elements from the start of the storage to the element with index 0, 0, ….
    pub fn offset(&self) -> u64 {
        self.spec().offset
    }

    /// What travels with the tensor.
    pub fn flags(&self) -> Flags {
        Flags::from_raw(self.spec().flags)
    }

    /// The number of elements.
    pub fn numel(&self) -> u64 {
        // SAFETY: self keeps the tensor alive; any thread (tensor.h).
        unsafe { sys::tenon_tensor_numel(self.as_raw()) }
    }

    /// The bytes that the elements take when packed.
    pub fn nbytes(&self) -> u64 {
        // SAFETY: as above.
        unsafe { sys::tenon_tensor_nbytes(self.as_raw()) }
    }

    /// Whether the elements lie packed, last dimension fastest.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::tenon_tensor_is_contiguous(self.as_raw()) != 0 }
    }

    /// Whether this process must not write to the bytes.
    pub fn is_read_only(&self) -> bool {
        self.borrow_storage(Storage::is_read_only)
    }

    /// The device in DLPack's numbers: (1, 0) is the CPU, (2, N) CUDA device N.
    pub fn device(&self) -> (i32, i32) {
        self.borrow_storage(Storage::device)
    }

    /// The storage under it, with a reference of its own.
    pub fn storage(&self) -> Storage {
        self.borrow_storage(Storage::clone)
    }

    fn borrow_storage<R>(&self, look: impl FnOnce(&Storage) -> R) -> R {
        // SAFETY: never NULL for a tensor, and borrowed from it, so that no reference is given back
        // here.
        let storage = unsafe {
            Storage::adopt(NonNull::new_unchecked(sys::tenon_tensor_storage(self.as_raw())))
        };
        look(&ManuallyDrop::new(storage))
    }

    /// The elements as a plain slice, if nobody can write to them any more. Errors:
    /// [`ErrorKind::WrongElement`], [`ErrorKind::NotContiguous`], [`ErrorKind::Misaligned`],
    /// [`ErrorKind::Unsupported`] (they are on a device), [`ErrorKind::MayChange`].
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.view().as_slice()
    }

    /// The elements as a plain slice, whoever may write to them. The same errors, but for
    /// `MayChange`.
    ///
    /// # Safety
    /// While the slice lives nobody writes to these elements: no thread of this process, and no
    /// other process that has them.
    pub unsafe fn as_slice_unguarded<T: Element>(&self) -> Result<&[T]> {
        // SAFETY: the caller's promise.
        unsafe { self.view().as_slice_unguarded() }
    }

    /// The elements as cells, which can be read whoever writes to them.
    pub fn cells<T: Element>(&self) -> Result<&[ReadCell<T>]> {
        self.view().cells()
    }

    /// Copy the elements out, into as many as there are. They must lie packed.
    pub fn read_into<T: Element>(&self, into: &mut [T]) -> Result<()> {
        let start = self.packed::<T>(into.len())?;
        let nbytes = size_of_val(into);
        // SAFETY: the bytes of `into`, of which every pattern is a T (Element).
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<u8>(), nbytes) };
        self.borrow_storage(|storage| storage.read(start, bytes))
    }

    /// Where `len` packed elements of T begin in the storage, in bytes, or why there are none.
    fn packed<T: Element>(&self, len: usize) -> Result<u64> {
        let spec = self.spec();
        if DType::from_raw(spec.dtype) != T::DTYPE {
            let text = format!(
                "a tensor of {} is not copied as {} ({})",
                DType::from_raw(spec.dtype),
                std::any::type_name::<T>(),
                T::DTYPE
            );
            return Err(Error::new(ErrorKind::WrongElement, text));
        }
        if !self.is_contiguous() {
            return Err(Error::new(
                ErrorKind::NotContiguous,
                format!(
                    "the elements of a tensor of strides {:?} do not lie packed",
                    self.strides()
                ),
            ));
        }
        if len as u64 != self.numel() {
            let text = format!("a slice of {len} elements for a tensor of {}", self.numel());
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Ok(spec.offset * size_of::<T>() as u64)
    }

    /// The same tensor to write to, or [`ErrorKind::Permission`] if its storage is read-only here.
    pub fn writable(&self) -> Result<TensorMut> {
        self.borrow_storage(|storage| storage.writable())?;
        Ok(TensorMut(self.clone()))
    }

    /// The C library's pointer; borrowed, it is released with self.
    pub fn as_raw(&self) -> *mut sys::tenon_tensor {
        self.raw.as_ptr()
    }

    /// The C library's pointer, with the reference that self had.
    pub fn into_raw(self) -> *mut sys::tenon_tensor {
        ManuallyDrop::new(self).as_raw()
    }

    /// Take over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living tensor, and one reference of it is given away. Its storage is as
    /// [`Storage::from_raw`] asks.
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_tensor>) -> Tensor {
        // SAFETY: as above.
        unsafe { Tensor::adopt(raw) }
    }

    /// # Safety
    /// As from_raw.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::tenon_tensor>) -> Tensor {
        Tensor { raw }
    }
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        // SAFETY: self keeps the tensor alive; any thread (tensor.h).
        unsafe { sys::tenon_tensor_retain(self.as_raw()) };
        Tensor { raw: self.raw }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        panic::release(|| unsafe { sys::tenon_tensor_release(self.as_raw()) });
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Tensor");
        out.field("dtype", &self.dtype()).field("sizes", &self.sizes());
        if !self.is_contiguous() {
            out.field("strides", &self.strides());
        }
        out.field("storage", &self.storage()).finish()
    }
}

/// A tensor whose elements this process may write. It can be used wherever a [`Tensor`] can.
///
/// ```
/// let weight = tenon::TensorMut::zeros::<f32>(&[2, 3])?;
/// weight.cells::<f32>()?[5].set(42.0);
/// let mut copy = [0.0f32; 6];
/// weight.read_into(&mut copy)?;
/// assert_eq!(copy[5], 42.0);
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorMut(Tensor);

impl TensorMut {
    /// Make a tensor over a storage that can be written. Every element that it can name must lie
    /// inside.
    pub fn new(storage: &StorageMut, spec: &TensorSpec<'_>) -> Result<TensorMut> {
        Ok(TensorMut(spec.make(storage)?))
    }

    /// A new tensor of mode [`Mode::Shared`](crate::Mode::Shared) whose elements are zero.
    pub fn zeros<T: Element>(sizes: &[i64]) -> Result<TensorMut> {
        TensorMut::new(
            &StorageOptions::new().zeroed().create(nbytes_of::<T>(sizes)?)?,
            &TensorSpec::of::<T>(sizes),
        )
    }

    /// A new tensor of mode [`Mode::Shared`](crate::Mode::Shared) that holds a copy of `data`.
    pub fn copy_of<T: Element>(data: &[T], sizes: &[i64]) -> Result<TensorMut> {
        TensorMut::new(&StorageOptions::new().copy_from(data)?, &TensorSpec::of::<T>(sizes))
    }

    /// The elements as cells, which can be read and written whoever else does so. Errors: as
    /// [`Tensor::as_slice`], but for `MayChange`.
    pub fn cells<T: Element>(&self) -> Result<&[SharedCell<T>]> {
        self.view().cells_mut()
    }

    /// The elements as a plain slice to write to. The same errors.
    ///
    /// # Safety
    /// While the slice lives nobody else reads or writes these elements: no thread of this process,
    /// through any clone, tensor or storage, and no other process that has them.
    pub unsafe fn as_mut_slice_unguarded<T: Element>(&mut self) -> Result<&mut [T]> {
        let (data, len) = self.view().checked::<T>()?;
        // SAFETY: len elements lie there, aligned and writable; every pattern is a T; nobody else
        // is there (above).
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast_mut(), len) })
    }

    /// Copy elements in, as many as there are. They must lie packed.
    pub fn write_from<T: Element>(&self, from: &[T]) -> Result<()> {
        let start = self.packed::<T>(from.len())?;
        // SAFETY: the bytes of `from`; a T has no padding (Element).
        let bytes =
            unsafe { std::slice::from_raw_parts(from.as_ptr().cast::<u8>(), size_of_val(from)) };
        self.storage_mut().write(start, bytes)
    }

    /// The storage under it, with a reference of its own.
    pub fn storage_mut(&self) -> StorageMut {
        StorageMut(self.storage())
    }

    /// The address of the element with index 0, 0, …, one of its device, valid as long as a
    /// reference lives; NULL over an empty storage.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.view().as_ptr().cast_mut()
    }
}

impl Deref for TensorMut {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl AsRef<Tensor> for TensorMut {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

impl From<TensorMut> for Tensor {
    fn from(tensor: TensorMut) -> Tensor {
        tensor.0
    }
}

/// The bytes of a packed tensor of that shape.
fn nbytes_of<T: Element>(sizes: &[i64]) -> Result<u64> {
    let mut nbytes = 0;
    // More dimensions than an i32 counts are more than the library takes, too.
    let ndim = i32::try_from(sizes.len()).unwrap_or(i32::MAX);
    // SAFETY: ndim numbers are borrowed for the call.
    check(|err| unsafe {
        sys::tenon_dtype_nbytes(T::DTYPE.raw(), sizes.as_ptr(), ndim, &mut nbytes, err)
    })?;
    Ok(nbytes)
}
