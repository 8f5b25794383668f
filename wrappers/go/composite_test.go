// Tests of composites.

package tenon_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["composites"] = func() error { return withParent(checkComposites) }
}

func tensorOf[T tenon.Element](t testing.TB, mode tenon.Mode, values []T,
	sizes ...int64) *tenon.Tensor {
	t.Helper()
	tensor := must(tenon.FromSlice(values, sizes, &tenon.StorageOptions{Mode: mode}))
	t.Cleanup(func() { tensor.Close() })
	return tensor
}

// csr makes [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]].
func csr(t testing.TB, mode tenon.Mode) *tenon.Composite {
	t.Helper()
	composite := must(tenon.NewComposite(csrSpec(t, mode)))
	t.Cleanup(func() { composite.Close() })
	return composite
}

func csrSpec(t testing.TB, mode tenon.Mode) tenon.CompositeSpec {
	t.Helper()
	return tenon.CompositeSpec{
		Layout:       tenon.LayoutSparseCSR,
		Sizes:        []int64{3, 4},
		Flags:        tenon.RequiresGrad,
		Values:       tensorOf(t, mode, []float32{1, 2, 3}, 3),
		Indices:      tensorOf(t, mode, []int64{0, 2, 2, 3}, 4),
		PlainIndices: tensorOf(t, mode, []int64{0, 3, 1}, 3),
	}
}

// parts takes the parts out of a spec, and returns the IDs of their storages, with 0 for a part
// that is missing.
func parts(spec *tenon.CompositeSpec) (ids []uint64) {
	for _, part := range []**tenon.Tensor{
		&spec.Values, &spec.Indices, &spec.PlainIndices, &spec.Offsets, &spec.Lengths,
		&spec.ComponentSizes, &spec.ComponentStrides, &spec.Scales, &spec.ZeroPoints,
	} {
		id := uint64(0)
		if *part != nil {
			storage := must((*part).Storage())
			id = storage.ID()
			storage.Close()
		}
		ids = append(ids, id)
		*part = nil
	}
	return ids
}

func TestCompositeLayouts(t *testing.T) {
	nothingLeft(t)
	longs := func(values []int64, sizes ...int64) *tenon.Tensor {
		return tensorOf(t, tenon.Frozen, values, sizes...)
	}
	values := func(sizes ...int64) *tenon.Tensor {
		n := int64(1)
		for _, size := range sizes {
			n *= size
		}
		return tensorOf(t, tenon.Frozen, make([]float32, n), sizes...)
	}
	bytes := tensorOf(t, tenon.Frozen, make([]uint8, 6), 2, 3)
	for _, each := range []struct {
		spec  tenon.CompositeSpec
		dtype tenon.DType
		sizes []int64 // sizes that follow from the parts, if the spec has none
	}{
		{spec: csrSpec(t, tenon.Frozen), dtype: tenon.Float32},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutSparseCOO, Sizes: []int64{2, 3},
			Values: values(3), Indices: longs([]int64{0, 1, 1, 0, 2, 1}, 2, 3),
			Coalesced: tenon.CoalescedNo}, dtype: tenon.Float32},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutSparseCSC, Sizes: []int64{3, 4},
			Values: values(3), Indices: longs([]int64{0, 1, 2, 2, 3}, 5),
			PlainIndices: longs([]int64{0, 2, 0}, 3)}, dtype: tenon.Float32},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutSparseBSR, Sizes: []int64{2, 4},
			Values: values(1, 2, 2), Indices: longs([]int64{0, 1}, 2),
			PlainIndices: longs([]int64{1}, 1)}, dtype: tenon.Float32},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutSparseBSC, Sizes: []int64{2, 4},
			Values: values(1, 2, 2), Indices: longs([]int64{0, 0, 1}, 3),
			PlainIndices: longs([]int64{0}, 1)}, dtype: tenon.Float32},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutJagged, RaggedDim: 1, Values: values(3, 2),
			Offsets: longs([]int64{0, 1, 3}, 3), Lengths: longs([]int64{1, 1}, 2)},
			dtype: tenon.Float32, sizes: []int64{2, -1, 2}},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutNested, Values: values(12),
			ComponentSizes:   longs([]int64{2, 3, 3, 2}, 2, 2),
			ComponentStrides: longs([]int64{3, 1, 2, 1}, 2, 2), Offsets: longs([]int64{0, 6}, 2)},
			dtype: tenon.Float32, sizes: []int64{2, -1, -1}},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutMeta, Sizes: []int64{1 << 20, 1 << 20},
			Strides: []int64{1, 1 << 20}, Offset: 3, DType: tenon.BFloat16,
			Flags: tenon.IsParameter}, dtype: tenon.BFloat16},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutQuantized, Values: bytes, Scale: 0.5,
			ZeroPoint: -3, Quantizer: tenon.QuantizerPerTensorAffine},
			dtype: tenon.Uint8, sizes: []int64{2, 3}},
		{spec: tenon.CompositeSpec{Layout: tenon.LayoutQuantized, Values: bytes, Axis: 1,
			Scales:     tensorOf(t, tenon.Frozen, []float64{0.5, 0.25, 2}, 3),
			ZeroPoints: longs(make([]int64, 3), 3), Quantizer: tenon.QuantizerPerChannelAffine},
			dtype: tenon.Uint8, sizes: []int64{2, 3}},
	} {
		wanted := each.spec
		wanted.DType = each.dtype
		if each.sizes != nil {
			wanted.Sizes = each.sizes
		}
		composite := must(tenon.NewComposite(each.spec))
		checked := must(composite.Check())
		composite.Close()
		again := must(tenon.NewComposite(must(checked.Spec()))) // a spec can be used again
		checked.Close()
		if again.Layout() != wanted.Layout || again.DType() != wanted.DType ||
			!slices.Equal(again.Sizes(), wanted.Sizes) {
			t.Error(again.Layout(), again.DType(), again.Sizes())
		}
		got := must(again.Spec())
		again.Close()
		defer got.Close() // the parts stay valid after the composites
		here, there := parts(&got), parts(&wanted)
		if !reflect.DeepEqual(got, wanted) || !slices.Equal(here, there) {
			t.Errorf("%+v with parts %v, not %+v with parts %v", got, here, wanted, there)
		}
	}
	meta := must(tenon.NewComposite(tenon.CompositeSpec{Layout: tenon.LayoutMeta,
		Sizes: []int64{2, 3}, DType: tenon.Float32}))
	defer meta.Close()
	same := must(meta.Retain())
	meta.Close()
	if strides := must(same.Spec()).Strides; !slices.Equal(strides, []int64{3, 1}) {
		t.Error(strides)
	}
	same.Close()
	if _, err := same.Spec(); !errors.Is(err, tenon.ErrClosed) || same.Sizes() != nil {
		t.Error(err)
	}
}

// checkComposites receives what TestComposites sends, and writes a column that does not exist.
func checkComposites(c *tenon.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	m := must(c.Recv(ctx))
	defer m.Close()
	received, frozen := must(m.FindComposite("features")), must(m.Composite(2))
	defer received.Close()
	defer frozen.Close()
	name, named := m.CompositeName(0)
	_, secondNamed := m.CompositeName(1)
	if m.CompositeCount() != 3 || m.Len() != 7 || name != "features" || !named || secondNamed {
		return fmt.Errorf("%d composites, %d tensors, %q", m.CompositeCount(), m.Len(), name)
	}
	for i, wanted := range [][2]int{{1, 3}, {4, 0}, {4, 3}, {7, 0}} {
		if first, n := m.CompositeParts(i); first != wanted[0] || n != wanted[1] {
			return fmt.Errorf("composite %d: %d parts from %d on", i, n, first)
		}
	}
	view := must(m.Views())[3]
	write := func(columns []int64) error { columns[2] = 1 << 20; return nil }
	checked := must(received.Check())
	defer checked.Close()
	if err := tenon.With(view, write); err != nil {
		return err
	}
	m.Close()
	spec := must(checked.Spec())
	defer spec.Close()
	if columns := must(tenon.ReadOnlySlice[int64](spec.PlainIndices)); columns[2] != 1 {
		return fmt.Errorf("the checked columns are %v", columns)
	}
	if values := must(tenon.ReadOnlySlice[float32](spec.Values)); values[2] != 3 {
		return fmt.Errorf("the values are %v", values)
	}
	_, err := received.Check()
	var e *tenon.Error
	if !errors.As(err, &e) || e.Code != tenon.ErrCorrupt || e.Details["part"] != "plain_indices" ||
		e.Details["index"] != "2" {
		return fmt.Errorf("a wrong column gives %#v", err)
	}
	must(frozen.Check()).Close()
	return nil
}

func TestComposites(t *testing.T) {
	nothingLeft(t)
	labels := tensorOf(t, tenon.Shared, []int64{7}, 1)
	meta := must(tenon.NewComposite(tenon.CompositeSpec{Layout: tenon.LayoutMeta,
		Sizes: []int64{1 << 40}, DType: tenon.Float32}))
	defer meta.Close()
	m := must(tenon.NewMessage(labels))
	defer m.Close()
	check(t, m.AddComposite("features", csr(t, tenon.Shared)))
	check(t, m.AddComposites(nil, []*tenon.Composite{meta, csr(t, tenon.Frozen)},
		&tenon.ShareOptions{}))
	command, c := start(t, "composites")
	check(t, c.Send(background(t), m))
	check(t, command.Wait())
}

func TestCompositesRefused(t *testing.T) {
	nothingLeft(t)
	good := csrSpec(t, tenon.Shared)
	closed := must(good.Values.Retain())
	closed.Close()
	for name, each := range map[string]struct {
		change func(spec *tenon.CompositeSpec)
		wanted error
		part   string
	}{
		"strided": {func(s *tenon.CompositeSpec) { s.Layout = tenon.LayoutStrided },
			tenon.ErrInvalidArgument, ""},
		"no values": {func(s *tenon.CompositeSpec) { s.Values = nil },
			tenon.ErrInvalidArgument, "values"},
		"scales": {func(s *tenon.CompositeSpec) { s.Scales = s.Values },
			tenon.ErrInvalidArgument, "scales"},
		"a ragged dimension": {func(s *tenon.CompositeSpec) { s.RaggedDim = 1 },
			tenon.ErrInvalidArgument, ""},
		"too few strides": {func(s *tenon.CompositeSpec) { s.Strides = []int64{1} },
			tenon.ErrInvalidArgument, ""},
		"too many sizes": {func(s *tenon.CompositeSpec) {
			s.Sizes = make([]int64, tenon.MaxNDim+1)
		}, tenon.ErrInvalidArgument, ""},
		"flags":  {func(s *tenon.CompositeSpec) { s.Flags = tenon.Conj }, tenon.ErrUnsupported, ""},
		"closed": {func(s *tenon.CompositeSpec) { s.Indices = closed }, tenon.ErrClosed, ""},
	} {
		spec := good
		each.change(&spec)
		_, err := tenon.NewComposite(spec)
		var e *tenon.Error
		if !errors.Is(err, each.wanted) ||
			each.part != "" && (!errors.As(err, &e) || e.Details["part"] != each.part) {
			t.Errorf("%s: %v", name, err)
		}
	}

	bad := func(wanted error, err error) {
		t.Helper()
		if !errors.Is(err, wanted) {
			t.Error(err)
		}
	}
	composite := must(tenon.NewComposite(good))
	defer composite.Close()
	good.Values = must(tenon.FromSlice([]float32{1, 2, 3}, []int64{3},
		&tenon.StorageOptions{Private: true}))
	private := must(tenon.NewComposite(good))
	good.Values.Close()
	defer private.Close()
	m := must(tenon.NewMessage())
	defer m.Close()
	bad(tenon.ErrInvalidArgument, m.AddComposite("\xff", composite))
	bad(tenon.ErrInvalidArgument, m.AddComposite("a\x00b", composite))
	one := []*tenon.Composite{composite}
	bad(tenon.ErrInvalidArgument, m.AddComposites([]string{"a", "b"}, one, nil))
	bad(tenon.ErrInvalidArgument, m.AddComposites(nil, append(one, nil), nil))
	bad(tenon.ErrUnsupported, m.AddComposites(nil, append(one, private), nil))
	readOnly := &tenon.ShareOptions{Access: tenon.AccessReadOnly}
	bad(tenon.ErrPermission, m.AddComposites(nil, one, readOnly))
	composite.Close()
	bad(tenon.ErrClosed, m.AddComposite("a", composite))
	_, err := composite.Check()
	bad(tenon.ErrClosed, err)
	_, err = (*tenon.Composite)(nil).Check()
	bad(tenon.ErrInvalidArgument, err)
	for _, i := range []int{-1, 0} {
		_, err := m.Composite(i)
		bad(tenon.ErrInvalidArgument, err)
		if first, n := m.CompositeParts(i); first != 0 || n != 0 {
			t.Error(first, n)
		}
		if name, ok := m.CompositeName(i); ok {
			t.Error(name)
		}
	}
	_, err = m.FindComposite("a")
	bad(tenon.ErrNotFound, err)
	if m.Len() != 0 || m.CompositeCount() != 0 {
		t.Error("something was added")
	}
}
