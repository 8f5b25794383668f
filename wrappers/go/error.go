// Errors: the codes of the C library, and the error that a failed call gives.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_error_detail
// #cgo nocallback tenon_error_detail
import "C"

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Code is the outcome of a call. Each code stands for one thing that a caller can do about the
// failure. A Code is itself an error, and a target for errors.Is:
//
//	if errors.Is(err, tenon.ErrPeerGone) { … }
type Code int32

// The codes of the C library. Their numbers never change.
const (
	// The call is wrong whatever the state of the machine. Fix the program.
	ErrInvalidArgument Code = C.TENON_INVALID_ARGUMENT
	// The object does not allow the access. Ask for other access, or make the object in another
	// mode.
	ErrPermission Code = C.TENON_PERMISSION
	ErrNotFound   Code = C.TENON_NOT_FOUND // the object does not exist, or no longer exists
	// Bytes or an fd from outside are not what they claim to be.
	ErrCorrupt Code = C.TENON_CORRUPT
	// A version that this library does not read made the object.
	ErrIncompatible Code = C.TENON_INCOMPATIBLE
	// A limit was reached. The detail "limit" names it.
	ErrResourceExhausted Code = C.TENON_RESOURCE_EXHAUSTED
	// This build, this kernel or this object cannot do it.
	ErrUnsupported Code = C.TENON_UNSUPPORTED
	// The other process closed its end or died.
	ErrPeerGone Code = C.TENON_PEER_GONE
	// TryRecv or TrySend would have had to wait.
	ErrWouldBlock Code = C.TENON_WOULD_BLOCK
	ErrTimeout    Code = C.TENON_TIMEOUT // the time is over: call again to continue
	// A signal ended the wait. Signals do not end the waits of this package.
	ErrInterrupted Code = C.TENON_INTERRUPTED
	// The context ended the wait. Call again to continue.
	ErrCancelled Code = C.TENON_CANCELLED
	// The system refused for another reason. The detail "errno" has its number.
	ErrIO       Code = C.TENON_IO
	ErrInternal Code = C.TENON_INTERNAL // Tenon has a defect: please report it
)

// String returns the name of the code, such as "RESOURCE_EXHAUSTED".
func (c Code) String() string { return C.GoString(C.tenon_status_name(C.tenon_status(c))) }

// Error returns "tenon: " and the name of the code.
func (c Code) Error() string { return "tenon: " + c.String() }

// Is matches the error of the standard library that means the same: fs.ErrNotExist,
// fs.ErrPermission, os.ErrDeadlineExceeded, context.DeadlineExceeded, context.Canceled,
// errors.ErrUnsupported.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == ErrNotFound
	case fs.ErrPermission:
		return c == ErrPermission
	case os.ErrDeadlineExceeded, context.DeadlineExceeded:
		return c == ErrTimeout
	case context.Canceled:
		return c == ErrCancelled
	case errors.ErrUnsupported:
		return c == ErrUnsupported
	}
	return false
}

// Timeout says whether the time was over. It is the method of net.Error.
func (c Code) Timeout() bool { return c == ErrTimeout }

// Error says why a call failed, in the words of the C library.
type Error struct {
	Code    Code
	Message string // one line that names the object and the cause
	// Facts by their keys, such as "errno", "limit", "in_use", "path", "field", "option" and
	// "holders". tenon_error_detail lists all keys. May be nil.
	Details map[string]string
	Cause   error // the error that led to it: another *Error, or the context's own; may be nil
}

// Error returns the message, followed by the cause if there is one.
func (e *Error) Error() string {
	if e.Cause == nil {
		return "tenon: " + e.Message
	}
	return "tenon: " + e.Message + ": " + e.Cause.Error()
}

// Is matches the error's Code, the errors that the Code matches, and the syscall.Errno of the
// detail "errno".
func (e *Error) Is(target error) bool {
	switch wanted := target.(type) {
	case Code:
		return e.Code == wanted
	case syscall.Errno:
		number, ok := e.errno()
		return ok && number == wanted
	}
	return e.Code.Is(target)
}

// As gives the Code, and the syscall.Errno of the detail "errno".
func (e *Error) As(target any) bool {
	switch wanted := target.(type) {
	case *Code:
		*wanted = e.Code
		return true
	case *syscall.Errno:
		number, ok := e.errno()
		if ok {
			*wanted = number
		}
		return ok
	}
	return false
}

func (e *Error) errno() (syscall.Errno, bool) {
	number, err := strconv.ParseUint(e.Details["errno"], 10, 16)
	return syscall.Errno(number), err == nil && number != 0
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Timeout says whether the time was over. It is the method of net.Error.
func (e *Error) Timeout() bool { return e.Code.Timeout() }

// ErrClosed is the error of a call on an object that was closed. os.ErrClosed and net.ErrClosed
// match it too.
var ErrClosed error = errClosed{}

type errClosed struct{}

func (errClosed) Error() string { return "tenon: already closed: use it before Close" }

func (errClosed) Is(target error) bool { return target == os.ErrClosed || target == net.ErrClosed }

// closedError names the type of a closed object.
type closedError string

func (e closedError) Error() string {
	return "tenon: the " + string(e) + " is already closed: use it before Close"
}

func (closedError) Unwrap() error { return ErrClosed }

// check makes a Go error of the status of a call, and of the error that the call stored in failure.
func check(status C.tenon_status, failure **C.tenon_error) error {
	if status == C.TENON_OK {
		return nil
	}
	return takeError(status, *failure)
}

// takeError makes a Go error from the error of a failed call, and releases the latter.
func takeError(status C.tenon_status, failure *C.tenon_error) error {
	if failure == nil { // there was not even memory for the error
		return &Error{Code: Code(status), Message: Code(status).String()}
	}
	defer C.tenon_error_release(failure)
	return readError(failure)
}

func readError(failure *C.tenon_error) *Error {
	e := &Error{
		Code:    Code(C.tenon_error_code(failure)),
		Message: C.GoString(C.tenon_error_message(failure)),
	}
	for index := C.size_t(0); ; index++ {
		key := C.tenon_error_detail_key(failure, index)
		if key == nil {
			break
		}
		if e.Details == nil {
			e.Details = make(map[string]string)
		}
		e.Details[C.GoString(key)] = C.GoString(C.tenon_error_detail(failure, key))
	}
	if cause := C.tenon_error_cause(failure); cause != nil {
		e.Cause = readError(cause)
	}
	return e
}

// invalid makes an error that this package itself found.
func invalid(message string) error { return &Error{Code: ErrInvalidArgument, Message: message} }
