// Values of kind tensor, also those that a Tensor cannot express: quantised, sparse or on meta.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_value_get_tensor_spec
// #cgo nocallback tenon_value_get_tensor_spec
import "C"

import (
	"fmt"
	"runtime"
)

// Layout says how the elements of a tensor are laid out. The numbers are PyTorch's, and from 64 on
// Tenon's own.
type Layout int32

// The layouts.
const (
	LayoutStrided   Layout = C.TENON_TENSOR_LAYOUT_STRIDED
	LayoutSparseCOO Layout = C.TENON_TENSOR_LAYOUT_SPARSE_COO
	LayoutSparseCSR Layout = C.TENON_TENSOR_LAYOUT_SPARSE_CSR
	LayoutSparseCSC Layout = C.TENON_TENSOR_LAYOUT_SPARSE_CSC
	LayoutSparseBSR Layout = C.TENON_TENSOR_LAYOUT_SPARSE_BSR
	LayoutSparseBSC Layout = C.TENON_TENSOR_LAYOUT_SPARSE_BSC

	// Only a Composite can have one of these layouts.
	LayoutJagged    Layout = C.TENON_TENSOR_LAYOUT_JAGGED    // components differ in one dimension
	LayoutNested    Layout = C.TENON_TENSOR_LAYOUT_NESTED    // components differ in any dimension
	LayoutMeta      Layout = C.TENON_TENSOR_LAYOUT_META      // sizes, but no elements
	LayoutQuantized Layout = C.TENON_TENSOR_LAYOUT_QUANTIZED // integers that represent numbers
)

// Quantizer says how quantised elements stand for numbers.
type Quantizer int32

// The quantizers.
const (
	QuantizerNone                        Quantizer = C.TENON_QUANTIZER_NONE
	QuantizerPerTensorAffine             Quantizer = C.TENON_QUANTIZER_PER_TENSOR_AFFINE
	QuantizerPerChannelAffine            Quantizer = C.TENON_QUANTIZER_PER_CHANNEL_AFFINE
	QuantizerPerChannelAffineFloatParams           = Quantizer(
		C.TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS,
	)
)

// TensorPart is one of the tensors that a sparse or quantised tensor is made of.
type TensorPart int32

// The parts.
const (
	// The indices of COO, the row pointers of CSR and BSR, the column pointers of CSC and BSC.
	PartIndices TensorPart = C.TENON_TENSOR_PART_INDICES
	// The column indices of CSR and BSR, the row indices of CSC and BSC.
	PartPlainIndices TensorPart = C.TENON_TENSOR_PART_PLAIN_INDICES
	PartValues       TensorPart = C.TENON_TENSOR_PART_VALUES      // of every sparse tensor
	PartScales       TensorPart = C.TENON_TENSOR_PART_SCALES      // quantised per channel
	PartZeroPoints   TensorPart = C.TENON_TENSOR_PART_ZERO_POINTS // quantised per channel
)

// Coalesced says what is known about the indices of a COO tensor.
type Coalesced int32

// Coalesced indices are in order, and none of them occurs twice.
const (
	CoalescedUnknown Coalesced = C.TENON_COALESCED_UNKNOWN
	CoalescedNo      Coalesced = C.TENON_COALESCED_NO
	CoalescedYes     Coalesced = C.TENON_COALESCED_YES
)

// ValueTensorSpec is all that PyTorch knows about a tensor, including properties that a Tensor
// cannot express. Sizes, strides and offset count elements.
type ValueTensorSpec struct {
	ScalarType ScalarType // of a sparse tensor that of its values, and ignored on input
	Layout     Layout
	Flags      TensorFlags // RequiresGrad, Conj, Neg
	Sizes      []int64
	Strides    []int64 // nil on input means contiguous; nil on output for a sparse tensor
	Offset     int64
	Storage    *Storage // nil if sparse or on meta; on output the caller closes it
	// PyTorch's storage of the tensor can be a part of Storage. This is where that part begins, in
	// bytes.
	StorageOffset uint64
	// The size of that part in elements. 0 on input means the rest of Storage, or, on meta, as many
	// as the tensor needs.
	StorageNumel uint64
	Device       string // "cpu", "cuda:0" or "meta"; "" on input means that of Storage
	Quantizer    Quantizer
	Scale        float64 // quantised per tensor
	ZeroPoint    int64   // quantised per tensor
	Axis         int64   // quantised per channel
	Coalesced    Coalesced

	// These are values of kind tensor, on input only. TensorPart gives them.
	Indices, PlainIndices, Values, Scales, ZeroPoints *Value
}

// NewTensorValue makes a value from a tensor, over the same bytes. Tensors over one storage share
// that storage in an archive too, if they have the same element type. An export writes the whole
// storage, even if the tensor is a small part of it.
func NewTensorValue(tensor *Tensor) (*Value, error) {
	pointer, err := tensor.begin()
	if err != nil {
		return nil, err
	}
	defer tensor.end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_tensor(pointer, out, failure)
	})
}

// NewTensorValueFromSpec makes a value from a tensor that is quantised, sparse, on meta, or of an
// element type that DLPack lacks.
func NewTensorValueFromSpec(spec ValueTensorSpec) (*Value, error) {
	if spec.Strides != nil && len(spec.Strides) != len(spec.Sizes) {
		return nil, invalid(
			fmt.Sprintf("%d strides for %d sizes", len(spec.Strides), len(spec.Sizes)),
		)
	}
	if len(spec.Sizes) > MaxNDim {
		return nil, invalid(fmt.Sprintf("%d dimensions, %d are the most", len(spec.Sizes), MaxNDim))
	}
	storage, err := spec.Storage.begin()
	if err != nil {
		return nil, err
	}
	defer spec.Storage.end()
	parts, end, err := beginValues(
		[]*Value{spec.Indices, spec.PlainIndices, spec.Values, spec.Scales, spec.ZeroPoints},
	)
	if err != nil {
		return nil, err
	}
	defer end()
	device, err := cTextOrNull("the device", spec.Device)
	if err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if device != nil {
		pinner.Pin(device)
	}
	given := C.tenon_value_tensor_spec{
		struct_size:    C.sizeof_tenon_value_tensor_spec,
		scalar_type:    C.tenon_scalar_type(spec.ScalarType),
		layout:         C.int32_t(spec.Layout),
		ndim:           C.int32_t(len(spec.Sizes)),
		flags:          C.uint32_t(spec.Flags),
		sizes:          (*C.int64_t)(pinSlice(&pinner, spec.Sizes)),
		strides:        (*C.int64_t)(pinSlice(&pinner, spec.Strides)),
		offset:         C.int64_t(spec.Offset),
		storage:        storage,
		storage_offset: C.uint64_t(spec.StorageOffset),
		storage_numel:  C.uint64_t(spec.StorageNumel),
		device:         device,
		scale:          C.double(spec.Scale),
		zero_point:     C.int64_t(spec.ZeroPoint),
		axis:           C.int64_t(spec.Axis),
		quantizer:      C.int32_t(spec.Quantizer),
		coalesced:      C.int32_t(spec.Coalesced),
		indices:        parts[0],
		plain_indices:  parts[1],
		values:         parts[2],
		scales:         parts[3],
		zero_points:    parts[4],
	}
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_tensor_from_spec(&given, out, failure)
	})
}

// Tensor gives the tensor in a value, over the same bytes. The caller closes it. It returns
// ErrUnsupported if the tensor is quantised, sparse, on meta, or of an element type that DLPack
// lacks: see TensorSpec.
func (v *Value) Tensor() (*Tensor, error) {
	return ask(v, func(pointer *C.tenon_value) (*Tensor, error) {
		var out *C.tenon_tensor
		var failure *C.tenon_error
		if status := C.tenon_value_get_tensor(pointer, &out, &failure); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return newTensor(out), nil
	})
}

// TensorSpec describes the tensor in a value. The caller owns its slices and closes its Storage.
func (v *Value) TensorSpec() (ValueTensorSpec, error) {
	return ask(v, func(pointer *C.tenon_value) (ValueTensorSpec, error) {
		out := C.tenon_value_tensor_spec{struct_size: C.sizeof_tenon_value_tensor_spec}
		var failure *C.tenon_error
		if status := C.tenon_value_get_tensor_spec(pointer, &out, &failure); status != C.TENON_OK {
			return ValueTensorSpec{}, takeError(status, failure)
		}
		spec := ValueTensorSpec{
			ScalarType:    ScalarType(out.scalar_type),
			Layout:        Layout(out.layout),
			Flags:         TensorFlags(out.flags),
			Sizes:         numbers(out.sizes, out.ndim),
			Offset:        int64(out.offset),
			StorageOffset: uint64(out.storage_offset),
			StorageNumel:  uint64(out.storage_numel),
			Device:        C.GoString(out.device),
			Quantizer:     Quantizer(out.quantizer),
			Scale:         float64(out.scale),
			ZeroPoint:     int64(out.zero_point),
			Axis:          int64(out.axis),
			Coalesced:     Coalesced(out.coalesced),
		}
		if spec.Layout == LayoutStrided {
			spec.Strides = numbers(out.strides, out.ndim)
		}
		if out.storage != nil {
			spec.Storage = newStorage(C.tenon_storage_retain(out.storage))
		}
		return spec, nil
	})
}

// TensorPart gives one of the tensors that a sparse or quantised tensor consists of, as a value of
// kind tensor. It returns ErrNotFound if the tensor has no such part.
func (v *Value) TensorPart(part TensorPart) (*Value, error) {
	return ask(v, func(pointer *C.tenon_value) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_value_tensor_part(pointer, C.int32_t(part), out, failure)
		})
	})
}
