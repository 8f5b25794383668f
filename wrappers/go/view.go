// Access to the elements of tensors: slices over shared memory, and views that keep it.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_tensor_get_view
// #cgo nocallback tenon_tensor_get_view
// #cgo noescape tenon_tensor_data_mut
// #cgo nocallback tenon_tensor_data_mut
// #cgo nocallback tenon_tensor_storage
// #cgo nocallback tenon_storage_device
import "C"

import (
	"fmt"
	"iter"
	"runtime"
	"unsafe"
)

// Source is a *Tensor or a TensorView, whose elements a function shows. It is a type parameter
// beside that of the elements, so that a TensorView is not put into an interface: write
// Slice[float32](view).
type Source interface {
	// look begins a use of the object that owns the memory, and tells where the elements are. The
	// owner's release ends the use.
	look() (C.tenon_tensor_view, *handle, error)
}

// TensorView has what a reader asks about a tensor, and needs no further call of C. It is a small
// value that can be copied. It keeps its tensor or message from being collected, but not from being
// closed: after Close, the functions that show elements, such as Slice, return ErrClosed.
type TensorView struct {
	at    *C.tenon_tensor_view // Go's memory, with pointers to C's memory
	owner *handle
	name  string // read at once, because a message that grows may move its names
}

// View describes the tensor in one call of C.
func (t *Tensor) View() (TensorView, error) {
	view, owner, err := t.look()
	if err != nil {
		return TensorView{}, err
	}
	defer owner.release()
	return TensorView{at: &view, owner: owner}, nil
}

func (t *Tensor) look() (C.tenon_tensor_view, *handle, error) {
	var out C.tenon_tensor_view
	if t == nil {
		return out, nil, invalid("the tensor is nil")
	}
	pointer, err := t.acquire()
	if err != nil {
		return out, nil, err
	}
	out.struct_size = C.sizeof_tenon_tensor_view
	var failure *C.tenon_error
	if status := C.tenon_tensor_get_view(
		(*C.tenon_tensor)(pointer), &out, &failure,
	); status != C.TENON_OK {
		t.release()
		return out, nil, takeError(status, failure)
	}
	return out, &t.handle, nil
}

func (v TensorView) look() (C.tenon_tensor_view, *handle, error) {
	if v.at == nil {
		return C.tenon_tensor_view{}, nil, invalid("the view is empty")
	}
	if _, err := v.owner.acquire(); err != nil {
		return C.tenon_tensor_view{}, nil, err
	}
	return *v.at, v.owner, nil
}

// Tensor gives the tensor with a new reference, which the caller closes.
func (v TensorView) Tensor() (*Tensor, error) {
	view, owner, err := v.look()
	if err != nil {
		return nil, err
	}
	defer owner.release()
	return newTensor(C.tenon_tensor_retain(view.tensor)), nil
}

// Name returns the tensor's name in its message; "" if it has none.
func (v TensorView) Name() string { return v.name }

// Spec returns the shape. The caller owns its slices.
func (v TensorView) Spec() (Spec, error) {
	view, owner, err := v.look()
	if err != nil {
		return Spec{}, err
	}
	defer owner.release()
	return Spec{
		DType:   dtypeOf(view.dtype),
		Sizes:   numbers(view.sizes, view.ndim),
		Strides: numbers(view.strides, view.ndim),
		Offset:  uint64(view.offset),
		Flags:   TensorFlags(view.flags),
	}, nil
}

// DType returns the element type.
func (v TensorView) DType() DType {
	if v.at == nil {
		return 0
	}
	return dtypeOf(v.at.dtype)
}

// Sizes returns the sizes of the dimensions, in elements.
func (v TensorView) Sizes() []int64 {
	spec, _ := v.Spec()
	return spec.Sizes
}

// Strides returns the steps between elements along each dimension, in elements.
func (v TensorView) Strides() []int64 {
	spec, _ := v.Spec()
	return spec.Strides
}

// Numel returns the number of elements.
func (v TensorView) Numel() uint64 {
	if v.at == nil {
		return 0
	}
	return uint64(v.at.numel)
}

// NBytes returns how many bytes the elements take when they are packed.
func (v TensorView) NBytes() uint64 {
	if v.at == nil {
		return 0
	}
	return uint64(v.at.nbytes)
}

// Device returns the device that holds the elements.
func (v TensorView) Device() Device {
	if v.at == nil {
		return Device{}
	}
	return Device{int32(v.at.device._type), int32(v.at.device.id)}
}

// IsContiguous says whether the elements lie packed, with the last dimension fastest.
func (v TensorView) IsContiguous() bool { return v.at != nil && v.at.is_contiguous != 0 }

// IsReadOnly says whether this process must not write to the elements.
func (v TensorView) IsReadOnly() bool {
	return v.at != nil && v.at.data_mut == nil && v.at.data != nil
}

// Slice gives the elements themselves, to read and write, without a copy and without a call for
// each element. The source must be contiguous, have the DType of T and be aligned for T. It must be
// writable (ErrPermission) and on the CPU (ErrUnsupported). The slice does not keep the source
// alive: use it only while the source is open and reachable (runtime.KeepAlive). With and View have
// no such condition.
func Slice[T Element, S Source](source S) ([]T, error) {
	view, owner, err := source.look()
	if err != nil {
		return nil, err
	}
	defer owner.release()
	if err := writable(&view); err != nil {
		return nil, err
	}
	return elements[T](&view)
}

// ReadOnlySlice gives the elements as Slice does, but to read only. Go has no read-only slices. If
// the memory is writable, every borrower may see a write through this slice. If the memory is
// read-only, such a write ends the program with a fault that recover does not catch. A View allows
// no writes.
func ReadOnlySlice[T Element, S Source](source S) ([]T, error) {
	view, owner, err := source.look()
	if err != nil {
		return nil, err
	}
	defer owner.release()
	return elements[T](&view)
}

// With calls use with the elements, to read and write, as Slice gives them. They stay valid until
// use returns, even if another goroutine closes the source meanwhile. They are not valid after
// that.
func With[T Element, S Source](source S, use func(elements []T) error) error {
	view, owner, err := source.look()
	if err != nil {
		return err
	}
	defer owner.release()
	if err := writable(&view); err != nil {
		return err
	}
	values, err := elements[T](&view)
	if err != nil {
		return err
	}
	return use(values)
}

// View shows elements to read, and keeps their memory. The elements stay valid until the view is
// closed or collected, whatever else is closed meanwhile. Any number of goroutines may read a view.
// Only the last one may close it.
type View[T Element] struct {
	elements []T
	owner    *handle
	cleanup  runtime.Cleanup
}

// NewView makes a view of the elements. The source must be contiguous, have the DType of T and be
// aligned for T.
func NewView[T Element, S Source](source S) (*View[T], error) {
	raw, owner, err := source.look()
	if err != nil {
		return nil, err
	}
	values, err := elements[T](&raw)
	if err != nil {
		owner.release()
		return nil, err
	}
	v := &View[T]{elements: values, owner: owner}
	v.cleanup = runtime.AddCleanup(v, (*handle).release, owner)
	return v, nil
}

// Close ends the view. A second Close does nothing. Reading a closed view panics, as reading past
// the end does. Close never fails.
func (v *View[T]) Close() error {
	if v.owner != nil {
		v.cleanup.Stop()
		v.owner.release()
		v.owner, v.elements = nil, nil
	}
	return nil
}

// Len returns the number of elements; 0 for a closed view.
func (v *View[T]) Len() int { return len(v.elements) }

// At returns element i, counted in the order in which the elements lie in memory. It panics if
// there is no element i.
func (v *View[T]) At(i int) T {
	value := v.elements[i]
	runtime.KeepAlive(v)
	return value
}

// CopyTo copies elements from the first on, as many as fit into to, and returns their number.
func (v *View[T]) CopyTo(to []T) int {
	n := copy(to, v.elements)
	runtime.KeepAlive(v)
	return n
}

// All iterates over indices and elements.
func (v *View[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range v.elements {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// Unsafe gives the elements themselves. Use the slice only while the view is open and reachable,
// and do not write through it: see ReadOnlySlice.
func (v *View[T]) Unsafe() []T { return v.elements }

// writable returns the C library's error if the elements cannot be written.
func writable(view *C.tenon_tensor_view) error {
	if view.data_mut != nil {
		return nil
	}
	var data unsafe.Pointer
	var failure *C.tenon_error
	return check(C.tenon_tensor_data_mut(view.tensor, &data, &failure), &failure)
}

// elements gives the memory of a tensor as a []T, if the type, the layout and the alignment allow
// it.
func elements[T Element](view *C.tenon_tensor_view) ([]T, error) {
	if wanted, dtype := DTypeOf[T](), dtypeOf(view.dtype); dtype != wanted {
		return nil, invalid(fmt.Sprintf("the elements are %v, not %v", dtype, wanted))
	}
	if view.flags&(C.TENON_TENSOR_CONJ|C.TENON_TENSOR_NEG) != 0 {
		return nil, &Error{
			Code:    ErrUnsupported,
			Message: "the conjugate or negative bit is set: the bytes are not the values",
		}
	}
	if view.is_contiguous == 0 {
		return nil, invalid(fmt.Sprintf("the elements do not lie packed: sizes %v, strides %v",
			numbers(view.sizes, view.ndim), numbers(view.strides, view.ndim)))
	}
	if view.numel == 0 || view.data == nil {
		if err := checkLender(C.tenon_tensor_storage(view.tensor)); err != nil {
			return nil, err
		}
		return []T{}, nil
	}
	if err := forHost(view.device); err != nil {
		return nil, err
	}
	var one T
	if uintptr(view.data)%unsafe.Alignof(one) != 0 {
		return nil, invalid(
			fmt.Sprintf(
				"the elements lie at %#x, which is not aligned to %d bytes",
				uintptr(view.data),
				unsafe.Alignof(one),
			),
		)
	}
	count, err := fitting(uint64(view.numel))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(view.data), count), nil
}
