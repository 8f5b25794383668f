// Waits: how a call of C that waits ends with a context, or when its object is closed.

package tenon

// #include "tenon_go.h"
// #cgo nocallback tenon_cancel_trigger
import "C"

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// A wait occupies one thread of the operating system while it lasts, as every call of C does, and
// one fd for its cancel. It gives both back when it ends. A wait ends when its context ends, at the
// context's deadline, or when another goroutine closes the connection, the publisher or the
// subscriber. Queues wait in another way (queue_wait.go).

// ended returns the error of a context that is already done, or nil.
func ended(ctx context.Context) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{
			Code:    ErrTimeout,
			Message: "the context's deadline is over",
			Cause:   context.Cause(ctx),
		}
	default:
		return &Error{
			Code:    ErrCancelled,
			Message: "the context was cancelled",
			Cause:   context.Cause(ctx),
		}
	}
}

// waits are the cancels of the calls that wait now on an object, so that its Close can end these
// calls.
type waits struct {
	of    kind // the type of the object
	mutex sync.Mutex
	all   map[*C.tenon_cancel]struct{}
	over  bool
}

func (w *waits) add(cancel *C.tenon_cancel) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.over {
		C.tenon_cancel_trigger(cancel)
	}
	if w.all == nil {
		w.all = make(map[*C.tenon_cancel]struct{})
	}
	w.all[cancel] = struct{}{}
}

func (w *waits) remove(cancel *C.tenon_cancel) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.all, cancel)
}

func (w *waits) end() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.over = true
	for cancel := range w.all {
		C.tenon_cancel_trigger(cancel)
	}
}

func (w *waits) isOver() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.over
}

// wait runs step, which waits, with the timeout and the cancel that ctx and closers require. step
// returns how the wait ended. wait makes a cancel only if something can trigger it.
func wait(
	ctx context.Context,
	closers *waits,
	step func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status,
) error {
	if err := ended(ctx); err != nil {
		return err
	}
	var failure *C.tenon_error
	var cancel *C.tenon_cancel
	if ctx.Done() != nil || closers != nil {
		if status := C.tenon_cancel_new(&cancel, &failure); status != C.TENON_OK {
			return takeError(status, failure)
		}
		defer C.tenon_cancel_release(cancel)
	}
	if closers != nil {
		closers.add(cancel)
		defer closers.remove(cancel)
	}
	timeout := C.int64_t(-1)
	deadline, hasDeadline := ctx.Deadline()
	if hasDeadline {
		timeout = max(1, C.int64_t(time.Until(deadline)))
	}
	if ctx.Done() != nil {
		triggered := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			// At its deadline the call ends by its own timeout, whose error says more than the
			// error of a cancel.
			if !hasDeadline || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				C.tenon_cancel_trigger(cancel)
			}
			close(triggered)
		})
		defer func() {
			if !stop() {
				<-triggered // the cancel must exist until it was triggered
			}
		}()
	}
	status := step(timeout, cancel, &failure)
	if status == C.TENON_OK {
		return nil
	}
	err := takeError(status, failure)
	switch Code(status) {
	case ErrTimeout:
		if hasDeadline { // otherwise the library's own limit was reached
			err.(*Error).Cause = context.DeadlineExceeded
		}
	case ErrCancelled:
		if closers != nil && closers.isOver() {
			return closedError(kindNames[closers.of])
		}
		if done := ended(ctx); done != nil {
			done.(*Error).Details = err.(*Error).Details
			return done
		}
	}
	runtime.KeepAlive(closers)
	return err
}

// waiting is what a call of the C library takes that waits for a new object.
type waiting[P any] struct {
	timeout C.int64_t
	cancel  *C.tenon_cancel
	out     *P
	failure **C.tenon_error
}

// waitFor is as wait without closers, for a step that gives a new object. convert makes the result
// of that object.
func waitFor[P, T any](
	ctx context.Context, convert func(out P) T, step func(w waiting[P]) C.tenon_status,
) (none T, err error) {
	var out P
	err = wait(
		ctx,
		nil,
		func(timeout C.int64_t, cancel *C.tenon_cancel, failure **C.tenon_error) C.tenon_status {
			return step(waiting[P]{timeout, cancel, &out, failure})
		},
	)
	if err != nil {
		return none, err
	}
	return convert(out), nil
}
