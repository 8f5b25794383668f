// Archives: writing modules to files that torch.jit.load runs, and reading such files.

package tenon

/*
#include "tenon_go.h"

extern void tenonGoRelease(uintptr_t context);
extern int64_t tenonGoWrite(uintptr_t context, void *data, size_t nbytes);
extern int32_t tenonGoExtraFiles(uintptr_t context, void *files, void *n);

// As in wrap.go, every context is a number of cgo.Handle's.
static inline void tenon_go_release_bytes(void *context) { tenonGoRelease((uintptr_t)context); }

static inline int64_t tenon_go_write(void *context, const void *data, size_t nbytes) {
	return tenonGoWrite((uintptr_t)context, (void *)data, nbytes);
}

static inline tenon_status tenon_go_extra_files(void *context, const tenon_module *module,
		const tenon_file **files, size_t *n) {
	(void)module;
	return tenonGoExtraFiles((uintptr_t)context, files, n);
}

// To a path, else to an fd, else to the context's writer.
static inline tenon_status tenon_go_export(const tenon_module *module, const char *path, int fd,
		uintptr_t context, int asks, uintptr_t stream, tenon_export_options *options,
		tenon_export_report *report, tenon_error **err) {
	options->stream = (void *)stream;
	if (asks) {
		options->hook = tenon_go_extra_files;
		options->hook_context = (void *)context;
	}
	if (path != NULL) return tenon_export_module(module, path, options, report, err);
	if (fd >= 0) return tenon_export_module_fd(module, fd, options, report, err);
	return tenon_export_module_to(module, tenon_go_write, (void *)context, options, report, err);
}

static inline tenon_status tenon_go_import(const void *data, size_t nbytes, uintptr_t context,
		const tenon_import_options *options, tenon_module **out, tenon_error **err) {
	return tenon_import_module_memory(data, nbytes, tenon_go_release_bytes, (void *)context,
			options, out, err);
}
*/
import "C"

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/cgo"
	"strings"
	"syscall"
	"unsafe"
)

// Durability is how certain it is that the file is on the disk when an export returns.
type Durability int32

// The degrees of durability.
const (
	// The system writes the file when it likes.
	DurabilityNone Durability = C.TENON_DURABILITY_NONE
	// The export calls fsync on the file.
	DurabilityFile Durability = C.TENON_DURABILITY_FILE
	// The export calls fsync on the file and on the directory that names it.
	DurabilityFileAndDirectory Durability = C.TENON_DURABILITY_FILE_AND_DIRECTORY
)

// Bytecode says what an export does about bytecode, which the lite interpreter of PyTorch runs.
type Bytecode int32

// The choices.
const (
	// The bytecode of the archive that the module came from is written while it fits the module.
	BytecodeKeep Bytecode = C.TENON_BYTECODE_KEEP
	// No bytecode is written.
	BytecodeDrop Bytecode = C.TENON_BYTECODE_DROP
	// Bytecode is made from the code, whether the archive had any or not.
	BytecodeCompile Bytecode = C.TENON_BYTECODE_COMPILE
)

// Emission says what compiled bytecode looks like. PyTorch's exporter has the first four switches
// too, and tenon/archive.h explains each (TENON_EMIT_DEFAULT_INPUTS). The values can be combined
// with |.
type Emission uint32

// The values of Emission.
const (
	// Each call of an operator has all its arguments, also those that have their default.
	EmitDefaultInputs Emission = C.TENON_EMIT_DEFAULT_INPUTS
	// A call of an operator with an out argument has all arguments before it.
	EmitDefaultsBeforeOut Emission = C.TENON_EMIT_DEFAULTS_BEFORE_OUT
	// Operators are called even where the bytecode has instructions for them.
	EmitPlainOperators Emission = C.TENON_EMIT_PLAIN_OPERATORS
	// The methods that are called through an interface get no functions.
	EmitNoInterfaceMethods Emission = C.TENON_EMIT_NO_INTERFACE_METHODS
	// A forked function runs where fork stands. Without this, code that forks is refused.
	EmitForksAtOnce Emission = C.TENON_EMIT_FORKS_AT_ONCE
)

// ExportOptions say how to write a module. Nil means that all fields are zero.
type ExportOptions struct {
	ExtraFiles []File // for this export only; they replace the module's own of the same names
	// The folder inside the archive. "" means the name of the file without its extension, or
	// "archive" if there is no file name.
	ArchiveName string
	// 0 means the version by the library's rule. A number from 1 to 10 is taken as it is, and
	// refused if some code means something else in that version.
	FileVersion int
	Durability  Durability
	Unchecked   bool     // code is written as it is, without Check
	KeepDevice  bool     // tensors on a CUDA device are written as tensors of it, not of the CPU
	Stream      uintptr  // in which tensors on a CUDA device were written; 0: the default stream
	Bytecode    Bytecode // what the export does about bytecode

	// Methods names the methods that get bytecode, for BytecodeCompile. The bytecode also has the
	// methods that these call. An empty list means all methods.
	Methods []string

	// BytecodeVersion is from 4 to 8, for BytecodeCompile. Below 8 it is for runtimes of an old
	// PyTorch. 0 means 8.
	BytecodeVersion int

	// Emit says what the bytecode looks like, for BytecodeCompile.
	Emit Emission

	// DebugTables writes debug tables, from which PyTorch's errors name modules and source lines.
	// With BytecodeCompile the tables are made for the new bytecode. Otherwise the tables of the
	// archive that the module came from are written, unless the code was changed. If the import
	// read the archive's tables (ImportOptions.DebugTables) and the code was not changed, the lines
	// are those of the files from which the module was made. Such tables contain absolute paths of
	// the person who saved the module. Otherwise new tables name lines of the archive's own code.
	DebugTables bool

	// Flatbuffer writes PyTorch's flatbuffer form in place of a zip archive. It always has
	// bytecode, and the whole buffer is in memory until it is written. TENON_EXPORT_FLATBUFFER in
	// tenon/archive.h says what a flatbuffer cannot hold.
	Flatbuffer bool

	// Hook gives more extra files. The export calls it once, before anything is written. If it
	// returns an error, the export ends and returns this error. If it panics, the export panics
	// with the same value. Files whose names the export has already are left out. Hook cannot
	// change the module, and must not call runtime.Goexit.
	Hook func(*Module) ([]File, error)
}

// ExportReport says what an export wrote.
type ExportReport struct {
	NBytes       uint64 // the size of the archive
	Records      uint64 // how many records it has
	Version      int    // the archive's version, which says what its operators mean
	SkippedFiles int    // files of the hook that were left out because their names were in use
	// The oldest PyTorch that can run the archive, as far as operators and element types tell, such
	// as "1.13". "" if that is not known.
	OldestPyTorch string

	BytecodeFunctions int // the number of functions in the archive's bytecode, 0 without bytecode
	DebugTables       int // the number of debug tables that were written
}

// exporting is the state of one export. Its callbacks use it, and note there how they ended.
type exporting struct {
	module   *Module
	writer   io.Writer
	hook     func(*Module) ([]File, error)
	pinner   runtime.Pinner
	err      error // the error of the writer or the hook
	panicked any
}

// ended says whether a callback ended the export. After that no callback is called again.
func (e *exporting) ended() bool { return e.err != nil || e.panicked != nil }

// guard calls a callback of the user and catches its panic, which must not unwind C.
func (e *exporting) guard(call func() error) {
	defer func() {
		if value := recover(); value != nil {
			e.panicked = value
		}
	}()
	e.err = call()
}

// ExportModule writes a module to a file. When it returns, either the whole new file has the name,
// or the name still stands for what it stood for before. The error for wrong code has the details
// "file", "line", "column" and "excerpt".
func ExportModule(m *Module, path string, options *ExportOptions) (ExportReport, error) {
	text, err := cText("the path", path)
	if err != nil {
		return ExportReport{}, err
	}
	return export(m, text, -1, nil, options)
}

// ExportModuleFD writes a module as ExportModule does, but to an open file, pipe or socket, from
// its current position on. The fd stays open.
func ExportModuleFD(m *Module, fd int, options *ExportOptions) (ExportReport, error) {
	if fd < 0 || fd > math.MaxInt32 {
		return ExportReport{}, invalid(fmt.Sprintf("%d is no fd", fd))
	}
	return export(m, nil, C.int(fd), nil, options)
}

// ExportModuleTo writes a module as ExportModule does, but to a writer. The writer gets the bytes
// in order, directly from the memory of the tensors, so it must not modify them. If the writer
// returns an error, the export ends and returns this error. If it panics, ExportModuleTo panics
// with the same value. After a failure the writer may have got some of the bytes. The writer cannot
// change the module, and must not call runtime.Goexit.
func ExportModuleTo(m *Module, w io.Writer, options *ExportOptions) (ExportReport, error) {
	if w == nil {
		return ExportReport{}, invalid("the writer is nil")
	}
	return export(m, nil, -1, w, options)
}

func export(
	m *Module,
	path *C.char,
	fd C.int,
	w io.Writer,
	options *ExportOptions,
) (ExportReport, error) {
	pointer, err := m.begin()
	if err != nil {
		return ExportReport{}, err
	}
	defer m.end()
	state := &exporting{module: m, writer: w}
	defer state.pinner.Unpin()
	given := C.tenon_export_options{struct_size: C.sizeof_tenon_export_options}
	asks, stream := C.int(0), C.uintptr_t(0)
	if o := options; o != nil {
		files, err := pinnedFiles(&state.pinner, o.ExtraFiles)
		if err != nil {
			return ExportReport{}, err
		}
		name, err := cTextOrNull("the archive's name", o.ArchiveName)
		if err != nil {
			return ExportReport{}, err
		}
		if name != nil {
			state.pinner.Pin(name)
		}
		if int(int32(o.FileVersion)) != o.FileVersion {
			return ExportReport{}, invalid(fmt.Sprintf("FileVersion %d is none", o.FileVersion))
		}
		given.extra_files, given.n_extra_files = unsafe.SliceData(files), C.size_t(len(files))
		given.archive_name = name
		given.file_version = C.int32_t(o.FileVersion)
		given.durability = C.int32_t(o.Durability)
		if o.Unchecked {
			given.flags |= C.TENON_EXPORT_UNCHECKED
		}
		if o.KeepDevice {
			given.flags |= C.TENON_EXPORT_KEEP_DEVICE
		}
		if o.DebugTables {
			given.flags |= C.TENON_EXPORT_DEBUG_TABLES
		}
		if o.Flatbuffer {
			given.flags |= C.TENON_EXPORT_FLATBUFFER
		}
		if int(int32(o.BytecodeVersion)) != o.BytecodeVersion {
			return ExportReport{}, invalid(
				fmt.Sprintf("BytecodeVersion %d is none", o.BytecodeVersion),
			)
		}
		given.bytecode = C.int32_t(o.Bytecode)
		given.bytecode_version = C.int32_t(o.BytecodeVersion)
		given.emit_flags = C.uint32_t(o.Emit)
		if given.methods, err = joinedMethods(o.Methods); err != nil {
			return ExportReport{}, err
		}
		if given.methods != nil {
			state.pinner.Pin(given.methods)
		}
		stream = C.uintptr_t(o.Stream)
		if o.Hook != nil {
			asks, state.hook = 1, o.Hook
		}
	}
	handle := cgo.NewHandle(state)
	defer handle.Delete()
	report := C.tenon_export_report{struct_size: C.sizeof_tenon_export_report}
	var failure *C.tenon_error
	status := C.tenon_go_export(
		pointer,
		path,
		fd,
		C.uintptr_t(handle),
		asks,
		stream,
		&given,
		&report,
		&failure,
	)
	if state.ended() {
		C.tenon_error_release(failure)
		if state.panicked != nil {
			panic(state.panicked)
		}
		return ExportReport{}, state.err
	}
	if status != C.TENON_OK {
		return ExportReport{}, takeError(status, failure)
	}
	return exportReport(&report), nil
}

func exportReport(report *C.tenon_export_report) ExportReport {
	return ExportReport{
		NBytes:        uint64(report.nbytes),
		Records:       uint64(report.records),
		Version:       int(report.version),
		SkippedFiles:  int(report.skipped_files),
		OldestPyTorch: C.GoString(&report.oldest_pytorch[0]),

		BytecodeFunctions: int(report.bytecode_functions),
		DebugTables:       int(report.debug_tables),
	}
}

// joinedMethods joins methods with commas, as the C library expects them. It gives NULL for an
// empty list.
func joinedMethods(methods []string) (*C.char, error) {
	if len(methods) == 0 {
		return nil, nil
	}
	return cText("the methods", strings.Join(methods, ","))
}

// OpNames lists the operators that the bytecode of these methods calls, such as "aten::add.Tensor".
// It lists each operator once, in alphabetical order. A mobile build of PyTorch needs these
// operators. An empty list of methods means all methods. Nothing is written. ErrUnsupported means
// that the lite interpreter cannot run some of the code.
func (m *Module) OpNames(methods ...string) ([]string, error) {
	text, err := joinedMethods(methods)
	if err != nil {
		return nil, err
	}
	var list *C.tenon_name_list
	err = run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_export_opnames(pointer, text, &list, failure)
	})
	if err != nil {
		return nil, err
	}
	return takeNames(list), nil
}

//export tenonGoWrite
func tenonGoWrite(context C.uintptr_t, data unsafe.Pointer, nbytes C.size_t) C.int64_t {
	collect()
	state := cgo.Handle(context).Value().(*exporting)
	if !state.ended() {
		state.guard(func() error {
			n, err := state.writer.Write(unsafe.Slice((*byte)(data), int(nbytes)))
			if err == nil && n != int(nbytes) {
				err = io.ErrShortWrite
			}
			return err
		})
	}
	if state.ended() {
		return -C.int64_t(syscall.EIO)
	}
	return C.int64_t(nbytes)
}

//export tenonGoExtraFiles
func tenonGoExtraFiles(context C.uintptr_t, files, n unsafe.Pointer) C.int32_t {
	collect()
	state := cgo.Handle(context).Value().(*exporting)
	var given []C.tenon_file
	state.guard(func() error {
		more, err := state.hook(state.module)
		if err == nil {
			given, err = pinnedFiles(&state.pinner, more)
		}
		return err
	})
	if state.ended() {
		return C.TENON_IO
	}
	*(*unsafe.Pointer)(files) = unsafe.Pointer(unsafe.SliceData(given))
	*(*C.size_t)(n) = C.size_t(len(given))
	return C.TENON_OK
}

// ImportTensors says where an import puts the tensors.
type ImportTensors int32

// The places for tensors.
const (
	// Read-only views of the file. A tensor that cannot be a view is copied.
	ImportMap ImportTensors = C.TENON_IMPORT_MAP
	// Writable views. Writes stay in this process.
	ImportMapPrivate ImportTensors = C.TENON_IMPORT_MAP_PRIVATE
	// Copies in storages that can be lent, in an arena if one is given.
	ImportFill   ImportTensors = C.TENON_IMPORT_FILL
	ImportDevice ImportTensors = C.TENON_IMPORT_DEVICE // copies in memory of a CUDA device
)

// ImportCheck says what an import checks.
type ImportCheck int32

// The checks.
const (
	// The zip directory, headers, bounds, overlaps and references, and the checksums of pickles and
	// code.
	CheckStructure ImportCheck = C.TENON_IMPORT_CHECK_STRUCTURE
	// Also the checksum of each tensor that is copied.
	CheckFill ImportCheck = C.TENON_IMPORT_CHECK_FILL
	CheckAll  ImportCheck = C.TENON_IMPORT_CHECK_ALL // also the checksum of every record
)

// ImportOptions say how to read an archive. Nil means that all fields are zero.
type ImportOptions struct {
	Tensors           ImportTensors
	Check             ImportCheck
	Arena             *Arena // for the copies of ImportFill; nil: the default home
	Mode              Mode   // of the copies of ImportFill; with Arena 0, or the arena's mode
	Device            int    // for ImportDevice: the device's ordinal in this process's numbering
	MaxInflatedNBytes uint64 // the most bytes of all compressed records together; 0 means 1 GiB
	MaxRecords        uint64 // the most records; 0 means 1,000,000
	MaxDepth          uint64 // how deep values may be nested in values, up to 1,000; 0 means 512

	// DeviceMap says where to put tensors that were saved on certain devices, such as {"cuda:1":
	// "cuda:0", "mps": "cpu"}. A key is a device as the archive names it, or a kind of device
	// ("cuda"), which stands for every number that has no key of its own. A value is "cpu", or a
	// CUDA device to which the tensors are copied. Tensors of other devices go where Tensors says:
	// to the device with ImportDevice, otherwise to the CPU.
	DeviceMap map[string]string

	// DebugTables reads the debug tables too, so that an export can write them
	// (ExportOptions.DebugTables).
	DebugTables bool
}

// ImportModule reads an archive of PyTorch 1.4 or later, or PyTorch's flatbuffer form. Nothing in
// the file is executed. The file must not be changed while views of it are in use, but it may be
// replaced by a rename. The error for a malformed archive has the details "record" and "offset".
//
// The code and the bytecode of a flatbuffer are checked when the module is first used. If they are
// bad, that call and each later one fails. With CheckAll they are checked here.
func ImportModule(path string, options *ImportOptions) (*Module, error) {
	text, err := cText("the path", path)
	if err != nil {
		return nil, err
	}
	return importFrom(
		options,
		func(
			given *C.tenon_import_options, out **C.tenon_module, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_import_module(text, given, out, failure)
		},
	)
}

// ImportModuleFD reads an archive as ImportModule does, but from an open file, whatever its
// position. The fd may be closed afterwards.
func ImportModuleFD(fd int, options *ImportOptions) (*Module, error) {
	if fd < 0 || fd > math.MaxInt32 {
		return nil, invalid(fmt.Sprintf("%d is no fd", fd))
	}
	return importFrom(
		options,
		func(
			given *C.tenon_import_options, out **C.tenon_module, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_import_module_fd(C.int(fd), given, out, failure)
		},
	)
}

// ImportModuleBytes reads an archive as ImportModule does, but from memory. The bytes are kept, and
// not moved, until nothing needs them any more, which is at the latest when the last tensor over
// them is gone. Until then they must not change. With ImportMapPrivate the tensors are copies.
func ImportModuleBytes(data []byte, options *ImportOptions) (*Module, error) {
	kept := new(wrapped)
	start := pinSlice(&kept.pinner, data)
	handle := cgo.NewHandle(kept)
	m, err := importFrom(
		options,
		func(
			given *C.tenon_import_options, out **C.tenon_module, failure **C.tenon_error,
		) C.tenon_status {
			return C.tenon_go_import(
				unsafe.Pointer(start),
				C.size_t(len(data)),
				C.uintptr_t(handle),
				given,
				out,
				failure,
			)
		},
	)
	if err != nil {
		handle.Delete()
		kept.pinner.Unpin()
	}
	return m, err
}

func importFrom(
	options *ImportOptions,
	call func(*C.tenon_import_options, **C.tenon_module, **C.tenon_error) C.tenon_status,
) (*Module, error) {
	var out *C.tenon_module
	err := withImportOptions(
		options,
		func(given *C.tenon_import_options, failure **C.tenon_error) C.tenon_status {
			return call(given, &out, failure)
		},
	)
	if err != nil {
		return nil, err
	}
	return newModule(out), nil
}

// withImportOptions makes one call, with C's form of the options.
func withImportOptions(
	options *ImportOptions,
	call func(*C.tenon_import_options, **C.tenon_error) C.tenon_status,
) error {
	collect()
	given := C.tenon_import_options{struct_size: C.sizeof_tenon_import_options}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if o := options; o != nil {
		arena, err := o.Arena.begin()
		if err != nil {
			return err
		}
		defer o.Arena.end()
		given.tensors = C.int32_t(o.Tensors)
		given.check = C.int32_t(o.Check)
		given.arena = arena
		given.mode = C.tenon_mode(o.Mode)
		if int(int32(o.Device)) != o.Device {
			return invalid(fmt.Sprintf("Device %d is none", o.Device))
		}
		given.device = C.int32_t(o.Device)
		given.max_inflated_nbytes = C.uint64_t(o.MaxInflatedNBytes)
		given.max_records = C.uint64_t(o.MaxRecords)
		given.max_depth = C.uint64_t(o.MaxDepth)
		var pairs []string
		for saved, here := range o.DeviceMap {
			pairs = append(pairs, saved+"="+here)
		}
		devices := strings.Join(pairs, ",")
		if given.device_map, err = cTextOrNull("the device map", devices); err != nil {
			return err
		}
		if given.device_map != nil {
			pinner.Pin(given.device_map)
		}
		if o.DebugTables {
			given.flags |= C.TENON_IMPORT_DEBUG_TABLES
		}
	}
	var failure *C.tenon_error
	return check(call(&given, &failure), &failure)
}

// ImportReport says what an import found.
type ImportReport struct {
	Version        int    // the archive's, which says what its operators mean; 0: not imported
	Records        int    // how many records the archive has
	MappedStorages uint64 // storages that are views of the file
	MappedNBytes   uint64
	FilledStorages uint64 // storages that were copied
	FilledNBytes   uint64
	Misaligned     uint64 // storages that had to be copied because of their alignment in the file
	Compressed     uint64 // storages that had to be copied because they are compressed
	ForeignEndian  uint64 // storages that had to be copied because of their byte order
	WithoutCRC     uint64 // records that have no checksum, because their writer computed none
}

// ImportReport says what the import of this module found. For a module that is not the root of an
// import all figures are 0.
func (m *Module) ImportReport() (ImportReport, error) {
	out := C.tenon_import_report{struct_size: C.sizeof_tenon_import_report}
	err := run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_module_import_report(pointer, &out, failure)
	})
	return ImportReport{
		Version:        int(out.version),
		Records:        int(out.records),
		MappedStorages: uint64(out.mapped_storages),
		MappedNBytes:   uint64(out.mapped_nbytes),
		FilledStorages: uint64(out.filled_storages),
		FilledNBytes:   uint64(out.filled_nbytes),
		Misaligned:     uint64(out.misaligned),
		Compressed:     uint64(out.compressed),
		ForeignEndian:  uint64(out.foreign_endian),
		WithoutCRC:     uint64(out.without_crc),
	}, err
}

// Warnings lists facts about a module that deserve attention, one line each. It lists calls that
// only one of PyTorch 1.13 and the newest PyTorch accepts. It also lists what an import found, such
// as operators that had another meaning in the archive's version than today.
func (m *Module) Warnings() ([]string, error) {
	var list *C.tenon_name_list
	err := run(m, func(pointer *C.tenon_module, failure **C.tenon_error) C.tenon_status {
		return C.tenon_module_warnings(pointer, &list, failure)
	})
	if err != nil {
		return nil, err
	}
	return takeNames(list), nil
}
