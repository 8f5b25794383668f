package cuda

import (
	"context"
	"testing"

	"libtenon/tenon"
)

// What wrappers/go/README.md shows of CUDA, word for word.
func doWhatTheReadmeSays(
	ctx context.Context,
	connection *tenon.Connection,
	stream, otherStream uintptr,
) error {
	if err := tenon.CUDAAvailable(); err != nil {
		return err // why not
	}
	// One allocation, which a receiver opens once.
	arena, err := tenon.NewCUDAArena(&tenon.CUDAArenaOptions{Capacity: 1 << 20})
	if err != nil {
		return err
	}
	defer arena.Close()
	storage, err := arena.Allocate(ctx, 4000) // waits for room: for streams, and for leases to end
	if err != nil {
		return err
	}
	defer storage.Close()
	weight, err := tenon.NewTensor(storage, tenon.Spec{DType: tenon.Float32, Sizes: []int64{1000}})
	if err != nil {
		return err
	}
	defer weight.Close()

	// Of device 0; without it, the default stream.
	if err := connection.SetStream(0, stream); err != nil {
		return err
	}
	message, err := tenon.NewMessage(weight)
	if err != nil {
		return err
	}
	defer message.Close()
	if err := connection.Send(ctx, message); err != nil { // what is in the stream comes first
		return err
	}

	// Without a connection: for one receiver, who opens it once.
	handle, err := storage.ShareCUDA(stream, nil)
	if err != nil {
		return err
	}
	opened, err := tenon.OpenCUDA(handle, stream, nil) // there
	if err != nil {
		return err
	}
	defer opened.Close()
	if err := opened.RecordStream(otherStream); err != nil { // used in that one, too
		return err
	}
	tenon.CUDACollect() // gives back what nobody uses any more

	event, err := tenon.NewCUDAEvent(&tenon.CUDAEventOptions{Interprocess: true})
	if err != nil {
		return err
	}
	defer event.Close()
	if err := event.Record(stream); err != nil {
		return err
	}
	if _, err := event.IPCHandle(); err != nil { // 64 bytes; there: tenon.OpenCUDAEvent(bytes, 0)
		return err
	}
	if err := event.Wait(otherStream); err != nil { // a stream waits
		return err
	}
	if err := event.Synchronize(ctx); err != nil { // the host waits
		return err
	}

	onTheHost, err := tenon.NewStorage(4000, &tenon.StorageOptions{Isolated: true})
	if err != nil {
		return err
	}
	defer onTheHost.Close()
	_, err = onTheHost.Pin(0) // where device 0 finds it
	return err
}

func TestTheReadmesLines(t *testing.T) {
	needsDriver(t)
	lender, borrower, err := tenon.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer lender.Close()
	defer borrower.Close()
	if err := doWhatTheReadmeSays(patient(t), lender, 0, 0); err != nil {
		t.Fatal(err)
	}
	received := must(borrower.Recv(patient(t)))
	defer received.Close()
	weight := must(received.Tensor(0))
	defer weight.Close()
	if weight.Device() != (tenon.Device{Type: 2}) {
		t.Error(weight.Device())
	}
}
