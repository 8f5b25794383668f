//! Tensors in values that a [`Tensor`](crate::Tensor) cannot express: quantised, sparse, on meta,
//! or of element types that DLPack lacks.

use std::mem::{size_of, ManuallyDrop};
use std::ptr::{self, NonNull};

use crate::composite::{from_raw, to_raw, Quantizer, TensorLayout, COALESCED, LAYOUTS, QUANTIZERS};
use crate::error::{check, Error, ErrorKind, Result};
use crate::scalar_type::ScalarType;
use crate::spec::Flags;
use crate::storage::Storage;
use crate::sys;
use crate::text::{c_text, owned};
use crate::value::Value;
use crate::view::numbers;

/// All that PyTorch knows about a tensor. Sizes, strides and offset count elements. A field that
/// the kind of tensor does not use is `None` or 0.
#[derive(Clone, Debug, Default)]
pub struct ValueTensorSpec {
    /// The element type. For a sparse tensor it is that of its values, and it is ignored on input.
    pub scalar_type: ScalarType,
    /// How the elements are laid out: [`TensorLayout::Strided`], or one of the sparse layouts.
    pub layout: TensorLayout,
    /// [`Flags::REQUIRES_GRAD`], [`Flags::CONJ`], [`Flags::NEG`].
    pub flags: Flags,
    /// The sizes of the dimensions, in elements.
    pub sizes: Vec<i64>,
    /// The steps between elements along each dimension, in elements. `None` means contiguous, or
    /// sparse.
    pub strides: Option<Vec<i64>>,
    /// The distance from the first element of the storage to the element with index 0, 0, ….
    pub offset: i64,
    /// The memory of the elements. `None` for a sparse tensor, and for a tensor on meta.
    pub storage: Option<Storage>,
    /// PyTorch's storage of the tensor can be a part of `storage`. This is where that part begins,
    /// in bytes.
    pub storage_offset: u64,
    /// The size of that part in elements. 0 on input means the rest of `storage`, or, on meta, as
    /// many as the tensor needs.
    pub storage_numel: u64,
    /// `"cpu"`, `"cuda:0"` or `"meta"`. Empty on input means the device of `storage`.
    pub device: String,
    /// How quantised elements represent numbers.
    pub quantizer: Quantizer,
    /// The scale of a tensor that is quantised per tensor.
    pub scale: f64,
    /// The zero point of a tensor that is quantised per tensor.
    pub zero_point: i64,
    /// The dimension of the channels of a tensor that is quantised per channel.
    pub axis: i64,
    /// For COO: whether the indices are coalesced. `None` means that this is not known.
    pub coalesced: Option<bool>,
    /// The indices of COO, the row pointers of CSR and BSR, the column pointers of CSC and BSC.
    pub indices: Option<Value>,
    /// The column indices of CSR and BSR, the row indices of CSC and BSC.
    pub plain_indices: Option<Value>,
    /// The values of a sparse tensor.
    pub values: Option<Value>,
    /// The scales of a tensor that is quantised per channel.
    pub scales: Option<Value>,
    /// The zero points of a tensor that is quantised per channel.
    pub zero_points: Option<Value>,
}

impl ValueTensorSpec {
    /// Describes contiguous elements over all of a storage. The caller changes the other fields.
    pub fn new(
        scalar_type: ScalarType,
        sizes: &[i64],
        storage: Option<Storage>,
    ) -> ValueTensorSpec {
        ValueTensorSpec {
            scalar_type,
            sizes: sizes.to_vec(),
            storage,
            ..ValueTensorSpec::default()
        }
    }
}

impl Value {
    /// Makes a value from a tensor that a [`Tensor`](crate::Tensor) cannot express. Every element
    /// that the shape can address must lie inside its storage. The indices of a sparse tensor are
    /// not checked.
    pub fn tensor_from_spec(spec: &ValueTensorSpec) -> Result<Value> {
        if spec.strides.as_ref().is_some_and(|strides| strides.len() != spec.sizes.len()) {
            let text = format!(
                "{} sizes and {} strides do not go together",
                spec.sizes.len(),
                spec.strides.as_ref().map_or(0, Vec::len)
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let device =
            if spec.device.is_empty() { None } else { Some(c_text(&spec.device, "the device")?) };
        let part = |value: &Option<Value>| value.as_ref().map_or(ptr::null_mut(), Value::as_raw);
        let raw = sys::tenon_value_tensor_spec {
            struct_size: size_of::<sys::tenon_value_tensor_spec>(),
            scalar_type: spec.scalar_type.raw(),
            layout: to_raw(&LAYOUTS, spec.layout),
            ndim: spec.sizes.len().try_into().unwrap_or(i32::MAX),
            flags: spec.flags.bits(),
            sizes: spec.sizes.as_ptr(),
            strides: spec.strides.as_ref().map_or(ptr::null(), |strides| strides.as_ptr()),
            offset: spec.offset,
            storage: spec.storage.as_ref().map_or(ptr::null_mut(), Storage::as_raw),
            storage_offset: spec.storage_offset,
            storage_numel: spec.storage_numel,
            device: device.as_ref().map_or(ptr::null(), |device| device.as_ptr()),
            scale: spec.scale,
            zero_point: spec.zero_point,
            axis: spec.axis,
            quantizer: to_raw(&QUANTIZERS, spec.quantizer),
            coalesced: to_raw(&COALESCED, spec.coalesced),
            indices: part(&spec.indices),
            plain_indices: part(&spec.plain_indices),
            values: part(&spec.values),
            scales: part(&spec.scales),
            zero_points: part(&spec.zero_points),
        };
        // SAFETY: raw and everything to which it points are borrowed for the call. Sizes and
        // strides have ndim numbers.
        Value::new(|out, err| unsafe { sys::tenon_value_new_tensor_from_spec(&raw, out, err) })
    }

    /// Describes the tensor in the value, whatever kind of tensor it is.
    pub fn tensor_spec(&self) -> Result<ValueTensorSpec> {
        let mut raw = blank!(tenon_value_tensor_spec);
        // SAFETY: raw has its own struct_size. Afterwards, everything to which it points is
        // borrowed from self.
        check(|err| unsafe { sys::tenon_value_get_tensor_spec(self.as_raw(), &mut raw, err) })?;
        // SAFETY: this is NULL, or a storage that the value keeps. ManuallyDrop prevents that its
        // reference is given back here.
        let storage = NonNull::new(raw.storage)
            .map(|raw| (*ManuallyDrop::new(unsafe { Storage::adopt(raw) })).clone());
        Ok(ValueTensorSpec {
            scalar_type: ScalarType::from_raw(raw.scalar_type),
            layout: from_raw(&LAYOUTS, raw.layout)?,
            flags: Flags::from_raw(raw.flags),
            // SAFETY: ndim numbers, borrowed from the value.
            sizes: unsafe { numbers(raw.sizes, raw.ndim) }.to_vec(),
            // SAFETY: NULL, or as above. Without dimensions there are none, NULL or not.
            strides: (raw.layout == 0).then(|| unsafe { numbers(raw.strides, raw.ndim) }.to_vec()),
            offset: raw.offset,
            storage,
            storage_offset: raw.storage_offset,
            storage_numel: raw.storage_numel,
            // SAFETY: the text ends with NUL and is borrowed from the value.
            device: unsafe { owned(raw.device) },
            quantizer: from_raw(&QUANTIZERS, raw.quantizer)?,
            scale: raw.scale,
            zero_point: raw.zero_point,
            axis: raw.axis,
            coalesced: from_raw(&COALESCED, raw.coalesced)?,
            indices: self.part(sys::TENON_TENSOR_PART_INDICES)?,
            plain_indices: self.part(sys::TENON_TENSOR_PART_PLAIN_INDICES)?,
            values: self.part(sys::TENON_TENSOR_PART_VALUES)?,
            scales: self.part(sys::TENON_TENSOR_PART_SCALES)?,
            zero_points: self.part(sys::TENON_TENSOR_PART_ZERO_POINTS)?,
        })
    }

    fn part(&self, part: u32) -> Result<Option<Value>> {
        // SAFETY: out is ours.
        match Value::new(|out, err| unsafe {
            sys::tenon_value_tensor_part(self.as_raw(), part as i32, out, err)
        }) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
