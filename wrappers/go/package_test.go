// Tests of packages.

package tenon_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"libtenon/tenon"
)

// sharing makes two modules of different classes that have one tensor as their weight.
func sharing(t testing.TB) (left, right *tenon.Module) {
	t.Helper()
	weight := tensorValue(t, 1, 2, 3)
	left, right = newModule(t, "Left"), newModule(t, "Right")
	for _, module := range []*tenon.Module{left, right} {
		check(t, module.AddParameter("weight", weight))
	}
	check(t, left.Define("def forward(self, x: Tensor) -> Tensor:\n  return x * self.weight\n"))
	check(t, right.Define("def forward(self, x: Tensor) -> Tensor:\n  return x + self.weight\n"))
	return left, right
}

// pairPackage writes a package with the modules of sharing and a text, and returns its path.
func pairPackage(t testing.TB) string {
	t.Helper()
	left, right := sharing(t)
	path := filepath.Join(t.TempDir(), "pair.pt")
	must(tenon.ExportPackage(path, []tenon.PackageEntry{
		{Name: "models/left.pkl", Module: left},
		{Name: "models/right.pkl", Module: right},
		{Name: "notes/a.txt", Data: []byte("alpha")},
	}, nil))
	return path
}

// weightIn returns the elements of the weight of a module in a package.
func weightIn(t testing.TB, opened *tenon.Package, name string) []float32 {
	t.Helper()
	module := must(opened.Module(name))
	defer module.Close()
	return elements(t, module, "weight")
}

func TestPackageThereAndBack(t *testing.T) {
	nothingLeft(t)
	left, right := sharing(t)
	path := filepath.Join(t.TempDir(), "pair.pt")
	report := must(tenon.ExportPackage(path, []tenon.PackageEntry{
		{Name: "models/left.pkl", Module: left},
		{Name: "models/right.pkl", Module: right},
		{Name: "notes/a.txt", Data: bytes.Clone([]byte("alpha"))},
		{Name: "notes/empty"},
	}, &tenon.PackageOptions{
		Externs: []string{
			"numpy",
			"my.code",
		}, ArchiveName: "other", Durability: tenon.DurabilityFile,
	}))
	data := must(os.ReadFile(path))
	if report.NBytes != uint64(len(data)) || report.Version == 0 || report.OldestPyTorch == "" {
		t.Errorf("%+v", report)
	}
	if !bytes.Contains(data, []byte("other/notes/a.txt")) {
		t.Error("the archive has another name")
	}

	opened := must(tenon.OpenPackage(path, &tenon.ImportOptions{Check: tenon.CheckAll}))
	defer opened.Close()
	if names := must(opened.Modules()); !slices.Equal(
		names,
		[]string{"models/left.pkl", "models/right.pkl"},
	) {
		t.Errorf("%q", names)
	}
	records := must(opened.Records())
	if uint64(len(records)) != report.Records {
		t.Errorf("%q, %+v", records, report)
	}
	for _, wanted := range []string{
		"models/left.pkl", "models/right.pkl", "notes/a.txt", "notes/empty",
	} {
		if !slices.Contains(records, wanted) {
			t.Errorf("%s is not in %q", wanted, records)
		}
	}
	isData := func(record string) bool { return !strings.HasSuffix(record, ".storage") }
	if storages := slices.DeleteFunc(slices.Clone(records), isData); len(storages) != 1 {
		t.Errorf("the shared tensor has the storages %q", storages)
	} else if len(must(opened.Read(storages[0]))) != 3*4 {
		t.Error("the storage has another length")
	}
	for record, wanted := range map[string]string{
		"notes/a.txt": "alpha", "notes/empty": "",
		".data/extern_modules": "torch.jit._script\nnumpy\nmy.code\n",
	} {
		if read := must(opened.Read(record)); string(read) != wanted {
			t.Errorf("%s: %q", record, read)
		}
	}

	byResource := must(opened.Module("models/left.pkl"))
	again := must(opened.Module("models/left.pkl"))
	defer again.Close()
	if !byResource.Same(again) {
		t.Error("two calls gave two modules")
	}
	byResource.Close()
	opened.Close()
	if values := elements(t, again, "weight"); !slices.Equal(values, []float32{1, 2, 3}) {
		t.Error(values) // the module stays valid after the package
	}
}

func TestPackageWithABase(t *testing.T) {
	nothingLeft(t)
	path := pairPackage(t)
	base := must(tenon.OpenPackage(path, nil))
	defer base.Close()
	left := must(base.Module("models/left.pkl"))
	defer left.Close()
	check(t, left.Set("weight", tensorValue(t, 7, 8)))
	if values := weightIn(t, base, "models/left.pkl"); !slices.Equal(values, []float32{7, 8}) {
		t.Error(values)
	}
	// The new package replaces the file of its base.
	must(
		tenon.ExportPackage(path, []tenon.PackageEntry{{Name: "notes/b.txt", Data: []byte("beta")}},
			&tenon.PackageOptions{Base: base, Externs: []string{"numpy"}}),
	)

	changed := must(tenon.OpenPackage(path, &tenon.ImportOptions{Tensors: tenon.ImportFill}))
	defer changed.Close()
	if values := weightIn(t, changed, "models/left.pkl"); !slices.Equal(values, []float32{7, 8}) {
		t.Error(values)
	}
	if values := weightIn(t, changed, "models/right.pkl"); !slices.Equal(
		values,
		[]float32{1, 2, 3},
	) {
		t.Error(values)
	}
	for record, wanted := range map[string]string{"notes/a.txt": "alpha", "notes/b.txt": "beta"} {
		if read := must(changed.Read(record)); string(read) != wanted {
			t.Errorf("%s: %q", record, read)
		}
	}
	// There are no entries.
	must(tenon.ExportPackage(path, nil, &tenon.PackageOptions{Base: changed}))
}

func TestPackageErrors(t *testing.T) {
	nothingLeft(t)
	path := pairPackage(t)
	opened := must(tenon.OpenPackage(path, nil))
	defer opened.Close()
	if err := second(opened.Module("models/none.pkl")); !errors.Is(err, tenon.ErrNotFound) ||
		!strings.Contains(err.Error(), "models/left.pkl") {
		t.Error(err)
	}
	module, missing := scale(t), filepath.Join(t.TempDir(), "never.pt")
	for _, err := range []error{
		second(opened.Read("none")), second(tenon.OpenPackage(missing, nil)),
	} {
		if !errors.Is(err, tenon.ErrNotFound) {
			t.Error(err)
		}
	}
	write := func(entry tenon.PackageEntry, options *tenon.PackageOptions) error {
		return second(tenon.ExportPackage(missing, []tenon.PackageEntry{entry}, options))
	}
	for _, err := range []error{
		second(opened.Module("a\x00b")), second(opened.Read("a\x00b")),
		second(tenon.OpenPackage("a\x00b", nil)), second(tenon.ExportPackage("a\x00b", nil, nil)),
		write(tenon.PackageEntry{Name: "a\x00b"}, nil), write(tenon.PackageEntry{}, nil),
		write(tenon.PackageEntry{Name: "a/b", Module: new(tenon.Module)}, nil),
		write(tenon.PackageEntry{Name: "a/b", Module: module, Data: []byte("both")}, nil),
		write(tenon.PackageEntry{Name: "a/b"}, &tenon.PackageOptions{Base: new(tenon.Package)}),
		write(tenon.PackageEntry{Name: "a/b"}, &tenon.PackageOptions{Externs: []string{"a b"}}),
		write(tenon.PackageEntry{Name: "a/b"}, &tenon.PackageOptions{Externs: []string{"a\x00b"}}),
		write(tenon.PackageEntry{Name: "a/b"}, &tenon.PackageOptions{ArchiveName: "a\x00b"}),
		write(tenon.PackageEntry{Name: "a/b"}, &tenon.PackageOptions{Durability: 9}),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	must(tenon.ExportModule(module, missing, nil))
	if err := second(tenon.OpenPackage(missing, nil)); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error(err)
	}
	check(t, module.Define("def f(self) -> int:\n  return no_such_function(1)\n"))
	var failure *tenon.Error
	entry := tenon.PackageEntry{Name: "a/b.pkl", Module: module}
	if err := write(entry, nil); !errors.As(err, &failure) || failure.Details["excerpt"] == "" {
		t.Error(err)
	}
	check(t, write(entry, &tenon.PackageOptions{Unchecked: true, KeepDevice: true}))
}

func TestClosedAndNilPackages(t *testing.T) {
	nothingLeft(t)
	path := pairPackage(t)
	opened := must(tenon.OpenPackage(path, nil))
	check(t, opened.Close())
	check(t, opened.Close())
	closed := must(tenon.NewModule("M"))
	closed.Close()
	for _, err := range []error{
		second(opened.Modules()), second(opened.Module("0")), second(opened.Records()),
		second(opened.Read("a")),
		second(tenon.ExportPackage(path, nil, &tenon.PackageOptions{Base: opened})),
		second(tenon.ExportPackage(path, []tenon.PackageEntry{{Name: "a/b", Module: closed}}, nil)),
	} {
		if !errors.Is(err, tenon.ErrClosed) {
			t.Error(err)
		}
	}
	if err := second(opened.Modules()); !opened.Closed() ||
		!strings.Contains(err.Error(), "Package") {
		t.Error(err)
	}
	var none *tenon.Package
	zero := new(tenon.Package)
	for _, empty := range []*tenon.Package{none, zero} {
		for _, err := range []error{
			second(empty.Modules()), second(empty.Module("0")), second(empty.Records()),
			second(empty.Read("a")),
		} {
			if !errors.Is(err, tenon.ErrInvalidArgument) {
				t.Error(err)
			}
		}
	}
	check(t, zero.Close())
}

// If a package is closed during a call, it is given back after the call. A collection frees a
// package that was not closed.
func TestForgottenPackages(t *testing.T) {
	nothingLeft(t)
	path := pairPackage(t)
	for range rounds(20) {
		weightIn(t, must(tenon.OpenPackage(path, nil)), "models/right.pkl")
		runtime.GC()
		opened := must(tenon.OpenPackage(path, nil))
		var users sync.WaitGroup
		for range 4 {
			users.Add(1)
			go func() {
				defer users.Done()
				for {
					names, err := opened.Modules()
					if errors.Is(err, tenon.ErrClosed) {
						return
					}
					if err != nil || len(names) != 2 {
						t.Error(names, err)
						return
					}
				}
			}()
		}
		opened.Close()
		users.Wait()
	}
}
