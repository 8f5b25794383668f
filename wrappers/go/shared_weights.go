// Shared weights: the processes of a machine share the weights of a file by a name.

package tenon

/*
#include "tenon_go.h"
*/
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// SharedWeightsOptions say how to open shared weights. Nil and the zero value mean the defaults.
type SharedWeightsOptions struct {
	// The absolute path of the directory where the processes meet. "" means the user's own
	// directory in /dev/shm.
	Directory string
	Group     *uint32 // admit members of this group (a gid) too; it needs a Directory
	MaxBytes  uint64  // the largest file that this process loads; 0 means no limit
	Device    string  // where the weights lie, such as "cuda:0"; "" means the CPU
	// Called with the bytes that are loaded and the bytes of the file, while this process loads or
	// waits for the process that loads. A panic continues in OpenSharedWeights.
	Progress func(done, total uint64)
	// For PublishSharedWeightsValues: write the version into memory of an older one that nobody has
	// any more (TENON_SHARED_WEIGHTS_REUSE).
	Reuse       bool
	BudgetBytes uint64 // the most bytes of all weights in the directory; 0 means no limit
}

// SharedWeightsInfo are facts about shared weights. They change when other processes come and go.
type SharedWeightsInfo struct {
	Bytes       uint64 // the bytes of the shared memory
	FileBytes   uint64 // the size of the file when it was loaded
	FileMtimeNS int64  // when the file was last changed before it was loaded, since 1970
	FileCRC     uint64 // the CRC-32 of the first MiB of the file
	Version     uint64 // the version of the weights under this name; the first is 1
	Count       uint64 // how many tensors there are
	Loaded      bool   // this object loaded the file; otherwise it found the weights in memory
	Serves      bool   // this process hands the weights to others now
	LoaderPID   int32  // the process that loaded the file, which may have ended
	ServerPID   int32  // the process that hands the weights to others, or 0 while one is chosen
	// If Serves is true, how many processes have the weights. Otherwise how many there were when
	// this process came.
	Holders uint32
}

// SharedWeights are the weights of a name. The tensors are read-only. They stay usable after Close,
// and as long as one of them lives, this process hands the weights on to others. Any number of
// goroutines may call the methods.
type SharedWeights struct{ handle }

func (w *SharedWeights) begin() (*C.tenon_shared_weights, error) {
	if w == nil {
		return nil, nil
	}
	pointer, err := w.acquire()
	return (*C.tenon_shared_weights)(pointer), err
}

func (w *SharedWeights) end() {
	if w != nil {
		w.release()
	}
}

// OpenSharedWeights opens the weights of a name. If no process has them, this process loads the
// file. With the path "" it loads nothing, and ErrNotFound says that no process has the weights.
// ErrPermission with the detail "field" says that the name stands for another version of the file.
// ctx ends the wait for other processes.
func OpenSharedWeights(
	ctx context.Context, path, name string, options *SharedWeightsOptions,
) (*SharedWeights, error) {
	var file *C.char
	var err error
	if path != "" {
		file, err = cText("the path", path)
	}
	return makeSharedWeights(ctx, C.tenon_go_shared_weights{path: file}, err, name, options)
}

// PublishSharedWeights publishes a file as the next version of the weights of a name. Newcomers get
// it, and processes that have an older version keep that one. ctx ends the wait for another process
// that publishes under the name.
func PublishSharedWeights(
	ctx context.Context, path, name string, options *SharedWeightsOptions,
) (*SharedWeights, error) {
	file, err := cText("the path", path)
	made := C.tenon_go_shared_weights{publishes: true, path: file}
	return makeSharedWeights(ctx, made, err, name, options)
}

// PublishSharedWeightsValues publishes a copy of tensors as the next version of the weights of a
// name. There are as many keys as tensors.
func PublishSharedWeightsValues(
	ctx context.Context, keys []string, tensors []*Value, name string,
	options *SharedWeightsOptions,
) (*SharedWeights, error) {
	if len(keys) != len(tensors) {
		const why = "there are not as many keys as tensors"
		return nil, &Error{Code: ErrInvalidArgument, Message: why}
	}
	values, end, err := beginValues(tensors)
	if err != nil {
		return nil, err
	}
	defer end()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	starts, err := pinnedStrings(&pinner, keys)
	if len(keys) > 0 {
		pinner.Pin(unsafe.SliceData(starts))
		pinner.Pin(unsafe.SliceData(values))
	}
	made := C.tenon_go_shared_weights{
		publishes: true,
		names:     unsafe.SliceData(starts),
		values:    unsafe.SliceData(values),
		count:     C.size_t(len(keys)),
	}
	return makeSharedWeights(ctx, made, err, name, options)
}

func makeSharedWeights(
	ctx context.Context, made C.tenon_go_shared_weights, err error, name string,
	options *SharedWeightsOptions,
) (*SharedWeights, error) {
	if options == nil {
		options = &SharedWeightsOptions{}
	}
	var text, directory, device *C.char
	if err == nil {
		text, err = cText("the name", name)
	}
	if err == nil && options.Directory != "" {
		directory, err = cText("the directory", options.Directory)
	}
	if err == nil && options.Device != "" {
		device, err = cText("the device", options.Device)
	}
	if err != nil {
		return nil, err
	}
	var group, flags C.uint32_t
	if options.Group != nil {
		group, flags = C.uint32_t(*options.Group), C.TENON_SHARED_WEIGHTS_GROUP
	}
	if options.Reuse {
		flags |= C.TENON_SHARED_WEIGHTS_REUSE
	}
	var progress cgo.Handle
	state := &progressing{tell: options.Progress}
	if options.Progress != nil {
		progress = cgo.NewHandle(state)
		defer progress.Delete()
	}
	weights, err := waitFor(
		ctx,
		newSharedWeights,
		func(w waiting[*C.tenon_shared_weights]) C.tenon_status {
			return C.tenon_go_make_shared_weights(
				made, text, directory, flags, group, C.uint64_t(options.MaxBytes),
				device, C.uint64_t(options.BudgetBytes), C.uintptr_t(progress),
				w.timeout, w.cancel, w.out, w.failure,
			)
		},
	)
	if state.panicked != nil {
		if err == nil {
			weights.Close()
		}
		panic(state.panicked)
	}
	return weights, err
}

// progressing has a progress function, and the panic of it, which must not unwind C.
type progressing struct {
	tell     func(done, total uint64)
	panicked any
}

//export tenonGoProgress
func tenonGoProgress(context C.uintptr_t, done, total C.uint64_t) {
	state := cgo.Handle(context).Value().(*progressing)
	if state.panicked == nil {
		defer func() { state.panicked = recover() }()
		state.tell(uint64(done), uint64(total))
	}
}

func newSharedWeights(pointer *C.tenon_shared_weights) *SharedWeights {
	w := new(SharedWeights)
	w.own(kindSharedWeights, unsafe.Pointer(pointer))
	return w
}

// Changed waits until the name has a newer version than w, and returns the newest that is known.
// ErrTimeout says that ctx ended the wait.
func (w *SharedWeights) Changed(ctx context.Context) (uint64, error) {
	pointer, err := w.begin()
	if err != nil {
		return 0, err
	}
	defer w.end()
	return waitFor(
		ctx,
		func(version C.uint64_t) uint64 { return uint64(version) },
		func(c waiting[C.uint64_t]) C.tenon_status {
			return C.tenon_go_shared_weights_changed(
				pointer, c.timeout, c.cancel, c.out, c.failure,
			)
		},
	)
}

// Names lists the names of all tensors in the order of the file.
func (w *SharedWeights) Names() ([]string, error) {
	return listNames(w, func(q sharedNamesQuery) C.tenon_status {
		return C.tenon_shared_weights_names(q.pointer, q.out, q.failure)
	})
}

// Tensor gives a tensor, whose elements are read-only. The caller closes the Value.
func (w *SharedWeights) Tensor(name string) (*Value, error) {
	return readValue(w, name, func(text *C.char, q sharedValueQuery) C.tenon_status {
		return C.tenon_shared_weights_tensor(q.pointer, text, q.out, q.failure)
	})
}

// ValueNames lists the names of the values in the file that are no tensors, as those of Weights do.
func (w *SharedWeights) ValueNames() ([]string, error) {
	return listNames(w, func(q sharedNamesQuery) C.tenon_status {
		return C.tenon_shared_weights_value_names(q.pointer, q.out, q.failure)
	})
}

// Value gives a value that is no tensor, and the caller closes it.
func (w *SharedWeights) Value(name string) (*Value, error) {
	return readValue(w, name, func(text *C.char, q sharedValueQuery) C.tenon_status {
		return C.tenon_shared_weights_value(q.pointer, text, q.out, q.failure)
	})
}

type (
	sharedNamesQuery = query[*C.tenon_shared_weights, *C.tenon_name_list]
	sharedValueQuery = query[*C.tenon_shared_weights, *C.tenon_value]
)

// Info gives the facts of this moment.
func (w *SharedWeights) Info() (SharedWeightsInfo, error) {
	return ask(w, func(pointer *C.tenon_shared_weights) (SharedWeightsInfo, error) {
		out := C.tenon_shared_weights_info{struct_size: C.sizeof_tenon_shared_weights_info}
		var failure *C.tenon_error
		status := C.tenon_shared_weights_info_get(pointer, &out, &failure)
		if status != C.TENON_OK {
			return SharedWeightsInfo{}, takeError(status, failure)
		}
		return SharedWeightsInfo{
			Bytes:       uint64(out.nbytes),
			FileBytes:   uint64(out.file_nbytes),
			FileMtimeNS: int64(out.file_mtime_ns),
			FileCRC:     uint64(out.file_crc),
			Version:     uint64(out.version),
			Count:       uint64(out.count),
			Loaded:      out.loaded != 0,
			Serves:      out.serves != 0,
			LoaderPID:   int32(out.loader_pid),
			ServerPID:   int32(out.server_pid),
			Holders:     uint32(out.holders),
		}, nil
	})
}
