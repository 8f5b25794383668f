// Go in the matrix (tests/languages/matrix/README.md). usage: matrix produce|consume
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"libtenon/tenon"
)

const patience = 10 * time.Second

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// commands give the words behind "ok".
var commands = map[string]func(p *peer, words []string) (string, error){
	"read": (*peer).read, "write": (*peer).write, "wait": (*peer).wait, "close": (*peer).close,
	"drop": (*peer).drop, "settle": (*peer).settle, "listen": (*peer).listen,
	"accept": (*peer).accept, "lend": (*peer).lend, "connect": (*peer).connect,
	"open": (*peer).open, "compose": (*peer).compose, "send": (*peer).send,
	"receive": (*peer).receive, "composite": (*peer).composite, "check": (*peer).check,
	"tensor": (*peer).tensor, "view": (*peer).view, "send_object": (*peer).sendObject,
	"recv_object": (*peer).recvObject,
}

// answer gives the one line that answers a command.
func answer(p *peer, line string) (said string) {
	defer func() {
		// The command has too few words, or names a key that does not exist.
		if value := recover(); value != nil {
			said = fmt.Sprintf("error OTHER %v", value)
		}
	}()
	words := strings.Split(line, " ")
	if words[0] == "fork" {
		return "skip a Go program cannot fork: it would be a child without the threads that Go " +
			"needs"
	}
	command, ok := commands[words[0]]
	if !ok {
		return "error OTHER unknown command " + words[0]
	}
	result, err := command(p, words[1:])
	var failure *tenon.Error
	switch {
	case errors.As(err, &failure):
		return fmt.Sprintf("error %s %s", failure.Code.String(), failure.Message)
	case err != nil:
		return "error OTHER " + strings.Join(strings.Fields(err.Error()), " ")
	}
	return strings.TrimRight("ok "+result, " ")
}

func main() {
	p := &peer{sockets: map[string]*socket{}, kept: map[string]*kept{}, listener: -1}
	fmt.Println("ready")
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<24)
	for input.Scan() {
		if input.Text() == "quit" {
			break
		}
		fmt.Println(answer(p, input.Text()))
	}
	p.end()
	if input.Text() == "quit" {
		fmt.Println("ok")
	}
}

func (p *peer) settle([]string) (string, error) {
	// Another goroutine releases what a collection has found, a moment later.
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	tenon.Trim()
	waiting := tenon.CUDACollect()
	stats, err := tenon.GetStats()
	return fmt.Sprint(stats.Storages, " ", stats.Segments, " ", stats.SegmentFDs, " ", waiting), err
}
