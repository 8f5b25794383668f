// Values: what the attributes of a module, its constants and its arguments can be.

package tenon

// #include "tenon_go.h"
// #cgo noescape tenon_value_get_bool
// #cgo nocallback tenon_value_get_bool
// #cgo noescape tenon_value_get_int
// #cgo nocallback tenon_value_get_int
// #cgo noescape tenon_value_get_float
// #cgo nocallback tenon_value_get_float
// #cgo noescape tenon_value_get_complex
// #cgo nocallback tenon_value_get_complex
// #cgo noescape tenon_value_get_str
// #cgo nocallback tenon_value_get_str
// #cgo noescape tenon_value_get_device
// #cgo nocallback tenon_value_get_device
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// ValueKind is the kind of a value.
type ValueKind int32

// The kinds of values.
const (
	ValueNone    ValueKind = C.TENON_VALUE_NONE
	ValueBool    ValueKind = C.TENON_VALUE_BOOL
	ValueInt     ValueKind = C.TENON_VALUE_INT
	ValueFloat   ValueKind = C.TENON_VALUE_FLOAT
	ValueComplex ValueKind = C.TENON_VALUE_COMPLEX
	ValueStr     ValueKind = C.TENON_VALUE_STR
	ValueDevice  ValueKind = C.TENON_VALUE_DEVICE
	ValueTensor  ValueKind = C.TENON_VALUE_TENSOR
	ValueTuple   ValueKind = C.TENON_VALUE_TUPLE
	ValueList    ValueKind = C.TENON_VALUE_LIST
	ValueDict    ValueKind = C.TENON_VALUE_DICT
	ValueEnum    ValueKind = C.TENON_VALUE_ENUM
	ValueObject  ValueKind = C.TENON_VALUE_OBJECT
)

var valueKindNames = [...]string{
	"none", "bool", "int", "float", "complex", "str", "device", "tensor", "tuple", "list", "dict",
	"enum", "object",
}

// String returns the name of the kind, such as "list".
func (k ValueKind) String() string {
	if k < 0 || int(k) >= len(valueKindNames) {
		return fmt.Sprintf("ValueKind(%d)", int32(k))
	}
	return valueKindNames[k]
}

// Value is what an attribute of a module, an argument or a constant can be. A value never changes,
// with one exception: editing a module changes the attributes of its objects. So values can be
// shared freely. A tensor or a container in two places is one object in an archive, and stays one
// through export and import (Same). Any goroutine may use a Value. After Close, the methods that
// return no error return zero values.
//
// Types are written as in TorchScript: "Tensor", "Optional[Tensor]", "Dict[str, List[int]]",
// "__torch__.my.Class".
type Value struct{ handle }

func newValue(pointer *C.tenon_value) *Value {
	v := new(Value)
	v.own(kindValue, unsafe.Pointer(pointer))
	return v
}

func (v *Value) begin() (*C.tenon_value, error) {
	if v == nil {
		return nil, nil
	}
	pointer, err := v.acquire()
	return (*C.tenon_value)(pointer), err
}

func (v *Value) end() {
	if v != nil {
		v.release()
	}
}

// beginValues starts a use of each value. The function that it returns ends these uses. A nil value
// gives the C library's NULL.
func beginValues(values []*Value) ([]*C.tenon_value, func(), error) {
	pointers := make([]*C.tenon_value, len(values))
	for i, value := range values {
		pointer, err := value.begin()
		if err != nil {
			endValues(values[:i])
			return nil, nil, err
		}
		pointers[i] = pointer
	}
	return pointers, func() { endValues(values) }, nil
}

func endValues(values []*Value) {
	for _, value := range values {
		value.end()
	}
}

// makeValue makes a Value from the result of a call.
func makeValue(
	call func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status,
) (*Value, error) {
	collect()
	var out *C.tenon_value
	var failure *C.tenon_error
	if status := call(&out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newValue(out), nil
}

// NewNone makes None.
func NewNone() (*Value, error) {
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_none(out, failure)
	})
}

// NewBool makes a bool.
func NewBool(value bool) (*Value, error) {
	number := C.int(0)
	if value {
		number = 1
	}
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_bool(number, out, failure)
	})
}

// NewInt makes an int. A dtype (ScalarType), a layout and a memory format are ints too, in
// PyTorch's numbers.
func NewInt(value int64) (*Value, error) {
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_int(C.int64_t(value), out, failure)
	})
}

// NewFloat makes a float.
func NewFloat(value float64) (*Value, error) {
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_float(C.double(value), out, failure)
	})
}

// NewComplex makes a complex number.
func NewComplex(value complex128) (*Value, error) {
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_complex(C.double(real(value)), C.double(imag(value)), out, failure)
	})
}

// NewStr makes a str. The text must be UTF-8.
func NewStr(text string) (*Value, error) {
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_str(
			(*C.char)(unsafe.Pointer(unsafe.StringData(text))),
			C.size_t(len(text)),
			out,
			failure,
		)
	})
}

// NewDevice makes a device, such as "cpu" or "cuda:0".
func NewDevice(name string) (*Value, error) {
	text, err := cText("the device", name)
	if err != nil {
		return nil, err
	}
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_device(text, out, failure)
	})
}

// construction is what a call of the C library takes that makes a value of others.
type construction struct {
	text    *C.char // the class or the type
	items   **C.tenon_value
	count   C.size_t
	out     **C.tenon_value
	failure **C.tenon_error
}

// construct makes a value of others. what says in an error what the text is.
func construct(
	convert func(what, text string) (*C.char, error),
	what, text string,
	items []*Value,
	call func(c construction) C.tenon_status,
) (*Value, error) {
	given, err := convert(what, text)
	if err != nil {
		return nil, err
	}
	pointers, end, err := beginValues(items)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		count := C.size_t(len(pointers))
		return call(construction{given, unsafe.SliceData(pointers), count, out, failure})
	})
}

// NewTuple makes a tuple. className is the qualified name of a NamedTuple, or "" for a plain tuple.
// This function and the following ones take references of their own to the values in the new value.
func NewTuple(className string, items ...*Value) (*Value, error) {
	call := func(c construction) C.tenon_status {
		return C.tenon_value_new_tuple(c.text, c.items, c.count, c.out, c.failure)
	}
	return construct(cTextOrNull, "the class", className, items, call)
}

// NewList makes a list of a type such as "List[Optional[int]]", and checks the items against it.
// With "" the list has no type of its own. It gets the type that is declared for the place where it
// is put.
func NewList(listType string, items ...*Value) (*Value, error) {
	call := func(c construction) C.tenon_status {
		return C.tenon_value_new_list(c.text, c.items, c.count, c.out, c.failure)
	}
	return construct(cTextOrNull, "the type", listType, items, call)
}

// NewDict makes a dict of a type such as "Dict[str, Tensor]". "" means the same as for a list. The
// dict keeps the order of its entries.
func NewDict(dictType string, keys, values []*Value) (*Value, error) {
	if len(keys) != len(values) {
		return nil, invalid(fmt.Sprintf("%d keys for %d values", len(keys), len(values)))
	}
	text, err := cTextOrNull("the type", dictType)
	if err != nil {
		return nil, err
	}
	keyPointers, endKeys, err := beginValues(keys)
	if err != nil {
		return nil, err
	}
	defer endKeys()
	pointers, end, err := beginValues(values)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_dict(
			text,
			unsafe.SliceData(keyPointers),
			unsafe.SliceData(pointers),
			C.size_t(len(pointers)),
			out,
			failure,
		)
	})
}

// NewEnum makes a member of an enum. Its value is an int, a float or a str.
func NewEnum(className string, value *Value) (*Value, error) {
	call := func(c construction) C.tenon_status {
		return C.tenon_value_new_enum(c.text, *c.items, c.out, c.failure)
	}
	return construct(cText, "the class", className, []*Value{value}, call)
}

// NewOpaque makes an object that has a state and no attributes. Its class has __getstate__, or is a
// custom C++ class.
func NewOpaque(className string, state *Value) (*Value, error) {
	call := func(c construction) C.tenon_status {
		return C.tenon_value_new_opaque(c.text, *c.items, c.out, c.failure)
	}
	return construct(cText, "the class", className, []*Value{state}, call)
}

// Attribute is one attribute of an object.
type Attribute struct {
	Name  string
	Value *Value
}

// NewObject makes an object of a plain class. Modules are made with NewModule.
func NewObject(className string, attributes ...Attribute) (*Value, error) {
	name, err := cText("the class", className)
	if err != nil {
		return nil, err
	}
	names, values := make([]string, len(attributes)), make([]*Value, len(attributes))
	for i, attribute := range attributes {
		names[i], values[i] = attribute.Name, attribute.Value
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	starts, err := pinnedStrings(&pinner, names)
	if err != nil {
		return nil, err
	}
	pointers, end, err := beginValues(values)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_object(
			name,
			unsafe.SliceData(starts),
			unsafe.SliceData(pointers),
			C.size_t(len(pointers)),
			out,
			failure,
		)
	})
}

// Kind returns the kind of the value; -1 for nil, and ValueNone, which is 0, after Close.
func (v *Value) Kind() ValueKind {
	return get(v, func(pointer *C.tenon_value) ValueKind {
		return ValueKind(C.tenon_value_kind(pointer))
	})
}

// Same says whether both are the same value, and so one object in an archive.
func (v *Value) Same(other *Value) bool {
	if v == nil || other == nil || v.Closed() || other.Closed() {
		return false
	}
	return v.pointer == other.pointer
}

// Bool returns the value of a bool.
func (v *Value) Bool() (bool, error) {
	return ask(v, func(pointer *C.tenon_value) (bool, error) {
		var out C.int
		var failure *C.tenon_error
		status := C.tenon_value_get_bool(pointer, &out, &failure)
		return out != 0, check(status, &failure)
	})
}

// Int returns the number of an int. A bool is not an int.
func (v *Value) Int() (int64, error) {
	return ask(v, func(pointer *C.tenon_value) (int64, error) {
		var out C.int64_t
		var failure *C.tenon_error
		status := C.tenon_value_get_int(pointer, &out, &failure)
		return int64(out), check(status, &failure)
	})
}

// Float returns the number of a float. An int is not a float.
func (v *Value) Float() (float64, error) {
	return ask(v, func(pointer *C.tenon_value) (float64, error) {
		var out C.double
		var failure *C.tenon_error
		status := C.tenon_value_get_float(pointer, &out, &failure)
		return float64(out), check(status, &failure)
	})
}

// Complex returns the number of a complex.
func (v *Value) Complex() (complex128, error) {
	return ask(v, func(pointer *C.tenon_value) (complex128, error) {
		var re, im C.double
		var failure *C.tenon_error
		status := C.tenon_value_get_complex(pointer, &re, &im, &failure)
		return complex(float64(re), float64(im)), check(status, &failure)
	})
}

// Str returns the text of a str.
func (v *Value) Str() (string, error) {
	return ask(v, func(pointer *C.tenon_value) (string, error) {
		var out *C.char
		var nbytes C.size_t
		var failure *C.tenon_error
		status := C.tenon_value_get_str(pointer, &out, &nbytes, &failure)
		text := string(unsafe.Slice((*byte)(unsafe.Pointer(out)), int(nbytes)))
		return text, check(status, &failure)
	})
}

// Device returns the name of a device.
func (v *Value) Device() (string, error) {
	return ask(v, func(pointer *C.tenon_value) (string, error) {
		var out *C.char
		var failure *C.tenon_error
		status := C.tenon_value_get_device(pointer, &out, &failure)
		return C.GoString(out), check(status, &failure)
	})
}
