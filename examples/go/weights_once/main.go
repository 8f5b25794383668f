// Four workers use one copy of a model's weights. The first that opens the name loads the file, and
// the others map the same memory. The worker that loaded is then killed, and a fifth one attaches
// all the same.
//
// usage: weights_once [FILE DIRECTORY], where with arguments it is a worker, and an empty FILE only
// attaches
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	"libtenon/tenon"
)

const floats = 4_000_000

// writeFile writes a safetensors file of one tensor, as a model's weights come from a hub.
func writeFile(path string) error {
	header := fmt.Sprintf(
		`{"layer.weight":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, floats, 4*floats,
	)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	const value = "\x00\x00\x20\x40" // 2.5
	return os.WriteFile(path, append(file, strings.Repeat(value, floats)...), 0o600)
}

// pssKiB gives this process's share of the pages of the mapping at an address.
func pssKiB(address uintptr) (kib int) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		log.Fatal(err)
	}
	var begin, end uintptr
	var own int
	for line := range bytes.Lines(smaps) {
		var first, last uintptr
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &first, &last); n == 2 {
			begin, end = first, last
		} else if n, _ := fmt.Sscanf(string(line), "Pss: %d kB", &own); n == 1 &&
			begin <= address && address < end {
			return own
		}
	}
	return 0
}

func work(file, directory string) error {
	options := &tenon.SharedWeightsOptions{Directory: directory}
	weights, err := tenon.OpenSharedWeights(context.Background(), file, "model", options)
	if err != nil {
		return err
	}
	defer weights.Close()
	info, err := weights.Info()
	if err != nil {
		return err
	}
	value, err := weights.Tensor("layer.weight")
	if err != nil {
		return err
	}
	defer value.Close()
	tensor, err := value.Tensor()
	if err != nil {
		return err
	}
	defer tensor.Close()
	elements, err := tenon.ReadOnlySlice[float32](tensor)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, each := range elements {
		sum += float64(each)
	}
	loaded := 0
	if info.Loaded {
		loaded = 1
	}
	fmt.Printf("%d %.0f\n", loaded, sum)
	input := bufio.NewReader(os.Stdin)
	_, err = input.ReadString('\n') // until all workers have read all weights
	if err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	fmt.Println(pssKiB(uintptr(unsafe.Pointer(&elements[0]))))
	_, err = io.Copy(io.Discard, input) // a worker would serve requests now
	return err
}

// A worker is another process of this program.
type worker struct {
	process *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
}

func start(file, directory string) *worker {
	w := &worker{process: exec.Command("/proc/self/exe", file, directory)}
	w.process.Stderr = os.Stderr
	input, err := w.process.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	output, err := w.process.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	w.input, w.output = input, bufio.NewReader(output)
	if err := w.process.Start(); err != nil {
		log.Fatal(err)
	}
	return w
}

// ask says something to the worker, and puts the numbers of its answer into results.
func (w *worker) ask(say string, results ...any) {
	if _, err := io.WriteString(w.input, say); err != nil {
		log.Fatal(err)
	}
	if _, err := fmt.Fscanln(w.output, results...); err != nil {
		log.Fatal("a worker: ", err)
	}
}

func (w *worker) end() {
	w.input.Close()
	w.process.Wait()
}

func run() error {
	folder, err := os.MkdirTemp("", "tenon-weights-once-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "model.safetensors")
	if err := writeFile(file); err != nil {
		return err
	}
	size, err := os.Stat(file)
	if err != nil {
		return err
	}
	var workers []*worker
	for range 4 {
		workers = append(workers, start(file, folder))
	}
	var loads, pss int
	var sum int64
	var loader *worker
	for _, w := range workers {
		var loaded int
		w.ask("", &loaded, &sum)
		if loads += loaded; loaded == 1 {
			loader = w
		}
	}
	fmt.Printf("4 workers read %d, and %d of them loaded the file\n", sum, loads)
	for _, w := range workers {
		var own int
		w.ask("\n", &own)
		pss += own
	}
	fmt.Printf(
		"the file has %d KiB, and all workers together %d KiB\n", size.Size()>>10, pss,
	)
	if err := loader.process.Process.Kill(); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	fifth := start("", folder) // without a file: it can only attach
	var loaded int
	fifth.ask("", &loaded, &sum)
	fmt.Printf("the loader was killed, and a new worker reads %d\n", sum)
	for _, w := range append(workers, fifth) {
		w.end()
	}
	return nil
}

func main() {
	log.SetFlags(0)
	var err error
	if len(os.Args) == 3 {
		err = work(os.Args[1], os.Args[2])
	} else {
		err = run()
	}
	if err != nil {
		log.Fatal("weights_once: ", err)
	}
}
