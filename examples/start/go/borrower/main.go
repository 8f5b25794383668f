// Reads a borrowed tensor and writes to it. Its standard input is a socket to the lender.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"first/start"
	"libtenon/tenon"
)

func main() {
	ctx := context.Background()
	lender := start.Must(tenon.ConnectionOn(os.Stdin, nil))
	os.Stdin.Close() // the connection has a copy
	message := start.Must(lender.Recv(ctx))
	weights := start.Must(message.Find("weights"))
	first := start.Must(tenon.NewView[float32](weights)).At(0)
	fmt.Println("borrower: the first weight is", first)
	err := tenon.With(weights, func(values []float32) error {
		values[0] = 42
		return nil
	})
	if err != nil {
		fmt.Println("borrower: cannot write:", err)
	}
	start.Check(lender.Send(ctx, start.Must(tenon.NewMessage()))) // the borrower is done
	// Waits until the lender closes the connection.
	if _, err := lender.Recv(ctx); !errors.Is(err, tenon.ErrPeerGone) {
		log.Fatal("expected the end: ", err)
	}
	weights.Close()
}
