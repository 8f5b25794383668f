// Lending storages by fd: a handle with an fd and a few numbers.

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

// Access is the access that a handle allows, or that an opener asks for.
type Access uint32

// The kinds of access.
const (
	// To share: the access that the mode gives. To open: the access that the handle gives.
	AccessAuto Access = C.TENON_ACCESS_AUTO
	// To share: the kernel must enforce it, so a Shared storage is refused. To open: map the memory
	// read-only.
	AccessReadOnly Access = C.TENON_ACCESS_READ_ONLY
	AccessWritable Access = C.TENON_ACCESS_WRITABLE // both sides write; only mode Shared allows it
)

// String returns the name of the access, such as "read_only".
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

// ShareOptions says how to lend a storage. Nil and the zero value mean the access that the mode
// gives.
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

// OpenOptions says how to open a lent storage. Nil and the zero value mean what the handle gives.
type OpenOptions struct {
	Access Access
	// This process's writes stay in this process. Pages that it has not written yet still show
	// later writes of the lender.
	PrivateCOW  bool
	PrivateCopy bool // copy the bytes now into private memory: a snapshot
	// Accept memory that its owner can cut short (PyTorch's memory, plain files). A later load from
	// it may cause a SIGBUS.
	AllowUnsealed bool
	OtherUser     bool // OpenFilename, OpenDescriptor: accept memory of another user
	NoManager     bool // OpenFilename: do not register with the manager that the handle names
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

// FDHandle says how to reach a storage by fd. All sizes and offsets are in bytes.
type FDHandle struct {
	// The fd, which is close-on-exec and can go into exec.Cmd.ExtraFiles. Nil for an empty storage.
	File *os.File
	// The access that the handle allows. An opener that makes a handle itself may set AccessAuto,
	// which stands for the access that the fd gives.
	Access Access
	Offset uint64 // where the storage begins in the segment
	NBytes uint64 // the size of the storage
	// The size of the whole segment. An opener that makes a handle itself may set 0, and then the
	// size is taken from the fd.
	SegmentNBytes uint64
}

// Close closes the fd, which is not needed any more once it was sent. The lent storage is not
// affected. A second Close does nothing.
func (h *FDHandle) Close() error {
	if h == nil || h.File == nil {
		return nil
	}
	if err := h.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// ShareFD lends the storage: it gives an fd, an offset and a size with which another process can
// open it. No byte is copied or moved. A borrower of one storage can read the whole segment, and in
// mode Shared can write to all of it. StorageOptions.Isolated gives a storage a segment of its own.
func (s *Storage) ShareFD(options *ShareOptions) (*FDHandle, error) {
	return ask(s, func(pointer *C.tenon_storage) (*FDHandle, error) {
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
	})
}

// OpenFD opens a storage that was lent by fd. The fd still belongs to the handle and may be closed
// afterwards. If this process already holds the same memory, the result is the same storage.
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
		given.fd = C.int32_t(int(handle.File.Fd())) // -1 for a closed file
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
