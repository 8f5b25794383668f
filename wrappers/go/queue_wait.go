// How goroutines wait for a queue: by Go's network poller, on an fd of the queue.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"
)

// A blocked call of C would keep a thread of the operating system for each goroutine that waits.
// It would also look every 20 ms whether its context has ended. The poller needs neither.

// watcher is an fd of its own to the queue's eventfd. An fd serves one goroutine at a time.
type watcher struct {
	file *os.File
	conn syscall.RawConn
}

// watchers are those of one side of a queue. They are kept for the next waits.
type watchers struct {
	mutex  sync.Mutex
	free   []*watcher
	active map[*watcher]struct{}
	over   bool
}

// take gives a watcher. dup makes an fd for a new one.
func (w *watchers) take(dup func() (int, error)) (*watcher, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.over {
		return nil, closedError(kindNames[kindQueue])
	}
	if w.active == nil {
		w.active = make(map[*watcher]struct{})
	}
	var one *watcher
	if n := len(w.free); n > 0 {
		one, w.free = w.free[n-1], w.free[:n-1]
	} else {
		fd, err := dup()
		if err != nil {
			return nil, err
		}
		file := os.NewFile(uintptr(fd), "queue")
		conn, err := file.SyscallConn()
		if err != nil {
			file.Close()
			return nil, err
		}
		one = &watcher{file, conn}
	}
	w.active[one] = struct{}{}
	return one, nil
}

// give takes a watcher back, and returns whether another goroutine still waits.
func (w *watchers) give(one *watcher) (others bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.active, one)
	if w.over || one.file.SetReadDeadline(time.Time{}) != nil {
		one.file.Close()
	} else {
		w.free = append(w.free, one)
	}
	return len(w.active) > 0
}

// end ends all waits with ErrClosed.
func (w *watchers) end() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.over = true
	for one := range w.active {
		one.interrupt()
	}
	for _, one := range w.free {
		one.file.Close()
	}
	w.free = nil
}

func (w *watchers) isOver() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.over
}

// interrupt ends a read of the watcher that waits, or the next one.
func (w *watcher) interrupt() { w.file.SetReadDeadline(time.Unix(1, 0)) }

// await calls try, which does not wait, until its error is not ErrWouldBlock. In between it waits
// until the queue's fd is readable, ctx ends, or the queue is closed.
func (w *watchers) await(
	ctx context.Context, queue *C.tenon_queue, dup func() (int, error), try func() error,
) error {
	one, err := w.take(dup)
	if err != nil {
		return err
	}
	result := error(ErrWouldBlock)
	defer func() {
		// A sender may have woken this process for a message that no goroutine receives any more.
		if others := w.give(one); !others && result == ErrWouldBlock {
			C.tenon_queue_pause_fds(queue)
		}
	}()
	if ctx.Done() != nil {
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			one.interrupt()
			close(interrupted)
		})
		defer func() {
			if !stop() {
				<-interrupted // the next wait must not find the interruption of this one
			}
		}()
	}
	// The poller hears only of changes. It keeps those that come while try runs.
	err = one.conn.Read(func(uintptr) bool {
		result = try()
		return result != ErrWouldBlock
	})
	if err == nil || result != ErrWouldBlock {
		return result
	}
	if w.isOver() {
		return closedError(kindNames[kindQueue])
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}
