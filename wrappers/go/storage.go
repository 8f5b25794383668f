// Storages: the memory that the package lends. Every other file of the package gives or takes them.

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

// Mode says who may write to a shared storage. The mode is chosen when the storage is made, because
// the kernel's seals belong to the memory and not to a single lend.
type Mode uint32

// The modes.
const (
	Shared Mode = C.TENON_MODE_SHARED // the lender and its borrowers write
	// Only the lender writes. The kernel refuses every write of a borrower.
	LenderWrites Mode = C.TENON_MODE_LENDER_WRITES
	// WriteAt fills the storage, and Freeze ends the filling. Then nobody can write to it any more,
	// not even the lender.
	Frozen Mode = C.TENON_MODE_FROZEN
)

// String returns the name of the mode, such as "lender_writes".
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

// StorageOptions says how to make a storage. Nil and the zero value mean mode Shared, the default
// home and an alignment of 64 bytes.
type StorageOptions struct {
	Mode      Mode
	Isolated  bool   // gets a segment of its own, so that a borrower reaches only this storage
	Private   bool   // lies in ordinary memory of this process, and cannot be lent
	Zeroed    bool   // all bytes are 0 at first
	Alignment uint64 // in bytes, a power of two up to 4096; 0 means 64
	Arena     *Arena // gives the storage its memory and its mode; nil means the default home

	// The caller promises to write all bytes before it lends or reads them. So a reused block that
	// was lent before is not cleared. If the caller breaks the promise, a borrower can read bytes
	// that were lent to another borrower. WillFill together with Zeroed is an error.
	WillFill bool

	// How long to wait for room if Arena is full: until this context ends. Nil means not to wait.
	// The error's detail "holders" names the processes that hold leases.
	Wait context.Context
}

// begin makes C's form of the options. The arena is in use until end.
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

// Device is a device in DLPack's numbers: Type 1 is the CPU, and Type 2 is a CUDA device.
type Device struct {
	Type int32
	ID   int32
}

// Storage is a contiguous range of bytes on one device, with a reference count. Its memory can be
// lent from the start. Any goroutine may use a Storage, but the goroutines must order their own
// reads and writes of the bytes. After Close, the methods that return no error return zero values.
type Storage struct{ handle }

func newStorage(pointer *C.tenon_storage) *Storage {
	s := new(Storage)
	s.own(kindStorage, unsafe.Pointer(pointer))
	return s
}

// begin starts a use of the storage, and end ends it. For a nil storage it gives the C library's
// NULL.
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

// NewStorage makes a storage of nbytes bytes. It reserves the memory before it returns, so a
// machine without free memory causes an error of this call and not a SIGBUS later. The bytes are
// zero if the memory is fresh, and unspecified if a block is reused.
func NewStorage(nbytes uint64, options *StorageOptions) (*Storage, error) {
	collect()
	given, err := options.begin()
	if err != nil {
		return nil, err
	}
	defer options.end()
	if options.waits() {
		return waitFor(options.Wait, newStorage, func(w waiting[*C.tenon_storage]) C.tenon_status {
			return C.tenon_go_storage_new(
				given,
				C.uint64_t(nbytes),
				w.timeout,
				w.cancel,
				w.out,
				w.failure,
			)
		})
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

// NewStorageFrom makes a storage that holds a copy of data. In mode Frozen the storage is frozen
// already.
func NewStorageFrom(data []byte, options *StorageOptions) (*Storage, error) {
	collect()
	given, err := options.begin()
	if err != nil {
		return nil, err
	}
	defer options.end()
	if options.waits() {
		return waitFor(options.Wait, newStorage, func(w waiting[*C.tenon_storage]) C.tenon_status {
			return C.tenon_go_storage_new_from(
				given,
				unsafe.Pointer(unsafe.SliceData(data)),
				C.uint64_t(len(data)),
				w.timeout,
				w.cancel,
				w.out,
				w.failure,
			)
		})
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

// StorageAt finds the storage that has the nbytes bytes at an address. It also returns how many
// bytes into the storage they begin. Use it for an address that comes back from another library. It
// finds a storage once its address was given out, for example by Bytes or DLPack. It does not find
// private and empty storages, and then returns ErrNotFound. It does not dereference the address.
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

// Retain gives another object for the same storage, which the caller closes too.
func (s *Storage) Retain() (*Storage, error) {
	return ask(s, func(pointer *C.tenon_storage) (*Storage, error) {
		if pointer == nil {
			return nil, invalid("the storage is nil")
		}
		return newStorage(C.tenon_storage_retain(pointer)), nil
	})
}

// Bytes gives the bytes themselves, to read and write. It returns ErrPermission if the storage is
// read-only, and ErrUnsupported if the storage is on a device. The slice does not keep the storage
// alive: use it only while the storage is open and reachable (runtime.KeepAlive), or use WithBytes
// instead.
func (s *Storage) Bytes() ([]byte, error) {
	return ask(s, func(pointer *C.tenon_storage) ([]byte, error) {
		if err := forHost(C.tenon_storage_device(pointer)); err != nil {
			return nil, err
		}
		var data unsafe.Pointer
		var failure *C.tenon_error
		if status := C.tenon_storage_data_mut(pointer, &data, &failure); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return bytesAt(data, uint64(C.tenon_storage_nbytes(pointer)))
	})
}

// ReadOnlyBytes gives the bytes themselves, to read; otherwise it is as Bytes. Go has no read-only
// slices. If the memory is writable, every borrower may see a write through this slice. If the
// memory is read-only, such a write ends the program with a fault that recover does not catch.
func (s *Storage) ReadOnlyBytes() ([]byte, error) {
	return ask(s, func(pointer *C.tenon_storage) ([]byte, error) {
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
	})
}

// checkLender says why a storage gives out no bytes: nil if the storage is empty, and ErrPeerGone
// if it was dropped with its lender.
func checkLender(storage *C.tenon_storage) error {
	var failure *C.tenon_error
	return check(C.tenon_storage_check_lender(storage, &failure), &failure)
}

// WithBytes calls use with the bytes, to read and write. The bytes stay valid until use returns,
// even if another goroutine closes the storage meanwhile. They are not valid after that.
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

// fitting converts count to an int. On 32-bit machines an int may be too small, and then the result
// is an error.
func fitting(count uint64) (int, error) {
	if int(count) < 0 || uint64(int(count)) != count {
		return 0, invalid(fmt.Sprintf("%d elements are more than a slice can have", count))
	}
	return int(count), nil
}

// WriteAt copies data into the storage, offset bytes from its start. It is the only way to fill a
// Frozen storage. It implements io.WriterAt. After an error some of the bytes may have been
// written.
func (s *Storage) WriteAt(data []byte, offset int64) (int, error) {
	return ask(s, func(pointer *C.tenon_storage) (int, error) {
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
	})
}

// ReadAt copies bytes out of the storage, offset bytes from its start, into data. It implements
// io.ReaderAt: at the end of the storage it reads the bytes that are left and returns io.EOF. If
// the file under an unsealed storage was cut short, ReadAt returns an error, where a load through a
// slice of Bytes would cause a SIGBUS.
func (s *Storage) ReadAt(data []byte, offset int64) (int, error) {
	return ask(s, func(pointer *C.tenon_storage) (int, error) {
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
	})
}

// Freeze ends the filling of a Frozen storage. From then on the kernel refuses every write, by
// every process. Only a frozen storage of this mode can be lent.
func (s *Storage) Freeze() error {
	return run(s, func(pointer *C.tenon_storage, failure **C.tenon_error) C.tenon_status {
		return C.tenon_storage_freeze(pointer, failure)
	})
}

// NBytes returns the size in bytes.
func (s *Storage) NBytes() uint64 {
	return get(s, func(pointer *C.tenon_storage) uint64 {
		return uint64(C.tenon_storage_nbytes(pointer))
	})
}

// Device returns the device that holds the bytes.
func (s *Storage) Device() Device {
	return get(s, func(pointer *C.tenon_storage) Device {
		device := C.tenon_storage_device(pointer)
		return Device{int32(device._type), int32(device.id)}
	})
}

// Mode returns the mode that was chosen when the storage was made. For an opened storage it is the
// mode that the segment's seals enforce.
func (s *Storage) Mode() Mode {
	return get(s, func(pointer *C.tenon_storage) Mode {
		return Mode(C.tenon_storage_mode(pointer))
	})
}

// IsReadOnly says whether this process must not write to the bytes through memory.
func (s *Storage) IsReadOnly() bool {
	return get(s, func(pointer *C.tenon_storage) bool {
		return C.tenon_storage_is_read_only(pointer) != 0
	})
}

// IsShared says whether the bytes lie in memory that can be lent.
func (s *Storage) IsShared() bool {
	return get(s, func(pointer *C.tenon_storage) bool {
		return C.tenon_storage_is_shared(pointer) != 0
	})
}

// IsSealed says whether the kernel guarantees the segment's size, so that a read never causes a
// SIGBUS.
func (s *Storage) IsSealed() bool {
	return get(s, func(pointer *C.tenon_storage) bool {
		return C.tenon_storage_is_sealed(pointer) != 0
	})
}

// SameMemory says whether both storages lie over the same bytes, whatever the access.
func (s *Storage) SameMemory(other *Storage) bool {
	return get(s, func(pointer *C.tenon_storage) bool {
		second, err := other.begin()
		if err != nil {
			return false
		}
		defer other.end()
		return C.tenon_storage_same_memory(pointer, second) != 0
	})
}

// ID returns a number that no other storage of this process ever has, so it can be the key of a
// map. Two objects of one storage have the same ID.
func (s *Storage) ID() uint64 {
	return get(s, func(pointer *C.tenon_storage) uint64 {
		return uint64(C.tenon_storage_id(pointer))
	})
}

// UseCount returns the number of strong references at this moment, for tests and debugging.
func (s *Storage) UseCount() uint64 {
	return get(s, func(pointer *C.tenon_storage) uint64 {
		return uint64(C.tenon_storage_use_count(pointer))
	})
}
