// Lends weights that nobody can change any more. The borrower reads them in place, and is refused
// when it tries to write.
package main

import (
	"context"
	"errors"
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
	weights, err := message.Find("weights")
	if err != nil {
		return err
	}
	view, err := tenon.NewView[float32](weights)
	if err != nil {
		return err
	}
	fmt.Println("borrower: the third weight is", view.At(2))
	_, err = tenon.Slice[float32](weights) // asks for a writable slice
	if !errors.Is(err, tenon.ErrPermission) {
		return fmt.Errorf("not refused: %v", err)
	}
	fmt.Println("borrower: cannot write:", err)
	return nil
}

func lend(ctx context.Context) error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	borrower := exec.Command("/proc/self/exe", "borrow")
	borrower.ExtraFiles, borrower.Stdout, borrower.Stderr = []*os.File{theirs}, os.Stdout, os.Stderr
	if err := borrower.Start(); err != nil {
		return err
	}
	theirs.Close()

	connection, err := tenon.NewConnection(ends[0], nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	weights, err := tenon.FromSlice(
		[]float32{0.5, 1.5, 2.5, 3.5},
		[]int64{4},
		&tenon.StorageOptions{Mode: tenon.Frozen},
	)
	if err != nil {
		return err
	}
	defer weights.Close()
	message, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer message.Close()
	if err := message.Add("weights", weights); err != nil {
		return err
	}
	if err := connection.Send(ctx, message); err != nil {
		return err
	}
	if err := borrower.Wait(); err != nil {
		return err
	}
	fmt.Println("lender: lent once,", weights.NBytes(), "bytes, nothing copied on the way")
	return nil
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
