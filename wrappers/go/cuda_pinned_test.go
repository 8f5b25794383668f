// Tests of pinned memory where there is no device.

package tenon_test

import (
	"errors"
	"testing"

	"libtenon/tenon"
)

// tests/process/cuda/go has the tests with a device.
func TestCUDAPinnedWithoutADevice(t *testing.T) {
	private := must(tenon.NewStorage(64, &tenon.StorageOptions{Private: true}))
	defer private.Close()
	if _, err := private.Pin(0); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error("private: ", err)
	}
	storage := must(tenon.NewStorage(64, nil))
	defer storage.Close()
	if _, err := storage.Pin(-1); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error("device -1: ", err)
	}
	if storage.IsPinned() {
		t.Error("pinned")
	}
	if tenon.CUDAAvailable() == nil {
		return
	}
	if _, err := storage.Pin(0); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error("pin: ", err)
	}
}
