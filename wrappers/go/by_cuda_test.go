// Tests of device memory where there is no device.

package tenon_test

import (
	"errors"
	"strings"
	"testing"

	"libtenon/tenon"
)

func TestCUDAAvailable(t *testing.T) {
	err := tenon.CUDAAvailable()
	again := tenon.CUDAAvailable()
	if err == nil {
		if again != nil {
			t.Fatal("another answer: ", again)
		}
		return
	}
	if !errors.Is(err, tenon.ErrUnsupported) || !strings.Contains(err.Error(), "CUDA") {
		t.Fatal(err)
	}
	if again == nil || again.Error() != err.Error() {
		t.Fatal("another answer: ", again)
	}
}

// tests/process/cuda/go has the tests with device memory.
func TestCUDAWithoutDeviceMemory(t *testing.T) {
	storage := must(tenon.NewStorage(64, nil))
	defer storage.Close()
	if _, err := storage.ShareCUDA(0, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error("share: ", err)
	}
	if err := storage.OrderStream(0); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Errorf("a stream after those of the host's memory: %v", err)
	}
	if err := storage.RecordStream(0); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error("record: ", err)
	}
	for _, counter := range []string{"/a\x00b", strings.Repeat("a", 256)} {
		if _, err := tenon.OpenCUDA(tenon.CUDAHandle{Counter: counter}, 0, nil); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Errorf("open with the counter %q: %v", counter, err)
		}
	}
	if err := tenon.ReleaseCUDACounter("no slash", 0); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error("release: ", err)
	}
	check(t, tenon.ReleaseCUDACounter("/tenon-cuda-0123456789abcdef0123456789abcdef", 0))
	if tenon.CUDAAvailable() == nil {
		return
	}
	handle := tenon.CUDAHandle{NBytes: 64, Memory: make([]byte, 64), Counter: "/tenon-cuda-none"}
	if _, err := tenon.OpenCUDA(handle, 0, nil); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error("open: ", err)
	}
	if waiting := tenon.CUDACollect(); waiting != 0 {
		t.Error(waiting, " storages wait")
	}
}
