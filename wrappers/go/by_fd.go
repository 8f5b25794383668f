package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_share_fd
// #cgo nocallback tenon_share_fd
// #cgo noescape tenon_open_fd
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Access is what a handle allows, or an opener asks for.
type Access uint32

// The accesses.
const (
	// Share: what the mode gives; open: what the handle gives.
	AccessAuto Access = C.TENON_ACCESS_AUTO
	// Share: the kernel must enforce it, so a Shared storage is refused; open: map to read.
	AccessReadOnly Access = C.TENON_ACCESS_READ_ONLY
	AccessWritable Access = C.TENON_ACCESS_WRITABLE // both sides write; Shared only
)

// String is the access's name, as in "read_only".
func (a Access) String() string {
	switch a {
	case AccessAuto:
		return "auto"
	case AccessReadOnly:
		return "read_only"
	case AccessWritable:
		return "writable"
	}
	return fmt.Sprintf("Access(%d)", uint32(a))
}

// ShareOptions says what a lend asks for. Nil, and the zero value: what the mode gives.
type ShareOptions struct {
	Access Access
}

func (o *ShareOptions) c() C.tenon_share_options {
	options := C.tenon_share_options{struct_size: C.sizeof_tenon_share_options}
	if o != nil {
		options.access = C.tenon_access(o.Access)
	}
	return options
}

// OpenOptions says how to open what was lent. Nil, and the zero value: what the handle gives.
type OpenOptions struct {
	Access Access
	// Writes stay in this process; pages not written yet still show the lender's later writes.
	PrivateCOW  bool
	PrivateCopy bool // copy the bytes now: a snapshot, in private memory
	// Take memory that its owner can cut short (PyTorch's, plain files): a later load may meet
	// SIGBUS.
	AllowUnsealed bool
	OtherUser     bool // OpenFilename, OpenDescriptor: take memory that belongs to another user
	NoManager     bool // OpenFilename: do not tell the manager that the handle names
	Decref        bool // OpenFilename: a message was received, so also do what FilenameDecref does
}

func (o *OpenOptions) flags() C.uint32_t {
	var flags C.uint32_t
	if o == nil {
		return 0
	}
	for _, each := range [...]struct {
		set  bool
		flag C.uint32_t
	}{
		{o.PrivateCOW, C.TENON_OPEN_PRIVATE_COW},
		{o.PrivateCopy, C.TENON_OPEN_PRIVATE_COPY},
		{o.AllowUnsealed, C.TENON_OPEN_ALLOW_UNSEALED},
		{o.OtherUser, C.TENON_OPEN_OTHER_USER},
		{o.NoManager, C.TENON_OPEN_NO_MANAGER},
		{o.Decref, C.TENON_OPEN_DECREF},
	} {
		if each.set {
			flags |= each.flag
		}
	}
	return flags
}

func (o *OpenOptions) access() C.tenon_access {
	if o == nil {
		return 0
	}
	return C.tenon_access(o.Access)
}

func (o *OpenOptions) c() C.tenon_open_options {
	return C.tenon_open_options{
		struct_size: C.sizeof_tenon_open_options,
		access:      o.access(),
		flags:       o.flags(),
	}
}

// FDHandle is how to reach a storage by fd. Everything is in bytes.
type FDHandle struct {
	// The fd, close-on-exec, fit for exec.Cmd.ExtraFiles; nil for an empty storage.
	File *os.File
	// What the handle allows; of an opener's own making, AccessAuto: what the fd gives.
	Access Access
	Offset uint64 // where the storage begins in the segment
	NBytes uint64 // the size of the storage
	// The size of the whole segment; of an opener's own making, 0: ask the fd.
	SegmentNBytes uint64
}

// Close closes the fd, once it was sent; the storage that was lent is not affected. Again: nothing.
func (h *FDHandle) Close() error {
	if h == nil || h.File == nil {
		return nil
	}
	if err := h.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// ShareFD lends the storage: it gives an fd, an offset and a size that another process can open. No
// byte is copied or moved. Who is lent one storage of a segment can read all of it (and in mode
// Shared write it): StorageOptions.Isolated gives a storage a segment of its own.
func (s *Storage) ShareFD(options *ShareOptions) (*FDHandle, error) {
	pointer, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer s.end()
	given := options.c()
	out := C.tenon_fd_handle{struct_size: C.sizeof_tenon_fd_handle, fd: -1}
	var failure *C.tenon_error
	if status := C.tenon_share_fd(pointer, &given, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	handle := &FDHandle{
		Access:        Access(out.access),
		Offset:        uint64(out.offset),
		NBytes:        uint64(out.nbytes),
		SegmentNBytes: uint64(out.segment_nbytes),
	}
	if out.fd >= 0 {
		handle.File = os.NewFile(uintptr(out.fd), "tenon-segment")
	}
	return handle, nil
}

// OpenFD opens what was lent. The fd stays the handle's, and may be closed afterwards. What this
// process already holds comes back as the same storage.
func OpenFD(handle *FDHandle, options *OpenOptions) (*Storage, error) {
	collect()
	if handle == nil {
		return nil, invalid("the handle is nil")
	}
	given := C.tenon_fd_handle{
		struct_size:    C.sizeof_tenon_fd_handle,
		fd:             -1,
		access:         C.tenon_access(handle.Access),
		offset:         C.uint64_t(handle.Offset),
		nbytes:         C.uint64_t(handle.NBytes),
		segment_nbytes: C.uint64_t(handle.SegmentNBytes),
	}
	if handle.File != nil {
		given.fd = C.int32_t(int(handle.File.Fd())) // of a closed file: -1
	}
	defer runtime.KeepAlive(handle.File)
	how := options.c()
	var out *C.tenon_storage
	var failure *C.tenon_error
	if status := C.tenon_open_fd(&given, &how, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}
