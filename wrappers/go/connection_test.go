// Tests of connections: waits, peers, and calls that run at the same time.

package tenon_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"libtenon/tenon"
)

func TestSendAndReceive(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	left, right := pair(t)
	tensor := floats(t, 100, nil)
	m := must(tenon.NewMessage())
	check(t, m.Add("weight", tensor))
	check(t, m.SetUserBytes([]byte("hello")))
	check(t, left.Send(ctx, m))
	m.Close()
	got := must(right.Recv(ctx))
	defer got.Close()
	borrowed := must(got.Find("weight"))
	defer borrowed.Close()
	check(t, tenon.With(borrowed, func(values []float32) error { values[99] = -1; return nil }))
	if must(tenon.Slice[float32](tensor))[99] != -1 || string(got.UserBytes()) != "hello" {
		t.Error("not the same memory")
	}
	if _, err := right.TryRecv(); err != tenon.ErrWouldBlock {
		t.Error(err)
	}
	check(t, left.Flush(ctx))
	left.Close()
	if _, err := right.Recv(ctx); !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
}

func TestSockets(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	address := directory(t) + "/socket"
	listener := must(net.Listen("unix", address))
	there := make(chan *tenon.Connection, 1)
	go func() {
		client := must(net.Dial("unix", address))
		c := must(tenon.ConnectionOn(client.(*net.UnixConn), nil))
		client.Close()
		there <- c
	}()
	server := must(listener.Accept())
	file := must(server.(*net.UnixConn).File())
	server.Close()
	listener.Close()
	options := &tenon.ConnectionOptions{Ring: true}
	left, right := must(tenon.NewConnection(int(file.Fd()), options)), <-there
	tensor := floats(t, 10, nil)
	m := must(tenon.NewMessage(tensor))
	for range 3 {
		check(t, left.Send(ctx, m))
		must(right.Recv(ctx)).Close()
	}
	m.Close()
	left.Close()
	if _, err := file.Stat(); err != nil {
		t.Error("the borrowed socket was closed: ", err)
	}
	file.Close()
	right.Close()
	if _, err := tenon.NewConnection(1<<40, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := tenon.NewConnection(-1, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	ordinary := must(os.Open("/dev/null"))
	if _, err := tenon.ConnectionOn(ordinary, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	ordinary.Close()
	if _, err := tenon.ConnectionOn(ordinary, nil); err == nil {
		t.Error("a connection on a closed file")
	}
}

func TestConnectionOptions(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	m := must(tenon.NewMessage(floats(t, 4, nil), floats(t, 4, nil)))
	defer m.Close()
	receive := func(options *tenon.ConnectionOptions) (*tenon.Message, error) {
		ends, err := syscall.Socketpair(
			syscall.AF_UNIX,
			syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC,
			0,
		)
		check(t, err)
		first, second := os.NewFile(
			uintptr(ends[0]),
			"first",
		), os.NewFile(
			uintptr(ends[1]),
			"second",
		)
		defer first.Close()
		defer second.Close()
		left, right := must(
			tenon.ConnectionOn(first, nil),
		), must(
			tenon.ConnectionOn(second, options),
		)
		defer left.Close()
		defer right.Close()
		check(t, left.Send(ctx, m))
		return right.Recv(ctx)
	}
	readOnly := must(
		receive(&tenon.ConnectionOptions{Open: tenon.OpenOptions{Access: tenon.AccessReadOnly}}),
	)
	view := must(readOnly.Views())[1]
	if _, err := tenon.Slice[float32](view); !errors.Is(err, tenon.ErrPermission) ||
		!view.IsReadOnly() {
		t.Error(err)
	}
	if must(tenon.ReadOnlySlice[float32](view))[3] != 3 {
		t.Error("another tensor")
	}
	readOnly.Close()
	copied := must(receive(&tenon.ConnectionOptions{Open: tenon.OpenOptions{PrivateCopy: true}}))
	check(
		t,
		tenon.With(
			must(copied.Views())[0],
			func(values []float32) error { values[0] = 5; return nil },
		),
	)
	copied.Close()
	if again := must(receive(nil)); must(tenon.Slice[float32](must(again.Views())[0]))[0] != 0 {
		t.Error("a private copy was not private")
	} else {
		again.Close()
	}
	for _, tooSmall := range []*tenon.ConnectionOptions{{MaxTensors: 1}, {MaxMessageBytes: 10}} {
		if _, err := receive(tooSmall); !errors.As(err, new(*tenon.Error)) {
			t.Errorf("%+v: %v", tooSmall, err)
		}
	}
}

func TestPeer(t *testing.T) {
	nothingLeft(t)
	left, right := pair(t)
	me := tenon.Peer{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if peer := must(left.Peer()); peer != me {
		t.Errorf("%+v", peer)
	}
	right.Close()
	if _, err := right.Peer(); !errors.Is(err, tenon.ErrClosed) {
		t.Error(err)
	}
}

// strangers makes a pair of sockets as another user with an additional group.
func strangers() (ends [2]int, err error) {
	done := make(chan error)
	go func() {
		// These system calls bypass Go's runtime, so that only this thread becomes another user.
		// The thread ends with its goroutine.
		runtime.LockOSThread()
		groups := [...]uint32{65532, 65533}
		const same = ^uintptr(0)
		if _, _, errno := syscall.RawSyscall(
			syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups)), 0,
		); errno != 0 {
			done <- errno
			return
		}
		for _, number := range [...]uintptr{syscall.SYS_SETRESGID, syscall.SYS_SETRESUID} {
			if _, _, errno := syscall.RawSyscall(number, same, 65534, same); errno != 0 {
				done <- errno
				return
			}
		}
		var err error
		ends, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		done <- err
	}()
	err = <-done
	return ends, err
}

func TestAnotherUsersPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	nothingLeft(t)
	ends := must(strangers())
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	member, nobody := uint32(65533), uint32(65531)
	for _, options := range []tenon.ConnectionOptions{
		{SameUser: true}, {Group: &nobody}, {SameUser: true, Group: &nobody},
	} {
		_, err := tenon.NewConnection(ends[0], &options)
		var refused *tenon.Error
		if !errors.Is(err, tenon.ErrPermission) || !errors.As(err, &refused) ||
			refused.Details["uid"] != "65534" ||
			refused.Details["pid"] != strconv.Itoa(os.Getpid()) {
			t.Errorf("%+v: %v", options, err)
		}
	}
	for _, options := range []tenon.ConnectionOptions{{}, {Group: &member}} {
		c := must(tenon.NewConnection(ends[0], &options))
		if peer := must(c.Peer()); peer.UID != 65534 || peer.GID != 65534 {
			t.Errorf("%+v", peer)
		}
		c.Close()
	}
}

// fill sends until the socket takes no more messages.
func fill(t *testing.T, c *tenon.Connection, m *tenon.Message) {
	t.Helper()
	for {
		if err := c.TrySend(m); err == tenon.ErrWouldBlock {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestContext(t *testing.T) {
	nothingLeft(t)
	left, right := pair(t)
	m := must(tenon.NewMessage())
	defer m.Close()
	check(t, m.SetUserBytes(make([]byte, tenon.MaxUserNBytes)))
	fill(t, left, m)
	operations := map[string]func(ctx context.Context) error{
		"send":  func(ctx context.Context) error { return left.Send(ctx, m) },
		"flush": func(ctx context.Context) error { return left.Flush(ctx) },
		"recv":  func(ctx context.Context) error { _, err := left.Recv(ctx); return err },
	}
	cause := errors.New("mine")
	for name, operation := range operations {
		done, cancelNow := context.WithCancelCause(context.Background())
		cancelNow(cause)
		if err := operation(done); !errors.Is(err, tenon.ErrCancelled) ||
			!errors.Is(err, context.Canceled) ||
			!errors.Is(err, cause) {
			t.Error(name, "with a context that is done:", err)
		}
		later, cancelLater := context.WithCancelCause(context.Background())
		time.AfterFunc(10*time.Millisecond, func() { cancelLater(cause) })
		if err := operation(later); !errors.Is(err, tenon.ErrCancelled) || !errors.Is(err, cause) {
			t.Error(name, "cancelled:", err)
		}
		soon, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
		err := operation(soon)
		stop()
		if !errors.Is(err, tenon.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, os.ErrDeadlineExceeded) ||
			!os.IsTimeout(err) {
			t.Error(name, "with a deadline:", err)
		}
		past, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		if err := operation(past); !errors.Is(err, tenon.ErrTimeout) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(name, "with a deadline that is over:", err)
		}
		stop()
	}
	// Nothing was lost or sent twice: one end receives as many messages as the other end counts as
	// sent.
	drained := make(chan int)
	go func() {
		n := 0
		for {
			got, err := right.Recv(background(t))
			if err != nil {
				drained <- n
				return
			}
			got.Close()
			n++
		}
	}()
	check(t, left.Flush(background(t)))
	left.Close()
	if n := <-drained; n == 0 {
		t.Error("nothing arrived")
	}
}

// Close ends a call that waits with a context that never ends.
func TestCloseEndsWaits(t *testing.T) {
	nothingLeft(t)
	for range rounds(20) {
		left, right := pair(t)
		var group sync.WaitGroup
		for range 3 {
			group.Add(1)
			go func() {
				defer group.Done()
				if _, err := left.Recv(context.Background()); !errors.Is(err, tenon.ErrClosed) ||
					!errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Millisecond) // some goroutines wait already, some do not: both must end
		left.Close()
		group.Wait()
		right.Close()
	}
}

func TestWaitsLeaveNoThreads(t *testing.T) {
	nothingLeft(t)
	left, _ := pair(t)
	threads := func() int { return len(must(os.ReadDir("/proc/self/task"))) }
	round := func() {
		var group sync.WaitGroup
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if _, err := left.Recv(ctx); !errors.Is(err, tenon.ErrTimeout) {
					t.Error(err)
				}
			}()
		}
		group.Wait()
	}
	for range 10 {
		round()
	}
	before := threads()
	for range rounds(200) {
		round()
	}
	// Go's own threads come and go, as many as run at once. One thread for each wait would be
	// hundreds.
	if after := threads(); after > before+4+runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads before and %d after many waits", before, after)
	}
}

func TestErrors(t *testing.T) {
	nothingLeft(t)
	var e *tenon.Error
	var code tenon.Code
	_, err := tenon.NewStorage(1<<60, nil)
	if !errors.As(err, &e) || e.Code != tenon.ErrResourceExhausted || e.Details["limit"] == "" ||
		e.Details["wanted"] == "" {
		t.Errorf("%#v", err)
	}
	if !errors.As(err, &code) || code != tenon.ErrResourceExhausted ||
		errors.Is(err, tenon.ErrPermission) {
		t.Error(code)
	}
	for code := tenon.Code(1); code <= 14; code++ {
		if code.String() == "UNKNOWN" || code.Error() != "tenon: "+code.String() {
			t.Error(code)
		}
	}
	if tenon.Version() == "" || tenon.ABIVersion() != 1 {
		t.Error(tenon.Version(), tenon.ABIVersion())
	}
}
