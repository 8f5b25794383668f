//go:build tenon_debug

package tenon

import "runtime"

// collect runs around every call: an object that a call forgot to keep alive is gone in the middle of it, here and not once a month.
func collect() { runtime.GC() }
