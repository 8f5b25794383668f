// Lends weights on a GPU to another process, as a trainer does for its workers. The lender reads an
// archive into device memory, and lends the tensors over a connection. Then it does the same with
// the next archive. The worker uses the tensors in place, without a copy. Without CUDA the program
// says why, and exits with 77, as a skipped test does. usage: cuda_weights FILE...
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"

	"libtenon/tenon"
)

// sumOf adds up the elements of a tensor on the device. The host cannot read device memory, so they
// travel through an archive.
func sumOf(tensor *tenon.Tensor) (sum float64, err error) {
	module, err := tenon.NewModule("Weight")
	if err != nil {
		return 0, err
	}
	defer module.Close()
	value, err := tenon.NewTensorValue(tensor)
	if err != nil {
		return 0, err
	}
	defer value.Close()
	if err := module.AddBuffer("weight", value); err != nil {
		return 0, err
	}
	var archive bytes.Buffer
	if _, err := tenon.ExportModuleTo(module, &archive, nil); err != nil {
		return 0, err
	}
	copied, err := tenon.ImportModuleBytes(archive.Bytes(), nil)
	if err != nil {
		return 0, err
	}
	defer copied.Close()
	member, err := copied.Find("weight")
	if err != nil {
		return 0, err
	}
	defer member.Close()
	host, err := member.Value.Tensor()
	if err != nil {
		return 0, err
	}
	defer host.Close()
	view, err := tenon.NewView[float32](host)
	if err != nil {
		return 0, err
	}
	defer view.Close()
	for _, element := range view.All() {
		sum += float64(element)
	}
	return sum, nil
}

func show(weights *tenon.Message) error {
	fmt.Printf("%s:\n", weights.UserBytes())
	for i := range weights.Len() {
		tensor, err := weights.Tensor(i)
		if err != nil {
			return err
		}
		defer tensor.Close()
		spec, err := tensor.Spec()
		if err != nil {
			return err
		}
		sum, err := sumOf(tensor)
		if err != nil {
			return err
		}
		name, _ := weights.Name(i)
		fmt.Printf(
			"  %s: %v %v on cuda:%d, the sum is %v\n",
			name,
			spec.DType,
			spec.Sizes,
			tensor.Device().ID,
			sum,
		)
	}
	return nil
}

func work(ctx context.Context) error {
	lender, err := tenon.NewConnection(syscall.Stdin, nil)
	if err != nil {
		return err
	}
	defer lender.Close()
	weights, err := lender.Recv(ctx)
	for err == nil {
		if err := show(weights); err != nil {
			return err
		}
		var next *tenon.Message
		next, err = lender.Recv(ctx)
		weights.Close() // the old weights go back to the lender
		weights = next
	}
	if errors.Is(err, tenon.ErrPeerGone) {
		return nil
	}
	return err
}

func lend(ctx context.Context, worker *tenon.Connection, file string) error {
	model, err := tenon.ImportModule(file, &tenon.ImportOptions{Tensors: tenon.ImportDevice})
	if err != nil {
		return err
	}
	defer model.Close()
	members, err := model.Tensors()
	if err != nil {
		return err
	}
	defer members.Close()
	message, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer message.Close()
	if err := message.SetUserBytes([]byte(file)); err != nil {
		return err
	}
	for _, member := range members {
		tensor, err := member.Value.Tensor()
		if err != nil {
			return err
		}
		defer tensor.Close()
		if err := message.Add(member.Name, tensor); err != nil {
			return err
		}
	}
	return worker.Send(ctx, message)
}

func run(ctx context.Context, files []string) error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "lender"), os.NewFile(uintptr(ends[1]), "worker")
	defer ours.Close()
	worker := exec.Command("/proc/self/exe", "--worker")
	worker.Stdin, worker.Stdout, worker.Stderr = theirs, os.Stdout, os.Stderr
	if err := worker.Start(); err != nil {
		return err
	}
	theirs.Close()
	connection, err := tenon.NewConnection(ends[0], nil)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err = lend(ctx, connection, file); err != nil {
			break
		}
	}
	connection.Close()
	ours.Close()
	// The lent memory exists as long as this process.
	if err := errors.Join(err, worker.Wait()); err != nil {
		return err
	}
	fmt.Println(tenon.CUDACollect(), "storages are still lent")
	return nil
}

func main() {
	var err error
	switch {
	case len(os.Args) < 2:
		log.Fatal("usage: cuda_weights FILE...")
	case os.Args[1] == "--worker":
		err = work(context.Background())
	default:
		if err := tenon.CUDAAvailable(); err != nil {
			fmt.Fprintln(os.Stderr, "cuda_weights:", err)
			os.Exit(77)
		}
		err = run(context.Background(), os.Args[1:])
	}
	if err != nil {
		log.Fatal(err)
	}
}
