// Tests of modules that are built, read and changed.

package tenon_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"libtenon/tenon"
)

func newModule(t testing.TB, className string) *tenon.Module {
	t.Helper()
	module, err := tenon.NewModule(className)
	return kept(t, module, err)
}

// scale makes a module with one parameter, one buffer and a method.
func scale(t testing.TB) *tenon.Module {
	t.Helper()
	module := newModule(t, "Scale")
	check(t, module.AddParameter("weight", tensorValue(t, 1, 2, 3)))
	check(t, module.AddBuffer("offset", tensorValue(t, 10)))
	check(
		t,
		module.Define(
			"def forward(self, x: Tensor) -> Tensor:\n  return x * self.weight + self.offset\n",
		),
	)
	return module
}

// holds checks which members there are.
func holds(t testing.TB, members tenon.Members, err error) string {
	t.Helper()
	check(t, err)
	defer members.Close()
	var lines []string
	for _, member := range members {
		lines = append(
			lines,
			strings.TrimSpace(member.Kind.String()+" "+member.Name+" "+member.Type),
		)
	}
	return strings.Join(lines, "; ")
}

func membersOf(t testing.TB, module *tenon.Module) string {
	t.Helper()
	members, err := module.Members()
	return holds(t, members, err)
}

func tensorsOf(t testing.TB, module *tenon.Module) string {
	t.Helper()
	members, err := module.Tensors()
	return holds(t, members, err)
}

// elements returns the elements of the float32 tensor at a path.
func elements(t testing.TB, module *tenon.Module, path string) []float32 {
	t.Helper()
	member := must(module.Find(path))
	defer member.Close()
	tensor := must(member.Value.Tensor())
	defer tensor.Close()
	view := must(tenon.NewView[float32](tensor))
	defer view.Close()
	values := make([]float32, view.Len())
	view.CopyTo(values)
	return values
}

func TestBuildAModule(t *testing.T) {
	nothingLeft(t)
	child := scale(t)
	root := newModule(t, "__torch__.my.Root")
	check(
		t,
		root.DefineTypes(
			"__torch__.my",
			"class Pair(NamedTuple):\n  first : int\n  second : str\n",
		),
	)
	check(t, root.AddSubmodule("left", child, ""))
	check(t, root.AddSubmodule("right", child, ""))
	check(t, root.AddParameter("bias", nil))
	check(t, root.AddAttribute("count", "", integer(t, 3)))
	list := must(tenon.NewList("", integer(t, 1)))
	defer list.Close()
	check(t, root.AddAttribute("sizes", "List[int]", list))
	pair := must(tenon.NewTuple("__torch__.my.Pair", integer(t, 1), str(t, "one")))
	defer pair.Close()
	check(t, root.AddAttribute("pair", "__torch__.my.Pair", pair))
	check(t, root.AddConstant("steps", "int", integer(t, 7)))
	check(
		t,
		root.Define(
			"def forward(self, x: Tensor) -> Tensor:\n"+
				"  return self.right.forward(self.left.forward(x))\n",
		),
	)
	check(t, root.Check())
	if name := must(root.ClassName()); name != "__torch__.my.Root" {
		t.Error(name)
	}
	wanted := "attribute training bool; submodule left __torch__.Scale; " +
		"submodule right __torch__.Scale; parameter bias NoneType; attribute count int; " +
		"attribute sizes List[int]; attribute pair __torch__.my.Pair; constant steps int; " +
		"method forward"
	found := strings.Split(membersOf(t, root), "; ")
	for _, line := range strings.Split(wanted, "; ") {
		if !slices.Contains(found, line) {
			t.Errorf("no %q among %q", line, found)
		}
	}
	if n := len(strings.Split(wanted, "; ")); len(found) != n || found[n-1] != "method forward" {
		t.Errorf("%q", found)
	}
	if found := tensorsOf(t, root); found != "parameter left.weight Tensor; "+
		"buffer left.offset Tensor; parameter right.weight Tensor; buffer right.offset Tensor" {
		t.Error(found)
	}
	left, right := must(root.Find("left")), must(root.Find("right"))
	defer left.Close()
	defer right.Close()
	if left.Value != nil || !left.Module.Same(right.Module) || !left.Module.Same(child) ||
		left.Module.Same(root) {
		t.Error("not the same module")
	}
	steps := must(root.Find("steps"))
	defer steps.Close()
	if steps.Source == "" || must(steps.Value.Int()) != 7 {
		t.Errorf("%+v", steps)
	}
	method := must(root.Find("left.forward"))
	defer method.Close()
	if method.Kind != tenon.MemberMethod || !strings.Contains(method.Source, "self.weight") {
		t.Errorf("%+v", method)
	}
	var code []string
	for _, file := range must(root.CodeFiles()) {
		code = append(code, file.Name)
	}
	if !slices.Contains(code, "__torch__/my.py") {
		t.Error(code)
	}
	constants := must(root.Constants())
	defer constants.Close()
	if constants.Kind() != tenon.ValueTuple {
		t.Error(constants.Kind())
	}
}

func TestErrorsInModules(t *testing.T) {
	module := scale(t)
	before := membersOf(t, module)
	var failure *tenon.Error
	if err := module.Define("def f(self) -> int:\n  return (1\n"); !errors.As(err, &failure) ||
		failure.Code != tenon.ErrInvalidArgument ||
		failure.Details["line"] == "" ||
		failure.Details["excerpt"] == "" {
		t.Errorf("%v, %+v", err, failure)
	}
	if err := module.AddAttribute("x", "List[str]", integer(t, 1)); !errors.As(err, &failure) ||
		failure.Details["wanted"] == "" {
		t.Errorf("%v, %+v", err, failure)
	}
	for _, err := range []error{
		second(tenon.NewModule("a\x00b")), module.AddParameter("weight", nil),
		module.AddParameter("a.b", nil), module.AddSubmodule("child", nil, ""),
		module.AddSubmodule("self", module, ""), module.Set("weight", integer(t, 1)),
		second(module.Find("a\x00b")), module.AddBuffer("x\x00y", nil),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	for _, err := range []error{
		second(module.Find("no.such")), module.Set("none", nil), module.Remove("none"),
		module.RemoveExtraFile("none"), module.SetSubmodule("none", module),
		module.SetHooks(true, "none"),
	} {
		if !errors.Is(err, tenon.ErrNotFound) {
			t.Error(err)
		}
	}
	if after := membersOf(t, module); after != before {
		t.Error(after)
	}
	check(t, module.Define("def f(self) -> int:\n  return no_such_function(1)\n"))
	if err := module.Check(); !errors.As(err, &failure) || failure.Details["line"] == "" {
		t.Error(err)
	}
}

func TestAnOperandOfAWrongTypeIsShown(t *testing.T) {
	module := newModule(t, "Net")
	check(t, module.Define("def bad(self, x: Tensor) -> Tensor:\n  return torch.add(\"a\", x)\n"))
	err := module.Check()
	var failure *tenon.Error
	if !errors.As(err, &failure) || !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Fatal(err)
	}
	message := "tenon: code/__torch__.py:7:22: torch.add takes a Tensor as self, and gets a str"
	if !strings.HasPrefix(err.Error(), message) {
		t.Error(err)
	}
	for key, wanted := range map[string]string{
		"file": "code/__torch__.py", "line": "7", "column": "22",
		"excerpt": "    return torch.add(\"a\", x)\n                     ^^^",
	} {
		if failure.Details[key] != wanted {
			t.Errorf("%s is %q and not %q", key, failure.Details[key], wanted)
		}
	}
}

func TestChangeAModule(t *testing.T) {
	nothingLeft(t)
	child, root := scale(t), newModule(t, "Root")
	check(t, root.AddSubmodule("child", child, ""))
	check(t, root.Set("child.weight", tensorValue(t, 5, 6)))
	if values := elements(t, child, "weight"); !slices.Equal(values, []float32{5, 6}) {
		t.Error(values)
	}
	check(t, child.Define("def before(self, x: Tuple[Tensor]) -> Tuple[Tensor]:\n  return x\n"))
	check(t, child.SetHooks(true, "before"))
	check(t, child.SetHooks(true))
	check(t, child.SetTracedInputs("forward", tensorValue(t, 1)))
	check(t, child.Remove("before"))
	check(t, root.SetExtraFile("notes.txt", []byte("one")))
	check(t, root.SetExtraFile("notes.txt", []byte("two\x00")))
	check(t, root.SetExtraFile("empty", nil))
	files := must(root.ExtraFiles())
	if len(files) != 2 {
		t.Error(files)
	}
	for _, file := range files {
		if wanted := map[string]string{"notes.txt": "two\x00", "empty": ""}; string(
			file.Data,
		) != wanted[file.Name] {
			t.Errorf("%s: %q", file.Name, file.Data)
		}
	}
	check(t, root.RemoveExtraFile("empty"))
	other := newModule(t, "Other")
	check(t, root.SetSubmodule("child", other))
	found := must(root.Find("child"))
	defer found.Close()
	if found.Type != "__torch__.Other" || !found.Module.Same(other) {
		t.Errorf("%+v", found)
	}
	check(t, root.Remove("child"))
	if found := membersOf(t, root); found != "attribute training bool" {
		t.Error(found)
	}
}

func TestAModuleHasAState(t *testing.T) {
	nothingLeft(t)
	module, kept := newModule(t, "Net"), newModule(t, "Kept")
	check(t, kept.AddAttribute("w", "", tensorValue(t, 1, 2)))
	check(t, kept.Define("def __getstate__(self) -> Tuple[Tensor, int]:\n  return (self.w, 1)\n"+
		"def __setstate__(self, s: Tuple[Tensor, int]) -> None:\n"+
		"  self.w, k = s\n  self.training = False\n"))
	check(t, module.AddSubmodule("kept", kept, ""))
	if err := module.SetState("kept", integer(t, 3)); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	state := must(tenon.NewTuple("", tensorValue(t, 5), integer(t, 3)))
	defer state.Close()
	check(t, module.SetState("kept", state))
	if paths, err := module.States(); err != nil || len(paths) != 1 || paths[0] != "kept.state" {
		t.Error(paths, err)
	}
	if found := tensorsOf(t, module); found != "state kept.state[0] Tensor" {
		t.Error(found)
	}
	if first := elements(t, module, "kept.state[0]")[0]; first != 5 {
		t.Error(first)
	}
	check(t, module.Check())
}

func TestLoad(t *testing.T) {
	nothingLeft(t)
	module := scale(t)
	weight, offset := tensorValue(t, 4, 5, 6), tensorValue(t, 20)
	missing, unexpected, err := module.Load(
		map[string]*tenon.Value{"weight": weight, "offset": offset},
		0,
	)
	if err != nil || len(missing)+len(unexpected) != 0 {
		t.Error(missing, unexpected, err)
	}
	if values := elements(t, module, "weight"); !slices.Equal(values, []float32{4, 5, 6}) {
		t.Error(values)
	}
	given := map[string]*tenon.Value{"weight": offset, "other": weight}
	var failure *tenon.Error
	if _, _, err := module.Load(given, tenon.AllowMissing); !errors.As(err, &failure) ||
		failure.Details["unexpected"] != "1" {
		t.Error(err)
	}
	missing, unexpected, err = module.Load(
		given,
		tenon.CheckOnly|tenon.AllowMissing|tenon.AllowUnexpected,
	)
	if err != nil || !slices.Equal(missing, []string{"offset"}) ||
		!slices.Equal(unexpected, []string{"other"}) {
		t.Error(missing, unexpected, err)
	}
	if values := elements(t, module, "weight"); !slices.Equal(values, []float32{4, 5, 6}) {
		t.Error("changed: ", values)
	}
	if _, _, err = module.LoadSlices(
		[]string{"weight"}, []*tenon.Value{offset}, tenon.AllowMissing,
	); err != nil {
		t.Error(err)
	}
	if values := elements(t, module, "weight"); !slices.Equal(values, []float32{20}) {
		t.Error(values)
	}
	for _, pair := range []struct {
		paths  []string
		values []*tenon.Value
	}{
		{[]string{"weight"}, nil},
		{[]string{"weight", "weight"}, []*tenon.Value{weight, weight}},
		{[]string{"we\x00"}, []*tenon.Value{weight}},
	} {
		if _, _, err := module.LoadSlices(pair.paths, pair.values, tenon.AllowMissing); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Error(pair.paths, err)
		}
	}
	closed := must(tenon.NewNone())
	closed.Close()
	if _, _, err := module.LoadSlices(
		[]string{"weight"}, []*tenon.Value{closed}, tenon.AllowMissing,
	); !errors.Is(err, tenon.ErrClosed) {
		t.Error(err)
	}
}

func TestClosedAndNilModules(t *testing.T) {
	module := must(tenon.NewModule("M"))
	module.Close()
	for _, err := range []error{
		second(module.ClassName()), second(module.Members()), second(module.ExtraFiles()),
		second(module.Constants()), module.Check(), module.Define(""),
		second(module.ImportReport()), second(module.Warnings()),
		second(tenon.ExportModule(module, "/dev/null", nil)),
		newModule(t, "N").AddSubmodule("m", module, ""),
	} {
		if !errors.Is(err, tenon.ErrClosed) {
			t.Error(err)
		}
	}
	var none *tenon.Module
	for _, err := range []error{
		second(none.ClassName()), second(none.Members()), none.Check(),
		second(tenon.ExportModule(none, "/dev/null", nil)),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	if none.Same(none) || module.Same(module) {
		t.Error("nothing is the same as nothing")
	}
}

// A collection frees a module that was not closed, while calls on others go on.
func TestForgottenModules(t *testing.T) {
	nothingLeft(t)
	for range rounds(50) {
		module := must(tenon.NewModule("Forgotten"))
		tensor := must(tenon.FromSlice([]float32{1}, []int64{1}, nil))
		check(t, module.AddParameter("weight", must(tenon.NewTensorValue(tensor))))
		members := must(module.Members())
		runtime.GC()
		if last := members[len(members)-1]; last.Value.Kind() != tenon.ValueTensor ||
			last.Name != "weight" {
			t.Fatal(members)
		}
	}
}

func TestGoroutinesReadAndChangeOneTree(t *testing.T) {
	module := newModule(t, "Net")
	part := scale(t)
	check(t, module.AddSubmodule("part", part, ""))
	object, err := part.Object()
	object = kept(t, object, err)
	number, err := tenon.NewInt(1)
	number = kept(t, number, err)
	done := make(chan error)
	go func() {
		for i := range 300 {
			name := fmt.Sprintf("attribute_%d", i)
			if err := part.AddAttribute(name, "int", number); err != nil {
				done <- err
				return
			}
			if err := part.Remove(name); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			check(t, err)
			return
		default:
		}
		attributes, err := object.Attributes()
		check(t, err)
		if len(attributes) < 3 || len(attributes) > 4 {
			t.Fatalf("%d attributes", len(attributes))
		}
		for _, attribute := range attributes {
			attribute.Value.Close()
		}
		found, err := module.Find("part.weight")
		check(t, err)
		found.Close()
	}
}
