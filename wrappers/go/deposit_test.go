// Tests of deposits: receivers in other processes, limits, and keepers.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["fetch"] = func() error { return withParent(fetchOne) }
	roles["fetch nothing"] = func() error { return withParent(fetchNothing) }
	roles["fetch in pieces"] = func() error { return withParent(fetchPieces) }
	roles["fetch from a stopped lender"] = func() error { return withParent(fetchFromStopped) }
	roles["deposit and wait"] = func() error { return withParent(depositAndWait) }
	roles["deposit and end"] = func() error { return withParent(depositAndEnd) }
}

// tell sends bytes, and hear receives them.
func tell(ctx context.Context, c *tenon.Connection, data []byte) error {
	m, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.SetUserBytes(data); err != nil {
		return err
	}
	return c.Send(ctx, m)
}

func hear(ctx context.Context, c *tenon.Connection) ([]byte, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.UserBytes(), nil
}

func patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 60*time.Second)
}

func ticketOf(tensor *tenon.Tensor) ([]byte, error) {
	m, err := tenon.NewMessage(tensor)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Deposit()
}

// depositing runs a test in a process of its own, because the depot lives as long as its process.
func depositing(t *testing.T, test func(t *testing.T)) {
	inOwnProcess(t, func(t *testing.T, _ string) {
		t.Cleanup(func() {
			if kept := must(tenon.HandOverDeposits(nil)); kept != 0 {
				t.Errorf("%d messages were left", kept)
			}
		})
		test(t)
	})
}

// expires waits until the lender has all of a storage back.
func expires(t *testing.T, weak *tenon.WeakRef) {
	t.Helper()
	for range 10_000 {
		must(tenon.LeaseHolders()) // checks for leases that were given back
		if weak.Expired() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the storage was not given back")
}

func weakOf(tensor *tenon.Tensor) *tenon.WeakRef {
	storage := must(tensor.Storage())
	defer storage.Close()
	return must(storage.WeakRef())
}

func TestDeposit(t *testing.T) { depositing(t, depositOne) }

func depositOne(t *testing.T) {
	ctx := background(t)
	for _, killed := range []bool{false, true} {
		command, c := start(t, "fetch")
		tensor := floats(t, 8, nil)
		check(t, tell(ctx, c, must(ticketOf(tensor))))
		must(hear(ctx, c))
		if must(tenon.Slice[float32](tensor))[7] != 42 {
			t.Error("the receiver has other memory")
		}
		if holders := must(tenon.LeaseHolders()); len(holders) != 1 ||
			holders[0].PID != int32(command.Process.Pid) {
			t.Errorf("%+v", holders)
		}
		weak := weakOf(tensor)
		tensor.Close()
		if killed {
			check(t, command.Process.Kill())
			command.Wait()
		} else {
			check(t, tell(ctx, c, nil))
			must(hear(ctx, c))
		}
		expires(t, weak)
		weak.Close()
		c.Close()
		if !killed {
			check(t, command.Wait())
		}
	}
}

func fetchOne(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	ticket, err := hear(ctx, c)
	if err != nil {
		return err
	}
	m, err := tenon.Fetch(ctx, ticket, nil)
	if err != nil {
		return err
	}
	if _, err := tenon.Fetch(ctx, ticket, nil); !errors.Is(err, tenon.ErrNotFound) {
		return fmt.Errorf("fetched twice: %v", err)
	}
	views, err := m.Views()
	if err != nil {
		return err
	}
	if err := tenon.With(views[0], func(values []float32) error {
		values[7] = 42
		return nil
	}); err != nil {
		return err
	}
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	if _, err := hear(ctx, c); err != nil {
		return err
	}
	m.Close()
	return tell(ctx, c, nil)
}

func TestDepositOfOneProcess(t *testing.T) { depositing(t, depositHere) }

func depositHere(t *testing.T) {
	ctx := background(t)
	tensor := floats(t, 8, nil)
	ticket := must(ticketOf(tensor))
	wanted := tenon.DepositStats{Messages: 1, Segments: 1}
	if stats := must(tenon.GetDepositStats()); stats != wanted {
		t.Errorf("%+v", stats)
	}
	// A context that never ends is fine, because the lender is this process.
	m := must(tenon.Fetch(context.Background(), ticket, nil))
	same := must(m.Tensor(0))
	defer same.Close()
	if weak, other := weakOf(same), weakOf(tensor); weak.ID() != other.ID() {
		t.Error("not the same storage")
	}
	m.Close()
	if _, err := tenon.Fetch(ctx, ticket, nil); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	if must(tenon.Withdraw(ticket)) {
		t.Error("a message was withdrawn that had been fetched")
	}
	ticket = must(ticketOf(tensor))
	if !must(tenon.Withdraw(ticket)) || must(tenon.Withdraw(ticket)) {
		t.Error("a message is withdrawn once")
	}
	command, c := start(t, "fetch nothing")
	check(t, tell(ctx, c, ticket))
	check(t, command.Wait())
}

func TestDepositThatItsCarrierLetGoOf(t *testing.T) { depositing(t, depositLetGo) }

func depositLetGo(t *testing.T) {
	ticket := must(ticketOf(floats(t, 8, nil)))
	var marker [2]int
	check(t, syscall.Pipe2(marker[:], syscall.O_CLOEXEC))
	if err := tenon.Watch(ticket, -1, 0); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	check(t, tenon.Watch(ticket, marker[0], time.Millisecond))
	check(t, syscall.Close(marker[1]))
	end := time.Now().Add(20 * time.Second)
	for must(tenon.GetDepositStats()).Messages > 0 && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := tenon.Fetch(background(t), ticket, nil); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
}

func fetchNothing(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	ticket, err := hear(ctx, c)
	if err != nil {
		return err
	}
	if _, err := tenon.Fetch(ctx, ticket, nil); !errors.Is(err, tenon.ErrNotFound) {
		return fmt.Errorf("a withdrawn message: %v", err)
	}
	if _, err := tenon.Withdraw(ticket); !errors.Is(err, tenon.ErrInvalidArgument) {
		return fmt.Errorf("another process's message: %v", err)
	}
	return nil
}

func TestDepositInPieces(t *testing.T) { depositing(t, depositPieces) }

func depositPieces(t *testing.T) {
	ctx := background(t)
	command, c := start(t, "fetch in pieces")
	deposit := must(tenon.NewDeposit())
	unopened, opened := must(
		tenon.NewStorage(5000, nil),
	), must(
		tenon.NewStorage(100, &tenon.StorageOptions{Mode: tenon.LenderWrites, Zeroed: true}),
	)
	must(opened.Bytes())[99] = 8
	empty := must(tenon.NewStorage(0, nil))
	defer empty.Close()
	for _, storage := range []*tenon.Storage{unopened, opened, empty} {
		check(t, tell(ctx, c, must(deposit.Add(storage, nil))))
	}
	if _, err := deposit.Add(
		unopened, &tenon.ShareOptions{Access: tenon.AccessReadOnly},
	); !errors.Is(err, tenon.ErrPermission) {
		t.Error(err)
	}
	check(t, tell(ctx, c, deposit.Head()))
	deposit.Close()
	weak := must(unopened.WeakRef())
	defer weak.Close()
	unopened.Close()
	opened.Close()
	must(hear(ctx, c))
	expires(t, weak)
	check(t, tell(ctx, c, nil))
	check(t, command.Wait())

	again := must(tenon.NewDeposit())
	head := again.Head()
	storage := must(tenon.NewStorage(100, nil))
	defer storage.Close()
	if !must(again.Withdraw()) || must(again.Withdraw()) {
		t.Error("a message is withdrawn once")
	}
	if _, err := again.Add(storage, nil); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := tenon.NewFetched(ctx, head, nil); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	again.Close()
	if _, err := again.Add(empty, nil); !errors.Is(err, tenon.ErrClosed) || again.Head() != nil {
		t.Error(err)
	}
	if _, err := again.Withdraw(); !errors.Is(err, tenon.ErrClosed) {
		t.Error(err)
	}
}

func fetchPieces(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	var records [4][]byte
	for i := range records {
		record, err := hear(ctx, c)
		if err != nil {
			return err
		}
		records[i] = record
	}
	fetched, err := tenon.NewFetched(ctx, records[3], nil)
	if err != nil {
		return err
	}
	if _, err := tenon.NewFetched(ctx, records[3], nil); !errors.Is(err, tenon.ErrNotFound) {
		return fmt.Errorf("fetched twice: %v", err)
	}
	kept, err := fetched.Storage(ctx, records[1])
	if err != nil {
		return err
	}
	defer kept.Close()
	if _, err := fetched.Storage(ctx, records[1]); !errors.Is(err, tenon.ErrCorrupt) {
		return fmt.Errorf("opened twice: %v", err)
	}
	empty, err := fetched.Storage(ctx, records[2])
	if err != nil {
		return err
	}
	empty.Close()
	fetched.Close()
	if _, err := fetched.Storage(ctx, records[0]); !errors.Is(err, tenon.ErrClosed) {
		return fmt.Errorf("opened afterwards: %v", err)
	}
	if err := tell(ctx, c, nil); err != nil {
		return err
	}
	if _, err := hear(ctx, c); err != nil {
		return err
	}
	if data, err := kept.ReadOnlyBytes(); err != nil || len(data) != 100 || data[99] != 8 {
		return fmt.Errorf("not the lender's bytes: %v", err)
	}
	return nil
}

func TestAWaitForAStoppedLenderEnds(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	lender, c := start(t, "deposit and wait")
	ticket := must(hear(ctx, c))
	check(t, lender.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	must(syscall.Wait4(lender.Process.Pid, &status, syscall.WUNTRACED, nil))
	receiver, other := start(
		t,
		"fetch from a stopped lender",
		fmt.Sprint("TENON_GO_TEST_LENDER=", lender.Process.Pid),
	)
	check(t, tell(ctx, other, ticket))
	check(t, receiver.Wait())
	check(t, tell(ctx, c, nil))
	check(t, lender.Wait())
}

func depositAndWait(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	tensor, err := tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, nil)
	if err != nil {
		return err
	}
	ticket, err := ticketOf(tensor)
	if err != nil {
		return err
	}
	tensor.Close()
	if err := tell(ctx, c, ticket); err != nil {
		return err
	}
	if _, err := hear(ctx, c); err != nil {
		return err
	}
	kept, err := tenon.HandOverDeposits(nil)
	if kept != 0 {
		return errors.New("the message was not fetched")
	}
	return err
}

func fetchFromStopped(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	ticket, err := hear(ctx, c)
	if err != nil {
		return err
	}
	soon, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	if _, err := tenon.Fetch(soon, ticket, nil); !errors.Is(err, tenon.ErrTimeout) ||
		!errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("with a deadline: %v", err)
	}
	later, cancelLater := context.WithCancel(ctx)
	time.AfterFunc(10*time.Millisecond, cancelLater)
	if _, err := tenon.Fetch(later, ticket, nil); !errors.Is(err, tenon.ErrCancelled) ||
		!errors.Is(err, context.Canceled) {
		return fmt.Errorf("cancelled: %v", err)
	}
	lender, err := strconv.Atoi(os.Getenv("TENON_GO_TEST_LENDER"))
	if err != nil {
		return err
	}
	if err := syscall.Kill(lender, syscall.SIGCONT); err != nil {
		return err
	}
	m, err := tenon.Fetch(ctx, ticket, &tenon.OpenOptions{Access: tenon.AccessReadOnly})
	if err != nil {
		return err
	}
	defer m.Close()
	views, err := m.Views()
	if err == nil && !views[0].IsReadOnly() {
		err = errors.New("the receiver can write")
	}
	return err
}

// A keeper hands out the message of a lender that has ended.
func TestHandOverDeposits(t *testing.T) { inOwnProcess(t, fetchFromKeeper) }

func fetchFromKeeper(t *testing.T, _ string) {
	ctx := background(t)
	lender, c := start(t, "deposit and end")
	ticket := must(hear(ctx, c))
	if len(ticket) == 0 {
		t.Skip("there is no tenon-manager beside the library")
	}
	check(t, lender.Wait())
	m := must(tenon.Fetch(ctx, ticket, nil))
	defer m.Close()
	if must(tenon.Slice[float32](must(m.Views())[0]))[2] != 3 {
		t.Error("not the lender's bytes")
	}
}

func depositAndEnd(c *tenon.Connection) error {
	ctx, cancel := patience()
	defer cancel()
	tensor, err := tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, nil)
	if err != nil {
		return err
	}
	ticket, err := ticketOf(tensor)
	if err != nil {
		return err
	}
	const pidfdOpen = 434
	parent, _, errno := syscall.Syscall(pidfdOpen, uintptr(os.Getppid()), 0, 0)
	if errno != 0 {
		return errno
	}
	kept, err := tenon.HandOverDeposits(
		&tenon.KeepOptions{Timeout: time.Minute, PIDFDs: []int{int(parent)}},
	)
	if errors.Is(err, tenon.ErrNotFound) {
		if _, err := tenon.Withdraw(ticket); err != nil {
			return err
		}
		if _, err := tenon.HandOverDeposits(nil); err != nil {
			return err
		}
		return tell(ctx, c, nil)
	}
	if err != nil || kept != 1 {
		return fmt.Errorf("%d messages were kept: %v", kept, err)
	}
	return tell(ctx, c, ticket)
}

func TestDepositLimits(t *testing.T) { depositing(t, limitDeposits) }

func limitDeposits(t *testing.T) {
	ctx := background(t)
	check(t, tenon.SetDepositLimits(&tenon.DepositLimits{MaxUnfetchedSegments: 1}))
	isolated := &tenon.StorageOptions{Isolated: true}
	first := must(ticketOf(floats(t, 8, isolated)))
	_, err := ticketOf(floats(t, 8, isolated))
	var full *tenon.Error
	if !errors.As(err, &full) || full.Code != tenon.ErrResourceExhausted ||
		full.Details["limit"] != "max_unfetched_segments" {
		t.Errorf("%#v", err)
	}
	check(t, tenon.SetDepositLimits(&tenon.DepositLimits{MaxUnfetchedBytes: 40}))
	second, third := must(ticketOf(floats(t, 8, nil))), must(ticketOf(floats(t, 8, nil)))
	if _, err := tenon.Fetch(ctx, second, nil); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	must(tenon.Fetch(ctx, first, nil)).Close()
	must(tenon.Fetch(ctx, third, nil)).Close()
	check(t, tenon.SetDepositLimits(&tenon.DepositLimits{MaxUnfetchedTime: time.Millisecond}))
	fourth := must(ticketOf(floats(t, 8, nil)))
	for i := 0; i < 10_000 && must(tenon.GetDepositStats()).Expired != 2; i++ {
		time.Sleep(time.Millisecond)
	}
	if _, err := tenon.Fetch(ctx, fourth, nil); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	check(t, tenon.SetDepositLimits(nil))
	if stats := must(tenon.GetDepositStats()); stats != (tenon.DepositStats{Expired: 2}) {
		t.Errorf("%+v", stats)
	}
	if err := tenon.SetDepositLimits(&tenon.DepositLimits{MaxUnfetchedTime: -1}); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Error(err)
	}
}

func TestDepositErrors(t *testing.T) { depositing(t, refuseDeposits) }

func refuseDeposits(t *testing.T) {
	ctx := background(t)
	expect := func(code tenon.Code, _ any, err error) {
		t.Helper()
		if !errors.Is(err, code) {
			t.Errorf("not %v: %v", code, err)
		}
	}
	private := must(tenon.NewStorage(32, &tenon.StorageOptions{Private: true}))
	defer private.Close()
	deposit := must(tenon.NewDeposit())
	defer deposit.Close()
	_, err := deposit.Add(private, nil)
	expect(tenon.ErrUnsupported, nil, err)
	_, err = deposit.Add(nil, nil)
	expect(tenon.ErrInvalidArgument, nil, err)
	must(deposit.Withdraw())
	ticket := must(ticketOf(floats(t, 8, nil)))
	_, err = tenon.Fetch(ctx, ticket, &tenon.OpenOptions{PrivateCopy: true})
	expect(tenon.ErrUnsupported, nil, err)
	_, err = tenon.NewFetched(ctx, ticket, nil)
	expect(tenon.ErrCorrupt, nil, err)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = tenon.Fetch(done, ticket, nil)
	expect(tenon.ErrCancelled, nil, err)
	must(tenon.Withdraw(ticket))
	ticket[40] ^= 1
	_, err = tenon.Fetch(ctx, ticket, nil)
	expect(tenon.ErrCorrupt, nil, err)
	_, err = tenon.Withdraw(ticket)
	expect(tenon.ErrCorrupt, nil, err)
	_, err = tenon.Fetch(ctx, nil, nil)
	expect(tenon.ErrCorrupt, nil, err)
	_, err = (*tenon.Message)(nil).Deposit()
	expect(tenon.ErrInvalidArgument, nil, err)
	_, err = (*tenon.Fetched)(nil).Storage(ctx, nil)
	expect(tenon.ErrInvalidArgument, nil, err)
	_, err = new(tenon.Deposit).Add(private, nil)
	expect(tenon.ErrInvalidArgument, nil, err)
	for _, wrong := range []tenon.KeepOptions{
		{Family: "a\x00b"}, {Program: "a\x00b"}, {PIDFDs: []int{1 << 40}}, {Timeout: -1},
	} {
		_, err = tenon.HandOverDeposits(&wrong)
		expect(tenon.ErrInvalidArgument, nil, err)
	}
}
