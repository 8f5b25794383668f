// Package start has what the programs share. It has nothing to do with tensors.
package start

import (
	"log"
	"os"
	"os/exec"
	"syscall"

	"libtenon/tenon"
)

// Check ends the program if a call failed.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Must gives the value of a call, and ends the program if the call failed.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Program starts a program and connects to it. The other end of the socket is its standard input.
func Program(command []string) (*exec.Cmd, *tenon.Connection) {
	ends := Must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))
	ours := os.NewFile(uintptr(ends[0]), "ours")
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	defer ours.Close() // the connection has a copy
	defer theirs.Close()

	program := exec.Command(command[0], command[1:]...)
	program.Stdin, program.Stdout, program.Stderr = theirs, os.Stdout, os.Stderr
	Check(program.Start())
	return program, Must(tenon.ConnectionOn(ours, nil))
}
