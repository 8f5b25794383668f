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

// LoadFlags say what Load lets pass.
type LoadFlags uint32

// The flags.
const (
	// Parameters and buffers that are not among the given ones keep what they have.
	AllowMissing LoadFlags = C.TENON_LOAD_ALLOW_MISSING
	// Given names that the module has not are left out.
	AllowUnexpected LoadFlags = C.TENON_LOAD_ALLOW_UNEXPECTED
	// Change nothing, say what would be missing and unexpected.
	CheckOnly LoadFlags = C.TENON_LOAD_CHECK_ONLY
)

// with makes one call on the module that gives nothing but an error.
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

// withText is with, for a call that takes a text.
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

// withValue is with, for a call that takes a name or a path and a value.
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

// AddParameter adds a parameter; its name is any text without dots, as "weight" or "0". Nil: one
// that is None, as bias=None. Here, and in all that follows, the module takes references of its
// own.
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

// AddBuffer adds a buffer, as AddParameter does a parameter.
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

// AddAttribute adds an attribute of a declared type, as "Dict[str, int]"; classes by their
// qualified names, defined before. "": the type that the value shows by itself. What does not fit
// stands in the error's details "where", "wanted" and "found".
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

// AddConstant adds a constant, which PyTorch calls Final: it stands in the class and cannot change
// when the module runs. Its type is as for an attribute.
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

// AddSubmodule adds a submodule, built or imported. One module may be added in several places, and
// is shared by them then, here and in the archive. Declared is the qualified name of an interface
// that the child has; "": the child's own class.
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

// Define defines methods: one def or more in TorchScript. One that is there already is replaced;
// all modules of the class get them. The error of bad code has the details "file", "line", "column"
// and "excerpt".
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
// plain classes. The qualifier is "__torch__" or a name below it: of `class P` comes
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

// SetHooks says which methods PyTorch runs before or after forward, in the order of their runs;
// none: none any more.
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

// SetTracedInputs keeps the example inputs of a traced method in the archive, for who asks PyTorch
// for them. Their tensors are written without bytes.
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

// SetExtraFile puts a file beside the module, which goes into every archive of it. One of that name
// is replaced.
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

// RemoveExtraFile takes such a file away.
func (m *Module) RemoveExtraFile(name string) error {
	return m.withText(
		"the name",
		name,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_remove_extra_file(pointer, text, failure)
		},
	)
}

// Set replaces a parameter, buffer or attribute; nil: None. The shape and the element type of a
// tensor may change. Whatever else below the module held the same tensor has the new one too. A
// parameter that requires a gradient goes on to require one.
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

// SetState gives the object at a path a state, in place of the one that it has or of a module's
// attributes; nil: None. "" is the module itself. Set("conv.state[0]", …) replaces a part of a
// state.
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

// SetSubmodule replaces a submodule. Another class is fine unless an interface is declared that it
// has not.
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

// Remove takes a member away: a parameter, buffer, attribute, constant, submodule or method.
func (m *Module) Remove(path string) error {
	return m.withText(
		"the path",
		path,
		func(pointer *C.tenon_module, text *C.char, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_remove(pointer, text, failure)
		},
	)
}

// Load replaces parameters and buffers by their paths, all of them or, on failure, none; nil: None.
// It gives the paths of the module that are not among the given ones, and the given ones that the
// module has not.
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

// LoadSlices is Load of paths and the tensor of each.
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
