package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// demonstrate sends requests to the server, kills the first worker that says that it has one of
// them, and checks every answer.
func (s *server) demonstrate(url string) error {
	const clients, each = 4, 25
	killed := make(chan int32, 1)
	done := make(chan struct{})
	go func() { killed <- s.killHolder(done) }()
	failures := make(chan error, clients)
	var all sync.WaitGroup
	for client := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range each {
				if err := ask(url, client*each+i); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	all.Wait()
	close(done)
	select {
	case err := <-failures:
		return err
	default:
	}
	pid := <-killed
	if err := s.waitUntilGone(pid); err != nil {
		return err
	}
	log.Printf("worker %d was killed, and all %d answers are right", pid, clients*each)
	return nil
}

// killHolder kills a worker, if possible one that has a request.
func (s *server) killHolder(done <-chan struct{}) int32 {
	for {
		s.mutex.Lock()
		pid := int32(0)
		for _, waiting := range s.pending {
			pid = max(pid, waiting.holder)
		}
		select {
		case <-done: // the requests were answered faster than this looks
			for each := range s.alive {
				pid = each
			}
		default:
		}
		s.mutex.Unlock()
		if pid != 0 {
			_ = syscall.Kill(int(pid), syscall.SIGKILL)
			return pid
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// waitUntilGone waits until the server has heard of the worker's death.
func (s *server) waitUntilGone(pid int32) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		s.mutex.Lock()
		gone := !s.alive[pid]
		s.mutex.Unlock()
		if gone {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("nobody said that worker %d has died", pid)
}

// ask posts a matrix that depends on the number, and compares the answer.
func ask(url string, number int) error {
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = float32((i+number)%7 - 3)
	}
	response, err := http.Post(url, "application/octet-stream", bytes.NewReader(bytesOf(x)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("request %d: %s: %s", number, response.Status, text)
	}
	y, wanted := make([]float32, rows*width), make([]float32, rows*width)
	if _, err := io.ReadFull(response.Body, bytesOf(y)); err != nil {
		return err
	}
	multiply(x, weights(), wanted)
	if !slices.Equal(y, wanted) {
		return fmt.Errorf("request %d has a wrong answer", number)
	}
	return nil
}
