package cuda

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"libtenon/tenon"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// tensorOn returns device memory as a tensor and as a storage, if there is a driver.
func tensorOn(t *testing.T) (Foreign, *tenon.Tensor, *tenon.Storage) {
	t.Helper()
	needsDriver(t)
	return taken(NewForeign())
}

func readOnlyTensorOn(t *testing.T) (Foreign, *tenon.Tensor, *tenon.Storage) {
	t.Helper()
	needsDriver(t)
	return taken(NewReadOnlyForeign())
}

func taken(foreign Foreign) (Foreign, *tenon.Tensor, *tenon.Storage) {
	tensor := must(tenon.FromDLPack(foreign.Managed()))
	return foreign, tensor, must(tensor.Storage())
}

func expect(t *testing.T, what string, err error, code tenon.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: %v, not %v", what, err, code)
	}
}

func waiting(t *testing.T, foreign Foreign, storages uint64, freed int) {
	t.Helper()
	patience := patient(t)
	for storages == 0 && !OnTheFake() && tenon.CUDACollect() != 0 && patience.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if count := tenon.CUDACollect(); count != storages || foreign.Freed() != freed {
		t.Fatalf(
			"%d storages wait, not %d; freed %d times, not %d",
			count,
			storages,
			foreign.Freed(),
			freed,
		)
	}
}

func TestLentAndOpenedInOneProcessItIsTheSameStorage(t *testing.T) {
	foreign, tensor, storage := tensorOn(t)
	if err := tenon.CUDAAvailable(); err != nil {
		t.Fatal(err)
	}
	handle := must(storage.ShareCUDA(0, nil))
	if handle.Transport != tenon.CUDAIPC || handle.Device != 0 || handle.UUID == nil ||
		handle.NBytes != 128 || handle.Offset != 64 || len(handle.Memory) != 64 ||
		!strings.HasPrefix(handle.Counter, "/tenon-cuda-") {
		t.Errorf("%+v", handle)
	}
	opened := must(tenon.OpenCUDA(handle, 0, nil))
	if opened.ID() != storage.ID() {
		t.Error("another storage")
	}
	// 2 is the calling thread's default stream, and no address.
	if err := opened.OrderStream(2); err != nil {
		t.Fatal(err)
	}
	if err := opened.RecordStream(2); err != nil {
		t.Error(err)
	}
	opened.Close()
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 0, 1)
}

func TestToAnArchiveAndBack(t *testing.T) {
	foreign, tensor, storage := tensorOn(t)
	module := must(tenon.NewModule("Net"))
	value := must(tenon.NewTensorValue(tensor))
	if err := module.AddParameter("w", value); err != nil {
		t.Fatal(err)
	}
	value.Close()
	var plain, kept bytes.Buffer
	must(tenon.ExportModuleTo(module, &plain, nil))
	must(tenon.ExportModuleTo(module, &kept, &tenon.ExportOptions{KeepDevice: true, Stream: 2}))
	if bytes.Contains(plain.Bytes(), []byte("cuda:0")) ||
		!bytes.Contains(kept.Bytes(), []byte("cuda:0")) {
		t.Error("the device is kept if asked")
	}
	module.Close()
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 0, 1)
	read := func(options *tenon.ImportOptions) (*tenon.Module, error) {
		return tenon.ImportModuleBytes(kept.Bytes(), options)
	}
	for wanted, options := range map[tenon.Device]*tenon.ImportOptions{
		{Type: 1}: nil, {Type: 2}: {Tensors: tenon.ImportDevice},
	} {
		module := must(read(options))
		member := must(module.Find("w"))
		tensor := must(member.Value.Tensor())
		storage := must(tensor.Storage())
		if found := storage.Device(); found != wanted {
			t.Errorf("on %v, not %v", found, wanted)
		}
		storage.Close()
		tensor.Close()
		member.Close()
		module.Close()
	}
	_, err := read(&tenon.ImportOptions{Tensors: tenon.ImportDevice, Device: 999})
	expect(t, "another device", err, tenon.ErrInvalidArgument)
}

func TestAMessageIsTakenBackUnopened(t *testing.T) {
	foreign, tensor, storage := tensorOn(t)
	handle := must(storage.ShareCUDA(0, &tenon.ShareCUDAOptions{Form: tenon.CUDAFormE}))
	if len(handle.Memory) != 66 || handle.Memory[0] != 3 || handle.Memory[1] != 'c' {
		t.Error(handle.Memory)
	}
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 1, 0)
	if err := tenon.ReleaseCUDACounter(handle.Counter, handle.Slot); err != nil {
		t.Fatal(err)
	}
	waiting(t, foreign, 0, 1)
	expect(t, "again", tenon.ReleaseCUDACounter(handle.Counter, handle.Slot), tenon.ErrCorrupt)
}

func TestWhatIsRefused(t *testing.T) {
	foreign, tensor, storage := tensorOn(t)
	_, err := storage.ShareCUDA(0, &tenon.ShareCUDAOptions{Form: 9})
	expect(t, "form", err, tenon.ErrInvalidArgument)
	handle := must(storage.ShareCUDA(0, nil))
	for _, device := range []int32{999, -1} {
		_, err = tenon.OpenCUDA(handle, 0, &tenon.OpenCUDAOptions{Device: &device})
		expect(t, "device", err, tenon.ErrInvalidArgument)
	}
	// This segment of fabric handles is longer than the C struct's field for a memory handle. It is
	// read in full, and then refused by name.
	segment := handle
	segment.Memory = make([]byte, 2+24+100*64)
	segment.Memory[0], segment.Memory[1], segment.Memory[2] = 2, 'e', 1
	segment.Memory[11], segment.Memory[18] = 1, 100
	_, err = tenon.OpenCUDA(segment, 0, nil)
	expect(t, "segment", err, tenon.ErrUnsupported)
	if err := tenon.ReleaseCUDACounter(handle.Counter, handle.Slot); err != nil {
		t.Error(err)
	}
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 0, 1)
}

func TestNoSliceShowsIt(t *testing.T) {
	foreign, tensor, storage := tensorOn(t)
	view := must(tensor.View())
	for what, device := range map[string]tenon.Device{
		"storage": storage.Device(), "tensor": tensor.Device(), "view": view.Device(),
	} {
		if device != (tenon.Device{Type: 2, ID: 0}) {
			t.Errorf("%s: %v", what, device)
		}
	}
	_, err := storage.Bytes()
	expect(t, "Bytes", err, tenon.ErrUnsupported)
	if !strings.Contains(err.Error(), "device (2, 0)") {
		t.Error(err)
	}
	_, err = storage.ReadOnlyBytes()
	expect(t, "ReadOnlyBytes", err, tenon.ErrUnsupported)
	expect(
		t,
		"WithBytes",
		storage.WithBytes(func([]byte) error { return nil }),
		tenon.ErrUnsupported,
	)
	_, err = storage.ReadAt(make([]byte, 1), 0)
	expect(t, "ReadAt", err, tenon.ErrUnsupported)
	_, err = storage.WriteAt(make([]byte, 1), 0)
	expect(t, "WriteAt", err, tenon.ErrUnsupported)
	_, err = tenon.Slice[float32](tensor)
	expect(t, "Slice", err, tenon.ErrUnsupported)
	_, err = tenon.Slice[float32](view)
	expect(t, "Slice of a view", err, tenon.ErrUnsupported)
	_, err = tenon.ReadOnlySlice[float32](tensor)
	expect(t, "ReadOnlySlice", err, tenon.ErrUnsupported)
	expect(
		t,
		"With",
		tenon.With(tensor, func([]float32) error { return nil }),
		tenon.ErrUnsupported,
	)
	_, err = tenon.NewView[float32](tensor)
	expect(t, "NewView", err, tenon.ErrUnsupported)
	if first := foreign.First(); first != 0x5a {
		t.Errorf("the first byte is %#x", first)
	}
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 0, 1)
}
