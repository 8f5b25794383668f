package cuda

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"libtenon/tenon"
)

const capacity = 2 << 20

func arenaOn(t *testing.T) *tenon.CUDAArena {
	t.Helper()
	needsDriver(t)
	return must(
		tenon.NewCUDAArena(
			&tenon.CUDAArenaOptions{Device: 0, Transport: tenon.CUDAIPC, Capacity: capacity},
		),
	)
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// filled returns a tensor over a new storage, whose bytes the stream fills.
func filled(t *testing.T, arena *tenon.CUDAArena, value byte, stream uintptr) *tenon.Tensor {
	t.Helper()
	storage := must(arena.Allocate(patient(t), 1000))
	defer storage.Close()
	tensor := must(tenon.NewTensor(storage, tenon.Spec{DType: tenon.Uint8, Sizes: []int64{1000}}))
	if !Fill(must(AddressOf(tensor)), value, 1000, stream) {
		t.Fatal("the driver fills nothing")
	}
	return tensor
}

func TestAFullArenaSaysSo(t *testing.T) {
	arena := arenaOn(t)
	defer arena.Close()
	empty := must(arena.Allocate(nil, 0))
	empty.Close()
	all := must(arena.Allocate(nil, capacity))
	if all.Device() != (tenon.Device{Type: 2}) {
		t.Error(all.Device())
	}
	wanted := tenon.CUDAArenaStats{
		Transport:     tenon.CUDAIPC,
		BytesCapacity: capacity,
		BytesUsed:     capacity,
		BytesPeak:     capacity,
		BlocksUsed:    1,
	}
	if stats := must(arena.Stats()); stats != wanted {
		t.Errorf("%+v", stats)
	}
	_, err := arena.Allocate(nil, 256)
	expect(t, "full", err, tenon.ErrResourceExhausted)
	limit := strconv.Itoa(capacity)
	for key, value := range map[string]string{
		"limit": "arena", "limit_value": limit, "wanted": "256", "in_use": limit,
	} {
		if found := err.(*tenon.Error).Details[key]; found != value {
			t.Errorf("%s is %q", key, found)
		}
	}
	soon, stop := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer stop()
	_, err = arena.Allocate(soon, 256)
	expect(t, "deadline", err, tenon.ErrTimeout)
	cancelled, cancel := context.WithCancel(context.Background())
	go cancel()
	_, err = arena.Allocate(cancelled, 256)
	expect(t, "cancel", err, tenon.ErrCancelled)
	all.Close()
	wanted.BytesUsed, wanted.BlocksUsed = 0, 0
	wanted.BytesFree, wanted.BytesLargestFree = capacity, capacity
	if stats := must(arena.Stats()); stats != wanted {
		t.Errorf("%+v", stats)
	}
	arena.Close()
	_, err = arena.Stats()
	if err == nil || !strings.Contains(err.Error(), "CUDAArena") {
		t.Error("closed: ", err)
	}
}

func TestWhatArenasRefuse(t *testing.T) {
	needsDriver(t)
	for _, options := range []*tenon.CUDAArenaOptions{
		nil, {Device: 999, Capacity: capacity}, {Transport: tenon.CUDAPool, Capacity: capacity},
	} {
		_, err := tenon.NewCUDAArena(options)
		expect(t, "options", err, tenon.ErrInvalidArgument)
	}
	one, other, err := tenon.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	defer other.Close()
	expect(t, "device", one.SetStream(-1, 0), tenon.ErrInvalidArgument)
}

func TestReadOnlyOverAConnection(t *testing.T) {
	foreign, tensor, storage := readOnlyTensorOn(t)
	for letWrite, wanted := range map[bool]tenon.Code{false: tenon.ErrPermission, true: 0} {
		ends := must(
			syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0),
		)
		from := must(tenon.NewConnection(ends[0], &tenon.ConnectionOptions{CUDALetWrite: letWrite}))
		to := must(tenon.NewConnection(ends[1], nil))
		message := must(tenon.NewMessage(tensor))
		err := from.Send(patient(t), message)
		message.Close()
		if wanted != 0 {
			expect(t, "read-only", err, wanted)
		} else if err != nil {
			t.Error(err)
		} else {
			// Within one process the received storage is the sent one.
			received := must(to.Recv(patient(t)))
			back := must(received.Tensor(0))
			home := must(back.Storage())
			if home.ID() != storage.ID() {
				t.Error("another storage")
			}
			home.Close()
			back.Close()
			received.Close()
		}
		from.Close()
		to.Close()
		syscall.Close(ends[0])
		syscall.Close(ends[1])
	}
	tensor.Close()
	storage.Close()
	waiting(t, foreign, 0, 1)
}

// TestReceiver is the other process of the next test. It queues its copies before the sender's work
// may begin. Only the order between the two named streams holds the copies back.
func TestReceiver(t *testing.T) {
	if os.Getenv("TENON_TEST_RECEIVER") == "" {
		t.Skip("a part of another test")
	}
	staysInThread(t)
	stream := NewStream()
	connection := must(tenon.NewConnection(3, &tenon.ConnectionOptions{CUDAKeepOpen: true}))
	defer connection.Close()
	if err := connection.SetStream(0, stream); err != nil {
		t.Fatal(err)
	}
	message := must(connection.Recv(patient(t)))
	var bytes []func() byte
	for i := range 2 {
		tensor := must(message.Tensor(i))
		bytes = append(bytes, Copy(must(AddressOf(tensor)), stream))
		tensor.Close()
	}
	answer := must(tenon.NewMessage())
	if err := connection.Send(patient(t), answer); err != nil {
		t.Fatal(err)
	}
	answer.Close()
	if !Synchronize(stream) || bytes[0]() != 7 || bytes[1]() != 8 {
		t.Errorf("%d and %d", bytes[0](), bytes[1]())
	}
	message.Close()
	if !IsOpened(1) {
		t.Error("not one is open")
	}
	for patience := patient(t); tenon.CUDACollect() != 0 && patience.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	if !IsOpened(0) {
		t.Error("one is open still")
	}
}

func TestAnArenaIsSentToAnotherProcess(t *testing.T) {
	arena := arenaOn(t)
	defer arena.Close()
	busy := NewBusy()
	ends := must(
		syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0),
	)
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	other := exec.Command(os.Args[0], "-test.run=^TestReceiver$")
	other.Env = append(os.Environ(), "TENON_TEST_RECEIVER=yes")
	other.Stdout, other.Stderr = os.Stdout, os.Stderr
	other.ExtraFiles = []*os.File{theirs}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	defer syscall.Close(ends[0])
	connection := must(tenon.NewConnection(ends[0], nil))
	if err := connection.SetStream(0, busy.Stream()); err != nil {
		t.Fatal(err)
	}
	one, two := filled(t, arena, 7, busy.Stream()), filled(t, arena, 8, busy.Stream())
	message := must(tenon.NewMessage(one, two))
	if err := connection.Send(patient(t), message); err != nil {
		t.Fatal(err)
	}
	message.Close()
	one.Close()
	two.Close()
	answer := must(connection.Recv(patient(t)))
	answer.Close()
	if stats := must(arena.Stats()); stats.BlocksUsed != 2 {
		t.Errorf("%+v", stats)
	}
	_, err := arena.Allocate(nil, capacity)
	expect(t, "full", err, tenon.ErrResourceExhausted)
	if holders := err.(*tenon.Error).Details["holders"]; !strings.Contains(holders, "2 leases") {
		t.Error(holders)
	}
	connection.Close()
	busy.LetGo()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	for patience := patient(t); must(arena.Stats()).BytesUsed != 0 && patience.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	if stats := must(arena.Stats()); stats.BytesUsed != 0 {
		t.Errorf("%+v", stats)
	}
}
