// Packages: archives of torch.package, which contain modules and other files.

package tenon

/*
#include "tenon_go.h"

// Streams are numbers in Go, as in archive.go.
static inline tenon_status tenon_go_export_package(const tenon_package_entry *entries, size_t n,
		const char *path, uintptr_t stream, tenon_package_options *options,
		tenon_export_report *report, tenon_error **err) {
	options->stream = (void *)stream;
	return tenon_export_package(entries, n, path, options, report, err);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// Package is an open archive of torch.package. Its parts are called records. A record such as
// "models/net.pkl" is the resource "net.pkl" of the Python package "models". Nothing in a package
// is executed, and no PyTorch is needed.
//
// A script module has two names: its resource, if there is a record that holds this module and
// nothing else, and its id in the package, such as "0". Storages that several modules share are in
// memory once. Modules stay usable after the package was closed.
//
// Any number of goroutines may call the methods of one Package.
type Package struct{ handle }

func newPackage(pointer *C.tenon_package) *Package {
	p := new(Package)
	p.own(kindPackage, unsafe.Pointer(pointer))
	return p
}

func (p *Package) begin() (*C.tenon_package, error) {
	if p == nil {
		return nil, nil
	}
	pointer, err := p.acquire()
	return (*C.tenon_package)(pointer), err
}

func (p *Package) end() {
	if p != nil {
		p.release()
	}
}

// OpenPackage opens a package. The options are for all modules of the package, and
// ImportOptions.DebugTables has no effect. The file must not be changed while views of it are in
// use, but it may be replaced by a rename. ErrUnsupported means that the file is no package. The
// error of a bad archive has the details "record" and "offset".
func OpenPackage(path string, options *ImportOptions) (*Package, error) {
	text, err := cText("the path", path)
	if err != nil {
		return nil, err
	}
	var opened *C.tenon_package
	err = withImportOptions(
		options,
		func(given *C.tenon_import_options, failure **C.tenon_error) C.tenon_status {
			return C.tenon_package_open(text, given, &opened, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	return newPackage(opened), nil
}

// Modules lists the script modules of the package: each by its resource, or by its id if it has no
// resource.
func (p *Package) Modules() ([]string, error) {
	return p.names(func(q query[*C.tenon_package, *C.tenon_name_list]) C.tenon_status {
		return C.tenon_package_modules(q.pointer, q.out, q.failure)
	})
}

// Module reads the script module of a resource or an id. Every call with a name of the same module
// gives a Module over the same objects, with the changes that were made to it. The caller closes
// each Module. ErrNotFound lists the names of the modules. A module that cannot be read harms no
// other module.
func (p *Package) Module(name string) (*Module, error) {
	text, err := cText("the name", name)
	if err != nil {
		return nil, err
	}
	pointer, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer p.end()
	var out *C.tenon_module
	var failure *C.tenon_error
	if status := C.tenon_package_module(pointer, text, &out, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return newModule(out), nil
}

// Records lists all records of the package in their order. The records that PyTorch keeps below
// ".data/" are among them.
func (p *Package) Records() ([]string, error) {
	return p.names(func(q query[*C.tenon_package, *C.tenon_name_list]) C.tenon_status {
		return C.tenon_package_records(q.pointer, q.out, q.failure)
	})
}

func (p *Package) names(
	call func(query[*C.tenon_package, *C.tenon_name_list]) C.tenon_status,
) ([]string, error) {
	pointer, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer p.end()
	var list *C.tenon_name_list
	var failure *C.tenon_error
	given := query[*C.tenon_package, *C.tenon_name_list]{pointer, &list, &failure}
	if err := check(call(given), &failure); err != nil {
		return nil, err
	}
	return takeNames(list), nil
}

// Read copies the bytes of a record: of a pickle, a Python source, a file, or a storage such as
// ".data/0.storage".
func (p *Package) Read(record string) ([]byte, error) {
	text, err := cText("the record's name", record)
	if err != nil {
		return nil, err
	}
	pointer, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer p.end()
	var list *C.tenon_file_list
	var failure *C.tenon_error
	if status := C.tenon_package_read(pointer, text, &list, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	defer C.tenon_file_list_release(list)
	var file C.tenon_file
	if status := C.tenon_file_list_get(list, 0, &file, &failure); status != C.TENON_OK {
		return nil, takeError(status, failure)
	}
	return slices.Clone(unsafe.Slice((*byte)(file.data), int(file.nbytes))), nil
}

// PackageEntry is one resource of a package that is written: a module, or a file.
type PackageEntry struct {
	// Name is the name of the record, such as "models/net.pkl".
	Name string
	// Module is the module of the entry. Nil means a file with the bytes of Data.
	Module *Module
	// Data has the bytes of a file. It is empty for a module.
	Data []byte
}

// PackageOptions say how a package is written. Nil means that all fields are zero.
type PackageOptions struct {
	// Base is a package. Everything in Base that no entry replaces is written again: its modules as
	// they are now, and its other records byte for byte. A module of Base that no record of the new
	// package needs is left out, and so is its storage. Nil means that there is no base.
	Base *Package

	// Externs names Python modules that the package does not contain and its pickles need, such as
	// "numpy". The names of Base, and the name that modules need, are written anyway.
	Externs []string

	// ArchiveName is the name of the folder inside the archive. An empty ArchiveName means the name
	// of the file without its extension.
	ArchiveName string

	// Unchecked writes code as it is, without Module.Check.
	Unchecked bool

	// KeepDevice writes tensors on a CUDA device as tensors of that device. Otherwise they are
	// written as tensors of the CPU.
	KeepDevice bool

	// Durability is how sure the export is that the file is on the disk when it returns.
	Durability Durability

	// Stream is the stream in which tensors on a CUDA device were written. 0 means the default
	// stream.
	Stream uintptr
}

// ExportPackage writes a package that torch.package.PackageImporter reads. The package has its
// classes, its constants and its storages once, however many of its modules use them. The file is
// written whole or not at all: an old file of that name stays until the new one is complete. The
// path may be the file of PackageOptions.Base. The error of bad code has the details "file",
// "line", "column" and "excerpt".
func ExportPackage(
	path string,
	entries []PackageEntry,
	options *PackageOptions,
) (ExportReport, error) {
	text, err := cText("the path", path)
	if err != nil {
		return ExportReport{}, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var modules []*Module // These modules are in use until the call has ended.
	defer func() {
		for _, module := range modules {
			module.end()
		}
	}()
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name
	}
	starts, err := pinnedStrings(&pinner, names)
	if err != nil {
		return ExportReport{}, err
	}
	list := make([]C.tenon_package_entry, len(entries))
	for i, entry := range entries {
		list[i].name = starts[i]
		list[i].data = unsafe.Pointer(pinSlice(&pinner, entry.Data))
		list[i].nbytes = C.size_t(len(entry.Data))
		if entry.Module == nil {
			continue
		}
		module, err := entry.Module.begin()
		if err != nil {
			return ExportReport{}, err
		}
		modules = append(modules, entry.Module)
		if module == nil { // For the C library, NULL would mean a file.
			return ExportReport{}, invalid(
				fmt.Sprintf("the module of the entry %q is a zero Module", entry.Name),
			)
		}
		list[i].module = module
	}
	given := C.tenon_package_options{struct_size: C.sizeof_tenon_package_options}
	stream := C.uintptr_t(0)
	if o := options; o != nil {
		base, err := o.Base.begin()
		if err != nil {
			return ExportReport{}, err
		}
		defer o.Base.end()
		if o.Base != nil && base == nil { // For the C library, NULL would mean no base.
			return ExportReport{}, invalid("the base of the package is a zero Package")
		}
		externs, err := pinnedStrings(&pinner, o.Externs)
		if err != nil {
			return ExportReport{}, err
		}
		name, err := cTextOrNull("the archive's name", o.ArchiveName)
		if err != nil {
			return ExportReport{}, err
		}
		if name != nil {
			pinner.Pin(name)
		}
		given.base = base
		given.externs, given.n_externs = pinSlice(&pinner, externs), C.size_t(len(externs))
		given.archive_name = name
		given.durability = C.int32_t(o.Durability)
		if o.Unchecked {
			given.flags |= C.TENON_EXPORT_UNCHECKED
		}
		if o.KeepDevice {
			given.flags |= C.TENON_EXPORT_KEEP_DEVICE
		}
		stream = C.uintptr_t(o.Stream)
	}
	report := C.tenon_export_report{struct_size: C.sizeof_tenon_export_report}
	var failure *C.tenon_error
	status := C.tenon_go_export_package(
		pinSlice(&pinner, list),
		C.size_t(len(list)),
		text,
		stream,
		&given,
		&report,
		&failure,
	)
	if status != C.TENON_OK {
		return ExportReport{}, takeError(status, failure)
	}
	return exportReport(&report), nil
}
