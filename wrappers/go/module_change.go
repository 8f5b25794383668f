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

// change is what a call of the C library takes that changes a module: the module, a name, path or
// source, the value if it takes one, and where the error goes.
type change struct {
	module  *C.tenon_module
	text    *C.char
	value   *C.tenon_value
	failure **C.tenon_error
}

// change makes a call on the module that takes a text. what says in an error what the text is.
func (m *Module) change(what, text string, call func(c change) C.tenon_status) error {
	given, err := cText(what, text)
	if err != nil {
		return err
	}
	return run(m, func(module *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return call(change{module: module, text: given, failure: failure})
	})
}

// changeValue is as change, for a call that takes a name or a path and a value.
func (m *Module) changeValue(
	name string, value *Value, call func(c change) C.tenon_status,
) error {
	given, err := value.begin()
	if err != nil {
		return err
	}
	defer value.end()
	return m.change("the name", name, func(c change) C.tenon_status {
		c.value = given
		return call(c)
	})
}

// AddParameter adds a parameter. Its name is any text without dots, such as "weight" or "0". A nil
// tensor adds a parameter that is None, such as bias=None. This method and the following ones take
// references of their own to what they add.
func (m *Module) AddParameter(name string, tensor *Value) error {
	return m.changeValue(name, tensor, func(c change) C.tenon_status {
		return C.tenon_module_add_parameter(c.module, c.text, c.value, c.failure)
	})
}

// AddBuffer adds a buffer, as AddParameter adds a parameter.
func (m *Module) AddBuffer(name string, tensor *Value) error {
	return m.changeValue(name, tensor, func(c change) C.tenon_status {
		return C.tenon_module_add_buffer(c.module, c.text, c.value, c.failure)
	})
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
	return m.changeValue(name, value, func(c change) C.tenon_status {
		return C.tenon_module_add_attribute(c.module, c.text, text, c.value, c.failure)
	})
}

// AddConstant adds a constant, which PyTorch calls Final: the class contains it, and it cannot
// change when the module runs. Its type is as for an attribute.
func (m *Module) AddConstant(name, declared string, value *Value) error {
	text, err := cTextOrNull("the type", declared)
	if err != nil {
		return err
	}
	return m.changeValue(name, value, func(c change) C.tenon_status {
		return C.tenon_module_add_constant(c.module, c.text, text, c.value, c.failure)
	})
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
	return m.change("the name", name, func(c change) C.tenon_status {
		return C.tenon_module_add_submodule(c.module, c.text, given, text, c.failure)
	})
}

// Define defines methods: one or more def in TorchScript. A method that exists already is replaced.
// All modules of the class get the methods. The error for wrong code has the details "file",
// "line", "column" and "excerpt".
func (m *Module) Define(source string) error {
	return m.change("the source", source, func(c change) C.tenon_status {
		return C.tenon_module_define(c.module, c.text, c.failure)
	})
}

// DefineTypes defines what methods and types use: functions, NamedTuples, enums, interfaces and
// plain classes. The qualifier is "__torch__" or a name below it. `class P` gets the name
// "<qualifier>.P".
func (m *Module) DefineTypes(qualifier, source string) error {
	code, err := cText("the source", source)
	if err != nil {
		return err
	}
	return m.change("the qualifier", qualifier, func(c change) C.tenon_status {
		return C.tenon_module_define_types(c.module, c.text, code, c.failure)
	})
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
	return run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
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
	return m.change("the method", method, func(c change) C.tenon_status {
		return C.tenon_module_set_traced_inputs(
			c.module,
			c.text,
			unsafe.SliceData(pointers),
			C.size_t(len(pointers)),
			c.failure,
		)
	})
}

// SetExtraFile gives the module an extra file, which goes into every archive of the module. It
// replaces an extra file of that name.
func (m *Module) SetExtraFile(name string, data []byte) error {
	return m.change("the name", name, func(c change) C.tenon_status {
		return C.tenon_module_set_extra_file(
			c.module,
			c.text,
			unsafe.Pointer(unsafe.SliceData(data)),
			C.size_t(len(data)),
			c.failure,
		)
	})
}

// RemoveExtraFile removes an extra file.
func (m *Module) RemoveExtraFile(name string) error {
	return m.change("the name", name, func(c change) C.tenon_status {
		return C.tenon_module_remove_extra_file(c.module, c.text, c.failure)
	})
}

// Set replaces a parameter, buffer or attribute. Nil means None. The shape and the element type of
// a tensor may change. Every other place below the module that held the same tensor gets the new
// one too. A parameter that requires a gradient still requires one.
func (m *Module) Set(path string, value *Value) error {
	return m.changeValue(path, value, func(c change) C.tenon_status {
		return C.tenon_module_set(c.module, c.text, c.value, c.failure)
	})
}

// SetState gives the object at a path a state, in place of the state that it has or of a module's
// attributes. Nil means None. The path "" is the module itself. Set("conv.state[0]", …) replaces a
// part of a state.
func (m *Module) SetState(path string, state *Value) error {
	return m.changeValue(path, state, func(c change) C.tenon_status {
		return C.tenon_module_set_state(c.module, c.text, c.value, c.failure)
	})
}

// SetSubmodule replaces a submodule. The new one may be of another class. If the submodule is
// declared by an interface, the new one must have that interface.
func (m *Module) SetSubmodule(path string, child *Module) error {
	given, err := child.begin()
	if err != nil {
		return err
	}
	defer child.end()
	return m.change("the path", path, func(c change) C.tenon_status {
		return C.tenon_module_set_submodule(c.module, c.text, given, c.failure)
	})
}

// Remove removes a member: a parameter, buffer, attribute, constant, submodule or method.
func (m *Module) Remove(path string) error {
	return m.change("the path", path, func(c change) C.tenon_status {
		return C.tenon_module_remove(c.module, c.text, c.failure)
	})
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
	err = run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
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
