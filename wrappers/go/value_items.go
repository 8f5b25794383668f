// Values: their types, their items, and checks against types.

package tenon

// #include "tenon_go.h"
import "C"

import "errors"

// TypeText returns the type that the value shows by itself. A list shows its own type, such as
// "List[int]", or "List[Any]" if it has none. A tuple shows the types of its items, such as
// "Tuple[int, str]". An object shows the name of its class.
func (v *Value) TypeText() (string, error) {
	return ask(v, func(pointer *C.tenon_value) (string, error) {
		return takeText(func(r textRoom) C.tenon_status {
			return C.tenon_value_type(pointer, r.out, r.capacity, r.nbytes, r.failure)
		})
	})
}

// TypeText gives a type in PyTorch's own spelling: "Union[str, None]" becomes "Optional[str]".
func TypeText(text string) (string, error) {
	given, err := cText("the type", text)
	if err != nil {
		return "", err
	}
	return takeText(func(r textRoom) C.tenon_status {
		return C.tenon_type_text(given, r.out, r.capacity, r.nbytes, r.failure)
	})
}

// ClassName returns the qualified name of a NamedTuple, an enum or an object; "" for other values.
func (v *Value) ClassName() string {
	return get(v, func(pointer *C.tenon_value) string {
		return C.GoString(C.tenon_value_class_name(pointer))
	})
}

// IsOpaque says whether an object has a state and no attributes.
func (v *Value) IsOpaque() bool {
	return get(v, func(pointer *C.tenon_value) bool {
		return C.tenon_value_is_opaque(pointer) != 0
	})
}

// Len returns the number of items of a tuple or a list, of entries of a dict, or of attributes of
// an object. It is 1 for an enum (its value) and for an object with a state, and 0 for every other
// kind.
func (v *Value) Len() int {
	return get(v, func(pointer *C.tenon_value) int {
		return int(C.tenon_value_count(pointer))
	})
}

// Item gives one of the items that Len counts. For a dict it is the value of an entry, and for an
// object the value of an attribute.
func (v *Value) Item(index int) (*Value, error) {
	return ask(v, func(pointer *C.tenon_value) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_value_item(pointer, C.size_t(index), out, failure)
		})
	})
}

// Key gives one key of a dict.
func (v *Value) Key(index int) (*Value, error) {
	return ask(v, func(pointer *C.tenon_value) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_value_key(pointer, C.size_t(index), out, failure)
		})
	})
}

// Items gives all that Item gives. The caller closes the values (CloseValues).
func (v *Value) Items() ([]*Value, error) { return v.all(v.Item) }

// Keys gives the keys of a dict. The caller closes the values (CloseValues).
func (v *Value) Keys() ([]*Value, error) { return v.all(v.Key) }

func (v *Value) all(get func(int) (*Value, error)) ([]*Value, error) {
	pointer, err := v.begin()
	if err != nil {
		return nil, err
	}
	defer v.end()
	values := make([]*Value, 0, C.tenon_value_count(pointer))
	for i := range cap(values) {
		value, err := get(i)
		if err != nil {
			CloseValues(values)
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// CloseValues closes each value that is not nil.
func CloseValues(values []*Value) {
	for _, value := range values {
		if value != nil {
			value.Close()
		}
	}
}

// Attributes gives the attributes of an object in their order. The caller closes each value. If
// another goroutine removes attributes meanwhile, others may be left out too.
func (v *Value) Attributes() ([]Attribute, error) {
	return ask(v, func(pointer *C.tenon_value) ([]Attribute, error) {
		var attributes []Attribute
		for {
			text := C.tenon_value_attribute_name(pointer, C.size_t(len(attributes)))
			if text == nil {
				return attributes, nil
			}
			name := C.GoString(text)
			value, err := v.Find(name)
			if errors.Is(err, ErrNotFound) {
				continue // it was removed since, and another attribute has its index
			}
			if err != nil {
				for _, attribute := range attributes {
					attribute.Value.Close()
				}
				return nil, err
			}
			attributes = append(attributes, Attribute{name, value})
		}
	})
}

// Find gives the value with a name: of an attribute of an object, or of a str key of a dict.
func (v *Value) Find(name string) (*Value, error) {
	return ask(v, func(pointer *C.tenon_value) (*Value, error) {
		text, err := cText("the name", name)
		if err != nil {
			return nil, err
		}
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_value_find(pointer, text, out, failure)
		})
	})
}

// Check checks that the value and everything in it fits a type. An int is not a float. Objects fit
// by the names of their classes alone. If the value does not fit, the error's details "where",
// "wanted" and "found" say why.
func (v *Value) Check(wanted string) error {
	pointer, err := v.begin()
	if err != nil {
		return err
	}
	defer v.end()
	text, err := cText("the type", wanted)
	if err != nil {
		return err
	}
	var failure *C.tenon_error
	return check(C.tenon_value_check(pointer, text, &failure), &failure)
}
