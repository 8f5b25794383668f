// Tensors: shapes over storages.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_go_tensor_new
// #cgo noescape tenon_tensor_reshape
// #cgo noescape tenon_tensor_view_dtype
// #cgo noescape tenon_tensor_index
// #cgo noescape tenon_tensor_get_spec
// #cgo nocallback tenon_tensor_get_spec
// #cgo noescape tenon_dtype_nbytes
// #cgo nocallback tenon_dtype_nbytes
import "C"

import (
	"fmt"
	"slices"
	"unsafe"
)

// TensorFlags are properties that travel with a tensor.
type TensorFlags uint32

// The values of TensorFlags.
const (
	RequiresGrad TensorFlags = C.TENON_TENSOR_REQUIRES_GRAD // means nothing to Tenon
	IsParameter  TensorFlags = C.TENON_TENSOR_IS_PARAMETER  // means nothing to Tenon
	// The elements must be read conjugated.
	Conj TensorFlags = C.TENON_TENSOR_CONJ
	Neg  TensorFlags = C.TENON_TENSOR_NEG // the elements must be read negated
)

// MaxNDim is the most dimensions that a tensor can have.
const MaxNDim = C.TENON_TENSOR_MAX_NDIM

// Spec is the shape of a tensor over a storage. Sizes, strides and offset count elements. A stride
// may be 0 or negative.
type Spec struct {
	DType   DType
	Sizes   []int64
	Strides []int64 // nil means contiguous, with the last dimension fastest
	Offset  uint64  // of the element with index 0, 0, … from the start of the storage
	Flags   TensorFlags
}

// Tensor is a view of one storage, with an element type, sizes, strides and an offset. It never
// changes: another shape is another tensor over the same storage. Any goroutine may use a Tensor.
// After Close, the methods that return no error return zero values. Slice, View and With show its
// elements.
type Tensor struct{ handle }

func newTensor(pointer *C.tenon_tensor) *Tensor {
	t := new(Tensor)
	t.own(kindTensor, unsafe.Pointer(pointer))
	return t
}

func (t *Tensor) begin() (*C.tenon_tensor, error) {
	if t == nil {
		return nil, nil
	}
	pointer, err := t.acquire()
	return (*C.tenon_tensor)(pointer), err
}

func (t *Tensor) end() {
	if t != nil {
		t.release()
	}
}

// NewTensor makes a tensor over a storage, to which it takes a reference of its own. Every element
// that the shape can address must lie inside the storage.
func NewTensor(storage *Storage, spec Spec) (*Tensor, error) {
	pointer, err := storage.begin()
	if err != nil {
		return nil, err
	}
	defer storage.end()
	if spec.Strides != nil && len(spec.Strides) != len(spec.Sizes) {
		return nil, invalid(
			fmt.Sprintf("%d strides for %d sizes", len(spec.Strides), len(spec.Sizes)),
		)
	}
	if len(spec.Sizes) > MaxNDim {
		return nil, invalid(fmt.Sprintf("%d dimensions, %d are the most", len(spec.Sizes), MaxNDim))
	}
	var out *C.tenon_tensor
	var failure *C.tenon_error
	status := C.tenon_go_tensor_new(
		pointer,
		C.uint32_t(spec.DType),
		C.int32_t(len(spec.Sizes)),
		(*C.int64_t)(
			unsafe.SliceData(spec.Sizes),
		),
		(*C.int64_t)(unsafe.SliceData(spec.Strides)),
		C.uint64_t(spec.Offset),
		C.uint32_t(spec.Flags),
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newTensor(out), nil
}

// Empty makes a contiguous tensor in a new storage. The content of its bytes is unspecified, unless
// the options say Zeroed.
func Empty(dtype DType, sizes []int64, options *StorageOptions) (*Tensor, error) {
	nbytes, err := nbytesOf(dtype, sizes)
	if err != nil {
		return nil, err
	}
	storage, err := NewStorage(nbytes, options)
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	return NewTensor(storage, Spec{DType: dtype, Sizes: sizes})
}

// FromSlice makes a contiguous tensor in a new storage that holds a copy of values. sizes is its
// shape. In mode Frozen the storage is frozen already.
func FromSlice[T Element](values []T, sizes []int64, options *StorageOptions) (*Tensor, error) {
	dtype := DTypeOf[T]()
	nbytes, err := nbytesOf(dtype, sizes)
	if err != nil {
		return nil, err
	}
	var one T
	data := unsafe.Slice(
		(*byte)(unsafe.Pointer(unsafe.SliceData(values))),
		len(values)*int(unsafe.Sizeof(one)),
	)
	if nbytes != uint64(len(data)) {
		return nil, invalid(fmt.Sprintf("%d values for sizes %v", len(values), sizes))
	}
	storage, err := NewStorageFrom(data, options)
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	return NewTensor(storage, Spec{DType: dtype, Sizes: sizes})
}

// nbytesOf returns how many bytes the packed elements take, rounded up to whole bytes.
func nbytesOf(dtype DType, sizes []int64) (uint64, error) {
	if len(sizes) > MaxNDim {
		return 0, invalid(fmt.Sprintf("%d dimensions, %d are the most", len(sizes), MaxNDim))
	}
	var out C.uint64_t
	var failure *C.tenon_error
	status := C.tenon_dtype_nbytes(
		dtype.c(),
		(*C.int64_t)(unsafe.SliceData(sizes)),
		C.int32_t(len(sizes)),
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return uint64(out), nil
}

// view makes a tensor over the same storage by a call of the library.
func (t *Tensor) view(
	call func(*C.tenon_tensor, **C.tenon_tensor, **C.tenon_error) C.tenon_status,
) (*Tensor, error) {
	pointer, err := t.begin()
	if err != nil {
		return nil, err
	}
	defer t.end()
	var out *C.tenon_tensor
	var failure *C.tenon_error
	if status := call(pointer, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newTensor(out), nil
}

// Reshape makes a tensor with the same elements in another shape. One size may be -1. It fails if
// the elements do not fit the shape, or would have to be copied.
func (t *Tensor) Reshape(sizes ...int64) (*Tensor, error) {
	if len(sizes) > MaxNDim {
		return nil, invalid(fmt.Sprintf("%d dimensions, %d are the most", len(sizes), MaxNDim))
	}
	return t.view(func(
		tensor *C.tenon_tensor, out **C.tenon_tensor, failure **C.tenon_error,
	) C.tenon_status {
		data := (*C.int64_t)(unsafe.SliceData(sizes))
		return C.tenon_tensor_reshape(tensor, data, C.int32_t(len(sizes)), out, failure)
	})
}

// ViewDType makes a tensor that reads the same bytes as elements of another type. If their sizes
// differ, the last dimension takes up the difference, and the elements must lie packed.
func (t *Tensor) ViewDType(dtype DType) (*Tensor, error) {
	return t.view(func(
		tensor *C.tenon_tensor, out **C.tenon_tensor, failure **C.tenon_error,
	) C.tenon_status {
		return C.tenon_tensor_view_dtype(tensor, dtype.c(), out, failure)
	})
}

// Index is an item of the index of [Tensor.Index]. At, Range, NewAxis and Ellipsis make items.
type Index struct {
	kind              C.int32_t
	start, stop, step int64
}

// At picks one index of a dimension, which the view then lacks. A negative one counts from the end.
func At(index int64) Index { return Index{C.TENON_INDEX_NUMBER, index, 0, 0} }

// Range picks every step-th index from start on, before stop. As in Python, a negative bound counts
// from the end, and a bound beyond an end means that end: math.MaxInt64 is the last one, and with a
// negative step a stop of math.MinInt64 includes the index 0.
func Range(start, stop, step int64) Index { return Index{C.TENON_INDEX_SLICE, start, stop, step} }

// NewAxis adds a dimension of size 1.
func NewAxis() Index { return Index{C.TENON_INDEX_NEW_AXIS, 0, 0, 0} }

// Ellipsis keeps all dimensions that the other items leave over.
func Ellipsis() Index { return Index{C.TENON_INDEX_ELLIPSIS, 0, 0, 0} }

// Index makes a tensor of the elements that the items pick. Dimensions without an item are kept
// whole. If an item does not fit, the details of the error are "item", and for At also "dimension"
// and "size".
func (t *Tensor) Index(items ...Index) (*Tensor, error) {
	raw := make([]C.tenon_index, len(items))
	for i, item := range items {
		raw[i] = C.tenon_index{
			struct_size: C.sizeof_tenon_index,
			kind:        item.kind,
			start:       C.int64_t(item.start),
			stop:        C.int64_t(item.stop),
			step:        C.int64_t(item.step),
		}
	}
	return t.view(func(
		tensor *C.tenon_tensor, out **C.tenon_tensor, failure **C.tenon_error,
	) C.tenon_status {
		return C.tenon_tensor_index(tensor, unsafe.SliceData(raw), C.size_t(len(raw)), out, failure)
	})
}

// Retain gives another object for the same tensor, which the caller closes too.
func (t *Tensor) Retain() (*Tensor, error) {
	return ask(t, func(pointer *C.tenon_tensor) (*Tensor, error) {
		if pointer == nil {
			return nil, invalid("the tensor is nil")
		}
		return newTensor(C.tenon_tensor_retain(pointer)), nil
	})
}

// Storage gives the storage under the tensor with a new reference, which the caller closes.
func (t *Tensor) Storage() (*Storage, error) {
	return ask(t, func(pointer *C.tenon_tensor) (*Storage, error) {
		if pointer == nil {
			return nil, invalid("the tensor is nil")
		}
		return newStorage(C.tenon_storage_retain(C.tenon_tensor_storage(pointer))), nil
	})
}

// Spec returns the shape, in one call of C. The caller owns its slices.
func (t *Tensor) Spec() (Spec, error) {
	return ask(t, func(pointer *C.tenon_tensor) (Spec, error) {
		out := C.tenon_tensor_spec{struct_size: C.sizeof_tenon_tensor_spec}
		var failure *C.tenon_error
		if status := C.tenon_tensor_get_spec(pointer, &out, &failure); status != C.TENON_OK {
			return Spec{}, takeError(status, failure)
		}
		return Spec{
			DType:   dtypeOf(out.dtype),
			Sizes:   numbers(out.sizes, out.ndim),
			Strides: numbers(out.strides, out.ndim),
			Offset:  uint64(out.offset),
			Flags:   TensorFlags(out.flags),
		}, nil
	})
}

func dtypeOf(dtype C.tenon_dtype) DType {
	return NewDType(uint8(dtype.code), uint8(dtype.bits), uint16(dtype.lanes))
}

// numbers copies ndim numbers out of C's memory. The result is never nil.
func numbers(from *C.int64_t, ndim C.int32_t) []int64 {
	if ndim == 0 {
		return []int64{}
	}
	return slices.Clone(unsafe.Slice((*int64)(from), int(ndim)))
}

// DType returns the element type.
func (t *Tensor) DType() DType {
	spec, _ := t.Spec()
	return spec.DType
}

// Sizes returns the sizes of the dimensions, in elements.
func (t *Tensor) Sizes() []int64 {
	spec, _ := t.Spec()
	return spec.Sizes
}

// Strides returns the steps between elements along each dimension, in elements.
func (t *Tensor) Strides() []int64 {
	spec, _ := t.Spec()
	return spec.Strides
}

// Numel returns the number of elements, which is the product of the sizes.
func (t *Tensor) Numel() uint64 {
	return get(t, func(pointer *C.tenon_tensor) uint64 {
		return uint64(C.tenon_tensor_numel(pointer))
	})
}

// NBytes returns how many bytes the elements take when they are packed.
func (t *Tensor) NBytes() uint64 {
	return get(t, func(pointer *C.tenon_tensor) uint64 {
		return uint64(C.tenon_tensor_nbytes(pointer))
	})
}

// Device returns the device that holds the elements.
func (t *Tensor) Device() Device {
	return get(t, func(pointer *C.tenon_tensor) Device {
		device := C.tenon_storage_device(C.tenon_tensor_storage(pointer))
		return Device{int32(device._type), int32(device.id)}
	})
}

// IsContiguous says whether the elements lie packed, with the last dimension fastest.
func (t *Tensor) IsContiguous() bool {
	return get(t, func(pointer *C.tenon_tensor) bool {
		return C.tenon_tensor_is_contiguous(pointer) != 0
	})
}
