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

// Source is what shows elements: a *Tensor or a TensorView. It is a type parameter, beside that of
// the elements, so that a TensorView need not be put into an interface: write Slice[float32](view).
type Source interface {
	// look begins a use of what owns the memory, which the owner's release ends, and tells where
	// the elements are.
	look() (C.tenon_tensor_view, *handle, error)
}

// TensorView is all that a reader of a tensor asks for, at hand without another call of C. A small
// value to copy and pass on. It keeps its tensor or message from being collected, but not from
// being closed: after that Slice and the others that show elements give ErrClosed.
type TensorView struct {
	at    *C.tenon_tensor_view // Go's memory, with pointers to C's
	owner *handle
	name  string // read at once: a message that grows may move its names
}

// View gives shape and place of the elements in one call.
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

// Tensor gives the tensor, with a reference of the caller's to close.
func (v TensorView) Tensor() (*Tensor, error) {
	view, owner, err := v.look()
	if err != nil {
		return nil, err
	}
	defer owner.release()
	return newTensor(C.tenon_tensor_retain(view.tensor)), nil
}

// Name is the tensor's name in its message; "" if it has none.
func (v TensorView) Name() string { return v.name }

// Spec gives the shape; its slices are the caller's.
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

// DType is the element type.
func (v TensorView) DType() DType {
	if v.at == nil {
		return 0
	}
	return dtypeOf(v.at.dtype)
}

// Sizes are the sizes of the dimensions, in elements.
func (v TensorView) Sizes() []int64 {
	spec, _ := v.Spec()
	return spec.Sizes
}

// Strides are the steps between elements along each dimension, in elements.
func (v TensorView) Strides() []int64 {
	spec, _ := v.Spec()
	return spec.Strides
}

// Numel is the number of elements.
func (v TensorView) Numel() uint64 {
	if v.at == nil {
		return 0
	}
	return uint64(v.at.numel)
}

// NBytes is the bytes that the elements take when packed.
func (v TensorView) NBytes() uint64 {
	if v.at == nil {
		return 0
	}
	return uint64(v.at.nbytes)
}

// Device is where the elements lie.
func (v TensorView) Device() Device {
	if v.at == nil {
		return Device{}
	}
	return Device{int32(v.at.device._type), int32(v.at.device.id)}
}

// IsContiguous says whether the elements lie packed, last dimension fastest.
func (v TensorView) IsContiguous() bool { return v.at != nil && v.at.is_contiguous != 0 }

// IsReadOnly says whether this process must not write to the elements.
func (v TensorView) IsReadOnly() bool {
	return v.at != nil && v.at.data_mut == nil && v.at.data != nil
}

// Slice gives the elements themselves, to read and write, without a copy and without a call for
// each. The source must be contiguous, of T's DType and aligned for it, writable (ErrPermission),
// and the CPU's (ErrUnsupported). The slice does not keep the source alive: use it only while the
// source is open and reachable (runtime.KeepAlive). With and View have no such condition.
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

// ReadOnlySlice is as Slice, to read only. Go has no read-only slices: a write through this one may
// be seen by every borrower, and if the memory is read-only it ends the program with a fault that
// recover does not catch. View has no such door.
func ReadOnlySlice[T Element, S Source](source S) ([]T, error) {
	view, owner, err := source.look()
	if err != nil {
		return nil, err
	}
	defer owner.release()
	return elements[T](&view)
}

// With calls use with the elements, to read and write, as Slice gives them. Whatever closes the
// source meanwhile, they stay until use returns; not longer.
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

// View shows elements to read, and keeps them: they stay, whatever is closed or released elsewhere,
// until the view is closed or collected. Any number of goroutines may read it; Close is for the
// last one.
type View[T Element] struct {
	elements []T
	owner    *handle
	cleanup  runtime.Cleanup
}

// NewView makes a view of the elements. The source must be contiguous, of T's DType and aligned for
// it.
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

// Close lets the elements go. Again: nothing. Reading a closed view panics, as reading past the end
// does. Close never fails.
func (v *View[T]) Close() error {
	if v.owner != nil {
		v.cleanup.Stop()
		v.owner.release()
		v.owner, v.elements = nil, nil
	}
	return nil
}

// Len is the number of elements; 0 of a closed view.
func (v *View[T]) Len() int { return len(v.elements) }

// At is element i, counted in the order in which they lie. It panics if there is none.
func (v *View[T]) At(i int) T {
	value := v.elements[i]
	runtime.KeepAlive(v)
	return value
}

// CopyTo copies elements from the first on, as many as to has room for, and returns how many.
func (v *View[T]) CopyTo(to []T) int {
	n := copy(to, v.elements)
	runtime.KeepAlive(v)
	return n
}

// All ranges over indices and elements.
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

// writable is the C library's own refusal if there is no writing.
func writable(view *C.tenon_tensor_view) error {
	if view.data_mut != nil {
		return nil
	}
	var data unsafe.Pointer
	var failure *C.tenon_error
	if status := C.tenon_tensor_data_mut(view.tensor, &data, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// elements checks that memory is a []T before it says so.
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
