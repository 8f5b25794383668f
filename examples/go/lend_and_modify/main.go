// Lends a tensor to another process, which changes it in place.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"

	"libtenon/tenon"
)

func borrow(ctx context.Context) error {
	connection, err := tenon.NewConnection(3, nil)
	if err != nil {
		return err
	}
	message, err := connection.Recv(ctx)
	if err != nil {
		return err
	}
	views, err := message.Views()
	if err != nil {
		return err
	}
	return tenon.With(views[0], func(weight []float32) error {
		weight[999_999] = 42
		return nil
	})
}

func lend(ctx context.Context) error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	borrower := exec.Command("/proc/self/exe", "borrow") // Go does not fork: it starts a program
	borrower.ExtraFiles, borrower.Stderr = []*os.File{theirs}, os.Stderr
	if err := borrower.Start(); err != nil {
		return err
	}
	theirs.Close()

	connection, err := tenon.NewConnection(ends[0], nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	weight, err := tenon.Empty(
		tenon.Float32,
		[]int64{1000, 1000},
		&tenon.StorageOptions{Zeroed: true},
	)
	if err != nil {
		return err
	}
	defer weight.Close()
	message, err := tenon.NewMessage(weight)
	if err != nil {
		return err
	}
	defer message.Close()
	if err := connection.Send(ctx, message); err != nil {
		return err
	}
	if err := borrower.Wait(); err != nil {
		return err
	}
	return tenon.With(weight, func(values []float32) error {
		fmt.Println("the last element is now", values[999_999])
		return nil
	})
}

func main() {
	work := lend
	if len(os.Args) == 2 {
		work = borrow
	}
	if err := work(context.Background()); err != nil {
		log.Fatal(err)
	}
}
