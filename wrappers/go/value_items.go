package tenon

// #include "tenon_go.h"
import "C"

// TypeText is the type that the value shows by itself: "List[int]" as the list says, "List[Any]" if
// it says none, "Tuple[int, str]" of its items, a class by its name.
func (v *Value) TypeText() (string, error) {
	pointer, err := v.begin()
	if err != nil {
		return "", err
	}
	defer v.end()
	return takeText(
		func(
			out *C.char, capacity C.size_t, nbytes *C.size_t, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_value_type(pointer, out, capacity, nbytes, failure)
		},
	)
}

// TypeText is a type in PyTorch's own text: "Union[str, None]" is "Optional[str]".
func TypeText(text string) (string, error) {
	given, err := cText("the type", text)
	if err != nil {
		return "", err
	}
	return takeText(
		func(
			out *C.char, capacity C.size_t, nbytes *C.size_t, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_type_text(given, out, capacity, nbytes, failure)
		},
	)
}

// ClassName is the qualified name of a NamedTuple, an enum or an object; "" for what has none.
func (v *Value) ClassName() string {
	pointer, err := v.begin()
	if err != nil {
		return ""
	}
	defer v.end()
	return C.GoString(C.tenon_value_class_name(pointer))
}

// IsOpaque says whether an object has a state and no attributes.
func (v *Value) IsOpaque() bool {
	pointer, err := v.begin()
	if err != nil {
		return false
	}
	defer v.end()
	return C.tenon_value_is_opaque(pointer) != 0
}

// Len is how many items there are: of a tuple or a list; entries of a dict; attributes of an
// object; 1 of an enum (its value) and of an object with a state; 0 of every other kind.
func (v *Value) Len() int {
	pointer, err := v.begin()
	if err != nil {
		return 0
	}
	defer v.end()
	return int(C.tenon_value_count(pointer))
}

// Item is one of those that Len counts: of a dict the value of an entry, of an object that of an
// attribute.
func (v *Value) Item(index int) (*Value, error) {
	pointer, err := v.begin()
	if err != nil {
		return nil, err
	}
	defer v.end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_item(pointer, C.size_t(index), out, failure)
	})
}

// Key is one key of a dict.
func (v *Value) Key(index int) (*Value, error) {
	pointer, err := v.begin()
	if err != nil {
		return nil, err
	}
	defer v.end()
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_key(pointer, C.size_t(index), out, failure)
	})
}

// Items are all that Item gives; each is the caller's to close (CloseValues).
func (v *Value) Items() ([]*Value, error) { return v.all(v.Item) }

// Keys are the keys of a dict; each is the caller's to close (CloseValues).
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

// CloseValues closes each of them that is not nil.
func CloseValues(values []*Value) {
	for _, value := range values {
		if value != nil {
			value.Close()
		}
	}
}

// Attributes are those of an object, in their order; each value is the caller's to close.
func (v *Value) Attributes() ([]Attribute, error) {
	pointer, err := v.begin()
	if err != nil {
		return nil, err
	}
	defer v.end()
	var attributes []Attribute
	for i := 0; ; i++ {
		name := C.tenon_value_attribute_name(pointer, C.size_t(i))
		if name == nil {
			return attributes, nil
		}
		value, err := v.Item(i)
		if err != nil {
			for _, attribute := range attributes {
				attribute.Value.Close()
			}
			return nil, err
		}
		attributes = append(attributes, Attribute{C.GoString(name), value})
	}
}

// Find is the value of a name: an attribute of an object, or what a dict has under that str.
func (v *Value) Find(name string) (*Value, error) {
	pointer, err := v.begin()
	if err != nil {
		return nil, err
	}
	defer v.end()
	text, err := cText("the name", name)
	if err != nil {
		return nil, err
	}
	return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
		return C.tenon_value_find(pointer, text, out, failure)
	})
}

// Check checks that the value fits a type, all the way down: an int is no float. Classes fit by
// their names alone. The error's details "where", "wanted" and "found" say what does not.
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
	if status := C.tenon_value_check(pointer, text, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}
