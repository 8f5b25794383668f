package cuda

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"libtenon/tenon"
)

func needsDriver(t *testing.T) {
	t.Helper()
	if os.Getenv("TENON_TEST_HAS_CUDA") == "" {
		t.Skip("there is no driver but where tests/process/cuda says so")
	}
	staysInThread(t)
}

// staysInThread keeps the test in one thread. The driver's current context belongs to a thread, and
// Go moves a test to another thread whenever a call takes long.
func staysInThread(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

func isComplete(t *testing.T, event *tenon.CUDAEvent, wanted bool) {
	t.Helper()
	if complete := must(event.Query()); complete != wanted {
		t.Errorf("complete: %v", complete)
	}
}

func TestAnEventIsAskedAndWaitedFor(t *testing.T) {
	needsDriver(t)
	event := must(tenon.NewCUDAEvent(nil))
	isComplete(t, event, true)
	busy := NewBusy()
	if err := event.Record(busy.Stream()); err != nil {
		t.Fatal(err)
	}
	isComplete(t, event, false)
	soon, stop := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer stop()
	expect(t, "deadline", event.Synchronize(soon), tenon.ErrTimeout)
	cancelled, cancel := context.WithCancel(context.Background())
	go cancel()
	expect(t, "cancel", event.Synchronize(cancelled), tenon.ErrCancelled)
	expect(t, "done before", event.Synchronize(cancelled), tenon.ErrCancelled)
	if err := event.Wait(0); err != nil {
		t.Error(err)
	}
	done := make(chan error)
	go func() { done <- event.Synchronize(context.Background()) }()
	busy.LetGo()
	if err := <-done; err != nil {
		t.Error(err)
	}
	isComplete(t, event, true)
	event.Close()
	_, err := event.Query()
	if err == nil || !strings.Contains(err.Error(), "CUDAEvent") {
		t.Error("closed: ", err)
	}
}

func TestWhatEventsRefuse(t *testing.T) {
	needsDriver(t)
	_, err := tenon.NewCUDAEvent(&tenon.CUDAEventOptions{Device: 999})
	expect(t, "device", err, tenon.ErrInvalidArgument)
	alone := must(tenon.NewCUDAEvent(nil))
	defer alone.Close()
	_, err = alone.IPCHandle()
	expect(t, "handle", err, tenon.ErrInvalidArgument)
	event := must(tenon.NewCUDAEvent(&tenon.CUDAEventOptions{Interprocess: true}))
	defer event.Close()
	_, err = tenon.OpenCUDAEvent(must(event.IPCHandle()), 0)
	expect(t, "own", err, tenon.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "the process that made it cannot") {
		t.Error(err)
	}
}

// TestOtherProcess is the other process of the next test.
func TestOtherProcess(t *testing.T) {
	text := os.Getenv("TENON_TEST_EVENT")
	if text == "" {
		t.Skip("a part of another test")
	}
	event := must(tenon.OpenCUDAEvent([64]byte(must(hex.DecodeString(text))), 0))
	defer event.Close()
	isComplete(t, event, false)
	_, err := event.IPCHandle()
	expect(t, "handle", err, tenon.ErrUnsupported)
	fmt.Println("not yet")
	if err := event.Synchronize(context.Background()); err != nil {
		t.Error(err)
	}
	isComplete(t, event, true)
}

func TestAnEventIsOpenedInAnotherProcess(t *testing.T) {
	needsDriver(t)
	event := must(tenon.NewCUDAEvent(&tenon.CUDAEventOptions{Interprocess: true}))
	defer event.Close()
	handle := must(event.IPCHandle())
	if must(event.IPCHandle()) != handle {
		t.Error("another handle")
	}
	busy := NewBusy()
	if err := event.Record(busy.Stream()); err != nil {
		t.Fatal(err)
	}
	other := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	other.Env = append(os.Environ(), "TENON_TEST_EVENT="+hex.EncodeToString(handle[:]))
	other.Stderr = os.Stderr
	out := must(other.StdoutPipe())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "not yet" {
		t.Log(lines.Text())
	}
	busy.LetGo()
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	isComplete(t, event, true)
}
