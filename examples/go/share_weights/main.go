// A borrower of a model's weights. usage: share_weights FD, where FD is one end of a connected
// AF_UNIX socket.
//
// It says "ready". Then the first message brings the tensors. After that each message asks for
// something in its user bytes, and gets an answer:
//
//	sum      read every float32 weight in place
//	add N    add 1 to weight N of the first tensor, in place
//
// It ends when the lender closes its end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"libtenon/tenon"
)

// monotonicNS reads CLOCK_MONOTONIC, which the lender reads too. Go's own clock does not show this
// number.
func monotonicNS() int64 {
	var now syscall.Timespec
	const clockMonotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func sumOf(weights []tenon.TensorView) (float64, error) {
	sum := 0.0
	for _, each := range weights {
		err := tenon.With(each, func(values []float32) error {
			for _, value := range values {
				sum += float64(value)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return sum, nil
}

func say(ctx context.Context, connection *tenon.Connection, text []byte) error {
	message, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer message.Close()
	if err := message.SetUserBytes(text); err != nil {
		return err
	}
	return connection.Send(ctx, message)
}

func hear(ctx context.Context, connection *tenon.Connection) (string, error) {
	message, err := connection.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer message.Close()
	return string(message.UserBytes()), nil
}

func borrow(ctx context.Context, fd int) error {
	connection, err := tenon.NewConnection(fd, nil)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := say(ctx, connection, []byte("ready")); err != nil {
		return err
	}
	lent, err := connection.Recv(ctx)
	if err != nil {
		return err
	}
	defer lent.Close()
	weights, err := lent.Views()
	if err != nil {
		return err
	}
	first, err := tenon.NewView[float32](weights[0])
	if err != nil {
		return err
	}
	defer first.Close()
	first.At(0)
	firstByte := monotonicNS()
	for command := ""; ; {
		sum := 0.0
		var at int
		if n, _ := fmt.Sscanf(command, "add %d", &at); n == 1 && at >= 0 && at < first.Len() {
			err = tenon.With(weights[0], func(values []float32) error {
				values[at]++
				return nil
			})
		} else if command == "sum" {
			sum, err = sumOf(weights)
		}
		if err != nil {
			return err
		}
		stats, err := tenon.GetStats()
		if err != nil {
			return err
		}
		answer, err := json.Marshal(
			map[string]any{
				"sum":           sum,
				"first_byte_ns": firstByte,
				"bytes_copied":  stats.BytesCopied,
			},
		)
		if err != nil {
			return err
		}
		if err := say(ctx, connection, answer); err != nil {
			return err
		}
		if command, err = hear(ctx, connection); errors.Is(err, tenon.ErrPeerGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: share_weights FD")
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := borrow(context.Background(), fd); err != nil {
		log.Fatal(err)
	}
}
