// Tests of publishers and subscribers: one process alone, other processes that come by a path or by
// an inherited socket, each policy, waits that end, processes that die, and a Go channel.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"libtenon/tenon"
)

const publisherVariable = "TENON_GO_TEST_PUBLISHER"

func init() {
	roles["connect by the path"] = func() error { return withParent(connectByPath) }
	roles["take one and wait"] = takeOneAndWait
	roles["publish and die"] = publishAndDie
}

func publishNumber(ctx context.Context, p *tenon.Publisher, number float32) error {
	m, err := numbered(number)
	if err != nil {
		return err
	}
	defer m.Close()
	return p.Publish(ctx, m)
}

func nextNumber(ctx context.Context, s *tenon.Subscriber) (float32, error) {
	m, err := s.Recv(ctx)
	if err != nil {
		return 0, err
	}
	return numberIn(m)
}

// receives fails the test unless the subscriber has these messages and no more.
func receives(t *testing.T, ctx context.Context, s *tenon.Subscriber, numbers ...float32) {
	t.Helper()
	for _, wanted := range numbers {
		if number, err := nextNumber(ctx, s); err != nil || number != wanted {
			t.Errorf("%v, wanted %v: %v", number, wanted, err)
		}
	}
	if _, err := s.TryRecv(); err != tenon.ErrWouldBlock {
		t.Error(err)
	}
}

func socketPair() (*os.File, *os.File) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
}

// subscribeHere makes a subscriber in this process.
func subscribeHere(t testing.TB, p *tenon.Publisher) *tenon.Subscriber {
	t.Helper()
	ours, theirs := socketPair()
	defer ours.Close()
	defer theirs.Close()
	check(t, p.AddOn(ours))
	s := must(tenon.SubscriberOn(theirs, nil))
	t.Cleanup(func() { s.Close() })
	return s
}

// usePublisher runs once in a process. The first publisher starts what stays in the process.
var usePublisher = sync.OnceFunc(func() {
	ctx, cancel := patience()
	defer cancel()
	folder := must(os.MkdirTemp("", "tenon-go-"))
	defer os.RemoveAll(folder)
	p := must(tenon.NewPublisher(nil))
	defer p.Close()
	path := filepath.Join(folder, "publisher")
	if err := p.Listen(path, 0); err != nil {
		panic(err)
	}
	s := must(tenon.ConnectSubscriber(ctx, path, nil))
	defer s.Close()
	if err := publishNumber(ctx, p, 1); err != nil {
		panic(err)
	}
	must(nextNumber(ctx, s))
})

// newPublisher makes a publisher that is closed at the end of the test. Then nothing may be left.
func newPublisher(t testing.TB, options *tenon.PublisherOptions) *tenon.Publisher {
	t.Helper()
	usePublisher()
	nothingLeft(t)
	p := must(tenon.NewPublisher(options))
	t.Cleanup(func() { p.Close() })
	return p
}

// isNamed says whether an error has this code, and names this process.
func isNamed(err error, code tenon.Code, pid int) bool {
	var failure *tenon.Error
	return errors.As(err, &failure) && failure.Code == code &&
		failure.Details["pid"] == strconv.Itoa(pid)
}

func TestPublisherOfOneProcess(t *testing.T) {
	p := newPublisher(t, nil)
	ctx := background(t)
	check(t, publishNumber(ctx, p, 5)) // nobody is there
	first, second := subscribeHere(t, p), subscribeHere(t, p)
	receives(t, ctx, first, 5)
	receives(t, ctx, second, 5)
	tensor := floats(t, 1, nil)
	m := must(tenon.NewMessage(tensor))
	check(t, p.Publish(ctx, m))
	m.Close()
	received := must(first.Recv(ctx))
	check(t, tenon.With(must(received.Views())[0], func(values []float32) error {
		values[0] = 42
		return nil
	}))
	received.Close()
	if must(tenon.Slice[float32](tensor))[0] != 42 {
		t.Error("the subscriber has other memory")
	}
	receives(t, ctx, second, 42)
	check(t, first.Close())
	check(t, publishNumber(ctx, p, 3))
	if stats := must(p.Stats()); stats != (tenon.PublisherStats{Published: 3, Subscribers: 1}) {
		t.Errorf("%+v", stats)
	}
	check(t, p.Close())
	if number := must(nextNumber(ctx, second)); number != 3 {
		t.Error(number)
	}
	if _, err := second.Recv(ctx); !isNamed(err, tenon.ErrPeerGone, os.Getpid()) {
		t.Error(err)
	}
	wanted := tenon.SubscriberStats{Received: 3, PID: int32(os.Getpid()), UID: uint32(os.Geteuid())}
	if stats := must(second.Stats()); stats != wanted {
		t.Errorf("%+v", stats)
	}
}

func TestPublisherLateSubscriber(t *testing.T) {
	ctx := background(t)
	for _, forget := range []bool{false, true} {
		p := newPublisher(t, &tenon.PublisherOptions{ForgetLatest: forget})
		check(t, publishNumber(ctx, p, 1))
		check(t, publishNumber(ctx, p, 2))
		late := subscribeHere(t, p)
		if forget {
			receives(t, ctx, late)
		} else {
			receives(t, ctx, late, 2)
		}
		check(t, publishNumber(ctx, p, 3))
		receives(t, ctx, late, 3)
	}
}

func TestPublishBlock(t *testing.T) {
	p := newPublisher(t, &tenon.PublisherOptions{Capacity: 2})
	ctx := background(t)
	slow, quick := subscribeHere(t, p), subscribeHere(t, p)
	for _, number := range []float32{1, 2} {
		check(t, publishNumber(ctx, p, number))
		receives(t, ctx, quick, number)
	}
	third := must(numbered(3))
	defer third.Close()
	if err := p.TryPublish(third); !isNamed(err, tenon.ErrWouldBlock, os.Getpid()) {
		t.Error(err)
	}
	cause := errors.New("mine")
	done, cancelNow := context.WithCancelCause(ctx)
	cancelNow(cause)
	if err := p.Publish(done, third); !errors.Is(err, tenon.ErrCancelled) ||
		!errors.Is(err, cause) {
		t.Error(err)
	}
	later, cancelLater := context.WithCancelCause(ctx)
	time.AfterFunc(10*time.Millisecond, func() { cancelLater(cause) })
	if err := p.Publish(later, third); !isNamed(err, tenon.ErrCancelled, os.Getpid()) ||
		!errors.Is(err, cause) {
		t.Error(err)
	}
	soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	if err := p.Publish(soon, third); !isNamed(err, tenon.ErrTimeout, os.Getpid()) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	receives(t, ctx, quick) // no subscriber got it
	if number := must(nextNumber(ctx, slow)); number != 1 {
		t.Error(number)
	}
	check(t, p.Publish(ctx, third))
	receives(t, ctx, slow, 2, 3)
	receives(t, ctx, quick, 3)
}

func TestPublishError(t *testing.T) {
	p := newPublisher(t, &tenon.PublisherOptions{Policy: tenon.PublishError, Capacity: 2})
	ctx := background(t)
	slow := subscribeHere(t, p)
	check(t, publishNumber(ctx, p, 1))
	check(t, publishNumber(ctx, p, 2))
	err := publishNumber(ctx, p, 3)
	var full *tenon.Error
	if !isNamed(err, tenon.ErrResourceExhausted, os.Getpid()) || !errors.As(err, &full) ||
		full.Details["limit"] != "capacity" {
		t.Error(err)
	}
	receives(t, ctx, slow, 1, 2)
}

func TestPublishDropOldest(t *testing.T) {
	p := newPublisher(t, &tenon.PublisherOptions{
		Policy: tenon.PublishDropOldest, Capacity: 2, SlotBytes: 2048,
	})
	ctx := background(t)
	slow := subscribeHere(t, p)
	for i := range 5 {
		check(t, publishNumber(ctx, p, float32(i)))
	}
	me := tenon.PublisherSubscriber{
		State: tenon.SubscriberJoining, PID: int32(os.Getpid()), UID: uint32(os.Geteuid()),
		Waiting: 2, Published: 5, Dropped: 3,
	}
	if all := must(p.Subscribers()); len(all) != 1 || all[0] != me {
		t.Errorf("%+v", all)
	}
	receives(t, ctx, slow, 3, 4)
	if stats := must(slow.Stats()); stats.Received != 2 || stats.Dropped != 3 {
		t.Errorf("%+v", stats)
	}
	if stats := must(p.Stats()); stats.Dropped != 3 {
		t.Errorf("%+v", stats)
	}
	if all := must(p.Subscribers()); all[0].State != tenon.SubscriberHere {
		t.Errorf("%+v", all)
	}
	check(t, slow.Close())
	if all := must(p.Subscribers()); len(all) != 1 || all[0].State != tenon.SubscriberLeft {
		t.Errorf("%+v", all)
	}
}

func TestPublisherRemove(t *testing.T) {
	p := newPublisher(t, &tenon.PublisherOptions{Capacity: 1})
	ctx := background(t)
	slow := subscribeHere(t, p)
	check(t, publishNumber(ctx, p, 1))
	removed := make(chan error)
	time.AfterFunc(time.Millisecond, func() { removed <- p.Remove(int32(os.Getpid())) })
	check(t, publishNumber(ctx, p, 2))
	check(t, <-removed)
	if number := must(nextNumber(ctx, slow)); number != 1 {
		t.Error(number)
	}
	if _, err := slow.Recv(ctx); !isNamed(err, tenon.ErrPeerGone, os.Getpid()) {
		t.Error(err)
	}
	if stats := must(p.Stats()); stats != (tenon.PublisherStats{Published: 2}) {
		t.Errorf("%+v", stats)
	}
	if err := p.Remove(int32(os.Getpid())); !isNamed(err, tenon.ErrNotFound, os.Getpid()) {
		t.Error(err)
	}
}

func isReadable(fd int) bool {
	var set syscall.FdSet
	set.Bits[fd/64] = 1 << (fd % 64)
	for {
		n, err := syscall.Select(fd+1, &set, nil, nil, &syscall.Timeval{})
		if err != syscall.EINTR {
			return n == 1 && err == nil
		}
	}
}

func TestSubscriberFD(t *testing.T) {
	p := newPublisher(t, nil)
	ctx := background(t)
	s := subscribeHere(t, p)
	for range 3 {
		receives(t, ctx, s)
		if isReadable(s.FD()) {
			t.Error("the fd is readable without a message")
		}
		check(t, publishNumber(ctx, p, 1))
		check(t, publishNumber(ctx, p, 2))
		if !isReadable(s.FD()) {
			t.Error("the fd is not readable with two messages")
		}
		receives(t, ctx, s, 1, 2)
	}
	p.Close()
	if !isReadable(s.FD()) {
		t.Error("the fd is not readable without a publisher")
	}
	if _, err := s.TryRecv(); !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
	s.Close()
	if s.FD() != -1 || (*tenon.Subscriber)(nil).FD() != -1 {
		t.Error("an fd of a closed subscriber")
	}
}

func TestSubscriberOfAnotherProcess(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, folder string) {
		ctx := background(t)
		path := filepath.Join(folder, "weights")
		p := must(tenon.NewPublisher(nil))
		defer p.Close()
		check(t, p.Listen(path, 0o640))
		if mode := must(os.Stat(path)).Mode().Perm(); mode != 0o640 {
			t.Error(mode)
		}
		check(t, publishNumber(ctx, p, 0))
		command, c := start(t, "connect by the path", publisherVariable+"="+path)
		must(hear(ctx, c))
		all := must(p.Subscribers())
		if len(all) != 1 || all[0].PID != int32(command.Process.Pid) ||
			all[0].UID != uint32(os.Geteuid()) {
			t.Errorf("%+v", all)
		}
		for i := 1; i < 10; i++ {
			check(t, publishNumber(ctx, p, float32(i)))
		}
		tensor := floats(t, 1, nil)
		m := must(tenon.NewMessage(tensor))
		defer m.Close()
		check(t, p.Publish(ctx, m))
		must(hear(ctx, c))
		if must(tenon.Slice[float32](tensor))[0] != 42 {
			t.Error("the subscriber has other memory")
		}
		p.Close()
		check(t, command.Wait())
	})
}

// connectByPath receives ten messages in order, writes to the next one, and hears of the end.
func connectByPath(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	s, err := tenon.ConnectSubscriber(ctx, os.Getenv(publisherVariable), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	for i := range 10 {
		if number, err := nextNumber(ctx, s); err != nil || number != float32(i) {
			return fmt.Errorf("message %d is %v: %w", i, number, err)
		}
	}
	m, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	views, err := m.Views()
	if err != nil {
		return err
	}
	write := func(values []float32) error { values[0] = 42; return nil }
	if err := tenon.With(views[0], write); err != nil {
		return err
	}
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	if _, err := s.Recv(ctx); !isNamed(err, tenon.ErrPeerGone, os.Getppid()) {
		return fmt.Errorf("after the end: %w", err)
	}
	return nil
}

func TestPublisherNamesAKilledSubscriber(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		for _, ignore := range []bool{false, true} {
			p := must(tenon.NewPublisher(&tenon.PublisherOptions{IgnoreDeaths: ignore}))
			ours, theirs := socketPair()
			command, _ := startWith(t, "take one and wait", theirs)
			theirs.Close()
			check(t, p.AddOn(ours))
			ours.Close()
			other := subscribeHere(t, p)
			check(t, publishNumber(ctx, p, 1))
			pid := command.Process.Pid
			// The subscriber has inherited its socket. The kernel tells its pid when it takes the
			// lease.
			comesTo(t, p, pid, tenon.SubscriberHere)
			check(t, command.Process.Kill())
			command.Wait()
			comesTo(t, p, pid, tenon.SubscriberGone)
			if !ignore {
				err := publishNumber(ctx, p, 9)
				if !isNamed(err, tenon.ErrPeerGone, pid) {
					t.Error(err)
				}
			}
			// The death is told at most once, and the other subscriber misses nothing.
			check(t, publishNumber(ctx, p, 2))
			receives(t, ctx, other, 1, 2)
			if stats := must(p.Stats()); stats.Gone != 1 || stats.Subscribers != 1 {
				t.Errorf("%+v", stats)
			}
			p.Close()
		}
	})
}

// comesTo waits until the publisher sees the subscriber with this pid in this state.
func comesTo(t *testing.T, p *tenon.Publisher, pid int, state tenon.SubscriberState) {
	t.Helper()
	for range 10_000 {
		for _, each := range must(p.Subscribers()) {
			if each.PID == int32(pid) && each.State == state {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%+v", must(p.Subscribers()))
}

// takeOneAndWait takes one message, and waits for a signal that kills this process.
func takeOneAndWait() error {
	ctx, cancel := patience()
	defer cancel()
	s, err := tenon.NewSubscriber(4, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := s.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	select {}
}

func TestSubscriberOfAKilledPublisher(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		ours, theirs := socketPair()
		command, _ := startWith(t, "publish and die", theirs)
		theirs.Close()
		s := must(tenon.SubscriberOn(ours, nil))
		defer s.Close()
		ours.Close()
		for i := range 5 {
			if number := must(nextNumber(ctx, s)); number != float32(i) {
				t.Error(number)
			}
		}
		if _, err := s.Recv(ctx); !errors.Is(err, tenon.ErrPeerGone) {
			t.Error(err)
		}
		if command.Wait() == nil {
			t.Error("the publisher was not killed")
		}
	})
}

func publishAndDie() error {
	ctx, cancel := patience()
	defer cancel()
	p, err := tenon.NewPublisher(nil)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Add(4); err != nil {
		return err
	}
	for i := range 5 {
		if err := publishNumber(ctx, p, float32(i)); err != nil {
			return err
		}
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestPublisherWrongArguments(t *testing.T) {
	ctx := background(t)
	p := newPublisher(t, &tenon.PublisherOptions{MaxSubscribers: 1, SameUser: true})
	only := subscribeHere(t, p)
	ours, theirs := socketPair()
	defer ours.Close()
	defer theirs.Close()
	closed := must(tenon.NewPublisher(nil))
	left := subscribeHere(t, closed)
	check(t, closed.Close())
	check(t, closed.Close())
	check(t, left.Close())
	check(t, left.Close())
	m := must(tenon.NewMessage())
	defer m.Close()
	nowhere := filepath.Join(t.TempDir(), "no/such")
	made := func(options tenon.PublisherOptions) error {
		return second(tenon.NewPublisher(&options))
	}
	none, nobody := (*tenon.Publisher)(nil), (*tenon.Subscriber)(nil)
	for name, each := range map[string]struct {
		err    error
		wanted error
	}{
		"capacity":    {made(tenon.PublisherOptions{Capacity: 3}), tenon.ErrInvalidArgument},
		"slot":        {made(tenon.PublisherOptions{SlotBytes: 65}), tenon.ErrInvalidArgument},
		"policy":      {made(tenon.PublisherOptions{Policy: 3}), tenon.ErrInvalidArgument},
		"no socket":   {p.Add(-1), tenon.ErrInvalidArgument},
		"too large":   {p.Add(1 << 40), tenon.ErrInvalidArgument},
		"full":        {p.AddOn(ours), tenon.ErrResourceExhausted},
		"nil message": {p.Publish(ctx, nil), tenon.ErrInvalidArgument},
		"nowhere":     {p.Listen(nowhere, 0), tenon.ErrNotFound},
		"NUL":         {p.Listen("/a\x00b", 0), tenon.ErrInvalidArgument},
		"connected": {
			second(tenon.ConnectSubscriber(ctx, nowhere, nil)), tenon.ErrNotFound,
		},
		"connected, NUL": {
			second(tenon.ConnectSubscriber(ctx, "/a\x00b", nil)), tenon.ErrInvalidArgument,
		},
		"subscriber without socket": {
			second(tenon.NewSubscriber(-1, nil)), tenon.ErrInvalidArgument,
		},
		"ring": {
			second(tenon.SubscriberOn(ours, &tenon.ConnectionOptions{Ring: true})),
			tenon.ErrUnsupported,
		},
		"nil publisher":     {none.Publish(ctx, m), tenon.ErrInvalidArgument},
		"nil, listens":      {none.Listen(nowhere, 0), tenon.ErrInvalidArgument},
		"nil, added":        {none.AddOn(ours), tenon.ErrInvalidArgument},
		"nil, subscribers":  {second(none.Subscribers()), tenon.ErrInvalidArgument},
		"nil, stats":        {second(none.Stats()), tenon.ErrInvalidArgument},
		"zero publisher":    {new(tenon.Publisher).Publish(ctx, m), tenon.ErrInvalidArgument},
		"zero, stats":       {second(new(tenon.Publisher).Stats()), tenon.ErrInvalidArgument},
		"closed, publishes": {closed.Publish(ctx, m), tenon.ErrClosed},
		"closed, stats":     {second(closed.Stats()), tenon.ErrClosed},
		"nil subscriber":    {second(nobody.Recv(ctx)), tenon.ErrInvalidArgument},
		"zero subscriber": {
			second(new(tenon.Subscriber).Recv(ctx)), tenon.ErrInvalidArgument,
		},
		"zero subscriber, stats": {
			second(new(tenon.Subscriber).Stats()), tenon.ErrInvalidArgument,
		},
		"left, receives": {second(left.Recv(ctx)), tenon.ErrClosed},
		"left, stats":    {second(left.Stats()), tenon.ErrClosed},
	} {
		if !errors.Is(each.err, each.wanted) {
			t.Errorf("%s: %v", name, each.err)
		}
	}
	check(t, none.Close())
	check(t, nobody.Close())
	check(t, new(tenon.Publisher).Close())
	check(t, new(tenon.Subscriber).Close())
	receives(t, ctx, only)
}

// Close ends a call that waits with a context that never ends.
func TestPublisherCloseEndsWaits(t *testing.T) {
	p := newPublisher(t, &tenon.PublisherOptions{Capacity: 1})
	ctx := background(t)
	full, empty := subscribeHere(t, p), subscribeHere(t, p)
	check(t, publishNumber(ctx, p, 1))
	receives(t, ctx, empty, 1)
	var group sync.WaitGroup
	ends := func(call func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := call(); !errors.Is(err, tenon.ErrClosed) {
				t.Error(err)
			}
		}()
	}
	for range 3 {
		ends(func() error { return publishNumber(context.Background(), p, 2) })
		ends(func() error { return second(empty.Recv(context.Background())) })
	}
	time.Sleep(time.Millisecond) // some goroutines wait already, some do not: both must end
	empty.Close()
	p.Close()
	group.Wait()
	if number := must(nextNumber(ctx, full)); number != 1 {
		t.Error(number)
	}
}

// follow handles what the publisher at this path publishes, until the publisher ends.
func follow(ctx context.Context, path string, handle func(*tenon.Message) error) error {
	subscriber, err := tenon.ConnectSubscriber(ctx, path, nil)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	for received := range subscriber.Messages(ctx) {
		if errors.Is(received.Err, tenon.ErrPeerGone) {
			return nil // the publisher has ended, and all that it published is received
		} else if received.Err != nil {
			return received.Err
		}
		err := handle(received.Message)
		received.Message.Close()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A loop over Messages that ends early leaves nothing behind.
func TestSubscriberFollow(t *testing.T) {
	p := newPublisher(t, nil)
	ctx := background(t)
	path := filepath.Join(t.TempDir(), "publisher")
	check(t, p.Listen(path, 0))
	check(t, publishNumber(ctx, p, 0))
	before := runtime.NumGoroutine()
	enough := errors.New("enough")
	if err := follow(ctx, path, func(*tenon.Message) error { return enough }); err != enough {
		t.Error(err)
	}
	goroutinesEnd(t, before)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	err := follow(short, path, func(*tenon.Message) error { return nil })
	if err != context.DeadlineExceeded {
		t.Error(err)
	}
	goroutinesEnd(t, before)
	handled := 0
	err = follow(ctx, path, func(*tenon.Message) error {
		if handled++; handled == 3 {
			return p.Close()
		}
		return publishNumber(ctx, p, float32(handled))
	})
	if err != nil || handled != 3 {
		t.Error(err, handled)
	}
	goroutinesEnd(t, before)
}

// The goroutine of Messages has taken a message that nobody receives from the channel.
func TestSubscriberMessagesKeepsWhatNobodyTakes(t *testing.T) {
	p := newPublisher(t, nil)
	ctx := background(t)
	s := subscribeHere(t, p)
	before := runtime.NumGoroutine()
	for _, closed := range []bool{false, true} {
		pumping, cancel := context.WithCancel(ctx)
		check(t, publishNumber(ctx, p, 7))
		results := s.Messages(pumping)
		for must(p.Subscribers())[0].Waiting > 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		goroutinesEnd(t, before)
		if closed {
			s.Close() // closes the message too: nothing may be left
		} else {
			receives(t, ctx, s, 7)
		}
		if result, open := <-results; open {
			t.Errorf("%+v", result)
		}
	}
	for result := range (*tenon.Subscriber)(nil).Messages(ctx) {
		if !errors.Is(result.Err, tenon.ErrInvalidArgument) {
			t.Error(result.Err)
		}
	}
}
