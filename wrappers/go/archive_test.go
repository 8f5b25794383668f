// Tests of imports and exports of module archives.

package tenon_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"libtenon/tenon"
)

// archive is the archive that scale exports.
func archive(t testing.TB) []byte {
	t.Helper()
	var buffer bytes.Buffer
	must(tenon.ExportModuleTo(scale(t), &buffer, nil))
	return buffer.Bytes()
}

// isScale fails the test unless the module equals that of scale.
func isScale(t testing.TB, module *tenon.Module) {
	t.Helper()
	// A class that an export wrote declares parameters and buffers first.
	members := strings.Split(membersOf(t, module), "; ")
	slices.Sort(members)
	if !slices.Equal(
		members,
		[]string{
			"attribute training bool",
			"buffer offset Tensor",
			"method forward",
			"parameter weight Tensor",
		},
	) {
		t.Errorf("%q", members)
	}
	if values := elements(t, module, "weight"); !slices.Equal(values, []float32{1, 2, 3}) {
		t.Error(values)
	}
}

func TestExportAndImport(t *testing.T) {
	nothingLeft(t)
	path := filepath.Join(t.TempDir(), "scale.pt")
	report := must(tenon.ExportModule(scale(t), path, &tenon.ExportOptions{
		ExtraFiles:  []tenon.File{{Name: "a.txt", Data: []byte("alpha")}, {Name: "empty"}},
		ArchiveName: "other", Durability: tenon.DurabilityFile,
	}))
	data := must(os.ReadFile(path))
	if report.NBytes != uint64(len(data)) || report.Records == 0 || report.Version == 0 ||
		report.OldestPyTorch == "" ||
		report.SkippedFiles != 0 {
		t.Errorf("%+v", report)
	}
	if !bytes.Contains(data, []byte("other/data.pkl")) {
		t.Error("the archive has another name")
	}
	module := must(tenon.ImportModule(path, nil))
	isScale(t, module)
	files := must(module.ExtraFiles())
	if len(files) != 2 || files[0].Name != "a.txt" || string(files[0].Data) != "alpha" ||
		files[1].Name != "empty" ||
		len(files[1].Data) != 0 {
		t.Errorf("%+v", files)
	}
	found := must(module.ImportReport())
	if found.Version != report.Version || uint64(found.Records) != report.Records ||
		found.MappedStorages != 2 ||
		found.FilledStorages != 0 {
		t.Errorf("%+v", found)
	}
	if warnings := must(module.Warnings()); len(warnings) != 0 {
		t.Error(warnings)
	}
	weight := must(module.Find("weight"))
	defer weight.Close()
	module.Close()
	tensor := must(weight.Value.Tensor()) // stays valid after the module
	defer tensor.Close()
	if _, err := tenon.Slice[float32](tensor); !errors.Is(err, tenon.ErrPermission) {
		t.Error("a view of the file can be written: ", err)
	}

	file := must(os.Open(path))
	defer file.Close()
	again := must(
		tenon.ImportModuleFD(
			int(file.Fd()),
			&tenon.ImportOptions{Tensors: tenon.ImportMapPrivate, Check: tenon.CheckAll},
		),
	)
	defer again.Close()
	isScale(t, again)
	out := must(os.Create(filepath.Join(t.TempDir(), "fd.pt")))
	defer out.Close()
	if report := must(tenon.ExportModuleFD(again, int(out.Fd()), nil)); must(
		out.Stat(),
	).Size() != int64(
		report.NBytes,
	) {
		t.Errorf("%+v", report)
	}
}

func TestImportIntoAnArena(t *testing.T) {
	nothingLeft(t)
	arena := newArena(t, &tenon.ArenaOptions{Capacity: mib})
	module := must(
		tenon.ImportModuleBytes(
			archive(t),
			&tenon.ImportOptions{Tensors: tenon.ImportFill, Check: tenon.CheckFill, Arena: arena},
		),
	)
	defer module.Close()
	isScale(t, module)
	report, stats := must(module.ImportReport()), must(arena.Stats())
	if report.FilledStorages != 2 || stats.BlocksLive != 2 {
		t.Errorf("%+v, %+v", report, stats)
	}
}

func TestImportOfBytes(t *testing.T) {
	nothingLeft(t)
	module := must(tenon.ImportModuleBytes(archive(t), nil))
	runtime.GC()
	isScale(t, module)
	weight := must(module.Find("weight"))
	module.Close()
	runtime.GC()
	tensor := must(weight.Value.Tensor())
	weight.Close()
	if values := must(tenon.ReadOnlySlice[float32](tensor)); !slices.Equal(
		values,
		[]float32{1, 2, 3},
	) {
		t.Error(values)
	}
	tensor.Close()
	for range rounds(20) {
		// Nobody closes this module.
		must(
			tenon.ImportModuleBytes(
				archive(t),
				&tenon.ImportOptions{Tensors: tenon.ImportMapPrivate},
			),
		)
	}
}

func TestArchivesOfPyTorch(t *testing.T) {
	nothingLeft(t)
	golden := must(filepath.Glob("../../tests/peers/golden/module/*/net.pt"))
	if len(golden) == 0 {
		t.Skip("the archives of tests/peers/golden are not here")
	}
	for _, path := range golden {
		if filepath.Base(filepath.Dir(path)) == "1.2.0" {
			continue // an import does not read versions this old
		}
		module := must(
			tenon.ImportModule(
				path,
				&tenon.ImportOptions{
					Check:     tenon.CheckAll,
					DeviceMap: map[string]string{"cuda:0": "cpu", "mps": "cpu"},
				},
			),
		)
		if name := must(module.ClassName()); name != "__torch__.Net" {
			t.Error(path, name)
		}
		must(module.Warnings())
		var buffer bytes.Buffer
		must(tenon.ExportModuleTo(module, &buffer, nil))
		again := must(tenon.ImportModuleBytes(buffer.Bytes(), nil))
		if before, after := membersOf(t, module), membersOf(t, again); before != after {
			t.Errorf("%s: %s, and then %s", path, before, after)
		}
		again.Close()
		module.Close()
	}
}

func TestBytecode(t *testing.T) {
	nothingLeft(t)
	module := scale(t)
	check(
		t,
		module.Define(
			"def both(self, x: Tensor) -> Tensor:\n"+
				"  return torch.add(self.forward(x), torch.relu(x))\n",
		),
	)
	all, some := must(module.OpNames()), must(module.OpNames("forward"))
	if !slices.Contains(all, "aten::relu") || slices.Contains(some, "aten::relu") ||
		len(some) == 0 ||
		!slices.IsSorted(all) {
		t.Error(all, some)
	}
	if both := must(module.OpNames("forward", "both")); !slices.Equal(both, all) {
		t.Error(both)
	}
	functions := func(m *tenon.Module, options tenon.ExportOptions) int {
		return must(tenon.ExportModuleTo(m, io.Discard, &options)).BytecodeFunctions
	}
	var flat, buffer bytes.Buffer
	report := must(tenon.ExportModuleTo(module, &flat, &tenon.ExportOptions{Flatbuffer: true}))
	if report.NBytes != uint64(flat.Len()) || report.BytecodeFunctions != 2 ||
		string(flat.Bytes()[4:8]) != "PTMF" {
		t.Error(report)
	}
	back := must(tenon.ImportModuleBytes(flat.Bytes(), nil))
	defer back.Close()
	if found := must(tenon.ExportModuleTo(back, io.Discard, nil)); found.BytecodeFunctions != 2 {
		t.Error(found)
	}
	// Bad code is refused at the first use.
	broken := bytes.Replace(flat.Bytes(), []byte("def forward"), []byte("dxf forward"), 1)
	bad := must(tenon.ImportModuleBytes(broken, nil))
	defer bad.Close()
	if _, err := bad.ClassName(); !errors.Is(err, tenon.ErrCorrupt) {
		t.Error(err)
	}
	_, err := tenon.ImportModuleBytes(broken, &tenon.ImportOptions{Check: tenon.CheckAll})
	if !errors.Is(err, tenon.ErrCorrupt) {
		t.Error(err)
	}
	must(
		tenon.ExportModuleTo(
			module,
			&buffer,
			&tenon.ExportOptions{Bytecode: tenon.BytecodeCompile, Methods: []string{"forward"}},
		),
	)
	again := must(tenon.ImportModuleBytes(buffer.Bytes(), nil))
	defer again.Close()
	for _, c := range []struct {
		module  *tenon.Module
		options tenon.ExportOptions
		want    int
	}{
		{module, tenon.ExportOptions{}, 0},
		{module, tenon.ExportOptions{Bytecode: tenon.BytecodeCompile}, 2},
		{again, tenon.ExportOptions{}, 1},
		{again, tenon.ExportOptions{Bytecode: tenon.BytecodeDrop}, 0},
		{
			again,
			tenon.ExportOptions{
				Bytecode: tenon.BytecodeCompile, Methods: []string{"forward", "both"},
			},
			2,
		},
	} {
		if got := functions(c.module, c.options); got != c.want {
			t.Errorf("%+v: %d functions", c.options, got)
		}
	}
	refused := func(bytecode tenon.Bytecode, methods ...string) error {
		return second(
			tenon.ExportModuleTo(
				module,
				io.Discard,
				&tenon.ExportOptions{Bytecode: bytecode, Methods: methods},
			),
		)
	}
	for _, err := range []error{
		refused(tenon.BytecodeCompile, "no"), second(module.OpNames("no")),
	} {
		if !errors.Is(err, tenon.ErrNotFound) {
			t.Error(err)
		}
	}
	for _, err := range []error{
		refused(tenon.BytecodeKeep, "forward"), refused(tenon.BytecodeCompile, ""),
		refused(tenon.BytecodeCompile, "a\x00b"), refused(tenon.Bytecode(3)),
		second(module.OpNames("")), second(module.OpNames("a\x00b")),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestForksAtOnce(t *testing.T) {
	nothingLeft(t)
	module := must(tenon.NewModule("Forks"))
	defer module.Close()
	check(
		t,
		module.Define(
			"def forward(self, x: Tensor) -> Tensor:\n  return torch.wait(fork(torch.neg, x))\n",
		),
	)
	options := tenon.ExportOptions{Bytecode: tenon.BytecodeCompile}
	if err := second(tenon.ExportModuleTo(module, io.Discard, &options)); !errors.Is(
		err,
		tenon.ErrUnsupported,
	) {
		t.Error(err)
	}
	options.Emit = tenon.EmitForksAtOnce
	must(tenon.ExportModuleTo(module, io.Discard, &options))
}

func TestEmission(t *testing.T) {
	nothingLeft(t)
	module := must(tenon.NewModule("Dims"))
	defer module.Close()
	check(
		t,
		module.Define(
			"def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, torch.dim(x))\n",
		),
	)
	written := func(version int, emit tenon.Emission) []byte {
		var buffer bytes.Buffer
		options := tenon.ExportOptions{
			Bytecode:        tenon.BytecodeCompile,
			BytecodeVersion: version,
			Emit:            emit,
		}
		must(tenon.ExportModuleTo(module, &buffer, &options))
		return buffer.Bytes()
	}
	plain := written(0, 0)
	if !bytes.Equal(plain, written(8, tenon.EmitDefaultsBeforeOut|tenon.EmitNoInterfaceMethods)) {
		t.Error("other bytecode of a module without out arguments and interfaces")
	}
	inputs, operators := written(0, tenon.EmitDefaultInputs), written(0, tenon.EmitPlainOperators)
	if bytes.Equal(inputs, plain) || bytes.Equal(operators, plain) ||
		bytes.Equal(inputs, operators) {
		t.Error("a switch changes nothing")
	}
	for _, version := range []int{3, 9, 1 << 40} {
		options := tenon.ExportOptions{Bytecode: tenon.BytecodeCompile, BytecodeVersion: version}
		if err := second(tenon.ExportModuleTo(module, io.Discard, &options)); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Error(version, err)
		}
	}
}

func TestDebugTables(t *testing.T) {
	nothingLeft(t)
	const path = "../../tests/peers/golden/lite/mlp-2.15.ptl"
	if _, err := os.Stat(path); err != nil {
		t.Skip("the archives of tests/peers/golden are not here")
	}
	for _, c := range []struct {
		read, write bool
		want        int
	}{{true, true, 6}, {true, false, 0}, {false, true, 0}} {
		module := must(tenon.ImportModule(path, &tenon.ImportOptions{DebugTables: c.read}))
		report := must(
			tenon.ExportModuleTo(module, io.Discard, &tenon.ExportOptions{DebugTables: c.write}),
		)
		if report.DebugTables != c.want || report.BytecodeFunctions != 1 {
			t.Errorf("%+v: %+v", c, report)
		}
		module.Close()
	}
}

func TestHostileArchives(t *testing.T) {
	nothingLeft(t)
	data := archive(t)
	for _, n := range []int{0, 1, 100, len(data) / 2, len(data) - 1} {
		if _, err := tenon.ImportModuleBytes(data[:n], nil); err == nil {
			t.Error("imported though cut: ", n)
		}
	}
	if _, err := tenon.ImportModuleBytes(bytes.Repeat([]byte("no archive"), 100), nil); !errors.Is(
		err,
		tenon.ErrCorrupt,
	) &&
		!errors.Is(err, tenon.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := tenon.ImportModuleBytes(data, &tenon.ImportOptions{MaxRecords: 1}); !errors.Is(
		err,
		tenon.ErrResourceExhausted,
	) {
		t.Error(err)
	}
	if _, err := tenon.ImportModule("/no/such/file", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, err := range []error{
		second(tenon.ImportModule("a\x00b", nil)), second(tenon.ImportModuleFD(-1, nil)),
		second(tenon.ExportModule(scale(t), "a\x00b", nil)),
		second(tenon.ExportModuleFD(scale(t), -1, nil)),
		second(tenon.ExportModuleTo(scale(t), nil, nil)),
		second(tenon.ExportModuleTo(
			scale(t), io.Discard, &tenon.ExportOptions{FileVersion: 1 << 40},
		)),
		second(tenon.ExportModuleTo(
			scale(t), io.Discard, &tenon.ExportOptions{ArchiveName: "a\x00b"},
		)),
		second(tenon.ExportModuleTo(
			scale(t), io.Discard,
			&tenon.ExportOptions{ExtraFiles: []tenon.File{{Name: "a\x00b"}}},
		)),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(data []byte) (int, error) { return w(data) }

var errMine = errors.New("the disk is on fire")

func TestErrorsOfWriters(t *testing.T) {
	nothingLeft(t)
	module, calls := scale(t), 0
	failing := writerFunc(func(data []byte) (int, error) {
		if calls++; calls == 1 {
			return len(data), nil
		}
		return 0, errMine
	})
	large := newModule(t, "Large") // more than one piece for the writer
	check(t, large.AddBuffer("large", tensorValue(t, make([]float32, 1<<20)...)))
	if _, err := tenon.ExportModuleTo(large, failing, nil); !errors.Is(err, errMine) || calls != 2 {
		t.Error(err, calls)
	}
	short := writerFunc(func(data []byte) (int, error) { return len(data) - 1, nil })
	if _, err := tenon.ExportModuleTo(module, short, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	reader, writer := io.Pipe()
	reader.Close()
	if _, err := tenon.ExportModuleTo(module, writer, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	var changed error
	changing := writerFunc(func(data []byte) (int, error) {
		runtime.GC()
		changed = module.Remove("weight")
		return len(data), nil
	})
	must(tenon.ExportModuleTo(module, changing, nil))
	if !errors.Is(changed, tenon.ErrPermission) {
		t.Error(changed)
	}
	isScale(t, module)
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestPanicsInExports(t *testing.T) {
	nothingLeft(t)
	module := scale(t)
	writer := writerFunc(func([]byte) (int, error) { panic("in the writer") })
	if value := panicOf(
		func() { tenon.ExportModuleTo(module, writer, nil) },
	); value != "in the writer" {
		t.Error(value)
	}
	hook := func(*tenon.Module) ([]tenon.File, error) { panic("in the hook") }
	path := filepath.Join(t.TempDir(), "never.pt")
	if value := panicOf(
		func() { tenon.ExportModule(module, path, &tenon.ExportOptions{Hook: hook}) },
	); value != "in the hook" {
		t.Error(value)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	check(t, module.SetExtraFile("still", []byte("changes"))) // no export runs any more
	isScale(t, module)
}

func TestHooks(t *testing.T) {
	nothingLeft(t)
	module := scale(t)
	check(t, module.SetExtraFile("own.txt", []byte("own")))
	var asked *tenon.Module
	var buffer bytes.Buffer
	report := must(
		tenon.ExportModuleTo(
			module,
			&buffer,
			&tenon.ExportOptions{Hook: func(m *tenon.Module) ([]tenon.File, error) {
				asked = m
				defer runtime.GC()
				return []tenon.File{
					{Name: "more.txt", Data: bytes.Clone([]byte("more"))},
					{Name: "own.txt", Data: []byte("another")},
					{Name: "empty"},
				}, nil
			}},
		),
	)
	if asked != module || report.SkippedFiles != 1 {
		t.Errorf("%+v", report)
	}
	again := must(tenon.ImportModuleBytes(buffer.Bytes(), nil))
	defer again.Close()
	found := map[string]string{}
	for _, file := range must(again.ExtraFiles()) {
		found[file.Name] = string(file.Data)
	}
	if len(found) != 3 || found["more.txt"] != "more" || found["own.txt"] != "own" ||
		found["empty"] != "" {
		t.Error(found)
	}
	path := filepath.Join(t.TempDir(), "never.pt")
	_, err := tenon.ExportModule(
		module,
		path,
		&tenon.ExportOptions{
			Hook: func(*tenon.Module) ([]tenon.File, error) { return nil, errMine },
		},
	)
	if !errors.Is(err, errMine) {
		t.Error(err)
	}
	none := func(*tenon.Module) ([]tenon.File, error) { return nil, nil }
	must(tenon.ExportModule(module, path, &tenon.ExportOptions{Hook: none}))
	unnamed := func(*tenon.Module) ([]tenon.File, error) {
		return []tenon.File{{Name: "a\x00b"}}, nil
	}
	if _, err := tenon.ExportModule(module, path, &tenon.ExportOptions{Hook: unnamed}); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Error(err)
	}
}

func TestUncheckedExports(t *testing.T) {
	module := scale(t)
	check(t, module.Define("def f(self) -> int:\n  return no_such_function(1)\n"))
	var failure *tenon.Error
	if _, err := tenon.ExportModuleTo(module, io.Discard, nil); !errors.As(err, &failure) ||
		failure.Details["excerpt"] == "" {
		t.Error(err)
	}
	must(tenon.ExportModuleTo(module, io.Discard, &tenon.ExportOptions{Unchecked: true}))
}
