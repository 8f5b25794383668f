// Storages over memory that the program provides.

package tenon

/*
#include "tenon_go.h"

extern void tenonGoRelease(uintptr_t context);

// The context is a number of cgo.Handle's. In Go it must never be a pointer: the runtime ends a
// program in which it finds such a one.
static inline void tenon_go_release(void *context) { tenonGoRelease((uintptr_t)context); }

static inline tenon_status tenon_go_wrap(void *data, uint64_t nbytes, uintptr_t context,
		uint32_t flags, tenon_storage **out, tenon_error **err) {
	tenon_storage_options options = {sizeof options, 0, flags, 0};
	return tenon_storage_wrap(data, nbytes, tenon_go_release, (void *)context, &options, out, err);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/cgo"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// WrapOptions says how to wrap memory. Nil means writable memory.
type WrapOptions struct {
	ReadOnly bool // the memory must not be written
}

// wrapped is what a wrapping storage keeps until it ends: a pin on the bytes, if they are Go's, and
// the function to call at the end.
type wrapped struct {
	pinner  runtime.Pinner
	release func()
}

// Wrap makes a private storage over data, without a copy. data may be Go's memory or other memory.
// The storage cannot be lent. The bytes are kept, and not moved, until the last reference to the
// storage is released. Then release is called once, if it is not nil, on the goroutine that closed
// or collected the storage. If Wrap fails, release is not called. HandlePanics says what happens if
// release panics.
func Wrap(data []byte, release func(), options *WrapOptions) (*Storage, error) {
	collect()
	kept := &wrapped{release: release}
	start := unsafe.Pointer(unsafe.SliceData(data))
	if len(data) > 0 {
		kept.pinner.Pin(start)
	}
	flags := C.uint32_t(0)
	if options != nil && options.ReadOnly {
		flags = C.TENON_STORAGE_READ_ONLY
	}
	handle := cgo.NewHandle(kept)
	var out *C.tenon_storage
	var failure *C.tenon_error
	status := C.tenon_go_wrap(
		start,
		C.uint64_t(len(data)),
		C.uintptr_t(handle),
		flags,
		&out,
		&failure,
	)
	if status != C.TENON_OK {
		handle.Delete()
		kept.pinner.Unpin()
		return nil, takeError(status, failure)
	}
	return newStorage(out), nil
}

var panicHandler atomic.Pointer[func(value any, stack []byte)]

// HandlePanics sets the function that is called when a release function of Wrap panics. The panic
// cannot continue, because the frames below are C's. So the handler gets the panic's value, on the
// same goroutine. Nil is the default: the panic and its stack are printed on standard error, and
// the program goes on.
func HandlePanics(handler func(value any, stack []byte)) {
	if handler == nil {
		panicHandler.Store(nil)
		return
	}
	panicHandler.Store(&handler)
}

//export tenonGoRelease
func tenonGoRelease(context C.uintptr_t) {
	defer stopPanic()
	handle := cgo.Handle(context)
	kept := handle.Value().(*wrapped)
	handle.Delete()
	defer kept.pinner.Unpin()
	if kept.release != nil {
		kept.release()
	}
}

// stopPanic keeps a panic from unwinding C. If the handler itself panics, its panic is printed.
func stopPanic() {
	value := recover()
	if value == nil {
		return
	}
	stack := debug.Stack()
	if handler := panicHandler.Load(); handler != nil {
		defer func() {
			if again := recover(); again != nil {
				printPanic(again, debug.Stack())
			}
		}()
		(*handler)(value, stack)
		return
	}
	printPanic(value, stack)
}

func printPanic(value any, stack []byte) {
	fmt.Fprintf(os.Stderr, "tenon: a release function panicked: %v\n%s", value, stack)
}
