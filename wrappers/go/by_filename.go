// Lending storages by name: a file or a socket in a directory that both processes see.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// FilenameOptions says how to make a name. Nil and the zero value mean a name in /dev/shm that is
// "tenon-" and 128 unguessable bits, for this user alone.
type FilenameOptions struct {
	// To share: the access that borrowers get. A file cannot be lent AccessReadOnly, because a
	// process of the same user could write to it nevertheless.
	Access Access
	// To share: PyTorch must be able to open the name, so a manager is asked to guard it.
	Torch     bool
	InFlight  bool    // to share: also do what FilenameIncref does
	Mode      uint32  // the permission bits; 0 means 0600
	Group     *uint32 // a gid whose members may open the name too
	Directory string  // an absolute path; "" means /dev/shm, the only one in which PyTorch looks
	Prefix    string  // the beginning of the name; 128 unguessable bits follow; "" means "tenon-"
	Name      string  // the whole name, without a slash; "" means prefix and random bits
	// With Torch: the socket of a running manager. "" means this user's manager, which is started
	// if none runs.
	Manager string
}

// with calls call with C's form of the options, which is valid for that time.
func (o *FilenameOptions) with(call func(options *C.tenon_filename_options) error) error {
	if o == nil {
		o = new(FilenameOptions)
	}
	var flags, group C.uint32_t
	if o.Torch {
		flags |= C.TENON_FILENAME_TORCH
	}
	if o.InFlight {
		flags |= C.TENON_FILENAME_IN_FLIGHT
	}
	if o.Group != nil {
		flags |= C.TENON_FILENAME_GROUP
		group = C.uint32_t(*o.Group)
	}
	var texts [4]*C.char
	for i, each := range [...]struct{ what, text string }{
		{"the directory", o.Directory}, {"the prefix", o.Prefix}, {"the name", o.Name},
		{"the manager's path", o.Manager},
	} {
		if err := checkText(each.what, each.text); err != nil {
			return err
		}
		if each.text != "" {
			texts[i] = C.CString(each.text)
			defer C.free(unsafe.Pointer(texts[i]))
		}
	}
	options := C.tenon_go_filename_options(
		C.uint32_t(o.Access),
		flags,
		C.uint32_t(o.Mode),
		group,
		texts[0],
		texts[1],
		texts[2],
		texts[3],
	)
	return call(&options)
}

// FilenameHandle says how to reach a storage by name. It is a plain value: it holds no memory, and
// can be sent by any means. For a file that PyTorch shares it has PyTorch's tuple (manager, name,
// nbytes), with Offset 0.
type FilenameHandle struct {
	// The access that the handle allows. An opener that makes a handle itself may set AccessAuto,
	// which stands for the access that the name gives.
	Access  Access
	Offset  uint64 // where the storage begins in the memory behind the name, in bytes
	NBytes  uint64 // the size of the storage in bytes
	Manager string // the socket of the manager that guards the name; "" if there is none
	// "/leaf" in /dev/shm, otherwise an absolute path. "" for an empty storage that has no name.
	Name string
}

func (h FilenameHandle) c() (*C.tenon_filename_handle, error) {
	given := &C.tenon_filename_handle{
		struct_size: C.sizeof_tenon_filename_handle,
		access:      C.tenon_access(h.Access),
		offset:      C.uint64_t(h.Offset),
		nbytes:      C.uint64_t(h.NBytes),
	}
	if err := fill(given.name[:], "the name", h.Name); err != nil {
		return nil, err
	}
	if err := fill(given.manager[:], "the manager's path", h.Manager); err != nil {
		return nil, err
	}
	return given, nil
}

// fill copies text, with a NUL behind it, into an array for C.
func fill(room []C.char, what, text string) error {
	if err := checkText(what, text); err != nil {
		return err
	}
	if len(text) >= len(room) {
		return invalid(
			fmt.Sprintf("%s %q has %d bytes, %d are the most", what, text, len(text), len(room)-1),
		)
	}
	for i := range len(text) {
		room[i] = C.char(text[i])
	}
	return nil
}

// NewStorageFilename makes a storage of mode Shared that lies in a named file of its own, in
// PyTorch's layout. All bytes are 0. The file appears under its name as a whole or not at all. It
// is removed when its last holder has released it. options.Access is ignored.
func NewStorageFilename(nbytes uint64, options *FilenameOptions) (*Storage, error) {
	collect()
	var out *C.tenon_storage
	err := options.with(func(given *C.tenon_filename_options) error {
		var failure *C.tenon_error
		if status := C.tenon_storage_new_filename(
			given, C.uint64_t(nbytes), &out, &failure,
		); status != C.TENON_OK {
			return takeError(status, failure)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newStorage(out), nil
}

// briefly runs step with a limit on its wait. If ctx can end, ctx alone is the limit. If ctx can
// never end, step gets no wait, and the library limits it to 5 seconds.
func briefly(
	ctx context.Context,
	step func(wait *C.tenon_wait, failure **C.tenon_error) C.tenon_status,
) error {
	return wait(
		ctx,
		nil,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			if ctx.Done() == nil {
				return step(nil, failure)
			}
			how := C.tenon_go_wait(timeout, cancel)
			return step(&how, failure)
		},
	)
}

// ShareFilename lends the storage by name. A storage in a named file is lent under that name. Any
// other shared storage is lent through a socket: the socket of its segment, or a socket of its own
// if the options name one. Private memory whose bytes were never handed out moves into a new file.
// No other byte is copied or moved. ctx bounds the wait for a manager. If ctx can never end, the
// limit is 5 seconds.
func (s *Storage) ShareFilename(
	ctx context.Context,
	options *FilenameOptions,
) (FilenameHandle, error) {
	pointer, err := s.begin()
	if err != nil {
		return FilenameHandle{}, err
	}
	defer s.end()
	out := C.tenon_filename_handle{struct_size: C.sizeof_tenon_filename_handle}
	err = options.with(func(given *C.tenon_filename_options) error {
		return briefly(ctx, func(wait *C.tenon_wait, failure **C.tenon_error) C.tenon_status {
			return C.tenon_share_filename(pointer, given, wait, &out, failure)
		})
	})
	if err != nil {
		return FilenameHandle{}, err
	}
	return FilenameHandle{
		Access:  Access(out.access),
		Offset:  uint64(out.offset),
		NBytes:  uint64(out.nbytes),
		Manager: C.GoString(&out.manager[0]),
		Name:    C.GoString(&out.name[0]),
	}, nil
}

// OpenFilename opens a storage that Tenon or PyTorch lent by name. If this process already holds
// the same memory, by name or by fd, the result is the same storage. Opening a file takes
// OpenOptions.AllowUnsealed. ctx bounds the wait for the lender behind a socket, or for a manager.
// If ctx can never end, the limit is 5 seconds.
func OpenFilename(
	ctx context.Context,
	handle FilenameHandle,
	options *OpenOptions,
) (*Storage, error) {
	collect()
	given, err := handle.c()
	if err != nil {
		return nil, err
	}
	how := options.c()
	var out *C.tenon_storage
	err = briefly(ctx, func(wait *C.tenon_wait, failure **C.tenon_error) C.tenon_status {
		return C.tenon_open_filename(given, &how, wait, &out, failure)
	})
	if err != nil {
		return nil, err
	}
	return newStorage(out), nil
}

// FilenameIncref counts one message in flight that refers to a storage of this process. The name
// then outlives this process's own references, until a receiver opens it with OpenOptions.Decref or
// calls FilenameDecref. It does so as long as this process lives, and for 60 seconds after
// FilenameLeave.
func FilenameIncref(handle FilenameHandle) error {
	given, err := handle.c()
	if err != nil {
		return err
	}
	var failure *C.tenon_error
	return check(C.tenon_filename_incref(given, &failure), &failure)
}

// FilenameDecref undoes one FilenameIncref: the message was received, or will never be received. If
// the name does not exist any more, it does nothing.
func FilenameDecref(handle FilenameHandle) error {
	given, err := handle.c()
	if err != nil {
		return err
	}
	var failure *C.tenon_error
	return check(C.tenon_filename_decref(given, &failure), &failure)
}

// FilenameLeave subtracts this process from the counts of names, and keeps the files of its
// messages in flight for 60 seconds, as exit() does in C. A Go program ends without exit(). So a
// program that shares by name closes its storages, then calls Trim, which frees segments and the
// names of their sockets, and calls FilenameLeave last. Storages stay valid.
func FilenameLeave() { C.tenon_filename_leave() }

// FilenameUnlink removes a name. Processes that have it open keep the memory, and no process can
// open it any more. If the name does not exist, the call does nothing. If a PyTorch process holds
// the name, that process aborts when it releases the memory: leave such names to their holders.
func FilenameUnlink(name string) error {
	if err := checkText("the name", name); err != nil {
		return err
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var failure *C.tenon_error
	return check(C.tenon_filename_unlink(text, &failure), &failure)
}

// SweepOptions says what to sweep. Nil and the zero value mean Tenon's names in /dev/shm.
type SweepOptions struct {
	DryRun    bool          // count the names, and remove none
	Torch     bool          // also remove PyTorch's own dead files
	Directory string        // an absolute path; "" means /dev/shm
	MinAge    time.Duration // PyTorch's files younger than this stay; 0 means 60 seconds
}

// SweepResult counts the names that a sweep found.
type SweepResult struct {
	Live          uint64 // names that some process holds
	InFlight      uint64 // names that no process holds, but to which a message may refer
	Dead          uint64 // names that no process holds: removed, or to be removed in a dry run
	Unsure        uint64 // left alone: other users', not examinable, or PyTorch's without Torch
	RemovedNBytes uint64 // bytes of memory that the dead names have or had
}

// FilenameSweep removes the names in a directory that no process holds. It asks the kernel, so it
// sees a holder in any container.
func FilenameSweep(options *SweepOptions) (SweepResult, error) {
	var flags C.uint32_t
	var directory *C.char
	var minAge C.int64_t
	if options != nil {
		if options.DryRun {
			flags |= C.TENON_SWEEP_DRY_RUN
		}
		if options.Torch {
			flags |= C.TENON_SWEEP_TORCH
		}
		if err := checkText("the directory", options.Directory); err != nil {
			return SweepResult{}, err
		}
		if options.Directory != "" {
			directory = C.CString(options.Directory)
			defer C.free(unsafe.Pointer(directory))
		}
		minAge = C.int64_t(options.MinAge)
	}
	given := C.tenon_sweep_options{
		struct_size: C.sizeof_tenon_sweep_options,
		flags:       flags,
		directory:   directory,
		min_age_ns:  minAge,
	}
	out := C.tenon_sweep_result{struct_size: C.sizeof_tenon_sweep_result}
	var failure *C.tenon_error
	if status := C.tenon_filename_sweep(&given, &out, &failure); status != C.TENON_OK {
		return SweepResult{}, takeError(status, failure)
	}
	return SweepResult{
		uint64(out.live),
		uint64(out.in_flight),
		uint64(out.dead),
		uint64(out.unsure),
		uint64(out.removed_nbytes),
	}, nil
}

// StartManager gives the socket of this user's manager, and starts the manager if none runs. The
// manager is a small process that speaks PyTorch's protocol and guards the names that PyTorch
// processes hold. program is the path of tenon-manager. "" means the environment variable
// TENON_MANAGER, or else the program beside the library. From then on this process is a client of
// the manager. ctx bounds the wait. If ctx can never end, the limit is 5 seconds.
func StartManager(ctx context.Context, program string) (string, error) {
	if err := checkText("the program", program); err != nil {
		return "", err
	}
	var path *C.char
	if program != "" {
		path = C.CString(program)
		defer C.free(unsafe.Pointer(path))
	}
	var out [108]C.char
	err := briefly(ctx, func(wait *C.tenon_wait, failure **C.tenon_error) C.tenon_status {
		return C.tenon_manager_start(path, wait, &out[0], failure)
	})
	if err != nil {
		return "", err
	}
	return C.GoString(&out[0]), nil
}
