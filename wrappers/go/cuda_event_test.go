// Tests of CUDA events where there is no device.

package tenon_test

import (
	"context"
	"errors"
	"testing"

	"libtenon/tenon"
)

// tests/process/cuda/go has the tests with a device.
func TestCUDAEventWithoutADevice(t *testing.T) {
	if _, err := tenon.NewCUDAEvent(&tenon.CUDAEventOptions{Device: -1}); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Error("device -1: ", err)
	}
	event := new(tenon.CUDAEvent)
	_, ofQuery := event.Query()
	_, ofHandle := event.IPCHandle()
	for _, err := range []error{
		event.Record(0), event.Wait(0), event.Synchronize(context.Background()), ofQuery, ofHandle,
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error("the zero value: ", err)
		}
	}
	if err := event.Close(); err != nil {
		t.Error(err)
	}
	if tenon.CUDAAvailable() == nil {
		return
	}
	if _, err := tenon.NewCUDAEvent(nil); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error("new: ", err)
	}
	if _, err := tenon.OpenCUDAEvent([64]byte{}, 0); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error("open: ", err)
	}
}
