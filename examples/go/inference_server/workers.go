package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"libtenon/tenon"
)

func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

func bytesOf(elements []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), 4*len(elements))
}

// startWorkers starts the workers, and gives each of them the queues and the weights. stop ends
// those that were started.
func (s *server) startWorkers(ctx context.Context, commands []string) (stop func(), err error) {
	var workers []*exec.Cmd
	stop = func() {
		if note, err := tenon.NewMessage(); err == nil {
			for range workers {
				_ = s.requests.TrySend(note) // a message without a tensor tells one worker to end
			}
			note.Close()
		}
		for _, each := range workers {
			patience := time.AfterFunc(5*time.Second, func() { _ = each.Process.Kill() })
			_ = each.Wait()
			patience.Stop()
		}
	}
	start, err := s.startMessage()
	if err != nil {
		return stop, err
	}
	defer start.Close()
	for _, command := range commands {
		worker, err := startWorker(ctx, command, start)
		if err != nil {
			return stop, fmt.Errorf("the worker '%s': %w", command, err)
		}
		workers = append(workers, worker)
		s.alive[int32(worker.Process.Pid)] = true
	}
	return stop, nil
}

// startMessage makes the message that every worker gets first. A queue lies in a storage, so it
// travels as a tensor of its bytes. All workers read the same weights.
func (s *server) startMessage() (*tenon.Message, error) {
	message, err := tenon.NewMessage()
	if err != nil {
		return nil, err
	}
	err = func() error {
		for name, queue := range map[string]*tenon.Queue{
			"requests": s.requests,
			"answers":  s.answers,
		} {
			storage, err := queue.Storage()
			if err != nil {
				return err
			}
			defer storage.Close()
			bytes, err := tenon.NewTensor(storage, tenon.Spec{
				DType: tenon.Uint8,
				Sizes: []int64{int64(storage.NBytes())},
			})
			if err != nil {
				return err
			}
			defer bytes.Close()
			if err := message.Add(name, bytes); err != nil {
				return err
			}
		}
		weights, err := tenon.FromSlice(weights(), []int64{width, width}, nil)
		if err != nil {
			return err
		}
		defer weights.Close()
		return message.Add("weights", weights)
	}()
	if err != nil {
		message.Close()
		return nil, err
	}
	return message, nil
}

// weights makes a model whose answers are exact in float32, in whatever order a worker adds.
func weights() []float32 {
	elements := make([]float32, width*width)
	for i := range elements {
		elements[i] = float32(i/width%5-2+i%width%3) / 4
	}
	return elements
}

func startWorker(ctx context.Context, command string, start *tenon.Message) (*exec.Cmd, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	words := append(strings.Fields(command), "3")
	worker := exec.Command(words[0], words[1:]...)
	worker.ExtraFiles, worker.Stdout, worker.Stderr = []*os.File{theirs}, os.Stdout, os.Stderr
	// An interrupt at the terminal reaches only the front end, which ends the workers in order.
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = worker.Start()
	theirs.Close() // so that the end of the worker ends the wait for its word below
	if err != nil {
		syscall.Close(ends[0])
		return nil, err
	}
	err = func() error {
		connection, err := tenon.NewConnection(ends[0], nil)
		if err != nil {
			return err
		}
		defer connection.Close()
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := connection.Send(wait, start); err != nil {
			return err
		}
		ready, err := connection.Recv(wait) // the worker has joined both queues
		if err != nil {
			return err
		}
		return ready.Close()
	}()
	if err != nil {
		_ = worker.Process.Kill()
		_ = worker.Wait()
		return nil, err
	}
	return worker, nil
}

// work is a worker in Go. ../../python, ../../rust and ../../cpp have the same one.
func work(ctx context.Context, fd string) error {
	number, err := strconv.Atoi(fd)
	if err != nil {
		return err
	}
	connection, err := tenon.NewConnection(number, nil)
	if err != nil {
		return err
	}
	start, err := connection.Recv(ctx)
	if err != nil {
		return err
	}
	defer start.Close()
	requests, err := join(start, "requests", nil)
	if err != nil {
		return err
	}
	defer requests.Close()
	answers, err := join(start, "answers", &tenon.QueueOptions{IgnoreDeaths: true})
	if err != nil {
		return err
	}
	defer answers.Close()
	weights, err := start.Find("weights")
	if err != nil {
		return err
	}
	defer weights.Close()
	ready, err := tenon.NewMessage()
	if err != nil {
		return err
	}
	defer ready.Close()
	frontEnd := os.Getppid()
	if err := connection.Send(ctx, ready); err != nil {
		return err
	}
	for {
		message, err := requests.Recv(ctx)
		var gone *tenon.Error
		switch {
		case errors.As(err, &gone) && gone.Code == tenon.ErrPeerGone:
			if gone.Details["pid"] == strconv.Itoa(frontEnd) {
				return nil
			}
			continue // another worker has died
		case err != nil:
			return err
		}
		end := message.Len() == 0
		if !end {
			err = reply(ctx, message, weights, answers)
		}
		message.Close()
		if end || err != nil {
			return err
		}
	}
}

func join(start *tenon.Message, name string, options *tenon.QueueOptions) (*tenon.Queue, error) {
	bytes, err := start.Find(name)
	if err != nil {
		return nil, err
	}
	defer bytes.Close()
	storage, err := bytes.Storage()
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	return tenon.JoinQueue(storage, options)
}

// reply says that this worker has the request, and computes and sends the answer.
func reply(ctx context.Context, message *tenon.Message, weights *tenon.Tensor, answers *tenon.Queue,
) error {
	mark := binary.LittleEndian.AppendUint32(message.UserBytes(), uint32(os.Getpid()))
	if err := send(ctx, answers, mark); err != nil {
		return err
	}
	input, err := message.Tensor(0)
	if err != nil {
		return err
	}
	defer input.Close()
	output, err := tenon.Empty(tenon.Float32, input.Sizes(), nil)
	if err != nil {
		return err
	}
	defer output.Close()
	err = tenon.With(input, func(x []float32) error {
		return tenon.With(weights, func(w []float32) error {
			return tenon.With(output, func(y []float32) error {
				multiply(x, w, y)
				return nil
			})
		})
	})
	if err != nil {
		return err
	}
	return send(ctx, answers, mark, output)
}

func send(ctx context.Context, to *tenon.Queue, mark []byte, tensors ...*tenon.Tensor) error {
	message, err := tenon.NewMessage(tensors...)
	if err != nil {
		return err
	}
	defer message.Close()
	if err := message.SetUserBytes(mark); err != nil {
		return err
	}
	return to.Send(ctx, message)
}

// multiply stores relu(x * w) in y.
func multiply(x, w, y []float32) {
	for row := range len(y) / width {
		for column := range width {
			sum := float32(0)
			for i := range width {
				sum += x[row*width+i] * w[i*width+column]
			}
			y[row*width+column] = max(sum, 0)
		}
	}
}
