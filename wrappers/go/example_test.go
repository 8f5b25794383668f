package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"libtenon/tenon"
)

// Lends a tensor over a connection. The receiver changes it in place.
func Example() {
	ctx := context.Background()
	// Here the ends are two goroutines. Usually each end is in a process of its own.
	lender, borrower, err := tenon.Pair()
	if err != nil {
		log.Fatal(err)
	}
	defer lender.Close()
	defer borrower.Close()

	weight, err := tenon.FromSlice([]float32{1, 2, 3, 4}, []int64{2, 2}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer weight.Close()
	message, err := tenon.NewMessage()
	if err != nil {
		log.Fatal(err)
	}
	defer message.Close()
	if err := message.Add("weight", weight); err != nil {
		log.Fatal(err)
	}
	if err := lender.Send(ctx, message); err != nil {
		log.Fatal(err)
	}

	received, err := borrower.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer received.Close()
	views, err := received.Views()
	if err != nil {
		log.Fatal(err)
	}
	for _, view := range views {
		err := tenon.With(view, func(values []float32) error {
			fmt.Println(view.Name(), view.DType(), view.Sizes(), values)
			values[0] = 42
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	err = tenon.With(weight, func(values []float32) error {
		fmt.Println("the lender sees", values)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// weight float32 [2 2] [1 2 3 4]
	// the lender sees [42 2 3 4]
}

// A view keeps its elements, even if the tensor is closed.
func ExampleNewView() {
	tensor, err := tenon.FromSlice(
		[]int32{10, 20, 30},
		[]int64{3},
		&tenon.StorageOptions{Mode: tenon.Frozen},
	)
	if err != nil {
		log.Fatal(err)
	}
	view, err := tenon.NewView[int32](tensor)
	if err != nil {
		log.Fatal(err)
	}
	defer view.Close()
	tensor.Close()
	for i, value := range view.All() {
		fmt.Println(i, value)
	}
	// Output:
	// 0 10
	// 1 20
	// 2 30
}

// Every wait takes a context.
func ExampleConnection_Recv() {
	left, right, err := tenon.Pair()
	if err != nil {
		log.Fatal(err)
	}
	defer left.Close()
	defer right.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = left.Recv(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, tenon.ErrTimeout))
	right.Close()
	_, err = left.Recv(context.Background())
	fmt.Println(errors.Is(err, tenon.ErrPeerGone))
	// Output:
	// true true
	// true
}

// An error has the code, the message and the details of the C library.
func ExampleError() {
	tensor, err := tenon.FromSlice([]float32{1}, []int64{1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tensor.Close()
	storage, err := tensor.Storage()
	if err != nil {
		log.Fatal(err)
	}
	defer storage.Close()
	_, err = storage.ShareFD(&tenon.ShareOptions{Access: tenon.AccessReadOnly})
	var failure *tenon.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code == tenon.ErrPermission, failure.Details["option"])
	}
	// Output: true LENDER_WRITES or FROZEN
}

func ExampleWeakRef() {
	storage, err := tenon.NewStorageFrom([]byte("cached"), nil)
	if err != nil {
		log.Fatal(err)
	}
	weak, err := storage.WeakRef()
	if err != nil {
		log.Fatal(err)
	}
	defer weak.Close()
	if again, err := weak.Lock(); err == nil {
		fmt.Println("alive", again.ID() == storage.ID())
		again.Close()
	}
	storage.Close()
	_, err = weak.Lock()
	fmt.Println(errors.Is(err, tenon.ErrNotFound))
	// Output:
	// alive true
	// true
}

// An object is plain data with tensors in it. Python programs use send_object and recv_object.
func ExampleConnection_SendObject() {
	ctx := context.Background()
	lender, borrower, err := tenon.Pair()
	if err != nil {
		log.Fatal(err)
	}
	defer lender.Close()
	defer borrower.Close()
	weight, err := tenon.FromSlice([]float32{1, 2, 3}, []int64{3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer weight.Close()
	sent := map[string]any{"step": 1, "rates": []float64{0.5, 0.25}, "weight": weight}
	if err := lender.SendObject(ctx, sent); err != nil {
		log.Fatal(err)
	}

	received, err := borrower.RecvObject(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tenon.CloseObject(received)
	for _, entry := range received.(tenon.Dict) {
		switch value := entry.Value.(type) {
		case *tenon.Tensor:
			fmt.Println(entry.Key, "is a tensor of sizes", value.Sizes())
		default:
			fmt.Println(entry.Key, "is", value)
		}
	}
	// Output:
	// rates is [0.5 0.25]
	// step is 1
	// weight is a tensor of sizes [3]
}
