// Tests of slices and views of elements.

package tenon_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"libtenon/tenon"
)

func TestElements(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 6, nil)
	values := must(tenon.Slice[float32](tensor))
	if !reflect.DeepEqual(values, []float32{0, 1, 2, 3, 4, 5}) {
		t.Fatal(values)
	}
	type celsius float32
	must(tenon.Slice[celsius](tensor))[5] = 36.6
	view := must(tenon.NewView[float32](tensor))
	defer view.Close()
	tensor.Close()
	room := make([]float32, 10)
	if view.At(5) != 36.6 || view.Len() != 6 || view.CopyTo(room) != 6 || room[4] != 4 ||
		len(view.Unsafe()) != 6 {
		t.Fatal("the view shows something else")
	}
	check(t, view.Close())
	check(t, view.Close())
	defer func() {
		if recover() == nil {
			t.Fatal("a closed view was read")
		}
	}()
	view.At(0)
}

func refused(t *testing.T, code tenon.Code, text string) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, code) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v is not %v about %q", err, code, text)
		}
	}
}

func TestElementsRefused(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 6, nil)
	refused(t, tenon.ErrInvalidArgument, "float32, not float64")(tenon.Slice[float64](tensor))
	refused(t, tenon.ErrInvalidArgument, "float32, not int32")(tenon.ReadOnlySlice[int32](tensor))
	refused(
		t,
		tenon.ErrInvalidArgument,
		"float32, not bfloat16",
	)(
		tenon.NewView[tenon.BFloat16Bits](tensor),
	)
	storage := must(tensor.Storage())
	defer storage.Close()
	across := must(
		tenon.NewTensor(
			storage,
			tenon.Spec{DType: tenon.Float32, Sizes: []int64{2, 3}, Strides: []int64{1, 2}},
		),
	)
	defer across.Close()
	refused(
		t,
		tenon.ErrInvalidArgument,
		"do not lie packed: sizes [2 3], strides [1 2]",
	)(
		tenon.Slice[float32](across),
	)
	conjugate := must(
		tenon.NewTensor(
			storage,
			tenon.Spec{DType: tenon.Complex64, Sizes: []int64{3}, Flags: tenon.Conj},
		),
	)
	defer conjugate.Close()
	refused(t, tenon.ErrUnsupported, "conjugate")(tenon.ReadOnlySlice[complex64](conjugate))
	// This address is misaligned: it lies one byte into our memory.
	crooked := must(tenon.Wrap(make([]byte, 17)[1:], nil, nil))
	defer crooked.Close()
	if misaligned, err := tenon.NewTensor(
		crooked, tenon.Spec{DType: tenon.Float32, Sizes: []int64{4}},
	); err == nil {
		defer misaligned.Close()
		refused(
			t,
			tenon.ErrInvalidArgument,
			"not aligned to 4 bytes",
		)(
			tenon.Slice[float32](misaligned),
		)
		refused(
			t,
			tenon.ErrInvalidArgument,
			"not aligned to 4 bytes",
		)(
			nil,
			tenon.With(misaligned, func([]float32) error { return nil }),
		)
	} else if !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
	frozen := floats(t, 6, &tenon.StorageOptions{Mode: tenon.Frozen})
	refused(t, tenon.ErrPermission, "")(tenon.Slice[float32](frozen))
	refused(
		t,
		tenon.ErrPermission,
		"",
	)(
		nil,
		tenon.With(must(frozen.View()), func([]float32) error { return nil }),
	)
	if must(tenon.ReadOnlySlice[float32](frozen))[5] != 5 {
		t.Error("a frozen tensor cannot be read")
	}
	empty := must(tenon.Empty(tenon.Float32, []int64{3, 0}, nil))
	defer empty.Close()
	if values := must(tenon.Slice[float32](empty)); values == nil || len(values) != 0 {
		t.Error("an empty tensor has an empty slice")
	}
	wrong := errors.New("mine")
	if err := tenon.With(tensor, func([]float32) error { return wrong }); err != wrong {
		t.Error(err)
	}
}

func TestTensor(t *testing.T) {
	nothingLeft(t)
	storage := must(tenon.NewStorage(100, nil))
	defer storage.Close()
	spec := tenon.Spec{
		DType:   tenon.Int16,
		Sizes:   []int64{2, 3},
		Strides: []int64{-1, 2},
		Offset:  7,
		Flags:   tenon.RequiresGrad,
	}
	tensor := must(tenon.NewTensor(storage, spec))
	defer tensor.Close()
	view := must(tensor.View())
	if got := must(tensor.Spec()); !reflect.DeepEqual(got, spec) {
		t.Error(got)
	}
	if got := must(view.Spec()); !reflect.DeepEqual(got, spec) {
		t.Error(got)
	}
	if tensor.Numel() != 6 || tensor.NBytes() != 12 || tensor.IsContiguous() ||
		tensor.DType() != tenon.Int16 ||
		len(tensor.Sizes()) != 2 {
		t.Error("the tensor does not say what it is")
	}
	if view.Numel() != 6 || view.NBytes() != 12 || view.IsContiguous() || view.IsReadOnly() ||
		view.DType() != tenon.Int16 ||
		view.Name() != "" {
		t.Error("the view does not say what it is")
	}
	if under := must(tensor.Storage()); under.ID() != storage.ID() {
		t.Error("another storage")
	} else {
		under.Close()
	}
	for _, wrong := range []tenon.Spec{
		{DType: tenon.Int16, Sizes: []int64{51}},
		{DType: tenon.Int16, Sizes: []int64{-1}},
		{DType: tenon.Int16, Sizes: []int64{1 << 62, 1 << 62}},
		{DType: tenon.Int16, Sizes: []int64{1}, Strides: []int64{1, 1}},
		{DType: tenon.Int16, Sizes: []int64{1}, Offset: math.MaxUint64},
		{DType: tenon.Int16, Sizes: make([]int64, 65)},
	} {
		refused(t, tenon.ErrInvalidArgument, "")(tenon.NewTensor(storage, wrong))
	}
	refused(
		t,
		tenon.ErrInvalidArgument,
		"overflow",
	)(
		tenon.Empty(tenon.Int16, []int64{1 << 62, 1 << 62}, nil),
	)
	refused(t, tenon.ErrInvalidArgument, "is -1")(tenon.Empty(tenon.Int16, []int64{-1}, nil))
	refused(t, tenon.ErrInvalidArgument, "2 values")(tenon.FromSlice([]int8{1, 2}, []int64{3}, nil))
	scalar := must(tenon.FromSlice([]complex128{3}, nil, nil))
	defer scalar.Close()
	if len(scalar.Sizes()) != 0 || must(tenon.Slice[complex128](scalar))[0] != 3 {
		t.Error("a tensor without dimensions has one element")
	}
}

func TestTensorViews(t *testing.T) {
	nothingLeft(t)
	tensor := must(tenon.FromSlice([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, []int64{12}, nil))
	defer tensor.Close()
	matrix := must(tensor.Reshape(3, -1))
	defer matrix.Close()
	bytes := must(matrix.ViewDType(tenon.Uint8))
	defer bytes.Close()
	row := must(matrix.Index(tenon.At(-2)))
	defer row.Close()
	picked := must(matrix.Index(
		tenon.Ellipsis(), tenon.NewAxis(), tenon.Range(math.MaxInt64, math.MinInt64, -2),
	))
	defer picked.Close()
	if got := bytes.Sizes(); !reflect.DeepEqual(got, []int64{3, 16}) {
		t.Error(got)
	}
	if got := must(tenon.Slice[int32](row)); !reflect.DeepEqual(got, []int32{4, 5, 6, 7}) {
		t.Error(got)
	}
	want := tenon.Spec{
		DType: tenon.Int32, Sizes: []int64{3, 1, 2}, Strides: []int64{4, 0, -2}, Offset: 3,
	}
	if got := must(picked.Spec()); !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	refused(t, tenon.ErrInvalidArgument, "do not fit")(matrix.Reshape(5, -1))
	refused(t, tenon.ErrInvalidArgument, "65 dimensions")(matrix.Reshape(make([]int64, 65)...))
	refused(t, tenon.ErrInvalidArgument, "contiguous")(picked.ViewDType(tenon.Uint8))
	refused(t, tenon.ErrInvalidArgument, "outside dimension 1")(
		matrix.Index(tenon.At(0), tenon.At(4)),
	)
	var nothing *tenon.Tensor
	refused(t, tenon.ErrInvalidArgument, "NULL")(nothing.Reshape(1))
}

func TestDType(t *testing.T) {
	for dtype, name := range map[tenon.DType]string{
		tenon.Float32:            "float32",
		tenon.BFloat16:           "bfloat16",
		tenon.Float8E4M3FN:       "float8_e4m3fn",
		tenon.NewDType(0, 8, 4):  "int8x4",
		tenon.NewDType(1, 4, 1):  "uint4",
		tenon.NewDType(99, 8, 1): "dtype_99_8",
		tenon.Bool:               "bool",
		tenon.Complex64:          "complex64",
		tenon.NewDType(5, 64, 2): "complex64x2",
		tenon.NewDType(99, 8, 3): "dtype_99_8x3",
	} {
		if dtype.String() != name {
			t.Errorf("%v is not %s", dtype, name)
		}
		if parsed, err := tenon.ParseDType(name); err != nil || parsed != dtype {
			t.Errorf("%s is %v: %v", name, parsed, err)
		}
	}
	for _, wrong := range []string{
		"", "float", "float32x0", "float32x70000", "x2", "float32x2x2", "dtype_1", "dtype_256_8",
		"dtype_1_8_1",
	} {
		if parsed, err := tenon.ParseDType(wrong); err == nil {
			t.Errorf("%q is %v", wrong, parsed)
		}
	}
	type own uint32
	for got, want := range map[tenon.DType]tenon.DType{
		tenon.DTypeOf[int8]():               tenon.Int8,
		tenon.DTypeOf[own]():                tenon.Uint32,
		tenon.DTypeOf[uint8]():              tenon.Uint8,
		tenon.DTypeOf[uint16]():             tenon.Uint16,
		tenon.DTypeOf[tenon.Float16Bits]():  tenon.Float16,
		tenon.DTypeOf[float64]():            tenon.Float64,
		tenon.DTypeOf[tenon.BFloat16Bits](): tenon.BFloat16,
		tenon.DTypeOf[tenon.BoolByte]():     tenon.Bool,
		tenon.DTypeOf[complex64]():          tenon.Complex64,
		tenon.DTypeOf[complex128]():         tenon.Complex128,
		tenon.DTypeOf[int64]():              tenon.Int64,
	} {
		if got != want {
			t.Errorf("%v, not %v", got, want)
		}
	}
	for half, want := range map[tenon.Float16Bits]float32{
		0: 0, 0x3c00: 1, 0xc000: -2, 0x0001: 1.0 / (1 << 24), 0x7bff: 65504,
		0x7c00: float32(math.Inf(1)), 0x3555: 0.33325195, 0x83ff: -6.097555e-05,
	} {
		if half.Float32() != want {
			t.Errorf("%#x is %v, not %v", uint16(half), half.Float32(), want)
		}
	}
	if nan := tenon.Float16Bits(0x7e00).Float32(); nan == nan {
		t.Error("not a NaN")
	}
	if tenon.BFloat16Bits(0x3fc0).Float32() != 1.5 || !tenon.BoolByte(2).Bool() {
		t.Error("bfloat16 or bool")
	}
}
