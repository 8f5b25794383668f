// Lending memory of a CUDA device by handles that the program passes on itself.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_go_share_cuda
// #cgo noescape tenon_go_open_cuda
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// CUDAAvailable tells whether this process can use CUDA. It returns nil, or an error for
// ErrUnsupported with the reason. The first call starts CUDA's driver, which can take a tenth of a
// second and more. The result is kept until the process ends, except for refusals that can pass.
// The call makes no context.
func CUDAAvailable() error {
	var failure *C.tenon_error
	return check(C.tenon_cuda_available(&failure), &failure)
}

// CUDATransport is the way by which a handle gives access to memory. PyTorch opens CUDAIPC only.
type CUDATransport uint32

// The ways to lend device memory.
const (
	// In a handle: the storage is empty. As an option: the first of the other ways that the driver
	// offers for the memory.
	CUDANoMemory CUDATransport = C.TENON_CUDA_NO_MEMORY
	// An IPC handle (cuIpcGetMemHandle) of memory from cudaMalloc. It is PyTorch's default.
	CUDAIPC CUDATransport = C.TENON_CUDA_IPC
	// An fd for each piece of memory that is mapped piece by piece.
	CUDAFD     CUDATransport = C.TENON_CUDA_FD
	CUDAFabric CUDATransport = C.TENON_CUDA_FABRIC // the fabric handle of one such piece
	CUDAPool   CUDATransport = C.TENON_CUDA_POOL   // an fd of the memory pool
)

// CUDAForm is the layout of an IPC handle's bytes, by the versions of PyTorch that write it. Tenon
// reads all of them.
type CUDAForm uint32

// The forms.
const (
	// PyTorch up to 2.4 writes it. Every later version reads it too, except for some builds of
	// mid-2024.
	CUDAFormA CUDAForm = C.TENON_CUDA_FORM_A
	CUDAFormB CUDAForm = C.TENON_CUDA_FORM_B // those builds of mid-2024
	CUDAFormC CUDAForm = C.TENON_CUDA_FORM_C // PyTorch 2.6 and 2.7
	CUDAFormD CUDAForm = C.TENON_CUDA_FORM_D // PyTorch 2.8 to 2.12
	CUDAFormE CUDAForm = C.TENON_CUDA_FORM_E // PyTorch 2.13 and later
)

// ShareCUDAOptions says how to lend device memory. Nil means the zero value.
type ShareCUDAOptions struct {
	Transport CUDATransport // the way to lend the memory
	Form      CUDAForm      // the layout of an IPC handle
	// Also lend a read-only storage, although its receiver can write to it. Without this option
	// that is ErrPermission.
	LetWrite bool
}

// OpenCUDAOptions says how to open device memory. Nil means the zero value.
type OpenCUDAOptions struct {
	// The device's ordinal in this process's numbering, whatever the handle says. Nil means the
	// handle's device.
	Device *int32
	// The device refuses writes of this process. This works for CUDAFD and CUDAFabric only.
	ReadOnly bool

	// Memory that the driver has opened stays open after its last storage is closed, for the next
	// handle of the same memory, until CUDACollect. Use it only if the sender does not free
	// meanwhile what it lent.
	KeepOpen bool

	// Also open PyTorch's expandable segments from another user's process, if this process has the
	// rights.
	OtherUser bool
}

// CUDAHandle says how to reach device memory. It has the eight items of PyTorch's tuple, and what
// that tuple lacks. It is a plain value, but it is for one receiver, which opens it once. It leads
// to the whole allocation in which the storage lies, and the receiver can read and write all of
// that.
type CUDAHandle struct {
	// Ignored when a handle is opened, because the memory handle says it.
	Transport CUDATransport
	Device    int32 // the device's ordinal in the sender's numbering
	// The UUID of the device, which takes precedence over the ordinal. Nil means that it is not
	// known, as in PyTorch's tuple.
	UUID    *[16]byte
	NBytes  uint64 // the size of the storage in bytes
	Offset  uint64 // bytes from the start of the memory to which the memory handle leads
	Counter string // the name of the counter's file; "" for an empty storage
	Slot    uint64 // the index of the counter in its file
	// True: the bytes are valid once the event is complete. False: they are valid already.
	EventRequired bool
	Event         [64]byte // the event's handle
	Memory        []byte   // the memory handle; empty for an empty storage

	// For CUDAFD and CUDAPool: the fds that must be sent with the handle, in this order. In a
	// handle from ShareCUDA they belong to the library and are open until the storage's last
	// release. A receiver puts its own fds here, and closes them itself.
	FDs []int32
}

// c makes C's form of the handle without the memory handle and the fds, because a struct of Go must
// not point to them.
func (h *CUDAHandle) c() (*C.tenon_cuda_handle, error) {
	given := &C.tenon_cuda_handle{
		struct_size:   C.sizeof_tenon_cuda_handle,
		transport:     C.tenon_cuda_transport(h.Transport),
		device:        C.int32_t(h.Device),
		nbytes:        C.uint64_t(h.NBytes),
		offset:        C.uint64_t(h.Offset),
		slot:          C.uint64_t(h.Slot),
		memory_nbytes: C.uint32_t(len(h.Memory)),
		n_fds:         C.uint32_t(len(h.FDs)),
	}
	if uint64(len(h.Memory)) > math.MaxUint32 || uint64(len(h.FDs)) > math.MaxUint32 {
		return nil, invalid(
			fmt.Sprintf("the memory handle has %d bytes and %d fds", len(h.Memory), len(h.FDs)),
		)
	}
	if h.EventRequired {
		given.event_required = 1
	}
	if h.UUID != nil {
		for i, each := range h.UUID {
			given.uuid[i] = C.uint8_t(each)
		}
	}
	for i, each := range h.Event {
		given.event[i] = C.uint8_t(each)
	}
	if err := fill(given.counter[:], "the counter's name", h.Counter); err != nil {
		return nil, err
	}
	return given, nil
}

// ShareCUDA lends a storage on a CUDA device. No byte is copied. stream is the CUstream or
// cudaStream_t in which the bytes were written, and 0 is the default stream. All work that was
// given to it before the call is complete before the receiver's work begins. The stream is a
// number, because some streams are small numbers (0x2 is that of the calling thread), which Go does
// not allow in a pointer.
func (s *Storage) ShareCUDA(stream uintptr, options *ShareCUDAOptions) (CUDAHandle, error) {
	return ask(s, func(pointer *C.tenon_storage) (CUDAHandle, error) {
		var flags C.uint32_t
		var form CUDAForm
		var transport CUDATransport
		if options != nil {
			form, transport = options.Form, options.Transport
			if options.LetWrite {
				flags = C.TENON_CUDA_LET_WRITE
			}
		}
		out := C.tenon_cuda_handle{struct_size: C.sizeof_tenon_cuda_handle}
		var failure *C.tenon_error
		status := C.tenon_go_share_cuda(
			pointer,
			C.uintptr_t(stream),
			flags,
			C.uint32_t(form),
			C.uint32_t(transport),
			&out,
			&failure,
		)
		if status != C.TENON_OK {
			return CUDAHandle{}, takeError(status, failure)
		}
		handle := CUDAHandle{
			Transport:     CUDATransport(out.transport),
			Device:        int32(out.device),
			NBytes:        uint64(out.nbytes),
			Offset:        uint64(out.offset),
			Counter:       C.GoString(&out.counter[0]),
			Slot:          uint64(out.slot),
			EventRequired: out.event_required != 0,
			Memory:        C.GoBytes(unsafe.Pointer(&out.memory[0]), C.int(out.memory_nbytes)),
		}
		for _, fd := range unsafe.Slice(out.fds, out.n_fds) {
			handle.FDs = append(handle.FDs, int32(fd))
		}
		for i, each := range out.event {
			handle.Event[i] = byte(each)
		}
		if out.uuid != [16]C.uint8_t{} {
			handle.UUID = new([16]byte)
			for i, each := range out.uuid {
				handle.UUID[i] = byte(each)
			}
		}
		return handle, nil
	})
}

// OpenCUDA opens device memory that Tenon or PyTorch lends. If this process already holds the same
// bytes, or sent them, the result is the same storage. Work that is given to stream after the call
// waits for the sender's work, on the device. The storage counts as used in that stream. After its
// last release, the memory is given back to the sender once the work in the streams is complete.
func OpenCUDA(handle CUDAHandle, stream uintptr, options *OpenCUDAOptions) (*Storage, error) {
	collect()
	given, err := handle.c()
	if err != nil {
		return nil, err
	}
	var flags C.uint32_t
	var device C.int32_t
	if options != nil && options.Device != nil {
		flags, device = C.TENON_CUDA_ON_DEVICE, C.int32_t(*options.Device)
	}
	if options != nil && options.ReadOnly {
		flags |= C.TENON_CUDA_READ_ONLY
	}
	if options != nil && options.KeepOpen {
		flags |= C.TENON_CUDA_KEEP_OPEN
	}
	if options != nil && options.OtherUser {
		flags |= C.TENON_CUDA_OTHER_USER
	}
	var out *C.tenon_storage
	var failure *C.tenon_error
	memory, fds := (*C.uint8_t)(
		unsafe.SliceData(handle.Memory),
	), (*C.int32_t)(
		unsafe.SliceData(handle.FDs),
	)
	status := C.tenon_go_open_cuda(
		given,
		memory,
		fds,
		C.uintptr_t(stream),
		flags,
		device,
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}

// ReleaseCUDACounter gives up a handle that its receiver will not open, so that the sender gets its
// memory back. The counter changes as if the handle had been opened and its storage closed. counter
// and slot are fields of the handle. No CUDA is needed. If the counter's file is gone with its
// sender, the call does nothing.
func ReleaseCUDACounter(counter string, slot uint64) error {
	if err := checkText("the counter's name", counter); err != nil {
		return err
	}
	text := C.CString(counter)
	defer C.free(unsafe.Pointer(text))
	var failure *C.tenon_error
	if status := C.tenon_release_cuda_counter(
		text, C.uint64_t(slot), &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// RecordStream records that work in a stream uses a storage on a CUDA device. The memory is not
// given back before all work is complete that was given to the stream until the storage's last
// release. The host does not wait for it. The stream must exist until then.
func (s *Storage) RecordStream(stream uintptr) error {
	return run(s, func(pointer *C.tenon_storage, failure **C.tenon_error) C.tenon_status {
		return C.tenon_go_record_stream(
			pointer, C.uintptr_t(stream), failure,
		)
	})
}

// OrderStream lets a stream wait for the other streams in which the storage is used. Work that is
// given to the stream after the call begins when the work is complete that was given to those
// streams before the call. A program that uses the storage in yet another stream calls it. The host
// does not wait, and the stream is not recorded.
func (s *Storage) OrderStream(stream uintptr) error {
	return run(s, func(pointer *C.tenon_storage, failure **C.tenon_error) C.tenon_status {
		return C.tenon_go_order_stream(
			pointer, C.uintptr_t(stream), failure,
		)
	})
}

// CUDACollect gives back device memory that nobody uses any more. It checks all memory that was
// released here and still had a receiver or a stream, and closes memory that was only kept open. It
// returns how many storages have memory that must still wait.
func CUDACollect() uint64 {
	collect()
	return uint64(C.tenon_cuda_collect())
}

// forHost refuses to give out bytes of a device, because their address means nothing to the host.
func forHost(device C.tenon_device) error {
	if device._type == 1 { // the CPU: no call, because a reader may have thousands of tensors
		return nil
	}
	var failure *C.tenon_error
	return check(C.tenon_device_check_host(device, &failure), &failure)
}
