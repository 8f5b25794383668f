// Objects: plain data with tensors in it, which travels in a message.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_go_message_new_from_nodes
// #cgo noescape tenon_object_new_from_message
// #cgo noescape tenon_go_object_take
// #cgo nocallback tenon_go_object_take
// #cgo nocallback tenon_object_count
import "C"

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Tuple is a Python tuple in an object.
type Tuple []any

// Set is a Python set in an object. Its items are in the order in which the sender wrote them.
type Set []any

// Dict is a Python dict in an object. Its entries keep their order.
type Dict []Entry

// Entry is a key of a [Dict] and the value that the dict has for the key.
type Entry struct{ Key, Value any }

// Get gives the value of a key that is a string. ok is false if the dict has no such key. Get looks
// at one entry after another, so its cost grows with the number of entries.
func (d Dict) Get(key string) (value any, ok bool) {
	for _, entry := range d {
		if found, isText := entry.Key.(string); isText && found == key {
			return entry.Value, true
		}
	}
	return nil, false
}

// Map gives the dict as a map. It returns an error if a key is not a string, or if two entries have
// the same key.
func (d Dict) Map() (map[string]any, error) {
	all := make(map[string]any, len(d))
	for i, entry := range d {
		key, isText := entry.Key.(string)
		if !isText {
			return nil, invalid(
				fmt.Sprintf("the key of entry %d of the dict is a %T and no string: "+
					"read the entries themselves", i, entry.Key),
			)
		}
		if _, twice := all[key]; twice {
			return nil, invalid(fmt.Sprintf("the dict has the key %q twice", key))
		}
		all[key] = entry.Value
	}
	return all, nil
}

// NewMessageFromObject makes a message that carries an object: plain data with tensors in it, as
// Python's send_object sends. [Message.Object] reads the object, and so does recv_object in Python.
// The whole storages of the tensors are lent, and the options apply to each of them. All other data
// is copied. Nothing can be added to the message.
//
// An object is nil, a bool, an integer or a float of any Go type, a complex number, a string in
// UTF-8, a []byte, a *Tensor, a *Composite, or a container of these: []any, which is a list in
// Python, a [Tuple], a [Set] or a [Dict]. A []string, a []int64, a []float64 and a []*Tensor are
// lists too. A map[string]any and a map[string]*Tensor are dicts, with their keys sorted. Types of
// a program's own must be converted.
//
// An object is a tree. A container in two places becomes two containers. A container that contains
// itself is an error, because values can be nested at most 200 deep. A key of a dict, and an item
// of a set, is nil, a bool, a number, a string, a []byte or a Tuple of these, and occurs once. The
// error for a wrong value names its place, such as dict["a"][2]. Its detail "index" counts values
// in the order in which a program would write them.
func NewMessageFromObject(value any, options *ShareOptions) (*Message, error) {
	collect()
	var w objectWriter
	defer w.end()
	if err := w.add(value); err != nil && err != errTooDeep {
		return nil, err
	}
	given := options.c()
	var out *C.tenon_message
	var failure *C.tenon_error
	status := C.tenon_go_message_new_from_nodes(unsafe.SliceData(w.nodes), C.size_t(len(w.nodes)),
		&given, &out, &failure)
	if status != C.TENON_OK {
		return nil, w.withPlace(takeError(status, failure))
	}
	return newMessage(out), nil
}

// errTooDeep ends an [objectWriter] at a container that the C library refuses. So the walk through
// a list that contains itself ends.
var errTooDeep = errors.New("values are nested too deep")

// objectWriter lists the nodes of a value for one call of C. It uses the tensors and composites of
// the value until end, and pins the texts and bytes.
type objectWriter struct {
	nodes  []C.tenon_object_node
	depth  int // the number of containers around the next value
	pinner runtime.Pinner
	ends   []func()
}

func (w *objectWriter) end() {
	w.pinner.Unpin()
	for _, end := range w.ends {
		end()
	}
}

// add writes the node of a value, and the nodes of all values inside it.
func (w *objectWriter) add(value any) error {
	node := C.tenon_object_node{struct_size: C.sizeof_tenon_object_node}
	switch value := value.(type) {
	case nil:
		node.kind = C.TENON_OBJECT_NONE
	case bool:
		node.kind = C.TENON_OBJECT_BOOL
		if value {
			node.integer = 1
		}
	case int, int8, int16, int32, int64:
		node.kind, node.integer = C.TENON_OBJECT_INT, C.int64_t(reflect.ValueOf(value).Int())
	case uint, uint8, uint16, uint32, uint64, uintptr:
		number := reflect.ValueOf(value).Uint()
		if number > math.MaxInt64 {
			return w.refuse(fmt.Sprintf("the %T %d is larger than any int64: send it as a string "+
				"or a float64", value, number))
		}
		node.kind, node.integer = C.TENON_OBJECT_INT, C.int64_t(number)
	case float32:
		node.kind, node.real = C.TENON_OBJECT_FLOAT, C.double(value)
	case float64:
		node.kind, node.real = C.TENON_OBJECT_FLOAT, C.double(value)
	case complex64:
		node.kind = C.TENON_OBJECT_COMPLEX
		node.real, node.imaginary = C.double(real(value)), C.double(imag(value))
	case complex128:
		node.kind = C.TENON_OBJECT_COMPLEX
		node.real, node.imaginary = C.double(real(value)), C.double(imag(value))
	case string:
		node.kind = C.TENON_OBJECT_STR
		w.point(&node, unsafe.Slice(unsafe.StringData(value), len(value)))
	case []byte:
		node.kind = C.TENON_OBJECT_BYTES
		w.point(&node, value)
	case *Tensor:
		pointer, err := value.begin()
		if err != nil {
			return w.closed(kindTensor)
		}
		w.ends = append(w.ends, value.end)
		node.kind, node.tensor = C.TENON_OBJECT_TENSOR, pointer
	case *Composite:
		pointer, err := value.begin()
		if err != nil {
			return w.closed(kindComposite)
		}
		w.ends = append(w.ends, value.end)
		node.kind, node.composite = C.TENON_OBJECT_COMPOSITE, pointer
	case Tuple:
		return w.addContainer(C.TENON_OBJECT_TUPLE, len(value), items(value))
	case []any:
		return w.addContainer(C.TENON_OBJECT_LIST, len(value), items(value))
	case []string:
		return w.addContainer(C.TENON_OBJECT_LIST, len(value), items(value))
	case []int64:
		return w.addContainer(C.TENON_OBJECT_LIST, len(value), items(value))
	case []float64:
		return w.addContainer(C.TENON_OBJECT_LIST, len(value), items(value))
	case Set:
		return w.addContainer(C.TENON_OBJECT_SET, len(value), items(value))
	case Dict:
		return w.addContainer(C.TENON_OBJECT_DICT, len(value), value.keysAndValues())
	case []*Tensor:
		return w.addContainer(C.TENON_OBJECT_LIST, len(value), items(value))
	case map[string]any:
		return w.addContainer(C.TENON_OBJECT_DICT, len(value), sortedDict(value).keysAndValues())
	case map[string]*Tensor:
		return w.addContainer(C.TENON_OBJECT_DICT, len(value), sortedDict(value).keysAndValues())
	default:
		return w.refuse(fmt.Sprintf("a %T cannot be sent: convert it to a type that the "+
			"documentation of NewMessageFromObject names", value))
	}
	w.nodes = append(w.nodes, node)
	return nil
}

// addContainer writes a container. values are the values directly inside it, and count is its
// length. A dict has twice as many values as its length says.
func (w *objectWriter) addContainer(kind C.int32_t, count int, values iter.Seq[any]) error {
	w.nodes = append(w.nodes, C.tenon_object_node{
		struct_size: C.sizeof_tenon_object_node,
		kind:        kind,
		count:       C.uint32_t(min(count, math.MaxUint32)), // the C library refuses such a number
	})
	if w.depth == C.TENON_OBJECT_MAX_DEPTH {
		return errTooDeep
	}
	w.depth++
	defer func() { w.depth-- }()
	for value := range values {
		if err := w.add(value); err != nil {
			return err
		}
	}
	return nil
}

func items[T any](values []T) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, value := range values {
			if !yield(value) {
				return
			}
		}
	}
}

func sortedDict[V any](values map[string]V) Dict {
	sorted := make(Dict, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		sorted = append(sorted, Entry{key, values[key]})
	}
	return sorted
}

func (d Dict) keysAndValues() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, entry := range d {
			if !yield(entry.Key) || !yield(entry.Value) {
				return
			}
		}
	}
}

// point lets a node point to Go's bytes, and pins them.
func (w *objectWriter) point(node *C.tenon_object_node, bytes []byte) {
	node.data = (*C.char)(unsafe.Pointer(pinSlice(&w.pinner, bytes)))
	node.nbytes = C.size_t(len(bytes))
}

// refuse makes the error for the value whose node would be the next one.
func (w *objectWriter) refuse(what string) error {
	index := len(w.nodes)
	return &Error{
		Code:    ErrInvalidArgument,
		Message: w.place(index) + ": " + what,
		Details: map[string]string{"index": strconv.Itoa(index)},
	}
}

// closed makes the error for a closed tensor or composite, whose node would be the next one.
func (w *objectWriter) closed(kind kind) error {
	return closedError(kindNames[kind] + " at " + w.place(len(w.nodes)))
}

// withPlace adds the place of the wrong node to an error of the C library.
func (w *objectWriter) withPlace(err error) error {
	if e, ok := err.(*Error); ok {
		index, noNumber := strconv.Atoi(e.Details["index"])
		if noNumber == nil && index > 0 && index < len(w.nodes) {
			e.Message = w.place(index) + ": " + e.Message
		}
	}
	return err
}

var objectKindNames = map[C.int32_t]string{
	C.TENON_OBJECT_TUPLE: "tuple",
	C.TENON_OBJECT_LIST:  "list",
	C.TENON_OBJECT_SET:   "set",
	C.TENON_OBJECT_DICT:  "dict",
}

// mostSteps is how many steps of a place are shown. A longer place is shown without its middle.
const mostSteps = 12

// place shows how to reach the node with this index, as in dict["a"][2]. The nodes before that node
// must exist.
func (w *objectWriter) place(index int) string {
	if index == 0 {
		return "the object"
	}
	// The containers around the next node, the innermost one last.
	type container struct {
		node int
		at   int // the index of the current value directly inside it
		key  int // of a dict: the node of the last key
	}
	var around []container
	for i := range index {
		if w.inside(i) > 0 {
			around = append(around, container{node: i, key: i + 1})
			continue
		}
		for n := len(around) - 1; n >= 0; n-- {
			last := &around[n]
			if last.at++; last.at < w.inside(last.node) {
				if last.at%2 == 0 {
					last.key = i + 1
				}
				break
			}
			around = around[:n]
		}
	}
	steps := []string{objectKindNames[w.nodes[0].kind]}
	for _, each := range around {
		switch {
		case w.nodes[each.node].kind != C.TENON_OBJECT_DICT:
			steps = append(steps, fmt.Sprintf("[%d]", each.at))
		case each.at%2 == 0:
			steps = append(steps, fmt.Sprintf(".key(%d)", each.at/2))
		default:
			steps = append(steps, "["+w.keyText(each.key, each.at/2)+"]")
		}
	}
	if len(steps) > mostSteps {
		steps = slices.Replace(steps, mostSteps/2, len(steps)-mostSteps/2, "…")
	}
	return strings.Join(steps, "")
}

// inside returns the number of values directly inside a node.
func (w *objectWriter) inside(index int) int {
	count := int(w.nodes[index].count)
	if w.nodes[index].kind == C.TENON_OBJECT_DICT {
		count *= 2
	}
	return count
}

// keyText shows a key as Go writes it, or the number of its entry if it is neither a string nor an
// integer.
func (w *objectWriter) keyText(index, entry int) string {
	switch node := &w.nodes[index]; node.kind {
	case C.TENON_OBJECT_STR:
		return strconv.Quote(string(bytesOf(node)))
	case C.TENON_OBJECT_INT:
		return strconv.FormatInt(int64(node.integer), 10)
	}
	return fmt.Sprintf("key(%d)", entry)
}

// bytesOf gives the text or the bytes of a node, without a copy.
func bytesOf(node *C.tenon_object_node) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(node.data)), int(node.nbytes))
}

// Object gives the object that the message carries, in these types: nil, bool, int64, float64,
// complex128, string, []byte, *Tensor, *Composite, []any for a list, [Tuple], [Set] and [Dict]. The
// caller closes the tensors and composites in it ([CloseObject]). They stay valid after the message
// is closed.
//
// The sender is not trusted. No function that the object names is called, and every tensor is
// checked against its storage. The contents of composites are not checked: see [Composite.Check]. A
// message without an object, or with a malformed one, is ErrCorrupt. An object with a Python class
// or function in it, or with an integer of more than 64 bits, is ErrUnsupported. The error's detail
// "offset" says where in the pickle the error is, in bytes.
func (m *Message) Object() (any, error) {
	return ask(m, func(message *C.tenon_message) (any, error) {
		var object *C.tenon_object
		var failure *C.tenon_error
		status := C.tenon_object_new_from_message(message, &object, &failure)
		if status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		defer C.tenon_object_release(object)
		r := objectReader{nodes: make([]C.tenon_object_node, C.tenon_object_count(object))}
		r.nodes[0].struct_size = C.sizeof_tenon_object_node
		status = C.tenon_go_object_take(object, unsafe.SliceData(r.nodes), C.size_t(len(r.nodes)),
			&failure)
		if status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		value := r.next()
		if r.unknown != nil {
			CloseObject(value)
			return nil, r.unknown
		}
		return value, nil
	})
}

// objectReader makes values from nodes. It takes over the nodes' references to tensors and
// composites.
type objectReader struct {
	nodes   []C.tenon_object_node
	at      int
	unknown error
}

// next makes the value of the next node, with all values inside it.
func (r *objectReader) next() any {
	node := &r.nodes[r.at]
	r.at++
	switch node.kind {
	case C.TENON_OBJECT_NONE:
		return nil
	case C.TENON_OBJECT_BOOL:
		return node.integer != 0
	case C.TENON_OBJECT_INT:
		return int64(node.integer)
	case C.TENON_OBJECT_FLOAT:
		return float64(node.real)
	case C.TENON_OBJECT_COMPLEX:
		return complex(float64(node.real), float64(node.imaginary))
	case C.TENON_OBJECT_STR:
		return string(bytesOf(node))
	case C.TENON_OBJECT_BYTES:
		return append([]byte{}, bytesOf(node)...)
	case C.TENON_OBJECT_TENSOR:
		return newTensor(node.tensor)
	case C.TENON_OBJECT_COMPOSITE:
		return newComposite(node.composite)
	case C.TENON_OBJECT_TUPLE:
		return Tuple(r.until(node))
	case C.TENON_OBJECT_LIST:
		return r.until(node)
	case C.TENON_OBJECT_SET:
		return Set(r.until(node))
	case C.TENON_OBJECT_DICT:
		dict := make(Dict, node.count)
		for i := range dict {
			dict[i].Key = r.next()
			dict[i].Value = r.next()
		}
		return dict
	}
	text := fmt.Sprintf(
		"a value is of the kind %d, which a newer C library than this package has: "+
			"update the package",
		int32(node.kind),
	)
	r.unknown = &Error{Code: ErrIncompatible, Message: text}
	return r.until(node)
}

// until makes the values inside a node.
func (r *objectReader) until(node *C.tenon_object_node) []any {
	values := make([]any, 0, node.count)
	for r.at < int(node.next) {
		values = append(values, r.next())
	}
	return values
}

// CloseObject closes all tensors and composites in an object, such as one from
// [Connection.RecvObject]. It ignores values that an object cannot contain.
func CloseObject(value any) {
	// A place identifies the memory of a container. A container that the program made can contain
	// itself, so each place is visited once.
	type place struct {
		start  unsafe.Pointer
		length int
	}
	closed := make(map[place]bool)
	left := []any{value}
	for len(left) > 0 {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		var inside iter.Seq[any]
		switch next := next.(type) {
		case *Tensor:
			if next != nil {
				next.Close()
			}
		case *Composite:
			if next != nil {
				next.Close()
			}
		case Tuple:
			inside = items(next)
		case []any:
			inside = items(next)
		case Set:
			inside = items(next)
		case Dict:
			inside = next.keysAndValues()
		case map[string]any:
			inside = maps.Values(next)
		}
		if inside == nil {
			continue
		}
		container := reflect.ValueOf(next)
		if at := (place{container.UnsafePointer(), container.Len()}); !closed[at] {
			closed[at] = true
			left = slices.AppendSeq(left, inside)
		}
	}
}

// SendObject sends an object, as [Connection.Send] sends the message of [NewMessageFromObject]. If
// ctx ends first, [Connection.Flush] finishes the message. A second SendObject would send the
// object twice.
func (c *Connection) SendObject(ctx context.Context, value any) error {
	message, err := NewMessageFromObject(value, nil)
	if err != nil {
		return err
	}
	defer message.Close()
	return c.Send(ctx, message)
}

// RecvObject receives the next message, as [Connection.Recv] does, and gives the object that the
// message carries, as [Message.Object] does. The caller closes the tensors and composites in it
// ([CloseObject]). The contents of composites are not checked. If RecvObject fails because the
// message has no valid object, the message is lost.
func (c *Connection) RecvObject(ctx context.Context) (any, error) {
	message, err := c.Recv(ctx)
	if err != nil {
		return nil, err
	}
	defer message.Close()
	return message.Object()
}
