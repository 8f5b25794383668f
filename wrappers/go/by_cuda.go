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

// CUDAAvailable tells whether this process can use CUDA: nil, or an error for ErrUnsupported with
// the reason. The first call starts CUDA's driver, and can take a tenth of a second and more; what
// came of it is kept until the process ends, but for refusals that can pass. No context is made.
func CUDAAvailable() error {
	var failure *C.tenon_error
	if status := C.tenon_cuda_available(&failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// CUDATransport is by which way a handle leads to the memory. PyTorch opens CUDAIPC only.
type CUDATransport uint32

// The ways.
const (
	// Of an empty storage; as an option: the first of the others by which it can travel.
	CUDANoMemory CUDATransport = C.TENON_CUDA_NO_MEMORY
	// cuIpcGetMemHandle: of cudaMalloc's memory; PyTorch's default.
	CUDAIPC CUDATransport = C.TENON_CUDA_IPC
	// An fd for each piece of memory that is mapped piece by piece.
	CUDAFD     CUDATransport = C.TENON_CUDA_FD
	CUDAFabric CUDATransport = C.TENON_CUDA_FABRIC // the fabric handle of one such piece
	CUDAPool   CUDATransport = C.TENON_CUDA_POOL   // an fd of the memory pool
)

// CUDAForm is the bytes of the memory handle, by the versions of PyTorch that write them. All are
// read.
type CUDAForm uint32

// The forms.
const (
	// Up to 2.4; every later one reads it too, but for some builds of mid-2024.
	CUDAFormA CUDAForm = C.TENON_CUDA_FORM_A
	CUDAFormB CUDAForm = C.TENON_CUDA_FORM_B // those builds
	CUDAFormC CUDAForm = C.TENON_CUDA_FORM_C // 2.6, 2.7
	CUDAFormD CUDAForm = C.TENON_CUDA_FORM_D // 2.8 to 2.12
	CUDAFormE CUDAForm = C.TENON_CUDA_FORM_E // 2.13 and later
)

// ShareCUDAOptions says how device memory is lent. Nil: the zero value.
type ShareCUDAOptions struct {
	Transport CUDATransport // the way to take
	Form      CUDAForm      // of an IPC handle
	// A read-only storage, too, though its receiver can write it: else that is ErrPermission.
	LetWrite bool
}

// OpenCUDAOptions says how device memory is opened. Nil: the zero value.
type OpenCUDAOptions struct {
	// Ordinal in this process's numbering, whatever the handle says; nil: the handle's.
	Device *int32
	// So that the device refuses this process's writes; by CUDAFD and CUDAFabric only.
	ReadOnly bool

	// What the driver opened stays so when its last storage has gone, for the next handle of the
	// same memory, until CUDACollect. For senders that do not free meanwhile what they lent.
	KeepOpen bool

	// Fetch PyTorch's expandable segments from another user's process, too, with the rights of this
	// one.
	OtherUser bool
}

// CUDAHandle is how to reach device memory: the eight items of PyTorch's tuple, and what it lacks.
// A value, but for one receiver, who opens it once. It leads to the whole allocation in which the
// storage lies, so its receiver can read and write all of that.
type CUDAHandle struct {
	// Of a handle that is opened not looked at: the memory handle says it.
	Transport CUDATransport
	Device    int32 // ordinal in the sender's numbering
	// Of the device, which wins over the ordinal; nil: not known, as in PyTorch's tuple.
	UUID    *[16]byte
	NBytes  uint64 // bytes of the storage
	Offset  uint64 // bytes from where the memory handle leads
	Counter string // name of the counter's file; "" for an empty storage
	Slot    uint64 // index of the counter in its file
	// The bytes are good once the event has passed; else they are already.
	EventRequired bool
	Event         [64]byte // the event's handle
	Memory        []byte   // the memory handle; none for an empty storage

	// CUDAFD, CUDAPool: the fds that go with it, to be sent in this order. Of a lent storage they
	// are the library's, and open until its last release; a receiver puts its own here, and closes
	// them itself.
	FDs []int32
}

// c leaves out the memory handle and the fds, to which a struct of Go's must not point.
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
// cudaStream_t in which the bytes were written, 0 for the default one: what was given to it until
// now is done before work of the receiver's begins. It is a number, since some streams are (0x2 is
// that of the calling thread), which Go allows in no pointer.
func (s *Storage) ShareCUDA(stream uintptr, options *ShareCUDAOptions) (CUDAHandle, error) {
	pointer, err := s.begin()
	if err != nil {
		return CUDAHandle{}, err
	}
	defer s.end()
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
}

// OpenCUDA opens device memory that Tenon or PyTorch lends. Bytes that this process holds already,
// or that it sent, come back as the same storage. What is given to stream from now on waits for the
// sender's work, on the device; the storage counts as used in that stream. Its last release, once
// the streams have passed, gives the memory back to the sender.
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

// ReleaseCUDACounter takes a message back that will not be opened, on its receiver's side: what
// opening and closing it would do to its counter. counter and slot are the handle's. Needs no CUDA.
// Of a file that is gone with its sender: nothing.
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

// RecordStream says that work in that stream uses a storage on a CUDA device: what was given to it
// until the storage's last release has passed before the memory is given back. The host does not
// wait for it. The stream must be there until then.
func (s *Storage) RecordStream(stream uintptr) error {
	pointer, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	var failure *C.tenon_error
	if status := C.tenon_go_record_stream(
		pointer, C.uintptr_t(stream), &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// OrderStream lets what is given to that stream from now on come after what was given until now to
// the streams in which the storage is used: for whoever uses it in yet another stream. The host
// does not wait, and the stream is not recorded.
func (s *Storage) OrderStream(stream uintptr) error {
	pointer, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	var failure *C.tenon_error
	if status := C.tenon_go_order_stream(
		pointer, C.uintptr_t(stream), &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// CUDACollect gives device memory back that nobody uses any more: it looks at all that was released
// here and still had a receiver or a stream, and closes what was only kept open. It returns how
// many storages' memory waits on.
func CUDACollect() uint64 {
	collect()
	return uint64(C.tenon_cuda_collect())
}

// forHost refuses bytes of a device: an address there is none for a slice.
func forHost(device C.tenon_device) error {
	if device._type == 1 { // the CPU, of which there are thousands to be read without a call each
		return nil
	}
	var failure *C.tenon_error
	if status := C.tenon_device_check_host(device, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}
