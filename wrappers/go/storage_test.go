// Tests of storages, and of Close in every type.

package tenon_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"libtenon/tenon"
)

func TestStorage(t *testing.T) {
	nothingLeft(t)
	s := must(tenon.NewStorage(100, &tenon.StorageOptions{Zeroed: true, Alignment: 4096}))
	defer s.Close()
	data := must(s.Bytes())
	if len(data) != 100 || !bytes.Equal(data, make([]byte, 100)) {
		t.Fatalf("not 100 zeros: %v", data)
	}
	copy(data, "hello")
	if n, err := s.WriteAt([]byte("world"), 95); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	room := make([]byte, 10)
	if n, err := s.ReadAt(room, 92); n != 8 || err != io.EOF || string(room[3:8]) != "world" {
		t.Fatal(n, err, room)
	}
	if n, err := s.ReadAt(room, 0); n != 10 || err != nil || string(room[:5]) != "hello" {
		t.Fatal(n, err, room)
	}
	if n, err := s.ReadAt(room, 100); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
	if _, err := s.WriteAt(room, 91); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Fatal(err)
	}
	if _, err := s.WriteAt(room, -1); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Fatal(err)
	}
	if s.NBytes() != 100 || s.Mode() != tenon.Shared || s.IsReadOnly() || !s.IsShared() ||
		!s.IsSealed() ||
		s.Device() != (tenon.Device{Type: 1}) {
		t.Fatal("the storage does not say what it is")
	}
	other := must(s.Retain())
	defer other.Close()
	if other.ID() != s.ID() || !other.SameMemory(s) || s.UseCount() != 2 {
		t.Fatal("a retained storage is the same one")
	}
	empty := must(tenon.NewStorage(0, nil))
	defer empty.Close()
	if data := must(empty.Bytes()); data == nil || len(data) != 0 {
		t.Fatal("an empty storage has an empty slice")
	}
}

func TestWillFill(t *testing.T) {
	nothingLeft(t)
	s := must(tenon.NewStorage(8, &tenon.StorageOptions{WillFill: true}))
	defer s.Close()
	copy(must(s.Bytes()), "12345678")
	if string(must(s.ReadOnlyBytes())) != "12345678" {
		t.Fatal("not as it was filled")
	}
	if _, err := tenon.NewStorage(
		8, &tenon.StorageOptions{Zeroed: true, WillFill: true},
	); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestFrozen(t *testing.T) {
	nothingLeft(t)
	s := must(tenon.NewStorage(8, &tenon.StorageOptions{Mode: tenon.Frozen}))
	defer s.Close()
	if _, err := s.Bytes(); !errors.Is(err, tenon.ErrPermission) ||
		!errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
	must(s.WriteAt([]byte("12345678"), 0))
	check(t, s.Freeze())
	check(t, s.Freeze())
	if _, err := s.WriteAt([]byte("x"), 0); !errors.Is(err, tenon.ErrPermission) {
		t.Fatal(err)
	}
	if string(must(s.ReadOnlyBytes())) != "12345678" || s.Mode() != tenon.Frozen ||
		!s.IsReadOnly() {
		t.Fatal("not as it was frozen")
	}
}

func TestWeakRef(t *testing.T) {
	nothingLeft(t)
	s := must(tenon.NewStorage(8, nil))
	w := must(s.WeakRef())
	defer w.Close()
	again := must(w.Lock())
	if again.ID() != s.ID() || w.ID() != s.ID() || w.Expired() {
		t.Fatal("the weak reference knows another storage")
	}
	s.Close()
	if w.Expired() {
		t.Fatal("expired too early")
	}
	again.Close()
	if _, err := w.Lock(); !errors.Is(err, tenon.ErrNotFound) || !w.Expired() || w.ID() == 0 {
		t.Fatal(err)
	}
}

// The test closes an object of every type twice, and then uses it.
func TestCloseAndUse(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 4, nil)
	storage := must(tensor.Storage())
	weak := must(storage.WeakRef())
	message := must(tenon.NewMessage(tensor))
	descriptor := must(tenon.NewDescriptor(message, nil))
	view := must(tensor.View())
	first, second, err := tenon.Pair()
	check(t, err)
	handle := must(storage.ShareFD(nil))
	for range 2 {
		for _, each := range []io.Closer{
			tensor, storage, weak, message, descriptor, first, second, handle,
		} {
			check(t, each.Close())
		}
	}
	closed := func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, tenon.ErrClosed) || !errors.Is(err, os.ErrClosed) {
			t.Errorf("the error is %v", err)
		}
	}
	ctx := background(t)
	closed(storage.Bytes())
	closed(storage.ReadOnlyBytes())
	closed(storage.WriteAt(nil, 0))
	closed(storage.ReadAt(nil, 0))
	closed(nil, storage.Freeze())
	closed(storage.WeakRef())
	closed(storage.ShareFD(nil))
	closed(storage.ShareFilename(ctx, nil))
	closed(storage.Retain())
	closed(nil, storage.WithBytes(func([]byte) error { return nil }))
	closed(weak.Lock())
	closed(tenon.NewTensor(storage, tenon.Spec{DType: tenon.Uint8}))
	closed(tensor.Spec())
	closed(tensor.Storage())
	closed(tensor.View())
	closed(tensor.Retain())
	closed(tensor.ToDLPack())
	closed(tenon.Slice[float32](tensor))
	closed(tenon.Slice[float32](view))
	closed(tenon.ReadOnlySlice[float32](view))
	closed(tenon.NewView[float32](view))
	closed(nil, tenon.With(view, func([]float32) error { return nil }))
	closed(tenon.NewMessage(tensor))
	closed(message.Views())
	closed(message.Tensors())
	closed(message.Tensor(0))
	closed(message.Find("x"))
	closed(nil, message.Add("x", tensor))
	closed(nil, message.SetUserBytes(nil))
	closed(tenon.NewDescriptor(message, nil))
	closed(nil, first.Send(ctx, message))
	closed(first.Recv(ctx))
	closed(first.TryRecv())
	if storage.NBytes() != 0 || tensor.Numel() != 0 || message.Len() != 0 || first.FD() != -1 ||
		descriptor.Bytes() != nil ||
		weak.ID() != 0 {
		t.Error("a closed object says something")
	}
	if _, err := tenon.OpenFD(handle, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestStorageAt(t *testing.T) {
	nothingLeft(t)
	s := must(tenon.NewStorage(100, nil))
	data := must(s.Bytes())
	address := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	found, offset, err := tenon.StorageAt(address+30, 70)
	if err != nil || offset != 30 || found.ID() != s.ID() {
		t.Fatal(found, offset, err)
	}
	found.Close()
	if _, _, err := tenon.StorageAt(address+30, 71); !errors.Is(err, tenon.ErrNotFound) {
		t.Fatal(err)
	}
	s.Close()
	if _, _, err := tenon.StorageAt(address, 1); !errors.Is(err, tenon.ErrNotFound) {
		t.Fatal(err)
	}
}

// Nil and zero values give errors.
func TestNothing(t *testing.T) {
	nothingLeft(t)
	var storage *tenon.Storage
	var message tenon.Message
	var view tenon.TensorView
	bad := func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	bad(storage.Bytes())
	bad(new(tenon.Storage).WeakRef())
	bad(storage.Retain())
	bad(tenon.NewTensor(nil, tenon.Spec{DType: tenon.Uint8}))
	bad(tenon.Slice[uint8]((*tenon.Tensor)(nil)))
	bad(tenon.Slice[uint8](new(tenon.Tensor)))
	bad(tenon.Slice[uint8](view))
	bad(nil, message.Add("x", nil))
	bad(tenon.NewMessage(nil, nil))
	bad(tenon.OpenFD(nil, nil))
	bad(nil, (*tenon.Connection)(nil).Send(background(t), nil))
	check(t, message.Close())
	check(t, (*tenon.Connection)(nil).Close())
}

// A collection frees every object that was not closed: nothingLeft waits for that.
func TestForgotten(t *testing.T) {
	nothingLeft(t)
	for range rounds(20) {
		storage := must(tenon.NewStorage(1000, nil))
		must(storage.WeakRef())
		must(storage.ShareFD(nil))
		tensor := must(tenon.FromSlice([]int64{1, 2}, []int64{2}, nil))
		message := must(tenon.NewMessage(tensor))
		must(message.Tensors())
		must(tenon.NewDescriptor(message, nil))
		must(tenon.NewView[int64](tensor))
		first, second, err := tenon.Pair()
		check(t, err)
		check(t, first.Send(background(t), message))
		must(must(second.Recv(background(t))).Views())
	}
}

// Several goroutines close one storage while all of them use it. Each call works or returns
// ErrClosed.
func TestCloseWhileUsed(t *testing.T) {
	nothingLeft(t)
	for range rounds(50) {
		tensor := must(tenon.FromSlice(make([]int32, 1000), []int64{1000}, nil))
		storage := must(tensor.Storage())
		message := must(tenon.NewMessage(tensor))
		views := must(message.Views())
		var group sync.WaitGroup
		for worker := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := range 20 {
					fine := func(err error) {
						if err != nil && !errors.Is(err, tenon.ErrClosed) {
							t.Error(err)
						}
					}
					fine(
						tenon.With(
							tensor,
							func(values []int32) error { values[worker] = int32(i); return nil },
						),
					)
					fine(
						tenon.With(
							views[0],
							func(values []int32) error { values[worker]++; return nil },
						),
					)
					if view, err := tenon.NewView[int32](tensor); err == nil {
						tensor.Close()
						if view.At(999) != 0 || view.Len() != 1000 {
							t.Error("the view's elements went")
						}
						check(t, view.Close())
					}
					_, err := storage.Retain()
					fine(err)
					if i == worker {
						storage.Close()
						message.Close()
					}
				}
			}()
		}
		group.Wait()
	}
}

func TestManyCollections(t *testing.T) {
	nothingLeft(t)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for i := range rounds(100) {
		view := must(
			tenon.NewView[float32](
				must(tenon.FromSlice([]float32{float32(i), 2, 3}, []int64{3}, nil)),
			),
		)
		sum := float32(0)
		for _, value := range view.All() {
			runtime.Gosched()
			sum += value
		}
		if sum != float32(i)+5 {
			t.Fatal(sum)
		}
		if err := tenon.With(
			must(tenon.FromSlice(make([]byte, 1<<20), []int64{1 << 20}, nil)),
			func(values []byte) error {
				for k := range values {
					values[k]++
				}
				return nil
			},
		); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	group.Wait()
}
