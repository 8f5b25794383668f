//! Tensors in values that a [`Tensor`](crate::Tensor) cannot be: quantised, sparse, on meta, of
//! element types that DLPack has not.

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

/// All that PyTorch knows of a tensor. Sizes, strides and offset count elements. What does not
/// belong to a kind of tensor is `None` or 0.
#[derive(Clone, Debug, Default)]
pub struct ValueTensorSpec {
    /// Of the elements; of a sparse tensor that of its values, and not read when one is made.
    pub scalar_type: ScalarType,
    /// How they lie: [`TensorLayout::Strided`], or one of the sparse ones.
    pub layout: TensorLayout,
    /// [`Flags::REQUIRES_GRAD`], [`Flags::CONJ`], [`Flags::NEG`].
    pub flags: Flags,
    /// Elements in each dimension.
    pub sizes: Vec<i64>,
    /// Elements from one to the next in each dimension; `None`: contiguous, or sparse.
    pub strides: Option<Vec<i64>>,
    /// Of the element with index 0, 0, … from the first of the storage.
    pub offset: i64,
    /// Where the bytes are; `None` if sparse or on meta.
    pub storage: Option<Storage>,
    /// Bytes: where in `storage` the elements begin that PyTorch calls the tensor's storage.
    pub storage_offset: u64,
    /// How many these are; 0 when one is made: all of `storage`, on meta as many as are needed.
    pub storage_numel: u64,
    /// `"cpu"` or `"meta"`; empty when one is made: cpu.
    pub device: String,
    /// How elements stand for numbers.
    pub quantizer: Quantizer,
    /// Quantised per tensor.
    pub scale: f64,
    /// Quantised per tensor.
    pub zero_point: i64,
    /// Quantised per channel.
    pub axis: i64,
    /// Of COO, if somebody said.
    pub coalesced: Option<bool>,
    /// Of sparse ones.
    pub indices: Option<Value>,
    /// Of compressed ones.
    pub plain_indices: Option<Value>,
    /// Of sparse ones.
    pub values: Option<Value>,
    /// Quantised per channel.
    pub scales: Option<Value>,
    /// Quantised per channel.
    pub zero_points: Option<Value>,
}

impl ValueTensorSpec {
    /// Contiguous elements over all of a storage; the fields say the rest.
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

fn blank() -> sys::tenon_value_tensor_spec {
    sys::tenon_value_tensor_spec {
        struct_size: size_of::<sys::tenon_value_tensor_spec>(),
        scalar_type: 0,
        layout: 0,
        ndim: 0,
        flags: 0,
        sizes: ptr::null(),
        strides: ptr::null(),
        offset: 0,
        storage: ptr::null_mut(),
        storage_offset: 0,
        storage_numel: 0,
        device: ptr::null(),
        scale: 0.0,
        zero_point: 0,
        axis: 0,
        quantizer: 0,
        coalesced: 0,
        indices: ptr::null_mut(),
        plain_indices: ptr::null_mut(),
        values: ptr::null_mut(),
        scales: ptr::null_mut(),
        zero_points: ptr::null_mut(),
    }
}

impl Value {
    /// A tensor that a [`Tensor`](crate::Tensor) cannot be. Every element that it can name must lie
    /// inside its storage; what the indices of a sparse one say is not looked at.
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
            ..blank()
        };
        // SAFETY: raw and all that it points to are borrowed for the call; sizes and strides have
        // ndim numbers.
        Value::new(|out, err| unsafe { sys::tenon_value_new_tensor_from_spec(&raw, out, err) })
    }

    /// All that is known of the tensor, whatever kind of tensor it is.
    pub fn tensor_spec(&self) -> Result<ValueTensorSpec> {
        let mut raw = blank();
        // SAFETY: raw is of its own struct_size; what it points to afterwards is borrowed from
        // self.
        check(|err| unsafe { sys::tenon_value_get_tensor_spec(self.as_raw(), &mut raw, err) })?;
        // SAFETY: NULL, or a storage that the value keeps, of which no reference is given back
        // here.
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
            // SAFETY: a NUL-terminated text, borrowed from the value.
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
