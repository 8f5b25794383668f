// Tests of arenas on a device where there is no device.

package tenon_test

import (
	"context"
	"errors"
	"testing"

	"libtenon/tenon"
)

// tests/process/cuda/go has the tests with a device.
func TestCUDAArenaWithoutADevice(t *testing.T) {
	if _, err := tenon.NewCUDAArena(
		&tenon.CUDAArenaOptions{Device: -1, Capacity: 1 << 20},
	); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error("device -1: ", err)
	}
	arena := new(tenon.CUDAArena)
	_, ofAllocate := arena.Allocate(nil, 1)
	_, ofWait := arena.Allocate(context.Background(), 1)
	_, ofStats := arena.Stats()
	for _, err := range []error{
		ofAllocate, ofWait, ofStats, (*tenon.Connection)(nil).SetStream(0, 0),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error("the zero value: ", err)
		}
	}
	if err := arena.Close(); err != nil {
		t.Error(err)
	}
	if tenon.CUDAAvailable() == nil {
		return
	}
	if _, err := tenon.NewCUDAArena(&tenon.CUDAArenaOptions{Capacity: 1 << 20}); !errors.Is(
		err,
		tenon.ErrUnsupported,
	) {
		t.Error("new: ", err)
	}
}
