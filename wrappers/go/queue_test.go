// Tests of queues: one process alone, other processes that join by the storage, waits that end,
// members that die, and Go channels.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["join and answer"] = func() error { return withParent(joinAndAnswer) }
	roles["join and wait"] = func() error { return withParent(joinAndWait) }
	roles["join by fd"] = func() error { return withParent(joinByFD) }
}

func numbered(number float32) (*tenon.Message, error) {
	tensor, err := tenon.FromSlice([]float32{number}, []int64{1}, nil)
	if err != nil {
		return nil, err
	}
	defer tensor.Close()
	return tenon.NewMessage(tensor)
}

func sendNumber(ctx context.Context, q *tenon.Queue, number float32) error {
	m, err := numbered(number)
	if err != nil {
		return err
	}
	defer m.Close()
	return q.Send(ctx, m)
}

// numberIn closes the message.
func numberIn(m *tenon.Message) (float32, error) {
	defer m.Close()
	views, err := m.Views()
	if err != nil {
		return 0, err
	}
	var number float32
	err = tenon.With(views[0], func(values []float32) error { number = values[0]; return nil })
	return number, err
}

func receiveNumber(ctx context.Context, q *tenon.Queue) (float32, error) {
	m, err := q.Recv(ctx)
	if err != nil {
		return 0, err
	}
	return numberIn(m)
}

// useQueue runs once in a process. The first queue starts what stays in the process: the library's
// thread and the record of unreceived messages, which have fds.
var useQueue = sync.OnceFunc(func() {
	ctx, cancel := patience()
	defer cancel()
	q := must(tenon.NewQueue(nil))
	defer q.Close()
	if err := sendNumber(ctx, q, 1); err != nil {
		panic(err)
	}
	must(receiveNumber(ctx, q))
})

// newQueue makes a queue that is closed at the end of the test. Then nothing may be left.
func newQueue(t testing.TB, options *tenon.QueueOptions) *tenon.Queue {
	t.Helper()
	useQueue()
	nothingLeft(t)
	q := must(tenon.NewQueue(options))
	t.Cleanup(func() { q.Close() })
	return q
}

// sendStorage sends the storage of a queue over a connection.
func sendStorage(ctx context.Context, c *tenon.Connection, q *tenon.Queue) error {
	storage, err := q.Storage()
	if err != nil {
		return err
	}
	defer storage.Close()
	tensor, err := tenon.NewTensor(
		storage,
		tenon.Spec{DType: tenon.Uint8, Sizes: []int64{int64(storage.NBytes())}},
	)
	if err != nil {
		return err
	}
	defer tensor.Close()
	m, err := tenon.NewMessage(tensor)
	if err != nil {
		return err
	}
	defer m.Close()
	return c.Send(ctx, m)
}

// joinReceived joins the queue whose storage is the next message.
func joinReceived(ctx context.Context, c *tenon.Connection) (*tenon.Queue, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	tensor, err := m.Tensor(0)
	if err != nil {
		return nil, err
	}
	defer tensor.Close()
	storage, err := tensor.Storage()
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	return tenon.JoinQueue(storage, nil)
}

func TestQueueOfOneProcess(t *testing.T) {
	q := newQueue(t, &tenon.QueueOptions{Members: 2, Capacity: 8, SlotBytes: 2048})
	ctx := background(t)
	tensor := floats(t, 1, nil)
	m := must(tenon.NewMessage(tensor))
	check(t, q.Send(ctx, m))
	m.Close()
	check(t, sendNumber(ctx, q, 2))
	if stats := must(q.Stats()); stats != (tenon.QueueStats{Waiting: 2, Sent: 2}) {
		t.Errorf("%+v", stats)
	}
	received := must(q.Recv(ctx))
	check(t, tenon.With(must(received.Views())[0], func(values []float32) error {
		values[0] = 42
		return nil
	}))
	received.Close()
	if must(tenon.Slice[float32](tensor))[0] != 42 {
		t.Error("the receiver has other memory")
	}
	if number := must(receiveNumber(ctx, q)); number != 2 {
		t.Error(number)
	}
	if stats := must(q.Stats()); stats != (tenon.QueueStats{Sent: 2, Received: 2}) {
		t.Errorf("%+v", stats)
	}
	check(t, sendNumber(ctx, q, 3))
	if discarded := must(q.Discard()); discarded != 1 || must(q.Stats()).Waiting != 0 {
		t.Error(discarded)
	}
}

func TestQueueRedelivers(t *testing.T) {
	q := newQueue(t, &tenon.QueueOptions{Members: 2, Redeliver: true})
	ctx := background(t)
	storage := must(q.Storage())
	defer storage.Close()
	other := must(tenon.JoinQueue(storage, nil))
	defer other.Close()
	check(t, sendNumber(ctx, q, 1))
	taken := must(other.Recv(ctx))
	defer taken.Close()
	other.Leave()
	again := must(q.Recv(ctx))
	if taken.Redelivered() != 0 || again.Redelivered() != 1 {
		t.Error(taken.Redelivered(), again.Redelivered())
	}
	again.Close()
	if again.Redelivered() != 0 || must(q.Stats()).Waiting != 0 {
		t.Error("the message is still there")
	}
}

func TestQueueOfTwoProcesses(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		q := must(tenon.NewQueue(nil))
		defer q.Close()
		command, c := start(t, "join and answer")
		check(t, sendStorage(ctx, c, q))
		for i := range 10 {
			check(t, sendNumber(ctx, q, float32(i)))
		}
		must(hear(ctx, c))
		if number := must(receiveNumber(ctx, q)); number != 99 {
			t.Error(number)
		}
		members, uid := must(q.Members()), uint32(os.Geteuid())
		me := tenon.QueueMember{State: tenon.MemberHere, PID: int32(os.Getpid()), UID: uid}
		me.Self = true
		other := tenon.QueueMember{Index: 1, State: tenon.MemberHere, UID: uid}
		other.PID = int32(command.Process.Pid)
		if len(members) != 2 || members[0] != me || members[1] != other {
			t.Errorf("%+v", members)
		}
		check(t, tell(ctx, c, nil))
		check(t, command.Wait())
		if members := must(q.Members()); members[1].State != tenon.MemberLeft {
			t.Errorf("%+v", members)
		}
	})
}

// joinAndAnswer receives ten messages in order and sends one.
func joinAndAnswer(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	q, err := joinReceived(ctx, c)
	if err != nil {
		return err
	}
	defer q.Close()
	for i := range 10 {
		if number, err := receiveNumber(ctx, q); err != nil || number != float32(i) {
			return fmt.Errorf("message %d is %v: %w", i, number, err)
		}
	}
	if err := sendNumber(ctx, q, 99); err != nil {
		return err
	}
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	_, err = hear(ctx, c) // the message needs its sender until it was received
	return err
}

func TestQueueByFD(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		q := must(tenon.NewQueue(nil))
		defer q.Close()
		storage := must(q.Storage())
		defer storage.Close()
		handle := must(storage.ShareFD(nil))
		defer handle.Close()
		command, c := startWith(
			t,
			"join by fd",
			handle.File,
			fmt.Sprint("TENON_GO_TEST_OFFSET=", handle.Offset),
			fmt.Sprint("TENON_GO_TEST_NBYTES=", handle.NBytes),
		)
		tensor := floats(t, 1, nil)
		m := must(tenon.NewMessage(tensor))
		defer m.Close()
		check(t, q.Send(ctx, m))
		must(hear(ctx, c))
		check(t, command.Wait())
		if must(tenon.Slice[float32](tensor))[0] != 42 {
			t.Error("the receiver has other memory")
		}
	})
}

func joinByFD(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	offset, err := strconv.ParseUint(os.Getenv("TENON_GO_TEST_OFFSET"), 10, 64)
	if err != nil {
		return err
	}
	nbytes, err := strconv.ParseUint(os.Getenv("TENON_GO_TEST_NBYTES"), 10, 64)
	if err != nil {
		return err
	}
	handle := &tenon.FDHandle{File: os.NewFile(4, "segment"), Offset: offset, NBytes: nbytes}
	defer handle.Close()
	storage, err := tenon.OpenFD(handle, nil)
	if err != nil {
		return err
	}
	q, err := tenon.JoinQueue(storage, nil)
	storage.Close()
	if err != nil {
		return err
	}
	defer q.Close()
	m, err := q.Recv(ctx)
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
	return tell(ctx, c, nil)
}

func TestQueueWrongArguments(t *testing.T) {
	ctx := background(t)
	q := newQueue(t, &tenon.QueueOptions{Members: 2, Capacity: 4})
	storage := must(q.Storage())
	defer storage.Close()
	other := must(tenon.NewStorage(9000, nil))
	defer other.Close()
	closed := must(tenon.NewQueue(nil))
	check(t, closed.Close())
	check(t, closed.Close())
	m := must(tenon.NewMessage())
	defer m.Close()
	made := func(options tenon.QueueOptions) error { return second(tenon.NewQueue(&options)) }
	for name, each := range map[string]struct {
		err    error
		wanted error
	}{
		"members":  {made(tenon.QueueOptions{Members: 257}), tenon.ErrInvalidArgument},
		"capacity": {made(tenon.QueueOptions{Capacity: 3}), tenon.ErrInvalidArgument},
		"slot":     {made(tenon.QueueOptions{SlotBytes: 65}), tenon.ErrInvalidArgument},
		"another capacity": {
			second(tenon.JoinQueue(storage, &tenon.QueueOptions{Capacity: 8})),
			tenon.ErrInvalidArgument,
		},
		"no storage":     {second(tenon.JoinQueue(nil, nil)), tenon.ErrInvalidArgument},
		"no queue":       {second(tenon.JoinQueue(other, nil)), tenon.ErrCorrupt},
		"nil message":    {q.Send(ctx, nil), tenon.ErrInvalidArgument},
		"nil queue":      {(*tenon.Queue)(nil).Send(ctx, m), tenon.ErrInvalidArgument},
		"zero queue":     {new(tenon.Queue).Send(ctx, m), tenon.ErrInvalidArgument},
		"zero, received": {second(new(tenon.Queue).Recv(ctx)), tenon.ErrInvalidArgument},
		"zero, storage":  {second(new(tenon.Queue).Storage()), tenon.ErrInvalidArgument},
		"zero, members":  {second(new(tenon.Queue).Members()), tenon.ErrInvalidArgument},
		"zero, stats":    {second(new(tenon.Queue).Stats()), tenon.ErrInvalidArgument},
		"closed, sent":   {closed.Send(ctx, m), tenon.ErrClosed},
		"closed":         {second(closed.Recv(ctx)), tenon.ErrClosed},
		"closed, stats":  {second(closed.Stats()), tenon.ErrClosed},
	} {
		if !errors.Is(each.err, each.wanted) {
			t.Errorf("%s: %v", name, each.err)
		}
	}
	closed.Leave()
	(*tenon.Queue)(nil).Leave()
	check(t, (*tenon.Queue)(nil).Close())
	check(t, new(tenon.Queue).Close())
	twin := must(tenon.JoinQueue(storage, nil))
	defer twin.Close()
	var full *tenon.Error
	if _, err := tenon.JoinQueue(storage, nil); !errors.Is(err, tenon.ErrResourceExhausted) ||
		!errors.As(err, &full) || full.Details["limit"] != "members" {
		t.Error(err)
	}
}

func TestQueueContext(t *testing.T) {
	q := newQueue(t, &tenon.QueueOptions{Capacity: 2})
	ctx := background(t)
	if _, err := q.TryRecv(); err != tenon.ErrWouldBlock {
		t.Error(err)
	}
	third := must(numbered(3))
	defer third.Close()
	recv := func(ctx context.Context) error { _, err := q.Recv(ctx); return err }
	send := func(ctx context.Context) error { return q.Send(ctx, third) }
	ends := func(name string, operation func(ctx context.Context) error) {
		cause := errors.New("mine")
		done, cancelNow := context.WithCancelCause(ctx)
		cancelNow(cause)
		if err := operation(done); !errors.Is(err, tenon.ErrCancelled) || !errors.Is(err, cause) {
			t.Error(name, "with a context that is done:", err)
		}
		later, cancelLater := context.WithCancelCause(ctx)
		time.AfterFunc(10*time.Millisecond, func() { cancelLater(cause) })
		if err := operation(later); !errors.Is(err, tenon.ErrCancelled) || !errors.Is(err, cause) {
			t.Error(name, "cancelled:", err)
		}
		soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		defer stop()
		if err := operation(soon); !errors.Is(err, tenon.ErrTimeout) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(name, "with a deadline:", err)
		}
	}
	ends("recv", recv)
	check(t, sendNumber(ctx, q, 1))
	check(t, sendNumber(ctx, q, 2))
	if err := q.TrySend(third); err != tenon.ErrWouldBlock {
		t.Error(err)
	}
	ends("send", send)
	check(t, second(receiveNumber(ctx, q)))
	check(t, send(ctx))
	for _, wanted := range []float32{2, 3} {
		if number := must(receiveNumber(ctx, q)); number != wanted {
			t.Error(number)
		}
	}
}

// A sender does not wake a process whose last goroutine has stopped to wait, and no message is lost
// when a context ends at that moment.
func TestQueueCancelledReceiver(t *testing.T) {
	q := newQueue(t, nil)
	storage := must(q.Storage())
	defer storage.Close()
	other := must(tenon.JoinQueue(storage, nil))
	defer other.Close()
	ctx := background(t)
	for i := range 50 {
		soon, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := q.Recv(soon); !errors.Is(err, tenon.ErrCancelled) {
			t.Fatal(err)
		}
		for _, member := range must(q.Members()) {
			if member.Asleep {
				t.Fatalf("%+v", member)
			}
		}
		check(t, sendNumber(ctx, q, float32(i)))
		if number := must(receiveNumber(ctx, other)); number != float32(i) {
			t.Fatal(number)
		}
	}
	for i := range 200 {
		racing, cancel := context.WithCancel(ctx)
		go cancel()
		check(t, sendNumber(ctx, other, float32(i)))
		m, err := q.Recv(racing)
		if err != nil {
			m = must(q.Recv(ctx))
		}
		if number := must(numberIn(m)); number != float32(i) {
			t.Fatal(number)
		}
	}
}

func TestQueueManyMessages(t *testing.T) {
	q := newQueue(t, &tenon.QueueOptions{Capacity: 4})
	ctx := background(t)
	var all []*tenon.Message
	for i := range 6 {
		m := must(numbered(float32(i)))
		defer m.Close()
		all = append(all, m)
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if n, err := q.SendMany(soon, all); n != 4 || !errors.Is(err, tenon.ErrTimeout) {
		t.Fatal(n, err)
	}
	received := must(q.RecvMany(ctx, 3))
	if len(received) != 3 {
		t.Fatal(len(received))
	}
	if n := must(q.SendMany(ctx, all[4:])); n != 2 {
		t.Fatal(n)
	}
	received = append(received, must(q.RecvMany(ctx, 99))...)
	for i, m := range received {
		if number := must(numberIn(m)); number != float32(i) {
			t.Error(i, number)
		}
	}
	if len(received) != 6 {
		t.Error(len(received))
	}
	if n := must(q.SendMany(ctx, nil)); n != 0 {
		t.Error(n)
	}
	later, stop := context.WithTimeout(ctx, 10*time.Millisecond)
	defer stop()
	if _, err := q.RecvMany(later, 3); !errors.Is(err, tenon.ErrTimeout) {
		t.Error(err)
	}
	if _, err := q.RecvMany(ctx, 0); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := q.SendMany(ctx, []*tenon.Message{nil}); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	go func() {
		time.Sleep(5 * time.Millisecond)
		q.SendMany(ctx, all[:2])
	}()
	for wanted := range 2 {
		if number := must(receiveNumber(ctx, q)); number != float32(wanted) {
			t.Error(number)
		}
	}
}

// Many goroutines wait for one queue, and each message goes to one of them.
func TestQueueManyGoroutines(t *testing.T) {
	const receivers, each = 8, 200
	q := newQueue(t, &tenon.QueueOptions{Capacity: 4})
	ctx, stop := context.WithCancel(background(t))
	numbers := make(chan float32)
	var group sync.WaitGroup
	for range receivers {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				number, err := receiveNumber(ctx, q)
				if err != nil {
					return
				}
				numbers <- number
			}
		}()
	}
	for sender := range 2 {
		go func() {
			for i := range each {
				if err := sendNumber(ctx, q, float32(sender*each+i)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	seen := make(map[float32]bool)
	for range 2 * each {
		seen[<-numbers] = true
	}
	stop()
	group.Wait()
	if len(seen) != 2*each {
		t.Error(len(seen))
	}
}

// Close ends a call that waits with a context that never ends, and so does Leave.
func TestQueueCloseAndLeaveEndWaits(t *testing.T) {
	first := newQueue(t, nil)
	storage := must(first.Storage())
	defer storage.Close()
	for _, end := range []struct {
		how    func(q *tenon.Queue)
		wanted error
	}{
		{func(q *tenon.Queue) { q.Close() }, tenon.ErrClosed},
		{func(q *tenon.Queue) { q.Leave(); q.Leave() }, tenon.ErrInvalidArgument},
	} {
		q := must(tenon.JoinQueue(storage, nil))
		var group sync.WaitGroup
		for range 3 {
			group.Add(1)
			go func() {
				defer group.Done()
				if _, err := q.Recv(context.Background()); !errors.Is(err, end.wanted) ||
					errors.Is(err, net.ErrClosed) != (end.wanted == tenon.ErrClosed) {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Millisecond) // some goroutines wait already, some do not: both must end
		end.how(q)
		group.Wait()
		if members := must(first.Members()); members[1].State != tenon.MemberLeft {
			t.Errorf("%+v", members)
		}
		q.Close()
	}
}

func TestQueueClosedInAnyOrder(t *testing.T) {
	q := newQueue(t, nil)
	ctx := background(t)
	storage := must(q.Storage())
	twin := must(tenon.JoinQueue(storage, nil))
	storage.Close()
	tensor := floats(t, 1, nil)
	m := must(tenon.NewMessage(tensor))
	check(t, q.Send(ctx, m))
	q.Close()
	m.Close()
	// The first member has left. Its message is still there, and outlives the queue.
	received := must(twin.Recv(ctx))
	twin.Close()
	if number := must(numberIn(received)); number != 0 {
		t.Error(number)
	}
}

func TestQueueDeath(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		for _, ignore := range []bool{false, true} {
			q := must(tenon.NewQueue(&tenon.QueueOptions{IgnoreDeaths: ignore}))
			command, c := start(t, "join and wait")
			check(t, sendStorage(ctx, c, q))
			check(t, sendNumber(ctx, q, 1))
			must(hear(ctx, c))
			check(t, command.Process.Kill())
			command.Wait()
			// A member begins to watch another one in the first call that follows the other's join.
			if ignore {
				if _, err := q.TryRecv(); err != tenon.ErrWouldBlock {
					t.Error(err)
				}
				for range 10_000 {
					if must(q.Members())[1].State == tenon.MemberDead {
						break
					}
					time.Sleep(time.Millisecond)
				}
			} else {
				var gone *tenon.Error
				_, err := q.Recv(ctx)
				if !errors.Is(err, tenon.ErrPeerGone) || !errors.As(err, &gone) ||
					gone.Details["pid"] != strconv.Itoa(command.Process.Pid) ||
					gone.Details["member"] != "1" {
					t.Errorf("%v %+v", err, gone)
				}
			}
			if members := must(q.Members()); members[1].State != tenon.MemberDead {
				t.Errorf("%+v", members)
			}
			// The death is told at most once, and the queue goes on.
			if _, err := q.TryRecv(); err != tenon.ErrWouldBlock {
				t.Error(err)
			}
			check(t, sendNumber(ctx, q, 2))
			if number := must(receiveNumber(ctx, q)); number != 2 {
				t.Error(number)
			}
			q.Close()
		}
	})
}

// joinAndWait takes one message, says so, and waits for a signal that kills this process.
func joinAndWait(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	q, err := joinReceived(ctx, c)
	if err != nil {
		return err
	}
	defer q.Close() // not earlier: the collector may find that nobody uses it any more
	if _, err := q.Recv(ctx); err != nil {
		return err
	}
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	select {}
}

// goroutinesEnd fails the test if more goroutines run than before.
func goroutinesEnd(t *testing.T, before int) {
	t.Helper()
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}

func TestQueueChannels(t *testing.T) {
	const n = 50
	q := newQueue(t, &tenon.QueueOptions{Capacity: 4})
	ctx, cancel := context.WithCancel(background(t))
	before := runtime.NumGoroutine()
	toSend := make(chan *tenon.Message)
	sent := make(chan error)
	go func() {
		unsent, err := q.SendFrom(ctx, toSend)
		if unsent != nil {
			err = fmt.Errorf("not sent: %w", err)
		}
		sent <- err
	}()
	go func() {
		defer close(toSend)
		for i := range n {
			toSend <- must(numbered(float32(i)))
		}
	}()
	results := q.Messages(ctx)
	for i := range n {
		result := <-results
		check(t, result.Err)
		if number := must(numberIn(result.Message)); number != float32(i) {
			t.Errorf("message %d is %v", i, number)
		}
	}
	check(t, <-sent)
	cancel()
	if result, open := <-results; open {
		t.Errorf("%+v", result)
	}
	goroutinesEnd(t, before)
}

// The goroutine of Messages has taken a message that nobody receives from the channel.
func TestQueueMessagesKeepsWhatNobodyTakes(t *testing.T) {
	q := newQueue(t, nil)
	ctx := background(t)
	before := runtime.NumGoroutine()
	for _, closed := range []bool{false, true} {
		pumping, cancel := context.WithCancel(ctx)
		check(t, sendNumber(ctx, q, 7))
		results := q.Messages(pumping)
		for must(q.Stats()).Waiting > 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		goroutinesEnd(t, before)
		if closed {
			q.Close() // closes the message too: nothing may be left
		} else if number := must(receiveNumber(ctx, q)); number != 7 {
			t.Error(number)
		}
		if result, open := <-results; open {
			t.Errorf("%+v", result)
		}
	}
}

func TestQueueChannelsEndWithTheQueue(t *testing.T) {
	q := newQueue(t, nil)
	ctx := background(t)
	before := runtime.NumGoroutine()
	soon := func(end func()) <-chan tenon.Received {
		time.AfterFunc(10*time.Millisecond, end)
		return q.Messages(ctx)
	}

	results := soon(q.Leave)
	if result := <-results; result.Message != nil ||
		!errors.Is(result.Err, tenon.ErrInvalidArgument) {
		t.Errorf("%+v", result)
	}
	if result, open := <-results; open {
		t.Errorf("%+v", result)
	}
	messages := make(chan *tenon.Message, 1)
	messages <- must(numbered(1))
	unsent, err := q.SendFrom(ctx, messages)
	if unsent == nil || !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(unsent, err)
	}
	unsent.Close()
	done, cancel := context.WithCancel(ctx)
	cancel()
	if unsent, err := q.SendFrom(done, messages); unsent != nil ||
		!errors.Is(err, tenon.ErrCancelled) {
		t.Error(unsent, err)
	}
	goroutinesEnd(t, before)

	q = must(tenon.NewQueue(nil))
	for result := range soon(func() { q.Close() }) {
		t.Errorf("%+v", result)
	}
	if unsent, err := q.SendFrom(ctx, messages); unsent != nil ||
		!errors.Is(err, tenon.ErrClosed) {
		t.Error(unsent, err)
	}
	goroutinesEnd(t, before)
	for result := range (*tenon.Queue)(nil).Messages(ctx) {
		if !errors.Is(result.Err, tenon.ErrInvalidArgument) {
			t.Error(result.Err)
		}
	}
}

// serve handles the messages of a queue until ctx ends.
func serve(
	ctx context.Context, storage *tenon.Storage, handle func(*tenon.Message) error,
) error {
	queue, err := tenon.JoinQueue(storage, nil) // another process made it: tenon.NewQueue(nil)
	if err != nil {
		return err
	}
	defer queue.Close()
	for received := range queue.Messages(ctx) {
		if errors.Is(received.Err, tenon.ErrPeerGone) {
			continue // one member has died, and the queue goes on
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
func TestQueueServe(t *testing.T) {
	q := newQueue(t, nil)
	ctx := background(t)
	storage := must(q.Storage())
	defer storage.Close()
	before := runtime.NumGoroutine()
	for i := range 4 {
		check(t, sendNumber(ctx, q, float32(i)))
	}
	enough, handled := errors.New("enough"), 0
	err := serve(ctx, storage, func(*tenon.Message) error {
		if handled++; handled == 2 {
			return enough
		}
		return nil
	})
	if err != enough || handled != 2 {
		t.Error(err, handled)
	}
	goroutinesEnd(t, before)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	err = serve(short, storage, func(*tenon.Message) error { return nil })
	if err != context.DeadlineExceeded {
		t.Error(err)
	}
	goroutinesEnd(t, before)
	for {
		m, err := q.TryRecv()
		if err != nil {
			break
		}
		m.Close()
	}
}

// A death is a result like any other.
func TestQueueMessagesGoOnAfterADeath(t *testing.T) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		ctx := background(t)
		q := must(tenon.NewQueue(nil))
		defer q.Close()
		command, c := start(t, "join and wait")
		check(t, sendStorage(ctx, c, q))
		check(t, sendNumber(ctx, q, 1))
		must(hear(ctx, c))
		results := q.Messages(ctx)
		check(t, command.Process.Kill())
		command.Wait()
		if result := <-results; !errors.Is(result.Err, tenon.ErrPeerGone) {
			t.Errorf("%+v", result)
		}
		check(t, sendNumber(ctx, q, 2))
		result := <-results
		check(t, result.Err)
		if number := must(numberIn(result.Message)); number != 2 {
			t.Error(number)
		}
	})
}
