// Lends a sparse matrix. The borrower checks its indices and reads it in place.
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
	received, err := message.FindComposite("features")
	if err != nil {
		return err
	}
	// The lender could have sent an index that leads out of the matrix.
	checked, err := received.Check()
	if err != nil {
		return err
	}
	features, err := checked.Spec()
	if err != nil {
		return err
	}
	defer features.Close()
	first, err := tenon.NewView[int64](features.Indices)
	if err != nil {
		return err
	}
	values, err := tenon.NewView[float32](features.Values)
	if err != nil {
		return err
	}
	fmt.Print("borrower: the rows sum to")
	for row := range int(features.Sizes[0]) {
		sum := float32(0)
		for i := first.At(row); i < first.At(row+1); i++ {
			sum += values.At(int(i))
		}
		fmt.Print(" ", sum)
	}
	fmt.Println()
	return nil
}

// matrix is [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]].
func matrix() (*tenon.Composite, error) {
	frozen := &tenon.StorageOptions{Mode: tenon.Frozen}
	spec := tenon.CompositeSpec{Layout: tenon.LayoutSparseCSR, Sizes: []int64{3, 4}}
	defer func() { spec.Close() }()
	var err error
	if spec.Values, err = tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, frozen); err != nil {
		return nil, err
	}
	if spec.Indices, err = tenon.FromSlice([]int64{0, 2, 2, 3}, []int64{4}, frozen); err != nil {
		return nil, err
	}
	if spec.PlainIndices, err = tenon.FromSlice([]int64{0, 3, 1}, []int64{3}, frozen); err != nil {
		return nil, err
	}
	return tenon.NewComposite(spec)
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
	features, err := matrix()
	if err != nil {
		return err
	}
	defer features.Close()
	message, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer message.Close()
	if err := message.AddComposite("features", features); err != nil {
		return err
	}
	if err := connection.Send(ctx, message); err != nil {
		return err
	}
	if err := borrower.Wait(); err != nil {
		return err
	}
	fmt.Println("lender: lent 3 of 12 elements, nothing copied on the way")
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
