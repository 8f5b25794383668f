// CUDA events: marks in streams, with which a program orders the work of streams and processes.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_cuda_event_new
// #cgo nocallback tenon_cuda_event_new
// #cgo noescape tenon_cuda_event_from_ipc_handle
// #cgo nocallback tenon_cuda_event_from_ipc_handle
// #cgo noescape tenon_cuda_event_query
// #cgo nocallback tenon_cuda_event_query
// #cgo noescape tenon_cuda_event_ipc_handle
// #cgo nocallback tenon_cuda_event_ipc_handle
import "C"

import (
	"context"
	"unsafe"
)

// CUDAEvent is a mark in a CUDA stream. It is complete when all work is complete that was given to
// the stream before the mark. Streams of this process and of others can wait for it on the device,
// and the host can query it or wait for it. It belongs to its device's primary context, which
// CUDA's runtime uses and therefore every framework. Any goroutine may use an event. Streams are
// numbers, as in ShareCUDA. Events do not measure time.
type CUDAEvent struct{ handle }

// CUDAEventOptions says how to make an event. Nil means the zero value.
type CUDAEventOptions struct {
	Device       int32 // the device's ordinal in this process's numbering
	Interprocess bool  // the event has an IPC handle, with which other processes open it
}

func cudaEventOptions(device int32) C.tenon_cuda_event_options {
	return C.tenon_cuda_event_options{
		struct_size: C.sizeof_tenon_cuda_event_options,
		device:      C.int32_t(device),
	}
}

func newCUDAEvent(pointer *C.tenon_cuda_event) *CUDAEvent {
	e := new(CUDAEvent)
	e.own(kindCUDAEvent, unsafe.Pointer(pointer))
	return e
}

func (e *CUDAEvent) begin() (*C.tenon_cuda_event, error) {
	pointer, err := e.acquire()
	return (*C.tenon_cuda_event)(pointer), err
}

func (e *CUDAEvent) end() { e.release() }

// NewCUDAEvent makes an event. The event is complete until it is recorded.
func NewCUDAEvent(options *CUDAEventOptions) (*CUDAEvent, error) {
	collect()
	given := cudaEventOptions(0)
	if options != nil {
		given.device = C.int32_t(options.Device)
		if options.Interprocess {
			given.flags = C.TENON_CUDA_EVENT_INTERPROCESS
		}
	}
	var out *C.tenon_cuda_event
	var failure *C.tenon_error
	if status := C.tenon_cuda_event_new(&given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newCUDAEvent(out), nil
}

// OpenCUDAEvent opens an event of another process, on the device where it was made. Both events are
// then the same mark, whichever process records it. The process that made the event cannot open it,
// and must keep it until all others have closed it.
func OpenCUDAEvent(handle [64]byte, device int32) (*CUDAEvent, error) {
	collect()
	given := cudaEventOptions(device)
	var out *C.tenon_cuda_event
	var failure *C.tenon_error
	status := C.tenon_cuda_event_from_ipc_handle((*C.uint8_t)(&handle[0]), &given, &out, &failure)
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newCUDAEvent(out), nil
}

// Record marks the work that was given to the stream before the call. An older mark is forgotten.
// The stream must belong to the event's device.
func (e *CUDAEvent) Record(stream uintptr) error {
	return run(e, func(event *C.tenon_cuda_event, failure **C.tenon_error) C.tenon_status {
		return C.tenon_go_cuda_event_record(event, C.uintptr_t(stream), failure)
	})
}

// Wait lets the work that is given to the stream after the call wait for the mark that was recorded
// last. The host does not wait.
func (e *CUDAEvent) Wait(stream uintptr) error {
	return run(e, func(event *C.tenon_cuda_event, failure **C.tenon_error) C.tenon_status {
		return C.tenon_go_cuda_event_wait(event, C.uintptr_t(stream), failure)
	})
}

// Query says whether the event is complete. An event that nobody has recorded is complete.
func (e *CUDAEvent) Query() (bool, error) {
	return ask(e, func(event *C.tenon_cuda_event) (bool, error) {
		var out C.int
		var failure *C.tenon_error
		status := C.tenon_cuda_event_query(event, &out, &failure)
		return out != 0, check(status, &failure)
	})
}

// Synchronize waits on the host until the event is complete or ctx ends. If ctx is already done, it
// returns at once.
func (e *CUDAEvent) Synchronize(ctx context.Context) error {
	event, err := e.begin()
	if err != nil {
		return err
	}
	defer e.end()
	return wait(
		ctx,
		nil,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return C.tenon_go_cuda_event_synchronize(event, timeout, cancel, failure)
		},
	)
}

// IPCHandle gives the handle with which other processes open the event. It is the same in each
// call.
func (e *CUDAEvent) IPCHandle() ([64]byte, error) {
	return ask(e, func(event *C.tenon_cuda_event) (out [64]byte, err error) {
		var failure *C.tenon_error
		status := C.tenon_cuda_event_ipc_handle(event, (*C.uint8_t)(&out[0]), &failure)
		return out, check(status, &failure)
	})
}
