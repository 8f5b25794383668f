// Command bench measures what the Go wrapper adds to its C calls. It also receives and views 300
// tensors of 4 KiB, in Go and in C.
//
// A sample is the mean over many calls of one kind, made in turn through the wrapper and by a loop
// in C. Both check errors. Another process sends the 300 tensors in one message each time, in a
// known segment. The time runs from the call that receives the message, which is already in the
// socket, until the first element of each tensor was read. Rows are printed as tests/bench/bench.h
// prints them.
// usage: bench [--smoke]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"

	"libtenon/tenon"
)

const tensors = 300

var background = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type goal struct {
	Of     string  `json:"of"`
	AtMost float64 `json:"at_most"`
}

func row(measure, unit string, wanted goal, ours, theirs []float64) {
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"measure": measure + ", Go", "unit": unit, "against": "C", "goal": wanted, "ours": ours,
		"theirs": theirs,
	}))
}

// interleave takes samples in turn. The first rounds only warm up.
func interleave(rounds int, ours, theirs func() float64) (a, b []float64) {
	warmUp := rounds/10 + 1
	for round := range rounds + warmUp {
		x, y := ours(), theirs()
		if round >= warmUp {
			a, b = append(a, x), append(b, y)
		}
	}
	return a, b
}

func socketpair() (int, int) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(err)
	return ends[0], ends[1]
}

var seen float32

func calls(rounds, each int) {
	beginC(socketpair())
	tensor := must(tenon.Empty(tenon.Float32, []int64{1024}, nil))
	storage := must(tensor.Storage())
	handle := must(storage.ShareFD(nil))
	first, second := socketpair()
	here, there := must(tenon.NewConnection(first, nil)), must(tenon.NewConnection(second, nil))
	spec := tenon.Spec{DType: tenon.Float32, Sizes: []int64{1024}}
	for which, kind := range []struct {
		measure string
		call    func()
	}{
		{
			"new and release of a storage of 4 KiB",
			func() { must(tenon.NewStorage(4096, nil)).Close() },
		},
		{"new and release of a tensor", func() { must(tenon.NewTensor(storage, spec)).Close() }},
		{"view of a tensor", func() { seen = must(tenon.Slice[float32](tensor))[0] }},
		{"one more reference and its release", func() { must(tensor.Retain()).Close() }},
		{"share by fd", func() { must(storage.ShareFD(nil)).Close() }},
		{"open by fd of what is known", func() { must(tenon.OpenFD(handle, nil)).Close() }},
		{"send and receive of a tensor", func() {
			message := must(tenon.NewMessage())
			check(message.Add("weight", tensor))
			check(here.Send(background, message))
			message.Close()
			must(there.Recv(background)).Close()
		}},
	} {
		n, most := each, 1000.0
		if kind.measure == "send and receive of a tensor" {
			n, most = each/10+1, 5000
		}
		ours, theirs := interleave(rounds, func() float64 {
			begin := time.Now()
			for range n {
				kind.call()
			}
			return float64(time.Since(begin).Nanoseconds()) / float64(n)
		}, func() float64 { return nsEachC(which, n) })
		row(kind.measure, "ns", goal{"ours-theirs", most}, ours, theirs)
	}
}

// lend is the other process. For each byte that arrives it sends the message, to the connection
// that the byte names.
func lend() {
	connections := [2]*tenon.Connection{
		must(tenon.NewConnection(3, nil)),
		must(tenon.NewConnection(4, nil)),
	}
	message := must(tenon.NewMessage())
	for i := range tensors {
		check(
			message.Add(
				fmt.Sprint("weight ", i),
				must(tenon.Empty(tenon.Float32, []int64{1024}, nil)),
			),
		)
	}
	for turn := []byte{0}; ; {
		if n, _ := os.Stdin.Read(turn); n == 0 {
			return
		}
		check(connections[turn[0]].Send(background, message))
		must(os.Stdout.Write(turn))
	}
}

func receive(connection *tenon.Connection) float64 {
	begin := time.Now()
	message := must(connection.Recv(background))
	for _, view := range must(message.Views()) {
		seen = must(tenon.ReadOnlySlice[float32](view))[0]
	}
	message.Close()
	return float64(time.Since(begin).Nanoseconds()) / 1e6
}

func many(rounds int) {
	lender := exec.Command("/proc/self/exe", "lend")
	lender.Stderr = os.Stderr
	ours, ourPeer := socketpair()
	theirs, theirPeer := socketpair()
	lender.ExtraFiles = []*os.File{
		os.NewFile(uintptr(ourPeer), ""),
		os.NewFile(uintptr(theirPeer), ""),
	}
	turns, answers := must(lender.StdinPipe()), must(lender.StdoutPipe())
	check(lender.Start())
	for _, file := range lender.ExtraFiles {
		file.Close()
	}
	connection := must(tenon.NewConnection(ours, nil))
	connectC(theirs)
	sent := func(to byte) {
		must(turns.Write([]byte{to}))
		must(answers.Read(make([]byte, 1))) // the message is in the socket
	}
	mine, others := interleave(
		rounds,
		func() float64 { sent(0); return receive(connection) },
		func() float64 { sent(1); return receiveC() },
	)
	row("300 x 4 KiB tensors received and viewed", "ms", goal{"ours", 0.2}, mine, others)
	turns.Close()
	check(lender.Wait())
}

func main() {
	smoke := len(os.Args) == 2 && os.Args[1] == "--smoke"
	switch {
	case len(os.Args) == 2 && os.Args[1] == "lend":
		lend()
	case smoke:
		calls(2, 10)
		many(2)
	default:
		calls(200, 500)
		many(500)
	}
}
