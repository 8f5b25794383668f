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

// ValueKind is what a value is.
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

// String is the kind's name, as in "list".
func (k ValueKind) String() string {
	if k < 0 || int(k) >= len(valueKindNames) {
		return fmt.Sprintf("ValueKind(%d)", int32(k))
	}
	return valueKindNames[k]
}

// Value is what an attribute of a module, an argument or a constant can be. It never changes, but
// for an object's attributes while a module is edited, so values are shared freely: the same value
// in two places is one object in an archive, and stays one through export and import (Same). Any
// goroutine may use it; an object of a module not beside calls that change the module. Its methods
// that return no error return zero values once it is closed.
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

// beginValues starts a use of each, which the function it gives ends. Nil among them is the C
// library's NULL.
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

// makeValue makes an object of what a call gave.
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

// NewStr makes a str of UTF-8.
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

// NewDevice makes a device, as "cpu" or "cuda:0".
func NewDevice(name string) (*Value, error) {
	text, err := cText("the device", name)
	if err != nil {
		return nil, err
	}
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_device(text, out, failure)
	})
}

// NewTuple makes a tuple; className is a NamedTuple's qualified name, "" for a plain tuple. Here,
// and in all that follows, the new value takes references of its own.
func NewTuple(className string, items ...*Value) (*Value, error) {
	name, err := cTextOrNull("the class", className)
	if err != nil {
		return nil, err
	}
	pointers, end, err := beginValues(items)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_tuple(
			name,
			unsafe.SliceData(pointers),
			C.size_t(len(pointers)),
			out,
			failure,
		)
	})
}

// NewList makes a list of a type, as "List[Optional[int]]", against which the items are checked;
// with "" it says none, and takes the one that is declared where it is put.
func NewList(listType string, items ...*Value) (*Value, error) {
	text, err := cTextOrNull("the type", listType)
	if err != nil {
		return nil, err
	}
	pointers, end, err := beginValues(items)
	if err != nil {
		return nil, err
	}
	defer end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_new_list(
			text,
			unsafe.SliceData(pointers),
			C.size_t(len(pointers)),
			out,
			failure,
		)
	})
}

// NewDict makes a dict of a type, as "Dict[str, Tensor]" ("": as for a list), which keeps the order
// of its entries.
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

// NewEnum makes a member of an enum, whose value is an int, a float or a str.
func NewEnum(className string, value *Value) (*Value, error) {
	return makeOfOne(
		className,
		value,
		func(
			name *C.char, pointer *C.tenon_value, out **C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_value_new_enum(name, pointer, out, failure)
		},
	)
}

// NewOpaque makes an object that has a state and no attributes: of a class with __getstate__, or of
// a custom C++ class.
func NewOpaque(className string, state *Value) (*Value, error) {
	return makeOfOne(
		className,
		state,
		func(
			name *C.char, pointer *C.tenon_value, out **C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_value_new_opaque(name, pointer, out, failure)
		},
	)
}

func makeOfOne(
	className string,
	value *Value,
	call func(*C.char, *C.tenon_value, **C.tenon_value, **C.tenon_error) C.tenon_status,
) (*Value, error) {
	name, err := cText("the class", className)
	if err != nil {
		return nil, err
	}
	pointer, err := value.begin()
	if err != nil {
		return nil, err
	}
	defer value.end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return call(name, pointer, out, failure)
	})
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

// Kind is what the value is; -1 for nil.
func (v *Value) Kind() ValueKind {
	pointer, err := v.begin()
	if err != nil {
		return 0
	}
	defer v.end()
	return ValueKind(C.tenon_value_kind(pointer))
}

// Same says whether both are the same value: one object in an archive.
func (v *Value) Same(other *Value) bool {
	if v == nil || other == nil || v.Closed() || other.Closed() {
		return false
	}
	return v.pointer == other.pointer
}

// Bool is the bool in it.
func (v *Value) Bool() (bool, error) {
	pointer, err := v.begin()
	if err != nil {
		return false, err
	}
	defer v.end()
	var out C.int
	var failure *C.tenon_error
	if status := C.tenon_value_get_bool(pointer, &out, &failure); status != C.TENON_OK {
		return false, takeError(status, failure)
	}
	return out != 0, nil
}

// Int is the number in an int; a bool is none.
func (v *Value) Int() (int64, error) {
	pointer, err := v.begin()
	if err != nil {
		return 0, err
	}
	defer v.end()
	var out C.int64_t
	var failure *C.tenon_error
	if status := C.tenon_value_get_int(pointer, &out, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return int64(out), nil
}

// Float is the number in a float; an int is none.
func (v *Value) Float() (float64, error) {
	pointer, err := v.begin()
	if err != nil {
		return 0, err
	}
	defer v.end()
	var out C.double
	var failure *C.tenon_error
	if status := C.tenon_value_get_float(pointer, &out, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return float64(out), nil
}

// Complex is the number in a complex.
func (v *Value) Complex() (complex128, error) {
	pointer, err := v.begin()
	if err != nil {
		return 0, err
	}
	defer v.end()
	var re, im C.double
	var failure *C.tenon_error
	if status := C.tenon_value_get_complex(pointer, &re, &im, &failure); status != C.TENON_OK {
		return 0, takeError(status, failure)
	}
	return complex(float64(re), float64(im)), nil
}

// Str is the text of a str.
func (v *Value) Str() (string, error) {
	pointer, err := v.begin()
	if err != nil {
		return "", err
	}
	defer v.end()
	var out *C.char
	var nbytes C.size_t
	var failure *C.tenon_error
	if status := C.tenon_value_get_str(pointer, &out, &nbytes, &failure); status != C.TENON_OK {
		return "", takeError(status, failure)
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(out)), int(nbytes))), nil
}

// Device is the name in a device.
func (v *Value) Device() (string, error) {
	pointer, err := v.begin()
	if err != nil {
		return "", err
	}
	defer v.end()
	var out *C.char
	var failure *C.tenon_error
	if status := C.tenon_value_get_device(pointer, &out, &failure); status != C.TENON_OK {
		return "", takeError(status, failure)
	}
	return C.GoString(out), nil
}
