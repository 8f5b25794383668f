// Tests of storages over memory that the program provides.

package tenon_test

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"libtenon/tenon"
)

func TestWrap(t *testing.T) {
	nothingLeft(t)
	var released atomic.Int32
	data := []byte("wrapped bytes")
	s := must(tenon.Wrap(data, func() { released.Add(1) }, nil))
	weak := must(s.WeakRef())
	defer weak.Close()
	runtime.GC()
	must(s.Bytes())[0] = 'W'
	if data[0] != 'W' || s.IsShared() {
		t.Error("not the same bytes")
	}
	if _, err := s.ShareFD(nil); !errors.Is(err, tenon.ErrUnsupported) ||
		!errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	tensor := must(tenon.NewTensor(s, tenon.Spec{DType: tenon.Uint8, Sizes: []int64{13}}))
	s.Close()
	if released.Load() != 0 {
		t.Error("released too early")
	}
	tensor.Close()
	if released.Load() != 1 {
		t.Error("not released")
	}
	readOnly := must(tenon.Wrap(data, nil, &tenon.WrapOptions{ReadOnly: true}))
	defer readOnly.Close()
	if _, err := readOnly.Bytes(); !errors.Is(err, tenon.ErrPermission) {
		t.Error(err)
	}
	must(tenon.Wrap(nil, nil, nil)).Close()
	// Nobody closes this storage, so a collection must free it.
	must(tenon.Wrap(make([]byte, 100), func() { released.Add(1) }, nil))
	for released.Load() != 2 {
		runtime.GC()
		runtime.Gosched()
	}
}

func TestPanicInRelease(t *testing.T) {
	nothingLeft(t)
	var seen []string
	tenon.HandlePanics(func(value any, stack []byte) {
		seen = append(seen, value.(string))
		if !strings.Contains(string(stack), "TestPanicInRelease") {
			t.Error("the stack does not show who panicked")
		}
	})
	defer tenon.HandlePanics(nil)
	must(tenon.Wrap(make([]byte, 1), func() { panic("first") }, nil)).Close()
	must(tenon.Wrap(make([]byte, 1), func() { panic("second") }, nil)).Close()
	if strings.Join(seen, " ") != "first second" {
		t.Error(seen)
	}
	// A release function may use so much stack that the stack moves, and may collect garbage.
	var deep func(n int) int
	deep = func(n int) int {
		var room [1000]byte
		if n == 0 {
			runtime.GC()
			return 0
		}
		return int(room[n%len(room)]) + deep(n-1)
	}
	for range 10 {
		must(tenon.Wrap(make([]byte, 1), func() { deep(1000) }, nil)).Close()
	}
	// A release function may call Tenon.
	inner := must(tenon.NewStorage(10, nil))
	must(tenon.Wrap(make([]byte, 1), func() { inner.Close() }, nil)).Close()
	if !inner.Closed() {
		t.Error("the inner storage is open")
	}
}

func TestDLPack(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 6, nil)
	frozen := floats(t, 6, &tenon.StorageOptions{Mode: tenon.Frozen})
	managed := must(tensor.ToDLPack())
	taken := must(tenon.FromDLPack(managed))
	must(tenon.Slice[float32](taken))[2] = 22
	if must(tenon.Slice[float32](tensor))[2] != 22 {
		t.Error("not the same memory")
	}
	taken.Close()
	legacy := must(tenon.FromDLPackLegacy(must(tensor.ToDLPackLegacy())))
	if must(tenon.Slice[float32](legacy))[2] != 22 {
		t.Error("not the same memory")
	}
	legacy.Close()
	readOnly := must(tenon.FromDLPack(must(frozen.ToDLPack())))
	if _, err := tenon.Slice[float32](readOnly); !errors.Is(err, tenon.ErrPermission) {
		t.Error(err)
	}
	readOnly.Close()
	if _, err := frozen.ToDLPackLegacy(); !errors.Is(err, tenon.ErrPermission) {
		t.Error(err)
	}
	tenon.DeleteDLPack(must(tensor.ToDLPack()))
	tenon.DeleteDLPackLegacy(must(tensor.ToDLPackLegacy()))
	tenon.DeleteDLPack(nil)
	for _, from := range []func(unsafe.Pointer) (*tenon.Tensor, error){
		tenon.FromDLPack, tenon.FromDLPackLegacy,
	} {
		if _, err := from(nil); !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
}
