//! Tensors: shapes over storages. A tensor never changes. A view of a part of it is another tensor
//! over the same storage.

use std::fmt;
use std::mem::{size_of, size_of_val, ManuallyDrop};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::cell::{ReadCell, SharedCell};
use crate::dtype::{DType, Element};
use crate::error::{check, make, Error, ErrorKind, Result};
use crate::spec::{Flags, TensorSpec};
use crate::storage::{Storage, StorageMut};
use crate::storage_options::StorageOptions;
use crate::sys;
use crate::view::{numbers, TensorView};

/// A view of one storage for reading, with an element type, sizes, strides and an offset. A clone
/// is one more reference to the same tensor. The tensor keeps its storage.
pub struct Tensor {
    raw: NonNull<sys::tenon_tensor>,
}

handle!(pub Tensor, tenon_tensor, tenon_tensor_release, retain tenon_tensor_retain, fn into_raw);

impl Tensor {
    /// Makes a tensor over a storage. Every element that the shape can address must lie inside the
    /// storage. Nothing is read or moved.
    pub fn new(storage: &Storage, spec: &TensorSpec<'_>) -> Result<Tensor> {
        spec.make(storage)
    }

    /// Makes a frozen tensor that holds a copy of `data`. Nobody will ever write to it.
    ///
    /// ```
    /// let weights = tenon::Tensor::frozen(&[0.5f32, 1.5, 2.5, 3.5], &[2, 2])?;
    /// assert_eq!(weights.as_slice::<f32>()?[2], 2.5);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn frozen<T: Element>(data: &[T], sizes: &[i64]) -> Result<Tensor> {
        Tensor::new(&StorageOptions::new().copy_frozen(data)?, &TensorSpec::of::<T>(sizes))
    }

    /// Makes a tensor with the same elements in another shape, of which one size may be -1. The
    /// error is [`ErrorKind::InvalidArgument`] if the elements do not fit the shape, or would have
    /// to be copied.
    pub fn reshape(&self, sizes: &[i64]) -> Result<Tensor> {
        let ndim = sizes.len().try_into().unwrap_or(i32::MAX);
        // SAFETY: self keeps the tensor alive. The sizes are borrowed for the call, and if ndim is
        // not their number, the library refuses it and reads none.
        let raw = make(|out, err| unsafe {
            sys::tenon_tensor_reshape(self.as_raw(), sizes.as_ptr(), ndim, out, err)
        })?;
        // SAFETY: the reference is new.
        Ok(unsafe { Tensor::adopt(raw) })
    }

    /// Makes a tensor that reads the same bytes as elements of another type. If their sizes differ,
    /// the last dimension takes up the difference, and the elements must lie packed.
    pub fn view_dtype(&self, dtype: DType) -> Result<Tensor> {
        // SAFETY: self keeps the tensor alive.
        let raw = make(|out, err| unsafe {
            sys::tenon_tensor_view_dtype(self.as_raw(), dtype.raw(), out, err)
        })?;
        // SAFETY: the reference is new.
        Ok(unsafe { Tensor::adopt(raw) })
    }

    /// Makes a tensor of the elements that the items pick. Dimensions without an item are kept
    /// whole.
    ///
    /// ```
    /// use tenon::{Index, Tensor};
    /// let matrix = Tensor::frozen(&[0.5f32, 1.5, 2.5, 3.5], &[2, 2])?;
    /// let column = matrix.index(&[Index::ALL, Index::Number(-1)])?;
    /// assert_eq!((column.sizes(), column.strides(), column.offset()), (&[2][..], &[2][..], 1));
    /// # Ok::<(), tenon::Error>(())
    /// ```
    pub fn index(&self, items: &[Index]) -> Result<Tensor> {
        let items: Vec<_> = items.iter().map(|item| item.raw()).collect();
        // SAFETY: self keeps the tensor alive, and the items are borrowed for the call.
        let raw = make(|out, err| unsafe {
            sys::tenon_tensor_index(self.as_raw(), items.as_ptr(), items.len(), out, err)
        })?;
        // SAFETY: the reference is new.
        Ok(unsafe { Tensor::adopt(raw) })
    }

    /// Describes the tensor, in one call of the C library.
    pub fn view(&self) -> TensorView<'_> {
        let mut raw = TensorView::blank();
        // SAFETY: self keeps the tensor alive; raw is of its own struct_size.
        let view = check(|err| unsafe { sys::tenon_tensor_get_view(self.as_raw(), &mut raw, err) });
        // The documentation says that this call fails only for NULL and for a struct that is too
        // small.
        view.unwrap_or_else(|error| unreachable!("{error}"));
        // SAFETY: the library filled in raw, and self is borrowed.
        unsafe { TensorView::new(raw) }
    }

    fn spec(&self) -> sys::tenon_tensor_spec {
        let mut raw = blank!(tenon_tensor_spec);
        // SAFETY: as in view.
        let spec = check(|err| unsafe { sys::tenon_tensor_get_spec(self.as_raw(), &mut raw, err) });
        spec.unwrap_or_else(|error| unreachable!("{error}"));
        raw
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        DType::from_raw(self.spec().dtype)
    }

    /// Returns the sizes of the dimensions, in elements.
    pub fn sizes(&self) -> &[i64] {
        let spec = self.spec();
        // SAFETY: these are ndim numbers, borrowed from the tensor (tensor.h).
        unsafe { numbers(spec.sizes, spec.ndim) }
    }

    /// Returns the steps between elements along each dimension, in elements. They can be 0 or
    /// negative.
    pub fn strides(&self) -> &[i64] {
        let spec = self.spec();
        // SAFETY: as above.
        unsafe { numbers(spec.strides, spec.ndim) }
    }

    /// Returns the distance from the start of the storage to the element with index 0, 0, …, in
    /// elements.
    pub fn offset(&self) -> u64 {
        self.spec().offset
    }

    /// Returns the flags that travel with the tensor.
    pub fn flags(&self) -> Flags {
        Flags::from_raw(self.spec().flags)
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> u64 {
        // SAFETY: self keeps the tensor alive, and any thread may call this (tensor.h).
        unsafe { sys::tenon_tensor_numel(self.as_raw()) }
    }

    /// Returns how many bytes the elements take when they are packed.
    pub fn nbytes(&self) -> u64 {
        // SAFETY: as above.
        unsafe { sys::tenon_tensor_nbytes(self.as_raw()) }
    }

    /// Says whether the elements lie packed, with the last dimension fastest.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::tenon_tensor_is_contiguous(self.as_raw()) != 0 }
    }

    /// Says whether this process must not write to the bytes.
    pub fn is_read_only(&self) -> bool {
        self.borrow_storage(Storage::is_read_only)
    }

    /// Returns the device in DLPack's numbers: (1, 0) is the CPU, and (2, N) is CUDA device N.
    pub fn device(&self) -> (i32, i32) {
        self.borrow_storage(Storage::device)
    }

    /// Returns the storage under the tensor, with a new reference.
    pub fn storage(&self) -> Storage {
        self.borrow_storage(Storage::clone)
    }

    fn borrow_storage<R>(&self, look: impl FnOnce(&Storage) -> R) -> R {
        // SAFETY: the storage is never NULL for a tensor. It is borrowed from the tensor, and
        // ManuallyDrop prevents that its reference is given back here.
        let storage = unsafe {
            Storage::adopt(NonNull::new_unchecked(sys::tenon_tensor_storage(self.as_raw())))
        };
        look(&ManuallyDrop::new(storage))
    }

    /// Gives the elements as a plain slice, if nobody can write to them any more. Errors:
    /// [`ErrorKind::WrongElement`], [`ErrorKind::NotContiguous`], [`ErrorKind::Misaligned`],
    /// [`ErrorKind::Unsupported`] (they are on a device), [`ErrorKind::MayChange`].
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.view().as_slice()
    }

    /// Gives the elements as a plain slice, even if others may write to them. The errors are those
    /// of [`as_slice`](Self::as_slice) without `MayChange`.
    ///
    /// # Safety
    /// While the slice lives, nobody writes to these elements: no thread of this process, and no
    /// other process that has them.
    pub unsafe fn as_slice_unguarded<T: Element>(&self) -> Result<&[T]> {
        // SAFETY: the caller's promise.
        unsafe { self.view().as_slice_unguarded() }
    }

    /// Gives the elements as cells, which can be read even while others write to them.
    pub fn cells<T: Element>(&self) -> Result<&[ReadCell<T>]> {
        self.view().cells()
    }

    /// Copies the elements into `into`, which must have the same number. They must lie packed.
    pub fn read_into<T: Element>(&self, into: &mut [T]) -> Result<()> {
        let start = self.packed::<T>(into.len())?;
        let nbytes = size_of_val(into);
        // SAFETY: these are the bytes of `into`, and every pattern of them is a T (Element).
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<u8>(), nbytes) };
        self.borrow_storage(|storage| storage.read(start, bytes))
    }

    /// Returns where `len` packed elements of T begin in the storage, in bytes, or an error if that
    /// is not what the tensor has.
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

    /// Gives the same tensor for writing. The error is [`ErrorKind::Permission`] if its storage is
    /// read-only in this process.
    pub fn writable(&self) -> Result<TensorMut> {
        self.borrow_storage(|storage| storage.writable())?;
        Ok(TensorMut(self.clone()))
    }

    /// Takes over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living tensor, and its owner gives one reference away. Its storage fulfils the
    /// conditions of [`Storage::from_raw`].
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_tensor>) -> Tensor {
        // SAFETY: the caller's promise.
        unsafe { Tensor::adopt(raw) }
    }

    /// # Safety
    /// The rules are those of from_raw.
    pub(crate) unsafe fn adopt(raw: NonNull<sys::tenon_tensor>) -> Tensor {
        Tensor { raw }
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

/// An item of an index of [`Tensor::index`], as numpy has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Picks one index of a dimension, which the view then lacks. A negative one counts from the
    /// end.
    Number(i64),
    /// Picks the indices from `start` on, before `stop`, with Python's meaning of all three
    /// numbers.
    Slice {
        /// The first index. None is the end of the dimension at which the slice begins.
        start: Option<i64>,
        /// The end of the slice, which is left out. None is the other end of the dimension.
        stop: Option<i64>,
        /// The distance between two indices, which can be negative.
        step: i64,
    },
    /// Adds a dimension of size 1.
    NewAxis,
    /// Keeps all dimensions that the other items leave over.
    Ellipsis,
}

impl Index {
    /// Keeps a dimension whole.
    pub const ALL: Index = Index::Slice { start: None, stop: None, step: 1 };

    fn raw(&self) -> sys::tenon_index {
        let (kind, start, stop, step) = match *self {
            Index::Number(number) => (sys::TENON_INDEX_NUMBER, number, 0, 0),
            Index::Slice { start, stop, step } => {
                let (first, last) = if step < 0 { (i64::MAX, i64::MIN) } else { (0, i64::MAX) };
                (sys::TENON_INDEX_SLICE, start.unwrap_or(first), stop.unwrap_or(last), step)
            }
            Index::NewAxis => (sys::TENON_INDEX_NEW_AXIS, 0, 0, 0),
            Index::Ellipsis => (sys::TENON_INDEX_ELLIPSIS, 0, 0, 0),
        };
        sys::tenon_index {
            struct_size: size_of::<sys::tenon_index>(),
            kind: kind as i32,
            reserved: 0,
            start,
            stop,
            step,
        }
    }
}

/// A tensor whose elements this process may write. It can be used wherever a [`Tensor`] can be
/// used.
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
    /// Makes a tensor over a storage that can be written. Every element that the shape can address
    /// must lie inside the storage.
    pub fn new(storage: &StorageMut, spec: &TensorSpec<'_>) -> Result<TensorMut> {
        Ok(TensorMut(spec.make(storage)?))
    }

    /// Makes a tensor of mode [`Mode::Shared`](crate::Mode::Shared) whose elements are zero.
    pub fn zeros<T: Element>(sizes: &[i64]) -> Result<TensorMut> {
        TensorMut::new(
            &StorageOptions::new().zeroed().create(nbytes_of::<T>(sizes)?)?,
            &TensorSpec::of::<T>(sizes),
        )
    }

    /// Makes a tensor of mode [`Mode::Shared`](crate::Mode::Shared) that holds a copy of `data`.
    pub fn copy_of<T: Element>(data: &[T], sizes: &[i64]) -> Result<TensorMut> {
        TensorMut::new(&StorageOptions::new().copy_from(data)?, &TensorSpec::of::<T>(sizes))
    }

    /// Gives the elements as cells, which can be read and written even while others do so. The
    /// errors are those of [`Tensor::as_slice`] without `MayChange`.
    pub fn cells<T: Element>(&self) -> Result<&[SharedCell<T>]> {
        self.view().cells_mut()
    }

    /// Gives the elements as a plain slice for writing. The errors are those of
    /// [`cells`](Self::cells).
    ///
    /// # Safety
    /// While the slice lives, nobody else reads or writes these elements: no thread of this
    /// process, through any clone, tensor or storage, and no other process that has them.
    pub unsafe fn as_mut_slice_unguarded<T: Element>(&mut self) -> Result<&mut [T]> {
        let (data, len) = self.view().checked::<T>()?;
        // SAFETY: len elements lie there, aligned and writable, and every pattern is a T. The
        // caller promises that nobody else uses them.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast_mut(), len) })
    }

    /// Copies the elements of `from` in, which must have the same number. They must lie packed.
    pub fn write_from<T: Element>(&self, from: &[T]) -> Result<()> {
        let start = self.packed::<T>(from.len())?;
        // SAFETY: these are the bytes of `from`, and a T has no padding (Element).
        let bytes =
            unsafe { std::slice::from_raw_parts(from.as_ptr().cast::<u8>(), size_of_val(from)) };
        self.storage_mut().write(start, bytes)
    }

    /// Returns the storage under the tensor, with a new reference.
    pub fn storage_mut(&self) -> StorageMut {
        StorageMut(self.storage())
    }

    /// Returns the address of the element with index 0, 0, …, which is an address of its device. It
    /// is valid as long as a reference lives. It is NULL over an empty storage.
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

/// Returns how many bytes a packed tensor of that shape has.
fn nbytes_of<T: Element>(sizes: &[i64]) -> Result<u64> {
    let mut nbytes = 0;
    // More dimensions than fit into an i32 are also more than the library accepts.
    let ndim = i32::try_from(sizes.len()).unwrap_or(i32::MAX);
    // SAFETY: ndim numbers are borrowed for the call.
    check(|err| unsafe {
        sys::tenon_dtype_nbytes(T::DTYPE.raw(), sizes.as_ptr(), ndim, &mut nbytes, err)
    })?;
    Ok(nbytes)
}
