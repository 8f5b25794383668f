// Prints the text of some errors as the Go wrapper gives it. A line has an id of
// docs/guides/errors.md, a tab, the code, a tab and Error(). errors_test.py reads the lines.
// usage: show_errors FILE, which is no archive
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"syscall"

	"libtenon/tenon"
)

func show(id string, mistake func() error) {
	err := mistake()
	var code tenon.Code
	if !errors.As(err, &code) {
		log.Fatalf("%s: %v is no error of Tenon", id, err)
	}
	fmt.Printf("%s\t%s\t%v\n", id, code.String(), err)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// receiveFromNobody receives from a connection whose other end was closed.
func receiveFromNobody() error {
	ends := must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))
	connection := must(tenon.NewConnection(ends[0], nil))
	defer connection.Close()
	syscall.Close(ends[1])
	_, err := connection.Recv(context.Background())
	return err
}

func connectAListeningSocket() error {
	listening := must(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))
	defer syscall.Close(listening)
	name := fmt.Sprintf("@tenon-show-errors-%d", os.Getpid()) // the name of no file
	if err := syscall.Bind(listening, &syscall.SockaddrUnix{Name: name}); err != nil {
		log.Fatal(err)
	}
	if err := syscall.Listen(listening, 1); err != nil {
		log.Fatal(err)
	}
	_, err := tenon.NewConnection(listening, nil)
	return err
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: show_errors FILE")
	}
	storage := must(tenon.NewStorage(4096, nil))
	defer storage.Close()
	show("shape", func() error {
		_, err := tenon.NewTensor(storage, tenon.Spec{DType: tenon.Float32, Sizes: []int64{2000}})
		return err
	})
	show("name_missing", func() error {
		_, err := tenon.OpenFilename(
			context.Background(),
			tenon.FilenameHandle{Name: "/tenon-no-such-name", NBytes: 16},
			nil,
		)
		return err
	})
	show("peer_gone", receiveFromNobody)
	show("listening", connectAListeningSocket)
	show("not_archive", func() error {
		_, err := tenon.ImportModule(os.Args[1], nil)
		return err
	})
}
