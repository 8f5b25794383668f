//go:build tenon_debug

// Garbage collections around every call, for the build tag tenon_debug.

package tenon

import "runtime"

// collect runs around every call. An object that a call forgot to keep alive is then gone in the
// middle of that call, and not once a month.
func collect() {
	runtime.GC()
	// The cleanups of such objects run in goroutines of their own, which run here. Without this
	// line they would run after the call if there is one processor.
	runtime.Gosched()
}
