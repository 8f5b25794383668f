// The runner of the vectors in Go. usage: vectors FOLDER. It executes the cases of
// FOLDER/cases.json (tests/languages/vectors/README.md).
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"libtenon/tenon"
)

// anything is one case or one expectation, whose keys are read by name. A key that was never read
// was not known.
type anything struct {
	keys map[string]json.RawMessage
	read map[string]bool
}

func newAnything(raw json.RawMessage) anything {
	a := anything{read: map[string]bool{}}
	if raw != nil {
		give(json.Unmarshal(raw, &a.keys))
	}
	return a
}

func (a anything) has(key string) bool {
	a.read[key] = true
	_, ok := a.keys[key]
	return ok
}

// get reads a key, or returns the default.
func get[T any](a anything, key string, missing T) T {
	if a.has(key) {
		value := missing
		give(json.Unmarshal(a.keys[key], &value))
		return value
	}
	return missing
}

// wrong ends a case. executed catches it.
type wrong string

func fail(format string, arguments ...any) { panic(wrong(fmt.Sprintf(format, arguments...))) }

func give(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func must[T any](value T, err error) T {
	give(err)
	return value
}

func same(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		fail("%s is %.200v, not %.200v", what, got, wanted)
	}
}

// outcome compares an error with the expected status. It returns whether the call succeeded, as it
// should.
func outcome(expect anything, err error) bool {
	status := get(expect, "status", "")
	details := get(expect, "details", map[string]string{})
	if err == nil {
		same("status", "OK", status)
		return true
	}
	var failure *tenon.Error
	if !errors.As(err, &failure) {
		fail("the error is not Tenon's: %v", err)
	}
	same("status ("+failure.Message+")", failure.Code.String(), status)
	if failure.Message == "" || strings.Contains(failure.Message, "\n") {
		fail("no message of one line: %q", failure.Message)
	}
	for key, value := range details {
		same("detail "+key, failure.Details[key], value)
	}
	return false
}

// shape describes a tensor.
type shape struct {
	Storage int             `json:"storage"`
	DType   [3]int64        `json:"dtype"`
	Sizes   []int64         `json:"sizes"`
	Strides []int64         `json:"strides"`
	Offset  json.RawMessage `json:"offset"`
	Flags   uint32          `json:"flags"`
	Name    *string         `json:"name"`
}

func dtypeOf(numbers [3]int64) tenon.DType {
	return tenon.NewDType(uint8(numbers[0]), uint8(numbers[1]), uint16(numbers[2]))
}

func numbersOf(dtype tenon.DType) []int64 {
	return []int64{int64(dtype.Code()), int64(dtype.Bits()), int64(dtype.Lanes())}
}

func (s shape) spec() tenon.Spec {
	offset := int64(0)
	if s.Offset != nil {
		give(json.Unmarshal(s.Offset, &offset))
	}
	return tenon.Spec{
		DType:   dtypeOf(s.DType),
		Sizes:   s.Sizes,
		Strides: s.Strides,
		Offset:  uint64(offset),
		Flags:   tenon.TensorFlags(s.Flags),
	}
}

// shapeOf reads the keys of a case that describe one tensor.
func shapeOf(c anything) shape {
	offset := json.RawMessage("0")
	return shape{
		DType:   get(c, "dtype", [3]int64{}),
		Sizes:   get(c, "sizes", []int64{}),
		Strides: get[[]int64](c, "strides", nil),
		Offset:  get(c, "offset", offset),
	}
}

// optionsOf reads the open options, which two kinds have in common.
func optionsOf(c anything) *tenon.OpenOptions {
	access, ok := map[string]tenon.Access{
		"auto": tenon.AccessAuto, "read_only": tenon.AccessReadOnly,
		"writable": tenon.AccessWritable,
	}[get(c, "access", "auto")]
	if !ok {
		fail("unknown access")
	}
	return &tenon.OpenOptions{Access: access, AllowUnsealed: get(c, "allow_unsealed", false)}
}

var kinds = map[string]func(c, expect anything){
	"status": runStatus, "dtype": runDType, "layout": runLayout, "view": runView,
	"message": runMessage, "encode": runEncode, "descriptor": runDescriptor,
	"composite": runComposite,
	"object":    runObject, "named_file": runNamedFile, "new_named_file": runNewNamedFile,
	"arena": runArena, "lease": runLease, "cuda_counter": runCUDACounter, "cuda_open": runCUDAOpen,
	"cuda_share": runCUDAShare, "cuda_event": runCUDAEvent, "cuda_module": runCUDAModule,
	"cuda_arena": runCUDAArena,
}

// executed runs one case. It returns the word for its result and, except for "ok", the reason.
func executed(c anything) (word, reason string) {
	defer func() {
		if failure, ok := recover().(wrong); ok {
			word, reason = "FAIL", string(failure)
		}
	}()
	if why := missing(c); why != "" {
		return "skip", why
	}
	run, ok := kinds[get(c, "kind", "")]
	if !ok {
		fail("unknown kind %q", get(c, "kind", ""))
	}
	var raw json.RawMessage
	if c.has("expect") {
		raw = c.keys["expect"]
	}
	expect := newAnything(raw)
	run(c, expect)
	// Only a case that succeeds reads all of these keys.
	known := []string{
		"status",
		"details",
		"numel",
		"nbytes",
		"strides",
		"contiguous",
		"count",
		"find",
		"bytes",
		"mask",
		"tensors",
		"user",
		"data",
		"read_only",
		"sealed",
		"mode",
		"stats",
		"transport",
		"device",
		"offset",
		"memory",
		"memory_nbytes",
		"counter",
		"counter_nbytes",
		"fds",
		"event_required",
		"complete",
		"names_device",
	}
	for key := range expect.keys {
		if !expect.read[key] &&
			(get(expect, "status", "OK") == "OK" || !slices.Contains(known, key)) {
			fail("unknown expectation %q", key)
		}
	}
	return "ok", ""
}

func main() {
	raw, err := os.ReadFile(filepath.Join(os.Args[1], "cases.json"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(raw, &cases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	failed := false
	for _, each := range cases {
		c := newAnything(each)
		id := get(c, "id", "")
		word, reason := executed(c)
		failed = failed || word == "FAIL"
		fmt.Println(
			strings.TrimSpace(fmt.Sprintln(word, id, strings.Join(strings.Fields(reason), " "))),
		)
	}
	tenon.Trim()
	tenon.FilenameLeave()
	if failed {
		os.Exit(1)
	}
}
