// Modules: reading what a module contains. module_change.go has the methods that change one.

package tenon

// #include "tenon_go.h"
import "C"

import (
	"runtime"
	"slices"
	"unsafe"
)

// MemberKind is the kind of a member of a module.
type MemberKind int32

// The kinds of members.
const (
	MemberParameter MemberKind = C.TENON_MEMBER_PARAMETER
	MemberBuffer    MemberKind = C.TENON_MEMBER_BUFFER
	MemberAttribute MemberKind = C.TENON_MEMBER_ATTRIBUTE
	MemberConstant  MemberKind = C.TENON_MEMBER_CONSTANT
	MemberSubmodule MemberKind = C.TENON_MEMBER_SUBMODULE
	MemberMethod    MemberKind = C.TENON_MEMBER_METHOD
	MemberState     MemberKind = C.TENON_MEMBER_STATE
)

// String returns the name of the kind, such as "parameter".
func (k MemberKind) String() string {
	switch k {
	case MemberParameter:
		return "parameter"
	case MemberBuffer:
		return "buffer"
	case MemberAttribute:
		return "attribute"
	case MemberConstant:
		return "constant"
	case MemberSubmodule:
		return "submodule"
	case MemberMethod:
		return "method"
	case MemberState:
		return "state"
	}
	return "unknown"
}

// Member is one member of a module.
type Member struct {
	Kind   MemberKind
	Name   string  // the member's name; in the result of Tensors, its path
	Type   string  // the declared type; of a submodule its class; "" for a method
	Source string  // of a method, and of a constant as it stands in the class; else ""
	Value  *Value  // nil for submodules, methods, and constants that are not literals
	Module *Module // of a submodule; else nil
}

// Close closes Value and Module.
func (m Member) Close() error {
	if m.Value != nil {
		m.Value.Close()
	}
	if m.Module != nil {
		m.Module.Close()
	}
	return nil
}

// Members are members that a call gave. They do not change when the module changes.
type Members []Member

// Close closes each member.
func (m Members) Close() error {
	for _, member := range m {
		member.Close()
	}
	return nil
}

// File is bytes with a name: an extra file, or a file of code.
type File struct {
	Name string
	Data []byte
}

// Module is what PyTorch calls a ScriptModule: a tree of objects with typed attributes, parameters,
// buffers and methods, and the code of its classes. A program builds a module, or reads it from an
// archive (ImportModule). It can change the module, and write it as an archive that torch.jit.load
// runs (ExportModule). The package never runs the code.
//
// A path names a member, seen from a module, with dots: "encoder.0.weight". A submodule that a call
// gave is a Module of its own over the same objects. A change through one of them shows in all.
//
// Any number of goroutines may read and change modules, also those of one tree: the library makes a
// change wait for other calls. During an export, also from its callbacks, a change is
// ErrPermission. After a failed change everything is as it was.
type Module struct{ handle }

func newModule(pointer *C.tenon_module) *Module {
	m := new(Module)
	m.own(kindModule, unsafe.Pointer(pointer))
	return m
}

func (m *Module) begin() (*C.tenon_module, error) {
	if m == nil {
		return nil, nil
	}
	pointer, err := m.acquire()
	return (*C.tenon_module)(pointer), err
}

func (m *Module) end() {
	if m != nil {
		m.release()
	}
}

// NewModule makes a module without members, of a new class: "MLP", or a qualified name such as
// "__torch__.my.MLP".
func NewModule(className string) (*Module, error) {
	collect()
	name, err := cText("the class", className)
	if err != nil {
		return nil, err
	}
	var out *C.tenon_module
	var failure *C.tenon_error
	if status := C.tenon_module_new(name, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newModule(out), nil
}

// ClassName returns the qualified name of the module's class.
func (m *Module) ClassName() (string, error) {
	return ask(m, func(pointer *C.tenon_module) (string, error) {
		return takeText(func(r textRoom) C.tenon_status {
			return C.tenon_module_class_name(pointer, r.out, r.capacity, r.nbytes, r.failure)
		})
	})
}

// Object gives the object that the module is, as a Value.
func (m *Module) Object() (*Value, error) {
	return ask(m, func(pointer *C.tenon_module) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_object(pointer, out, failure)
		})
	})
}

// Same says whether both are the same module. A submodule with two owners is one module in two
// places. Same is false if one of them is closed, or was read from a file that is bad.
func (m *Module) Same(other *Module) bool {
	own, err := m.Object()
	if err != nil {
		return false
	}
	defer own.Close()
	others, err := other.Object()
	if err != nil {
		return false
	}
	defer others.Close()
	return own.Same(others)
}

// Check checks the code as an export does: names, operators, and the numbers, keywords and types of
// arguments. The error for wrong code has the details "file", "line", "column" and "excerpt". A
// call that the newest PyTorch takes and PyTorch 1.13 refuses is not an error: Warnings lists it.
func (m *Module) Check() error {
	return run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_module_check(pointer, failure)
	})
}

// Members lists all members, in the order in which the class declares them, methods last. The
// caller closes them.
func (m *Module) Members() (Members, error) {
	return m.members(func(q query[*C.tenon_module, *C.tenon_member_list]) C.tenon_status {
		return C.tenon_module_members(q.pointer, q.out, q.failure)
	})
}

// Tensors lists every parameter, every buffer and every tensor of a state below the module, in the
// order of the tree. The name of each is its path. A shared tensor has an entry for each of its
// paths. Parameters and buffers that are None are left out. The caller closes the members.
func (m *Module) Tensors() (Members, error) {
	return m.members(func(q query[*C.tenon_module, *C.tenon_member_list]) C.tenon_status {
		return C.tenon_module_tensors(q.pointer, q.out, q.failure)
	})
}

// States lists the paths of all states below the module, such as "conv.state". A class that has
// both __getstate__ and __setstate__ has a state in an archive, and no attributes. Find gives a
// state, or a part of it: "conv.state[0]".
func (m *Module) States() ([]string, error) {
	return ask(m, func(pointer *C.tenon_module) ([]string, error) {
		var list *C.tenon_name_list
		var failure *C.tenon_error
		if status := C.tenon_module_states(pointer, &list, &failure); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		return takeNames(list), nil
	})
}

// Find gives the member with a path. The caller closes it. The error names the part of the path
// that does not exist.
func (m *Module) Find(path string) (Member, error) {
	text, err := cText("the path", path)
	if err != nil {
		return Member{}, err
	}
	found, err := m.members(func(q query[*C.tenon_module, *C.tenon_member_list]) C.tenon_status {
		return C.tenon_module_find(q.pointer, text, q.out, q.failure)
	})
	if err != nil {
		return Member{}, err
	}
	return found[0], nil
}

func (m *Module) members(
	call func(query[*C.tenon_module, *C.tenon_member_list]) C.tenon_status,
) (Members, error) {
	pointer, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer m.end()
	var list *C.tenon_member_list
	var failure *C.tenon_error
	given := query[*C.tenon_module, *C.tenon_member_list]{pointer, &list, &failure}
	if err := check(call(given), &failure); err != nil {
		return nil, err
	}
	defer C.tenon_member_list_release(list)
	members := make(Members, 0, C.tenon_member_list_count(list))
	for i := range cap(members) {
		out := C.tenon_member{struct_size: C.sizeof_tenon_member}
		if status := C.tenon_member_list_get(
			list, C.size_t(i), &out, &failure,
		); status != C.TENON_OK {
			members.Close()
			return nil, takeError(status, failure)
		}
		member := Member{
			Kind:   MemberKind(out.kind),
			Name:   C.GoString(out.name),
			Type:   C.GoString(out._type),
			Source: C.GoString(out.source),
		}
		if out.value != nil {
			member.Value = newValue(C.tenon_value_retain(out.value))
		}
		if out.module != nil {
			member.Module = newModule(C.tenon_module_retain(out.module))
		}
		members = append(members, member)
	}
	return members, nil
}

// ExtraFiles gives copies of the extra files of the module.
func (m *Module) ExtraFiles() ([]File, error) {
	return m.files(func(q query[*C.tenon_module, *C.tenon_file_list]) C.tenon_status {
		return C.tenon_module_extra_files(q.pointer, q.out, q.failure)
	})
}

// CodeFiles gives the code of the module's classes and functions, as an export writes it. There is
// one file for each qualifier, such as "__torch__/my/layers.py".
func (m *Module) CodeFiles() ([]File, error) {
	return m.files(func(q query[*C.tenon_module, *C.tenon_file_list]) C.tenon_status {
		return C.tenon_module_code_files(q.pointer, q.out, q.failure)
	})
}

func (m *Module) files(
	call func(query[*C.tenon_module, *C.tenon_file_list]) C.tenon_status,
) ([]File, error) {
	pointer, err := m.begin()
	if err != nil {
		return nil, err
	}
	defer m.end()
	var list *C.tenon_file_list
	var failure *C.tenon_error
	given := query[*C.tenon_module, *C.tenon_file_list]{pointer, &list, &failure}
	if err := check(call(given), &failure); err != nil {
		return nil, err
	}
	defer C.tenon_file_list_release(list)
	files := make([]File, C.tenon_file_list_count(list))
	for i := range files {
		var out C.tenon_file
		if status := C.tenon_file_list_get(
			list, C.size_t(i), &out, &failure,
		); status != C.TENON_OK {
			return nil, takeError(status, failure)
		}
		files[i] = File{
			C.GoString(out.name),
			slices.Clone(unsafe.Slice((*byte)(out.data), int(out.nbytes))),
		}
	}
	return files, nil
}

// pinnedFiles gives C's form of files, and pins all of it.
func pinnedFiles(pinner *runtime.Pinner, files []File) ([]C.tenon_file, error) {
	if len(files) == 0 {
		return nil, nil
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Name
	}
	starts, err := pinnedStrings(pinner, names)
	if err != nil {
		return nil, err
	}
	out := make([]C.tenon_file, len(files))
	pinner.Pin(unsafe.SliceData(out))
	for i, file := range files {
		out[i] = C.tenon_file{
			name:   starts[i],
			data:   unsafe.Pointer(pinSlice(pinner, file.Data)),
			nbytes: C.size_t(len(file.Data)),
		}
	}
	return out, nil
}

// Constants gives a tuple with the values of CONSTANTS.c0, CONSTANTS.c1, … in the code of
// CodeFiles.
func (m *Module) Constants() (*Value, error) {
	return ask(m, func(pointer *C.tenon_module) (*Value, error) {
		return makeValue(func(out **C.tenon_value, failure **C.tenon_error) C.tenon_status {
			return C.tenon_module_constants(pointer, out, failure)
		})
	})
}
