// Tests of leases, with and without the library's thread.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["hold"] = func() error { return withParent(holdOne) }
	roles["without a thread"] = withoutAThread
}

// holdOne keeps a message, and says so, until another message arrives.
func holdOne(c *tenon.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	held, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	answer, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	if err := c.Send(ctx, answer); err != nil {
		return err
	}
	if _, err := c.Recv(ctx); err != nil {
		return err
	}
	held.Close()
	_, err = c.Recv(ctx)
	if errors.Is(err, tenon.ErrPeerGone) {
		return nil
	}
	return err
}

// lendAll lends a tensor that fills the arena, and closes everything here.
func lendAll(ctx context.Context, arena *tenon.Arena, c *tenon.Connection) error {
	tensor, err := tenon.Empty(
		tenon.DTypeOf[uint8](),
		[]int64{mib},
		&tenon.StorageOptions{Arena: arena, Zeroed: true},
	)
	if err != nil {
		return err
	}
	defer tensor.Close()
	message, err := tenon.NewMessage(tensor)
	if err != nil {
		return err
	}
	defer message.Close()
	if err := c.Send(ctx, message); err != nil {
		return err
	}
	answer, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	return answer.Close()
}

func TestALentBlockStaysUntilItIsGivenBack(t *testing.T) {
	ctx := background(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	command, c := start(t, "hold")
	check(t, lendAll(ctx, arena, c))
	if now := must(arena.Stats()); now.BlocksLive != 0 || now.BlocksLent != 1 ||
		now.BytesLent != mib {
		t.Errorf("%+v", now)
	}
	holders := must(tenon.LeaseHolders())
	if len(holders) != 1 {
		t.Fatalf("%+v", holders)
	}
	if holders[0].Age <= 0 {
		t.Errorf("%+v", holders)
	}
	holders[0].Age = 0
	pid, uid := int32(command.Process.Pid), uint32(os.Getuid())
	if wanted := (tenon.LeaseHolder{pid, uid, 1, mib, 1, mib, 0}); holders[0] != wanted {
		t.Errorf("%+v, wanted %+v", holders[0], wanted)
	}
	_, err := tenon.NewStorage(1, &tenon.StorageOptions{Arena: arena, Wait: within(t, time.Second)})
	var full *tenon.Error
	if !errors.As(err, &full) || full.Code != tenon.ErrTimeout ||
		!strings.Contains(full.Details["holders"], fmt.Sprintf("pid %d ", command.Process.Pid)) {
		t.Errorf("%v %+v", err, full)
	}
	again := must(tenon.NewMessage())
	check(t, c.Send(ctx, again))
	again.Close()
	must(tenon.NewStorage(mib, &tenon.StorageOptions{Arena: arena, Wait: ctx})).Close()
	if now := must(arena.Stats()); now.BlocksLent != 0 {
		t.Errorf("%+v", now)
	}
	c.Close()
	check(t, command.Wait())
}

func TestAKilledBorrowerEndsTheWait(t *testing.T) {
	ctx := background(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	command, c := start(t, "hold")
	defer c.Close()
	check(t, lendAll(ctx, arena, c))
	check(t, command.Process.Kill())
	must(tenon.NewStorage(mib, &tenon.StorageOptions{Arena: arena, Wait: ctx})).Close()
	if holders := must(tenon.LeaseHolders()); len(holders) != 0 {
		t.Errorf("%+v", holders)
	}
	for _, err := range []error{
		tenon.LeaseUseNoThread(), tenon.LeasePoll(), second(tenon.LeaseFD()),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error("with a thread: ", err)
		}
	}
}

func TestWithoutAThread(t *testing.T) {
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), roleVariable+"=without a thread")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	check(t, command.Run())
}

// withoutAThread runs a goroutine that polls in place of the library's thread.
func withoutAThread() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := tenon.LeaseUseNoThread(); err != nil {
		return err
	}
	if fd, err := tenon.LeaseFD(); err != nil || fd < 0 {
		return fmt.Errorf("the fd is %d: %w", fd, err)
	}
	t := &testing.T{}
	arena := must(tenon.NewArena(&tenon.ArenaOptions{Capacity: mib}))
	command, c := start(t, "hold")
	defer c.Close() // not earlier: the collector may find that nobody uses it any more
	if err := lendAll(ctx, arena, c); err != nil {
		return err
	}
	if err := tenon.LeasePoll(); err != nil {
		return err
	}
	if now := must(arena.Stats()); now.BlocksLent != 1 {
		return fmt.Errorf("%+v", now)
	}
	if err := command.Process.Kill(); err != nil {
		return err
	}
	command.Wait()
	for must(arena.Stats()).BlocksLent > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := tenon.LeasePoll(); err != nil {
			return err
		}
	}
	return nil
}
