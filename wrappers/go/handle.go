// The handle inside every type of the package: one reference of the C library, its users, its end.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

type kind uint8

const (
	kindStorage kind = iota
	kindWeak
	kindTensor
	kindMessage
	kindConnection
	kindDescriptor
	kindArena
	kindValue
	kindModule
	kindCUDAEvent
	kindCUDAArena
	kindDeposit
	kindFetched
	kindComposite
	kindPackage
	kindWeights
	kindSharedWeights
	kindQueue
	kindPublisher
	kindSubscriber
)

var kindNames = [...]string{
	"Storage", "WeakRef", "Tensor", "Message", "Connection", "Descriptor", "Arena", "Value",
	"Module", "CUDAEvent", "CUDAArena", "Deposit", "Fetched", "Composite", "Package", "Weights",
	"SharedWeights", "Queue", "Publisher", "Subscriber",
}

// reference is one counted reference of the C library, which must be given back once.
type reference struct {
	pointer unsafe.Pointer
	kind    kind
}

func (r reference) giveBack() {
	switch r.kind {
	case kindStorage:
		C.tenon_storage_release((*C.tenon_storage)(r.pointer))
	case kindWeak:
		C.tenon_weak_release((*C.tenon_weak)(r.pointer))
	case kindTensor:
		C.tenon_tensor_release((*C.tenon_tensor)(r.pointer))
	case kindMessage:
		C.tenon_message_release((*C.tenon_message)(r.pointer))
	case kindConnection:
		C.tenon_connection_release((*C.tenon_connection)(r.pointer))
	case kindDescriptor:
		C.tenon_descriptor_release((*C.tenon_descriptor)(r.pointer))
	case kindArena:
		C.tenon_arena_release((*C.tenon_arena)(r.pointer))
	case kindValue:
		C.tenon_value_release((*C.tenon_value)(r.pointer))
	case kindModule:
		C.tenon_module_release((*C.tenon_module)(r.pointer))
	case kindCUDAEvent:
		C.tenon_cuda_event_release((*C.tenon_cuda_event)(r.pointer))
	case kindCUDAArena:
		C.tenon_cuda_arena_release((*C.tenon_cuda_arena)(r.pointer))
	case kindDeposit:
		C.tenon_deposit_release((*C.tenon_deposit)(r.pointer))
	case kindFetched:
		C.tenon_fetched_release((*C.tenon_fetched)(r.pointer))
	case kindComposite:
		C.tenon_composite_release((*C.tenon_composite)(r.pointer))
	case kindPackage:
		C.tenon_package_release((*C.tenon_package)(r.pointer))
	case kindWeights:
		C.tenon_weights_release((*C.tenon_weights)(r.pointer))
	case kindSharedWeights:
		C.tenon_shared_weights_release((*C.tenon_shared_weights)(r.pointer))
	case kindQueue:
		C.tenon_queue_release((*C.tenon_queue)(r.pointer))
	case kindPublisher:
		C.tenon_publisher_release((*C.tenon_publisher)(r.pointer))
	case kindSubscriber:
		C.tenon_subscriber_release((*C.tenon_subscriber)(r.pointer))
	}
}

const closedBit = 1 << 31

// handle is part of every type of the package and holds one reference. The reference is given back
// when Close was called and the last call that uses it has ended, or when the collector finds the
// handle unreachable. So neither Close in another goroutine nor a collection frees memory under a
// call.
type handle struct {
	reference
	state   atomic.Uint32 // closedBit, and the number of users
	cleanup runtime.Cleanup
}

// own makes the new handle h the owner of a reference.
func (h *handle) own(kind kind, pointer unsafe.Pointer) {
	h.reference = reference{pointer, kind}
	h.cleanup = runtime.AddCleanup(h, reference.giveBack, h.reference)
}

// acquire begins a use, and release ends it. For nil and for a zero value it gives NULL, and the C
// library answers for that.
func (h *handle) acquire() (unsafe.Pointer, error) {
	collect()
	if h == nil {
		return nil, nil
	}
	for {
		state := h.state.Load()
		if state&closedBit != 0 {
			return nil, closedError(kindNames[h.kind])
		}
		if h.state.CompareAndSwap(state, state+1) {
			return h.pointer, nil
		}
	}
}

func (h *handle) release() {
	collect()
	if h != nil && h.state.Add(^uint32(0)) == closedBit {
		h.giveBack()
	}
}

// Close gives the object back. A second Close does nothing. If a call uses the object in another
// goroutine, the object is freed when that call ends. Close never fails.
func (h *handle) Close() error {
	h.close()
	return nil
}

func (h *handle) close() (closed bool) {
	collect()
	if h == nil {
		return false
	}
	for {
		state := h.state.Load()
		if state&closedBit != 0 {
			return false
		}
		if h.state.CompareAndSwap(state, state|closedBit) {
			if h.pointer != nil {
				h.cleanup.Stop()
			}
			if state == 0 {
				h.giveBack()
			}
			return true
		}
	}
}

// Closed says whether Close was called.
func (h *handle) Closed() bool { return h != nil && h.state.Load()&closedBit != 0 }

// user is a type of the package whose uses begin and end. P is the C library's pointer for it.
type user[P any] interface {
	begin() (P, error)
	end()
}

// get reads something of an object that no failure can hide: after Close it gives the zero value.
func get[H user[P], P, T any](h H, read func(pointer P) T) (none T) {
	pointer, err := h.begin()
	if err != nil {
		return none
	}
	defer h.end()
	return read(pointer)
}

// ask makes a call on an object that gives a result or an error. The object is in use meanwhile.
func ask[H user[P], P, T any](h H, call func(pointer P) (T, error)) (none T, err error) {
	pointer, err := h.begin()
	if err != nil {
		return none, err
	}
	defer h.end()
	return call(pointer)
}

// run makes a call of the C library on an object that gives nothing but an error.
func run[H user[P], P any](
	h H, call func(pointer P, failure **C.tenon_error) C.tenon_status,
) error {
	pointer, err := h.begin()
	if err != nil {
		return err
	}
	defer h.end()
	var failure *C.tenon_error
	return check(call(pointer, &failure), &failure)
}

// query is what a call of the C library takes that reads something of an object.
type query[P, T any] struct {
	pointer P
	out     *T
	failure **C.tenon_error
}
