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

// Code is what a call came to, chosen by what a caller can do about it. A Code is an error itself,
// the target of errors.Is:
//
//	if errors.Is(err, tenon.ErrPeerGone) { … }
type Code int32

// The codes of the C library. Their numbers never change.
const (
	// The call is wrong whatever the state of the machine: mend the program.
	ErrInvalidArgument Code = C.TENON_INVALID_ARGUMENT
	// The object does not allow it: ask for other access, or another mode at birth.
	ErrPermission Code = C.TENON_PERMISSION
	ErrNotFound   Code = C.TENON_NOT_FOUND // no such object (any more)
	// Bytes or an fd from outside are not what they claim.
	ErrCorrupt Code = C.TENON_CORRUPT
	// Made by a version that this one does not read.
	ErrIncompatible Code = C.TENON_INCOMPATIBLE
	// A limit was met; the detail "limit" names it.
	ErrResourceExhausted Code = C.TENON_RESOURCE_EXHAUSTED
	// This build, kernel or object cannot do it.
	ErrUnsupported Code = C.TENON_UNSUPPORTED
	// The other process closed its end or died.
	ErrPeerGone Code = C.TENON_PEER_GONE
	// TryRecv or TrySend had nothing to do at once.
	ErrWouldBlock Code = C.TENON_WOULD_BLOCK
	ErrTimeout    Code = C.TENON_TIMEOUT // the time is over: call again to go on
	// A signal ended the wait; waits of this package go on by themselves.
	ErrInterrupted Code = C.TENON_INTERRUPTED
	// The context ended the wait: call again to go on.
	ErrCancelled Code = C.TENON_CANCELLED
	// The system refused; see the detail "errno".
	ErrIO       Code = C.TENON_IO
	ErrInternal Code = C.TENON_INTERNAL // a defect in Tenon: please report it
)

// String is the name of the code, as in "RESOURCE_EXHAUSTED".
func (c Code) String() string { return C.GoString(C.tenon_status_name(C.tenon_status(c))) }

// Error is "tenon: " and the name.
func (c Code) Error() string { return "tenon: " + c.String() }

// Is matches the errors of the standard library that mean the same: fs.ErrNotExist,
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

// Timeout says whether the time was over, as in net.Error.
func (c Code) Timeout() bool { return c == ErrTimeout }

// Error is why a call failed: what the C library says, as it says it.
type Error struct {
	Code    Code
	Message string // one line that names the object and the cause
	// "errno", "limit", "limit_value", "in_use", "wanted", "path", "fd", "pid", "uid", "field",
	// "option", "holders", "part", "index", "offset"; may be nil
	Details map[string]string
	Cause   error // what led to it: another *Error, or the context's own error; may be nil
}

// Error is the message, with its cause if there is one.
func (e *Error) Error() string {
	if e.Cause == nil {
		return "tenon: " + e.Message
	}
	return "tenon: " + e.Message + ": " + e.Cause.Error()
}

// Is matches the error's Code, what the Code matches, and the syscall.Errno of the detail "errno".
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

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Timeout says whether the time was over, as in net.Error.
func (e *Error) Timeout() bool { return e.Code.Timeout() }

// ErrClosed is the error of a call on an object that was closed; os.ErrClosed and net.ErrClosed
// match it too.
var ErrClosed error = errClosed{}

type errClosed struct{}

func (errClosed) Error() string { return "tenon: already closed: use it before Close" }

func (errClosed) Is(target error) bool { return target == os.ErrClosed || target == net.ErrClosed }

// closedError is the name of a closed object's type.
type closedError string

func (e closedError) Error() string {
	return "tenon: the " + string(e) + " is already closed: use it before Close"
}

func (closedError) Unwrap() error { return ErrClosed }

// takeError makes a Go error of a failed call's, and gives that back.
func takeError(status C.tenon_status, failure *C.tenon_error) error {
	if failure == nil { // there was no memory even for the error
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

// invalid is an error that this package itself finds.
func invalid(message string) error { return &Error{Code: ErrInvalidArgument, Message: message} }
