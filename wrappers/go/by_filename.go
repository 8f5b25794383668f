package tenon

// #include "tenon_go.h"
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// FilenameOptions says how a name is made. Nil, and the zero value: in /dev/shm, "tenon-" and 128
// unguessable bits, for this user alone.
type FilenameOptions struct {
	// Share: what borrowers get; a file cannot be lent AccessReadOnly to its own user.
	Access Access
	// Share: PyTorch must be able to open it, so a manager is asked to guard the name.
	Torch     bool
	InFlight  bool    // share: also do what FilenameIncref does
	Mode      uint32  // permission bits; 0: 0600
	Group     *uint32 // a gid whose members may open it too
	Directory string  // absolute; "": /dev/shm, the only one in which PyTorch looks
	Prefix    string  // of the name; 128 unguessable bits follow it; "": "tenon-"
	Name      string  // the whole name, without a slash; "": prefix and random bits
	// With Torch, the socket of a running manager; "": this user's, started if there is none.
	Manager string
}

// with makes C's form of the options for the time of one call.
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

// FilenameHandle is how to reach a storage by name. A value: it holds nothing, and can be sent by
// any means. For a file that PyTorch shares: its tuple (manager, name, nbytes), Offset 0.
type FilenameHandle struct {
	// What the handle allows; of an opener's own making, AccessAuto: what the name gives.
	Access  Access
	Offset  uint64 // bytes: of the storage behind the name
	NBytes  uint64 // bytes of the storage
	Manager string // the socket of the manager that guards the name; "" if none does
	// "/leaf" in /dev/shm, or an absolute path; "" for an empty storage that has none.
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

// fill copies text, with a NUL behind it, into an array of C's.
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

// NewStorageFilename makes a storage that lives in a named file of its own, in PyTorch's layout,
// mode Shared. All bytes are 0. The file appears whole, under its name, or not at all, and goes
// with its last holder. options.Access is not looked at.
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

// briefly is for waits that the library bounds itself, with 5 seconds, unless it is told otherwise:
// with a context that can never be done it is not told; else the context alone says how long.
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

// ShareFilename lends the storage by name. A storage in a named file gives that name; any other
// shared one gets a socket, that of its segment, or one of its own if options name it; private
// memory whose bytes were never handed out moves into a new file. No other byte is copied or moved.
// ctx bounds the wait for a manager: 5 seconds if it can never be done.
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

// OpenFilename opens what was lent by name, by Tenon or by PyTorch. What this process already
// holds, by name or by fd, comes back as the same storage. A file takes OpenOptions.AllowUnsealed.
// ctx bounds the wait for the lender behind a socket, or for a manager: 5 seconds if it can never
// be done.
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

// FilenameIncref counts one message in flight about a storage that this process holds: the name
// outlives this process's own references until somebody opens it with OpenOptions.Decref or calls
// FilenameDecref, as long as this process lives.
func FilenameIncref(handle FilenameHandle) error {
	given, err := handle.c()
	if err != nil {
		return err
	}
	var failure *C.tenon_error
	if status := C.tenon_filename_incref(given, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// FilenameDecref takes one FilenameIncref back: the message was received, or will never be. Of a
// name that is gone: nothing.
func FilenameDecref(handle FilenameHandle) error {
	given, err := handle.c()
	if err != nil {
		return err
	}
	var failure *C.tenon_error
	if status := C.tenon_filename_decref(given, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// FilenameLeave takes this process's part out of the counts of names, and keeps what it has in
// flight for 60 seconds, as exit() does in C. A Go program ends without that: one that shares by
// name closes its storages, then calls Trim, which lets segments and their sockets' names go, and
// this last. Storages stay valid.
func FilenameLeave() { C.tenon_filename_leave() }

// FilenameUnlink takes a name away. Who has it open keeps the memory; nobody opens it any more. Of
// a name that is gone: nothing. A process of PyTorch's that holds it aborts when it lets go: leave
// such names to their holders.
func FilenameUnlink(name string) error {
	if err := checkText("the name", name); err != nil {
		return err
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var failure *C.tenon_error
	if status := C.tenon_filename_unlink(text, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// SweepOptions says what to sweep. Nil, and the zero value: /dev/shm, Tenon's names.
type SweepOptions struct {
	DryRun    bool          // count, remove nothing
	Torch     bool          // also remove PyTorch's own dead files
	Directory string        // absolute; "": /dev/shm
	MinAge    time.Duration // PyTorch's files younger than this stay; 0: 60 seconds
}

// SweepResult is what a sweep found.
type SweepResult struct {
	Live          uint64 // names that somebody holds
	InFlight      uint64 // names that nobody holds and a message may be about
	Dead          uint64 // names that nobody holds: those removed or, in a dry run, to be removed
	Unsure        uint64 // names of other users, and others that could not be looked at: left alone
	RemovedNBytes uint64 // bytes of memory that the dead ones have or had
}

// FilenameSweep removes the names in a directory that nobody holds. The kernel is asked, so a
// holder in any container is seen.
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

// StartManager gives the socket of this user's manager, which is started if there is none: a small
// process that speaks PyTorch's protocol and guards the names that PyTorch processes hold. program
// is the path of tenon-manager; "": TENON_MANAGER of the environment, else beside the library. This
// process is a client of it from then on. ctx bounds the wait: 5 seconds if it can never be done.
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
