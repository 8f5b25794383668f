package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_storage_new
// #cgo noescape tenon_storage_new_from
// #cgo noescape tenon_storage_data_mut
// #cgo nocallback tenon_storage_data_mut
// #cgo noescape tenon_storage_write
// #cgo noescape tenon_storage_read
// #cgo noescape tenon_storage_freeze
import "C"

import (
	"context"
	"fmt"
	"io"
	"unsafe"
)

// Mode says who may write to a shared storage. It is chosen at birth, because the kernel's seals
// belong to the memory and not to a lend.
type Mode uint32

// The modes.
const (
	Shared Mode = C.TENON_MODE_SHARED // lender and borrowers write
	// Only the lender writes; borrowers cannot, whatever they try.
	LenderWrites Mode = C.TENON_MODE_LENDER_WRITES
	// Filled with WriteAt, then frozen: nobody writes again, the lender included.
	Frozen Mode = C.TENON_MODE_FROZEN
)

// String is the mode's name, as in "lender_writes".
func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case LenderWrites:
		return "lender_writes"
	case Frozen:
		return "frozen"
	}
	return fmt.Sprintf("Mode(%d)", uint32(m))
}

// StorageOptions says how a storage is made. Nil, and the zero value: Shared, in the arena, 64-byte
// aligned.
type StorageOptions struct {
	Mode      Mode
	Isolated  bool   // a segment of its own: a borrower can reach nothing but this storage
	Private   bool   // ordinary memory of this process; cannot be lent
	Zeroed    bool   // all bytes 0 at birth
	Alignment uint64 // bytes, a power of two up to 4096; 0: 64
	Arena     *Arena // where it is born, in the arena's mode; nil: in the library's own

	// The caller promises to write all bytes before it lends or reads them, so a reused block that
	// was lent before is not cleared. If the promise is broken, a borrower can read bytes that were
	// lent to another borrower. Together with Zeroed it is an error.
	WillFill bool

	// How long a full arena is waited for: until this is done. Nil: not at all. The error's detail
	// "holders" says who holds what.
	Wait context.Context
}

// begin gives what C is told, until end.
func (o *StorageOptions) begin() (C.tenon_storage_options, error) {
	options := C.tenon_storage_options{struct_size: C.sizeof_tenon_storage_options}
	if o == nil {
		return options, nil
	}
	arena, err := o.Arena.begin()
	if err != nil {
		return options, err
	}
	options.arena = arena
	options.mode = C.tenon_mode(o.Mode)
	options.alignment = C.uint64_t(o.Alignment)
	if o.Isolated {
		options.flags |= C.TENON_STORAGE_ISOLATED
	}
	if o.Private {
		options.flags |= C.TENON_STORAGE_PRIVATE
	}
	if o.Zeroed {
		options.flags |= C.TENON_STORAGE_ZEROED
	}
	if o.WillFill {
		options.flags |= C.TENON_STORAGE_WILL_FILL
	}
	return options, nil
}

func (o *StorageOptions) end() {
	if o != nil {
		o.Arena.end()
	}
}

func (o *StorageOptions) waits() bool { return o != nil && o.Wait != nil }

// Device is where bytes lie, in DLPack's numbers: Type 1 is the CPU, 2 a CUDA device.
type Device struct {
	Type int32
	ID   int32
}

// Storage is counted, contiguous bytes on one device, born shareable. Any goroutine may use it; who
// orders reads and writes of the bytes is the users' affair. Its methods that return no error
// return zero values once it is closed.
type Storage struct{ handle }

func newStorage(pointer *C.tenon_storage) *Storage {
	s := new(Storage)
	s.own(kindStorage, unsafe.Pointer(pointer))
	return s
}

// begin starts a use of a storage, which release ends. Of nil it gives the C library's NULL.
func (s *Storage) begin() (*C.tenon_storage, error) {
	if s == nil {
		return nil, nil
	}
	pointer, err := s.acquire()
	return (*C.tenon_storage)(pointer), err
}

func (s *Storage) end() {
	if s != nil {
		s.release()
	}
}

// NewStorage makes a storage of nbytes bytes. Its memory is reserved before this returns: a full
// machine is an error here. The bytes are zero when the memory is fresh, and unspecified when a
// block is used again.
func NewStorage(nbytes uint64, options *StorageOptions) (*Storage, error) {
	collect()
	given, err := options.begin()
	if err != nil {
		return nil, err
	}
	defer options.end()
	if options.waits() {
		return waitForStorage(
			options.Wait,
			func(
				timeout C.int64_t, cancel *C.tenon_cancel, out **C.tenon_storage,
				failure **C.tenon_error,
			) C.tenon_status {
				return C.tenon_go_storage_new(
					given,
					C.uint64_t(nbytes),
					timeout,
					cancel,
					out,
					failure,
				)
			},
		)
	}
	var out *C.tenon_storage
	var failure *C.tenon_error
	if status := C.tenon_storage_new(
		&given, C.uint64_t(nbytes), &out, &failure,
	); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}

// NewStorageFrom makes a storage that holds a copy of data. With Mode Frozen it comes back frozen.
func NewStorageFrom(data []byte, options *StorageOptions) (*Storage, error) {
	collect()
	given, err := options.begin()
	if err != nil {
		return nil, err
	}
	defer options.end()
	if options.waits() {
		return waitForStorage(
			options.Wait,
			func(
				timeout C.int64_t, cancel *C.tenon_cancel, out **C.tenon_storage,
				failure **C.tenon_error,
			) C.tenon_status {
				return C.tenon_go_storage_new_from(
					given,
					unsafe.Pointer(unsafe.SliceData(data)),
					C.uint64_t(len(data)),
					timeout,
					cancel,
					out,
					failure,
				)
			},
		)
	}
	var out *C.tenon_storage
	var failure *C.tenon_error
	status := C.tenon_storage_new_from(
		&given,
		unsafe.Pointer(unsafe.SliceData(data)),
		C.uint64_t(len(data)),
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}

// waitForStorage runs step, which waits for room in an arena.
func waitForStorage(
	ctx context.Context,
	step func(
		timeout C.int64_t, cancel *C.tenon_cancel, out **C.tenon_storage, failure **C.tenon_error,
	) C.tenon_status,
) (*Storage, error) {
	var out *C.tenon_storage
	err := wait(
		ctx,
		nil,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return step(timeout, cancel, &out, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	return newStorage(out), nil
}

// StorageAt finds the storage that has the nbytes bytes at an address, and how many bytes into it
// they begin. Use it for an address that comes back from another library. A storage is found once
// its address was given out, as by Bytes or DLPack. Private and empty storages are not found:
// ErrNotFound. The address is not dereferenced.
func StorageAt(address uintptr, nbytes uint64) (*Storage, uint64, error) {
	collect()
	var out *C.tenon_storage
	var offset C.uint64_t
	var failure *C.tenon_error
	if status := C.tenon_go_storage_at(
		C.uintptr_t(address), C.uint64_t(nbytes), &out, &offset, &failure,
	); status != C.TENON_OK {
		return nil, 0, takeError(status, failure)
	}
	return newStorage(out), uint64(offset), nil
}

// Retain gives another object for the same storage, with a reference of its own to close.
func (s *Storage) Retain() (*Storage, error) {
	pointer, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	if pointer == nil {
		return nil, invalid("the storage is nil")
	}
	return newStorage(C.tenon_storage_retain(pointer)), nil
}

// Bytes gives the bytes themselves, to read and write: ErrPermission if the storage is read-only,
// ErrUnsupported if it is on a device. The slice does not keep the storage alive: use it only while
// the storage is open and reachable (runtime.KeepAlive), or let WithBytes see to that.
func (s *Storage) Bytes() ([]byte, error) {
	pointer, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := forHost(C.tenon_storage_device(pointer)); err != nil {
		return nil, err
	}
	var data unsafe.Pointer
	var failure *C.tenon_error
	if status := C.tenon_storage_data_mut(pointer, &data, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return bytesAt(data, uint64(C.tenon_storage_nbytes(pointer)))
}

// ReadOnlyBytes gives the bytes themselves, to read; as Bytes otherwise. Go has no read-only
// slices: a write through this one may be seen by every borrower, and if the memory is read-only it
// ends the program with a fault that recover does not catch.
func (s *Storage) ReadOnlyBytes() ([]byte, error) {
	pointer, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	if err := forHost(C.tenon_storage_device(pointer)); err != nil {
		return nil, err
	}
	data := C.tenon_storage_data(pointer)
	if data == nil {
		if err := checkLender(pointer); err != nil {
			return nil, err
		}
	}
	return bytesAt(data, uint64(C.tenon_storage_nbytes(pointer)))
}

// checkLender is for a storage that gives out no bytes: it is empty, or was dropped with its
// lender.
func checkLender(storage *C.tenon_storage) error {
	var failure *C.tenon_error
	if status := C.tenon_storage_check_lender(storage, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// WithBytes calls use with the bytes, to read and write. Whatever closes the storage meanwhile,
// they stay until use returns; not longer.
func (s *Storage) WithBytes(use func(data []byte) error) error {
	if _, err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	data, err := s.Bytes()
	if err != nil {
		return err
	}
	return use(data)
}

func bytesAt(data unsafe.Pointer, nbytes uint64) ([]byte, error) {
	if nbytes == 0 || data == nil {
		return []byte{}, nil
	}
	count, err := fitting(nbytes)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(data), count), nil
}

// fitting is the number as an int, which on small machines cannot count as far.
func fitting(count uint64) (int, error) {
	if int(count) < 0 || uint64(int(count)) != count {
		return 0, invalid(fmt.Sprintf("%d elements are more than a slice can have", count))
	}
	return int(count), nil
}

// WriteAt copies data into the storage, offset bytes from its start: the only way to fill a Frozen
// one. It is io.WriterAt's; after an error some of the bytes may have been written.
func (s *Storage) WriteAt(data []byte, offset int64) (int, error) {
	pointer, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer s.end()
	if offset < 0 {
		return 0, invalid(fmt.Sprintf("offset %d is negative", offset))
	}
	var failure *C.tenon_error
	status := C.tenon_storage_write(
		pointer,
		C.uint64_t(offset),
		unsafe.Pointer(unsafe.SliceData(data)),
		C.uint64_t(len(data)),
		&failure,
	)
	if status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return len(data), nil
}

// ReadAt copies bytes out of the storage, offset bytes from its start, into data. It is
// io.ReaderAt's: at the end it gives what there is, and io.EOF. If the file under an unsealed
// storage was cut short it gives an error, where a slice of Bytes would meet SIGBUS.
func (s *Storage) ReadAt(data []byte, offset int64) (int, error) {
	pointer, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer s.end()
	if offset < 0 {
		return 0, invalid(fmt.Sprintf("offset %d is negative", offset))
	}
	var short error
	if nbytes := uint64(C.tenon_storage_nbytes(pointer)); uint64(offset) > nbytes {
		data, offset, short = nil, 0, io.EOF
	} else if left := nbytes - uint64(offset); uint64(len(data)) > left {
		data, short = data[:left], io.EOF
	}
	var failure *C.tenon_error
	status := C.tenon_storage_read(
		pointer,
		C.uint64_t(offset),
		unsafe.Pointer(unsafe.SliceData(data)),
		C.uint64_t(len(data)),
		&failure,
	)
	if status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return len(data), short
}

// Freeze ends the filling of a Frozen storage: the kernel refuses every later write, by anybody.
// Only then can it be lent.
func (s *Storage) Freeze() error {
	pointer, err := s.begin()
	if err != nil {
		return err
	}
	defer s.end()
	var failure *C.tenon_error
	if status := C.tenon_storage_freeze(pointer, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// NBytes is the size in bytes.
func (s *Storage) NBytes() uint64 {
	pointer, err := s.begin()
	if err != nil {
		return 0
	}
	defer s.end()
	return uint64(C.tenon_storage_nbytes(pointer))
}

// Device is where the bytes lie.
func (s *Storage) Device() Device {
	pointer, err := s.begin()
	if err != nil {
		return Device{}
	}
	defer s.end()
	device := C.tenon_storage_device(pointer)
	return Device{int32(device._type), int32(device.id)}
}

// Mode is the mode chosen at birth or, of an opened storage, the one that the segment's seals
// enforce.
func (s *Storage) Mode() Mode {
	pointer, err := s.begin()
	if err != nil {
		return 0
	}
	defer s.end()
	return Mode(C.tenon_storage_mode(pointer))
}

// IsReadOnly says whether this process must not write to the bytes through memory.
func (s *Storage) IsReadOnly() bool {
	pointer, err := s.begin()
	if err != nil {
		return false
	}
	defer s.end()
	return C.tenon_storage_is_read_only(pointer) != 0
}

// IsShared says whether the bytes lie in memory that can be lent.
func (s *Storage) IsShared() bool {
	pointer, err := s.begin()
	if err != nil {
		return false
	}
	defer s.end()
	return C.tenon_storage_is_shared(pointer) != 0
}

// IsSealed says whether the kernel holds the segment's size, so that reading can never meet SIGBUS.
func (s *Storage) IsSealed() bool {
	pointer, err := s.begin()
	if err != nil {
		return false
	}
	defer s.end()
	return C.tenon_storage_is_sealed(pointer) != 0
}

// SameMemory says whether both lie over the same bytes, whatever the access.
func (s *Storage) SameMemory(other *Storage) bool {
	pointer, err := s.begin()
	if err != nil {
		return false
	}
	defer s.end()
	second, err := other.begin()
	if err != nil {
		return false
	}
	defer other.end()
	return C.tenon_storage_same_memory(pointer, second) != 0
}

// ID is a number that no other storage of this process ever has: fit for a map's key. Two objects
// of one storage have the same.
func (s *Storage) ID() uint64 {
	pointer, err := s.begin()
	if err != nil {
		return 0
	}
	defer s.end()
	return uint64(C.tenon_storage_id(pointer))
}

// UseCount is how many strong references there are at this moment, for tests and debugging.
func (s *Storage) UseCount() uint64 {
	pointer, err := s.begin()
	if err != nil {
		return 0
	}
	defer s.end()
	return uint64(C.tenon_storage_use_count(pointer))
}
