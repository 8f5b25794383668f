// Messages: tensors that travel together, with optional names and user bytes.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_message_add
// #cgo noescape tenon_message_get_views
// #cgo nocallback tenon_message_get_views
// #cgo noescape tenon_go_message_take
// #cgo nocallback tenon_go_message_take
// #cgo noescape tenon_message_set_user_bytes
// #cgo nocallback tenon_message_set_user_bytes
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// The limits of one message, in bytes.
const (
	MaxUserNBytes = C.TENON_MESSAGE_MAX_USER_NBYTES // of the user bytes
	MaxNameNBytes = C.TENON_MESSAGE_MAX_NAME_NBYTES // of the name of one tensor
)

// Message is a list of tensors and composites that travel together. Each may have a name, and the
// message may have up to 64 KiB of user bytes. Only one goroutine at a time may fill a message.
// After that any goroutine may use it. After Close, the methods that return no error return zero
// values.
type Message struct{ handle }

func newMessage(pointer *C.tenon_message) *Message {
	m := new(Message)
	m.own(kindMessage, unsafe.Pointer(pointer))
	return m
}

// received is the result of a call that receives and does not wait.
func received(
	status C.tenon_status, out *C.tenon_message, failure *C.tenon_error,
) (*Message, error) {
	switch status {
	case C.TENON_OK:
		return newMessage(out), nil
	case C.TENON_WOULD_BLOCK:
		return nil, ErrWouldBlock
	default:
		return nil, takeError(status, failure)
	}
}

func (m *Message) begin() (*C.tenon_message, error) {
	if m == nil {
		return nil, nil
	}
	pointer, err := m.acquire()
	return (*C.tenon_message)(pointer), err
}

func (m *Message) end() {
	if m != nil {
		m.release()
	}
}

// NewMessage makes a message of these tensors, without names.
func NewMessage(tensors ...*Tensor) (*Message, error) {
	collect()
	var out *C.tenon_message
	var failure *C.tenon_error
	if status := C.tenon_message_new(&out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	m := newMessage(out)
	if err := m.AddAll(nil, tensors, nil); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Add adds one tensor under a name. The message takes a reference of its own. Add checks whether
// the tensor can be lent.
func (m *Message) Add(name string, tensor *Tensor) error {
	return m.AddAll([]string{name}, []*Tensor{tensor}, nil)
}

// AddAll adds tensors, all of them or none, in one call of C. names is nil (no names) or has one
// name for each tensor. Tensors of one message that share a storage share it on arrival too.
func (m *Message) AddAll(names []string, tensors []*Tensor, options *ShareOptions) error {
	message, err := m.begin()
	if err != nil {
		return err
	}
	defer m.end()
	if names != nil && len(names) != len(tensors) {
		return invalid(fmt.Sprintf("%d names for %d tensors", len(names), len(tensors)))
	}
	if len(tensors) == 0 {
		return nil
	}
	pointers, err := beginAll(tensors)
	if err != nil {
		return err
	}
	defer endAll(tensors)
	// C may see the names only while they are pinned, because the array of names points to Go's
	// memory. So all names lie in one piece, which is pinned once.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var first **C.char
	if names != nil {
		starts, err := pinnedStrings(&pinner, names)
		if err != nil {
			return err
		}
		first = unsafe.SliceData(starts)
	}
	given := options.c()
	var failure *C.tenon_error
	if status := C.tenon_message_add(
		message, unsafe.SliceData(pointers), first, C.size_t(len(tensors)), &given, &failure,
	); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// beginAll starts a use of each tensor, and endAll ends it. A nil tensor gives the C library's
// NULL.
func beginAll(tensors []*Tensor) ([]*C.tenon_tensor, error) {
	pointers := make([]*C.tenon_tensor, len(tensors))
	for i, tensor := range tensors {
		pointer, err := tensor.begin()
		if err != nil {
			endAll(tensors[:i])
			return nil, err
		}
		pointers[i] = pointer
	}
	return pointers, nil
}

func endAll(tensors []*Tensor) {
	for _, tensor := range tensors {
		tensor.end()
	}
}

// pinnedStrings gives C's form of each text, all in one pinned piece of memory.
func pinnedStrings(pinner *runtime.Pinner, texts []string) ([]*C.char, error) {
	total := 0
	for _, text := range texts {
		if err := checkText("the name", text); err != nil {
			return nil, err
		}
		total += len(text) + 1
	}
	bytes := make([]byte, total)
	pinner.Pin(unsafe.SliceData(bytes))
	starts := make([]*C.char, len(texts))
	at := 0
	for i, text := range texts {
		starts[i] = (*C.char)(unsafe.Pointer(&bytes[at]))
		at += copy(bytes[at:], text) + 1
	}
	return starts, nil
}

// checkText refuses a text with a NUL, because C's text would end there.
func checkText(what, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return invalid(fmt.Sprintf("%s %q has a NUL in it", what, text))
	}
	return nil
}

// SetUserBytes sets the user bytes. It replaces those that were set before.
func (m *Message) SetUserBytes(data []byte) error {
	return run(m, func(message *C.tenon_message, failure **C.tenon_error) C.tenon_status {
		return C.tenon_message_set_user_bytes(
			message,
			unsafe.Pointer(unsafe.SliceData(data)),
			C.size_t(len(data)),
			failure,
		)
	})
}

// UserBytes returns a copy of the user bytes; nil if there are none.
func (m *Message) UserBytes() []byte {
	return get(m, func(message *C.tenon_message) []byte {
		var nbytes C.size_t
		data := C.tenon_message_user_bytes(message, &nbytes)
		if data == nil {
			return nil
		}
		return C.GoBytes(data, C.int(nbytes))
	})
}

// Len returns the number of tensors. The parts of composites are among the tensors.
func (m *Message) Len() int {
	return get(m, func(message *C.tenon_message) int {
		return int(C.tenon_message_count(message))
	})
}

// Name returns the name of tensor i. ok is false if it has no name.
func (m *Message) Name(i int) (name string, ok bool) {
	message, err := m.begin()
	if err != nil || i < 0 {
		return "", false
	}
	defer m.end()
	text := C.tenon_message_name(message, C.size_t(i))
	return C.GoString(text), text != nil
}

// Tensor gives tensor i with a new reference, which the caller closes. It stays valid when the
// message is closed.
func (m *Message) Tensor(i int) (*Tensor, error) {
	return ask(m, func(message *C.tenon_message) (*Tensor, error) {
		if i >= 0 {
			if tensor := C.tenon_message_tensor(message, C.size_t(i)); tensor != nil {
				return newTensor(C.tenon_tensor_retain(tensor)), nil
			}
		}
		return nil, invalid(
			fmt.Sprintf("tensor %d: the message has %d", i, int(C.tenon_message_count(message))),
		)
	})
}

// Find gives the first tensor of that name with a new reference, which the caller closes. It
// returns ErrNotFound if there is none.
func (m *Message) Find(name string) (*Tensor, error) {
	return ask(m, func(message *C.tenon_message) (*Tensor, error) {
		if checkText("the name", name) == nil {
			text := C.CString(name)
			defer C.free(unsafe.Pointer(text))
			if tensor := C.tenon_message_find(message, text); tensor != nil {
				return newTensor(C.tenon_tensor_retain(tensor)), nil
			}
		}
		return nil, &Error{
			Code:    ErrNotFound,
			Message: fmt.Sprintf("the message has no tensor %q", name),
		}
	})
}

// Views describes all tensors, however many they are, in two calls of C. The parts of composites
// are among the tensors: see CompositeParts. The views are valid while the message is open, and
// need not be closed.
func (m *Message) Views() ([]TensorView, error) {
	return ask(m, func(message *C.tenon_message) ([]TensorView, error) {
		raw, err := rawViews(message, false)
		if err != nil || raw == nil {
			return nil, err
		}
		views := make([]TensorView, len(raw))
		names := goStrings(raw)
		for i := range views {
			length := textLen(raw[i].name)
			views[i] = TensorView{&raw[i], &m.handle, names[:length]}
			names = names[length:]
		}
		return views, nil
	})
}

// rawViews gives C's views of all tensors. With retain, each tensor gets a new reference, which
// belongs to the caller.
func rawViews(message *C.tenon_message, retain bool) ([]C.tenon_tensor_view, error) {
	n := C.tenon_message_count(message)
	if n == 0 {
		return nil, nil
	}
	raw := make([]C.tenon_tensor_view, n)
	raw[0].struct_size = C.sizeof_tenon_tensor_view
	var failure *C.tenon_error
	var status C.tenon_status
	if retain {
		status = C.tenon_go_message_take(message, unsafe.SliceData(raw), n, &failure)
	} else {
		status = C.tenon_message_get_views(message, unsafe.SliceData(raw), n, &failure)
	}
	if status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return raw, nil
}

// goStrings gives all names one after another, in one string. Hundreds of single strings would cost
// more than everything else.
func goStrings(views []C.tenon_tensor_view) string {
	total := 0
	for i := range views {
		total += textLen(views[i].name)
	}
	var all strings.Builder
	all.Grow(total)
	for i := range views {
		all.WriteString(
			unsafe.String((*byte)(unsafe.Pointer(views[i].name)), textLen(views[i].name)),
		)
	}
	return all.String()
}

// textLen is strlen without a call of C. It gives 0 for NULL.
func textLen(text *C.char) int {
	n := 0
	for text != nil && *(*byte)(unsafe.Add(unsafe.Pointer(text), n)) != 0 {
		n++
	}
	return n
}

// Tensors gives all tensors, however many they are, with a new reference to each, which the caller
// closes. They stay valid when the message is closed. The parts of composites are among the
// tensors: see CompositeParts.
func (m *Message) Tensors() ([]*Tensor, error) {
	return ask(m, func(message *C.tenon_message) ([]*Tensor, error) {
		raw, err := rawViews(message, true)
		if err != nil || raw == nil {
			return nil, err
		}
		tensors := make([]*Tensor, len(raw))
		for i := range tensors {
			tensors[i] = newTensor(raw[i].tensor)
		}
		return tensors, nil
	})
}
