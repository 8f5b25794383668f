// An inference server: a front end with HTTP, and workers in any language.
//
//	inference_server [-listen ADDRESS] [WORKER...]
//
// The body of a request is a matrix of 16 rows of 256 float32, and so is the body of the answer,
// which is relu(input * weights). A GET tells which worker has which requests. Each WORKER is a
// command, such as "python3 ../python/inference_worker.py". It is started with one more argument:
// the fd of its socket to the front end. Without WORKER there are two workers in Go, which are this
// program itself. Without -listen the program sends itself some requests, kills a worker meanwhile,
// and ends.
//
// Two queues join the processes. The front end reads a body into a tensor and puts the tensor into
// the first queue, and the number of the request goes along as user bytes. A worker takes it, says
// that it has it, and puts a tensor of its own with the answer into the second queue. No tensor is
// copied. If a worker dies, the front end gets an error that names it, and sends the worker's
// request again.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"libtenon/tenon"
)

const (
	rows  = 16
	width = 256
)

var errNoWorker = errors.New("no worker is left")

type answer struct {
	message *tenon.Message // brings the tensor
	worker  int32
	err     error
}

type request struct {
	message *tenon.Message
	holder  int32 // the pid of the worker that has it; 0: none said so
	done    chan answer
}

type server struct {
	requests, answers *tenon.Queue

	mutex   sync.Mutex // guards the next three
	pending map[uint64]*request
	last    uint64         // the number of the last request
	alive   map[int32]bool // the workers, by pid
}

func newServer() (*server, error) {
	// The queue of answers reports the death of each worker. Once is enough.
	requests, err := tenon.NewQueue(&tenon.QueueOptions{IgnoreDeaths: true})
	if err != nil {
		return nil, err
	}
	answers, err := tenon.NewQueue(nil)
	if err != nil {
		requests.Close()
		return nil, err
	}
	return &server{
		requests: requests,
		answers:  answers,
		pending:  map[uint64]*request{},
		alive:    map[int32]bool{},
	}, nil
}

// infer puts the input into the queue of requests, and waits for the answer, whose message the
// caller closes.
func (s *server) infer(ctx context.Context, input *tenon.Tensor) (answer, error) {
	message, err := tenon.NewMessage(input)
	if err != nil {
		return answer{}, err
	}
	defer message.Close()
	waiting := &request{message: message, done: make(chan answer, 1)}
	s.mutex.Lock()
	s.last++
	id := s.last
	s.pending[id] = waiting
	none := len(s.alive) == 0
	s.mutex.Unlock()
	defer s.forget(id)
	if none {
		return answer{}, errNoWorker
	}
	if err := message.SetUserBytes(binary.LittleEndian.AppendUint64(nil, id)); err != nil {
		return answer{}, err
	}
	if err := s.requests.Send(ctx, message); err != nil {
		return answer{}, err
	}
	select {
	case got := <-waiting.done:
		return got, got.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

func (s *server) forget(id uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.pending, id)
}

// receive handles what comes from the workers, until ctx ends.
func (s *server) receive(ctx context.Context) error {
	for {
		message, err := s.answers.Recv(ctx)
		var gone *tenon.Error
		switch {
		case errors.As(err, &gone) && gone.Code == tenon.ErrPeerGone:
			if gone.Details["lost"] == "" { // the death itself, and not an answer lost with it
				pid, _ := strconv.Atoi(gone.Details["pid"])
				s.workerDied(ctx, int32(pid))
			}
		case err != nil:
			return err
		default:
			s.handle(ctx, message)
		}
	}
}

// handle takes a worker's word that it has a request, which brings no tensor, or an answer.
func (s *server) handle(ctx context.Context, message *tenon.Message) {
	mark := message.UserBytes()
	if len(mark) != 12 {
		message.Close()
		return
	}
	id := binary.LittleEndian.Uint64(mark)
	worker := int32(binary.LittleEndian.Uint32(mark[8:]))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	waiting := s.pending[id]
	switch {
	case waiting == nil: // another worker was faster, or the client has gone
		message.Close()
	case message.Len() == 0:
		message.Close()
		if s.alive[worker] {
			waiting.holder = worker
		} else {
			go s.sendAgain(ctx, id, waiting) // it died before this word of it was read
		}
	default:
		delete(s.pending, id)
		waiting.done <- answer{message: message, worker: worker}
	}
}

// workerDied sends again what the worker had, and what it may have had: what no worker has claimed.
// If such a request still lay in the queue, two workers answer it, and the front end drops the
// second answer.
func (s *server) workerDied(ctx context.Context, pid int32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.alive[pid] {
		return
	}
	delete(s.alive, pid)
	log.Printf("worker %d has died, %d are left", pid, len(s.alive))
	for id, waiting := range s.pending {
		switch {
		case len(s.alive) == 0:
			delete(s.pending, id)
			waiting.done <- answer{err: errNoWorker}
		case waiting.holder == pid:
			log.Printf("request %d was with worker %d, and is sent again", id, pid)
			waiting.holder = 0
			go s.sendAgain(ctx, id, waiting)
		case waiting.holder == 0:
			go s.sendAgain(ctx, id, waiting)
		}
	}
}

func (s *server) sendAgain(ctx context.Context, id uint64, waiting *request) {
	// ErrClosed: it was answered meanwhile.
	err := s.requests.Send(ctx, waiting.message)
	if err == nil || errors.Is(err, tenon.ErrClosed) {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pending[id] == waiting {
		delete(s.pending, id)
		waiting.done <- answer{err: err}
	}
}

// printWork prints which worker has which requests.
func (s *server) printWork(to io.Writer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	has := map[int32][]uint64{}
	for id, waiting := range s.pending {
		has[waiting.holder] = append(has[waiting.holder], id)
	}
	for _, pid := range slices.Sorted(maps.Keys(s.alive)) {
		slices.Sort(has[pid])
		fmt.Fprintln(to, "worker", pid, "has", has[pid])
	}
	fmt.Fprintln(to, len(has[0]), "wait")
}

func (s *server) ServeHTTP(to http.ResponseWriter, from *http.Request) {
	if from.Method != http.MethodPost {
		s.printWork(to)
		return
	}
	input, err := tenon.Empty(tenon.Float32, []int64{rows, width}, nil)
	if err != nil {
		http.Error(to, err.Error(), http.StatusInsufficientStorage)
		return
	}
	defer input.Close()
	// The body goes from the socket into the tensor.
	err = tenon.With(input, func(elements []float32) error {
		_, err := io.ReadFull(from.Body, bytesOf(elements))
		return err
	})
	if err != nil {
		text := fmt.Sprintf("the body is no matrix of %d * %d float32: %v", rows, width, err)
		http.Error(to, text, http.StatusBadRequest)
		return
	}
	got, err := s.infer(from.Context(), input)
	if err != nil {
		http.Error(to, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer got.message.Close()
	output, err := firstTensor(got.message)
	if err != nil {
		http.Error(to, err.Error(), http.StatusBadGateway)
		return
	}
	defer output.Close()
	to.Header().Set("X-Worker", strconv.Itoa(int(got.worker)))
	// The answer goes from the worker's tensor into the socket.
	if err := tenon.With(output, func(elements []float32) error {
		_, err := to.Write(bytesOf(elements))
		return err
	}); err != nil {
		log.Print(err)
	}
}

// firstTensor gives the tensor of an answer, if it is one of the right shape.
func firstTensor(message *tenon.Message) (*tenon.Tensor, error) {
	tensor, err := message.Tensor(0)
	if err != nil {
		return nil, err
	}
	if tensor.DType() != tenon.Float32 || !slices.Equal(tensor.Sizes(), []int64{rows, width}) {
		tensor.Close()
		return nil, errors.New("a worker sent an answer of another shape")
	}
	return tensor, nil
}

func run(ctx context.Context, listen string, commands []string) error {
	s, err := newServer()
	if err != nil {
		return err
	}
	defer s.requests.Close()
	defer s.answers.Close()
	if len(commands) == 0 {
		commands = []string{"/proc/self/exe work", "/proc/self/exe work"}
	}
	stop, err := s.startWorkers(ctx, commands)
	defer stop()
	if err != nil {
		return err
	}
	go func() {
		err := s.receive(ctx)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, tenon.ErrClosed) {
			log.Print(err)
		}
	}()
	address := listen
	if listen == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	front := http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	defer front.Close()
	url := "http://" + listener.Addr().String()
	log.Printf("%s, workers %v", url, slices.Sorted(maps.Keys(s.alive)))
	if listen == "" {
		return s.demonstrate(url)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	}
}

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	ctx, cancel := interruptible()
	defer cancel()
	if len(os.Args) == 3 && os.Args[1] == "work" {
		if err := work(ctx, os.Args[2]); err != nil {
			log.Fatal("a worker: ", err)
		}
		return
	}
	listen := flag.String("listen", "", "the address to listen at, such as 127.0.0.1:8080")
	flag.Parse()
	if err := run(ctx, *listen, flag.Args()); err != nil {
		log.Fatal(err)
	}
}
