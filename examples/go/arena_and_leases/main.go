// Two workers borrow from one arena. One worker is killed, and the blocks that it held come back to
// the lender. The other worker reads on.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"libtenon/tenon"
)

const (
	tensors  = 8
	elements = 1 << 18
	nbytes   = elements * 4
)

func work(ctx context.Context) error {
	lender, err := tenon.NewConnection(3, nil)
	if err != nil {
		return err
	}
	weights, err := lender.Recv(ctx)
	if err != nil {
		return err
	}
	if err := sendNote(ctx, lender); err != nil {
		return err
	}
	if err := recvNote(ctx, lender); err != nil { // meanwhile the lender kills one worker
		return err
	}
	views, err := weights.Views()
	if err != nil {
		return err
	}
	err = tenon.With(views[tensors-1], func(last []float32) error {
		fmt.Println("a worker still reads", last[elements-1])
		return nil
	})
	if err != nil {
		return err
	}
	return weights.Close() // this also ends the leases
}

func sendNote(ctx context.Context, to *tenon.Connection) error {
	note, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer note.Close()
	return to.Send(ctx, note)
}

func recvNote(ctx context.Context, from *tenon.Connection) error {
	note, err := from.Recv(ctx)
	if err != nil {
		return err
	}
	return note.Close()
}

func start() (*exec.Cmd, *tenon.Connection, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	defer theirs.Close()
	worker := exec.Command("/proc/self/exe", "work")
	worker.ExtraFiles, worker.Stdout, worker.Stderr = []*os.File{theirs}, os.Stdout, os.Stderr
	if err := worker.Start(); err != nil {
		return nil, nil, err
	}
	connection, err := tenon.NewConnection(ends[0], nil)
	return worker, connection, err
}

// lend makes tensors in the arena, and closes them as soon as they are sent. From then on the
// worker's leases keep their memory.
func lend(ctx context.Context, worker *tenon.Connection, arena *tenon.Arena) error {
	message, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer message.Close()
	for range tensors {
		weight, err := tenon.FromSlice(
			slices.Repeat([]float32{42}, elements),
			[]int64{elements},
			&tenon.StorageOptions{Arena: arena},
		)
		if err != nil {
			return err
		}
		err = message.AddAll(nil, []*tenon.Tensor{weight}, nil)
		weight.Close()
		if err != nil {
			return err
		}
	}
	if err := worker.Send(ctx, message); err != nil {
		return err
	}
	return recvNote(ctx, worker) // the worker has the tensors
}

func printHolders() error {
	holders, err := tenon.LeaseHolders()
	for _, each := range holders {
		fmt.Println("process", each.PID, "holds", each.Leases, "leases of", each.NBytes, "bytes")
	}
	return err
}

func run(ctx context.Context) error {
	first, toFirst, err := start()
	if err != nil {
		return err
	}
	defer toFirst.Close()
	second, toSecond, err := start()
	if err != nil {
		return err
	}
	defer toSecond.Close()
	arena, err := tenon.NewArena(&tenon.ArenaOptions{Capacity: 2 * tensors * nbytes})
	if err != nil {
		return err
	}
	defer arena.Close()
	for _, worker := range []*tenon.Connection{toFirst, toSecond} {
		if err := lend(ctx, worker, arena); err != nil {
			return err
		}
	}
	if err := printHolders(); err != nil {
		return err
	}
	_, err = tenon.NewStorage(nbytes, &tenon.StorageOptions{Arena: arena})
	if !errors.Is(err, tenon.ErrResourceExhausted) {
		return fmt.Errorf("it is not full: %v", err)
	}
	fmt.Println("full:", err)

	if err := first.Process.Kill(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Waits until there is room.
	storage, err := tenon.NewStorage(nbytes, &tenon.StorageOptions{Arena: arena, Wait: wait})
	if err != nil {
		return err
	}
	defer storage.Close()
	fmt.Println("one worker was killed, and there is room")
	if err := printHolders(); err != nil {
		return err
	}
	if err := sendNote(ctx, toSecond); err != nil {
		return err
	}
	if err := second.Wait(); err != nil {
		return err
	}
	now, err := arena.Stats()
	if err != nil {
		return err
	}
	fmt.Println(now.BlocksLent, "blocks are lent,", now.BytesLive, "bytes are in use")
	_ = first.Wait() // an error says that the worker was killed
	return nil
}

func main() {
	do := run
	if len(os.Args) == 2 {
		do = work
	}
	if err := do(context.Background()); err != nil {
		log.Fatal(err)
	}
}
