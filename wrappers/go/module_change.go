// Changing modules: adding, replacing and removing their members.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"
)

// LoadFlags say which differences Load allows.
type LoadFlags uint32

// The values of LoadFlags.
const (
	// Parameters and buffers that were not given keep what they have.
	AllowMissing LoadFlags = C.TENON_LOAD_ALLOW_MISSING
	// Given names that the module does not have are left out.
	AllowUnexpected LoadFlags = C.TENON_LOAD_ALLOW_UNEXPECTED
	// Change nothing. Only tell what would be missing and unexpected.
	CheckOnly LoadFlags = C.TENON_LOAD_CHECK_ONLY
)

// with makes a call on the module that gives nothing but an error.
func (m *Module) with(
	call func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status,
) error {
	pointer, err := m.begin()
	if err != nil {
		return err
	}
	defer m.end()
	var failure *C.tenon_error
	if status := call(pointer, &failure); status != C.TENON_OK {
		return takeError(status, failure)
	}
	return nil
}

// withText is as with, for a call that takes a text.
func (m *Module) withText(
	what, text string,
	call func(*C.tenon_module, *C.char, **C.tenon_error) C.tenon_status,
) error {
	given, err := cText(what, text)
	if err != nil {
		return err
	}
	return m.with(func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return call(pointer, given, failure)
	})
}

// withValue is as with, for a call that takes a name or a path and a value.
func (m *Module) withValue(
	name string,
	value *Value,
	call func(*C.tenon_module, *C.char, *C.tenon_value, **C.tenon_error) C.tenon_status,
) error {
	given, err := value.begin()
	if err != nil {
		return err
	}
	defer value.end()
	return m.withText(
		"the name",
		name,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return call(pointer, text, given, failure)
		},
	)
}

// AddParameter adds a parameter. Its name is any text without dots, such as "weight" or "0". A nil
// tensor adds a parameter that is None, such as bias=None. This method and the following ones take
// references of their own to what they add.
func (m *Module) AddParameter(name string, tensor *Value) error {
	return m.withValue(
		name,
		tensor,
		func(
			pointer *C.tenon_module, text *C.char, value *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_add_parameter(pointer, text, value, failure)
		},
	)
}

// AddBuffer adds a buffer, as AddParameter adds a parameter.
func (m *Module) AddBuffer(name string, tensor *Value) error {
	return m.withValue(
		name,
		tensor,
		func(
			pointer *C.tenon_module, text *C.char, value *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_add_buffer(pointer, text, value, failure)
		},
	)
}

// AddAttribute adds an attribute of a declared type, such as "Dict[str, int]". A class in the type
// has its qualified name and must be defined before. "" means the type that the value shows by
// itself. If the value does not fit the type, the error's details "where", "wanted" and "found" say
// why.
func (m *Module) AddAttribute(name, declared string, value *Value) error {
	text, err := cTextOrNull("the type", declared)
	if err != nil {
		return err
	}
	return m.withValue(
		name,
		value,
		func(
			pointer *C.tenon_module, name *C.char, value *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_add_attribute(pointer, name, text, value, failure)
		},
	)
}

// AddConstant adds a constant, which PyTorch calls Final: the class contains it, and it cannot
// change when the module runs. Its type is as for an attribute.
func (m *Module) AddConstant(name, declared string, value *Value) error {
	text, err := cTextOrNull("the type", declared)
	if err != nil {
		return err
	}
	return m.withValue(
		name,
		value,
		func(
			pointer *C.tenon_module, name *C.char, value *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_add_constant(pointer, name, text, value, failure)
		},
	)
}

// AddSubmodule adds a submodule that was built or imported. One module may be added in several
// places, which then share it, in memory and in the archive. declared is the qualified name of an
// interface that the child has. "" means the child's own class.
func (m *Module) AddSubmodule(name string, child *Module, declared string) error {
	text, err := cTextOrNull("the type", declared)
	if err != nil {
		return err
	}
	given, err := child.begin()
	if err != nil {
		return err
	}
	defer child.end()
	return m.withText(
		"the name",
		name,
		func(pointer *C.tenon_module, name *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_add_submodule(pointer, name, given, text, failure)
		},
	)
}

// Define defines methods: one or more def in TorchScript. A method that exists already is replaced.
// All modules of the class get the methods. The error for wrong code has the details "file",
// "line", "column" and "excerpt".
func (m *Module) Define(source string) error {
	return m.withText(
		"the source",
		source,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_define(pointer, text, failure)
		},
	)
}

// DefineTypes defines what methods and types use: functions, NamedTuples, enums, interfaces and
// plain classes. The qualifier is "__torch__" or a name below it. `class P` gets the name
// "<qualifier>.P".
func (m *Module) DefineTypes(qualifier, source string) error {
	code, err := cText("the source", source)
	if err != nil {
		return err
	}
	return m.withText(
		"the qualifier",
		qualifier,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_define_types(pointer, text, code, failure)
		},
	)
}

// SetHooks says which methods PyTorch runs before or after forward, in this order. No names mean
// that there are no hooks any more.
func (m *Module) SetHooks(beforeForward bool, names ...string) error {
	before := C.int(0)
	if beforeForward {
		before = 1
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	starts, err := pinnedStrings(&pinner, names)
	if err != nil {
		return err
	}
	return m.with(func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_module_set_hooks(
			pointer,
			before,
			unsafe.SliceData(starts),
			C.size_t(len(starts)),
			failure,
		)
	})
}

// SetTracedInputs keeps the example inputs of a traced method in the archive, for programs that ask
// PyTorch for them. Their tensors are written without bytes.
func (m *Module) SetTracedInputs(method string, inputs ...*Value) error {
	pointers, end, err := beginValues(inputs)
	if err != nil {
		return err
	}
	defer end()
	return m.withText(
		"the method",
		method,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_set_traced_inputs(
				pointer,
				text,
				unsafe.SliceData(pointers),
				C.size_t(len(pointers)),
				failure,
			)
		},
	)
}

// SetExtraFile gives the module an extra file, which goes into every archive of the module. It
// replaces an extra file of that name.
func (m *Module) SetExtraFile(name string, data []byte) error {
	return m.withText(
		"the name",
		name,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_set_extra_file(
				pointer,
				text,
				unsafe.Pointer(unsafe.SliceData(data)),
				C.size_t(len(data)),
				failure,
			)
		},
	)
}

// RemoveExtraFile removes an extra file.
func (m *Module) RemoveExtraFile(name string) error {
	return m.withText(
		"the name",
		name,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_remove_extra_file(pointer, text, failure)
		},
	)
}

// Set replaces a parameter, buffer or attribute. Nil means None. The shape and the element type of
// a tensor may change. Every other place below the module that held the same tensor gets the new
// one too. A parameter that requires a gradient still requires one.
func (m *Module) Set(path string, value *Value) error {
	return m.withValue(
		path,
		value,
		func(
			pointer *C.tenon_module, text *C.char, value *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_set(pointer, text, value, failure)
		},
	)
}

// SetState gives the object at a path a state, in place of the state that it has or of a module's
// attributes. Nil means None. The path "" is the module itself. Set("conv.state[0]", …) replaces a
// part of a state.
func (m *Module) SetState(path string, state *Value) error {
	return m.withValue(
		path,
		state,
		func(
			pointer *C.tenon_module, text *C.char, state *C.tenon_value, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_module_set_state(pointer, text, state, failure)
		},
	)
}

// SetSubmodule replaces a submodule. The new one may be of another class. If the submodule is
// declared by an interface, the new one must have that interface.
func (m *Module) SetSubmodule(path string, child *Module) error {
	given, err := child.begin()
	if err != nil {
		return err
	}
	defer child.end()
	return m.withText(
		"the path",
		path,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_set_submodule(pointer, text, given, failure)
		},
	)
}

// Remove removes a member: a parameter, buffer, attribute, constant, submodule or method.
func (m *Module) Remove(path string) error {
	return m.withText(
		"the path",
		path,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_remove(pointer, text, failure)
		},
	)
}

// Load replaces parameters and buffers by their paths, all of them or, on failure, none. Nil means
// None. It returns the paths of the module that were not given, and the given paths that the module
// does not have.
func (m *Module) Load(
	tensors map[string]*Value,
	flags LoadFlags,
) (missing, unexpected []string, err error) {
	paths := slices.Sorted(maps.Keys(tensors))
	values := make([]*Value, len(paths))
	for i, path := range paths {
		values[i] = tensors[path]
	}
	return m.LoadSlices(paths, values, flags)
}

// LoadSlices loads as Load does, from paths and the tensor for each.
func (m *Module) LoadSlices(
	paths []string,
	tensors []*Value,
	flags LoadFlags,
) (missing, unexpected []string, err error) {
	if len(paths) != len(tensors) {
		return nil, nil, invalid(fmt.Sprintf("%d paths for %d tensors", len(paths), len(tensors)))
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	starts, err := pinnedStrings(&pinner, paths)
	if err != nil {
		return nil, nil, err
	}
	values, end, err := beginValues(tensors)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	var missed, extra *C.tenon_name_list
	err = m.with(func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_module_load(
			pointer,
			unsafe.SliceData(starts),
			unsafe.SliceData(values),
			C.size_t(len(starts)),
			C.uint32_t(flags),
			&missed,
			&extra,
			failure,
		)
	})
	if err != nil {
		return nil, nil, err
	}
	return takeNames(missed), takeNames(extra), nil
}
