// Tests of values.

package tenon_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"libtenon/tenon"
)

// kept closes a value or a module at the end of the test.
func kept[T interface{ Close() error }](t testing.TB, object T, err error) T {
	t.Helper()
	check(t, err)
	t.Cleanup(func() { object.Close() })
	return object
}

func integer(t testing.TB, number int64) *tenon.Value {
	t.Helper()
	value, err := tenon.NewInt(number)
	return kept(t, value, err)
}

func str(t testing.TB, text string) *tenon.Value {
	t.Helper()
	value, err := tenon.NewStr(text)
	return kept(t, value, err)
}

func tensorValue(t testing.TB, values ...float32) *tenon.Value {
	t.Helper()
	tensor := must(tenon.FromSlice(values, []int64{int64(len(values))}, nil))
	defer tensor.Close()
	value, err := tenon.NewTensorValue(tensor)
	return kept(t, value, err)
}

// isType fails the test unless the value shows that kind and that type.
func isType(t testing.TB, value *tenon.Value, kind tenon.ValueKind, text string) {
	t.Helper()
	if found, err := value.TypeText(); value.Kind() != kind || found != text || err != nil {
		t.Errorf("%v, %q, %v: wanted %v, %q", value.Kind(), found, err, kind, text)
	}
}

func TestPlainValues(t *testing.T) {
	none := must(tenon.NewNone())
	defer none.Close()
	isType(t, none, tenon.ValueNone, "NoneType")
	truth := must(tenon.NewBool(true))
	defer truth.Close()
	isType(t, truth, tenon.ValueBool, "bool")
	if got, err := truth.Bool(); !got || err != nil {
		t.Error(got, err)
	}
	number := integer(t, math.MinInt64)
	isType(t, number, tenon.ValueInt, "int")
	if got, err := number.Int(); got != math.MinInt64 || err != nil {
		t.Error(got, err)
	}
	half := must(tenon.NewFloat(math.Inf(-1)))
	defer half.Close()
	isType(t, half, tenon.ValueFloat, "float")
	if got, err := half.Float(); !math.IsInf(got, -1) || err != nil {
		t.Error(got, err)
	}
	complexNumber := must(tenon.NewComplex(1 - 2i))
	defer complexNumber.Close()
	isType(t, complexNumber, tenon.ValueComplex, "complex")
	if got, err := complexNumber.Complex(); got != 1-2i || err != nil {
		t.Error(got, err)
	}
	for _, text := range []string{"", "grüße", "a\x00b", strings.Repeat("x", 1000)} {
		value := str(t, text)
		isType(t, value, tenon.ValueStr, "str")
		if got, err := value.Str(); got != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	device := must(tenon.NewDevice("cuda:1"))
	defer device.Close()
	if got, err := device.Device(); got != "cuda:1" || err != nil ||
		device.Kind() != tenon.ValueDevice {
		t.Error(got, err)
	}
	for _, err := range []error{
		second(number.Bool()), second(truth.Int()), second(number.Float()),
		second(number.Complex()), second(number.Str()), second(number.Device()),
		second(number.Tensor()), second(number.TensorSpec()), second(number.Find("x")),
		second(number.Key(0)), second(tenon.NewStr("\xff")), second(tenon.NewDevice("c\x00pu")),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestValuesOfValues(t *testing.T) {
	one, two, a, b := integer(t, 1), integer(t, 2), str(t, "a"), str(t, "b")
	tuple := must(tenon.NewTuple("", one, a))
	defer tuple.Close()
	isType(t, tuple, tenon.ValueTuple, "Tuple[int, str]")
	pair := must(tenon.NewTuple("__torch__.Pair", one, two))
	defer pair.Close()
	if pair.ClassName() != "__torch__.Pair" || tuple.ClassName() != "" {
		t.Error(pair.ClassName(), tuple.ClassName())
	}
	list := must(tenon.NewList("List[int]", one, two, one))
	defer list.Close()
	isType(t, list, tenon.ValueList, "List[int]")
	items := must(list.Items())
	if len(items) != 3 || list.Len() != 3 || !items[0].Same(one) || !items[2].Same(items[0]) ||
		items[1].Same(items[0]) {
		t.Error("not the same items")
	}
	tenon.CloseValues(items)
	if items[0].Same(one) {
		t.Error("a closed value is the same as another")
	}
	dict := must(tenon.NewDict("Dict[str, int]", []*tenon.Value{b, a}, []*tenon.Value{one, two}))
	defer dict.Close()
	isType(t, dict, tenon.ValueDict, "Dict[str, int]")
	keys := must(dict.Keys())
	if len(keys) != 2 || must(keys[0].Str()) != "b" || must(keys[1].Str()) != "a" {
		t.Error("not the same keys")
	}
	tenon.CloseValues(keys)
	found := must(dict.Find("a"))
	defer found.Close()
	if !found.Same(two) {
		t.Error("another value under the key")
	}
	member := must(tenon.NewEnum("__torch__.Color", two))
	defer member.Close()
	isType(t, member, tenon.ValueEnum, "__torch__.Color")
	object := must(
		tenon.NewObject(
			"__torch__.Thing",
			tenon.Attribute{Name: "x", Value: one},
			tenon.Attribute{Name: "y", Value: list},
		),
	)
	defer object.Close()
	isType(t, object, tenon.ValueObject, "__torch__.Thing")
	attributes := must(object.Attributes())
	if len(attributes) != 2 || attributes[0].Name != "x" || attributes[1].Name != "y" ||
		!attributes[1].Value.Same(list) ||
		object.IsOpaque() {
		t.Error(attributes)
	}
	for _, attribute := range attributes {
		attribute.Value.Close()
	}
	opaque := must(tenon.NewOpaque("__torch__.torch.classes.my.State", tuple))
	defer opaque.Close()
	if !opaque.IsOpaque() || opaque.Len() != 1 {
		t.Error("not opaque")
	}
	if err := list.Check("List[int]"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		second(tenon.NewList("List[int]", a)), second(tenon.NewList("List[", a)),
		second(tenon.NewTuple("", nil)), second(tenon.NewDict("", []*tenon.Value{a}, nil)),
		second(tenon.NewDict("", []*tenon.Value{a, a}, []*tenon.Value{one, two})),
		second(tenon.NewObject("__torch__.T", tenon.Attribute{Name: "x\x00", Value: one})),
		second(list.Item(3)), second(list.Item(-1)), list.Check("List[str]"),
	} {
		if !errors.Is(err, tenon.ErrInvalidArgument) {
			t.Error(err)
		}
	}
	var failure *tenon.Error
	if err := list.Check("List[str]"); !errors.As(err, &failure) ||
		failure.Details["wanted"] == "" ||
		failure.Details["found"] == "" {
		t.Error("without details: ", failure)
	}
	if _, err := dict.Find("c"); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	if text, err := tenon.TypeText("Union[str, None]"); text != "Optional[str]" || err != nil {
		t.Error(text, err)
	}
	long := "Tuple[" + strings.Repeat("int, ", 200) + "str]"
	if text, err := tenon.TypeText(long); text != long || err != nil {
		t.Error(text, err)
	}
}

func TestTensorsInValues(t *testing.T) {
	nothingLeft(t)
	tensor := must(tenon.FromSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil))
	value := must(tenon.NewTensorValue(tensor))
	defer value.Close()
	tensor.Close()
	isType(t, value, tenon.ValueTensor, "Tensor")
	again := must(value.Tensor())
	defer again.Close()
	check(t, tenon.With(again, func(values []float32) error { values[5] = 60; return nil }))
	spec := must(value.TensorSpec())
	defer spec.Storage.Close()
	if spec.ScalarType != tenon.ScalarFloat || !slices.Equal(spec.Sizes, []int64{2, 3}) ||
		!slices.Equal(spec.Strides, []int64{3, 1}) ||
		spec.Device != "cpu" ||
		spec.Layout != tenon.LayoutStrided ||
		spec.StorageNumel != 6 {
		t.Errorf("%+v", spec)
	}

	storage := must(tenon.NewStorageFrom([]byte{1, 2, 3, 4}, nil))
	defer storage.Close()
	quantised := must(
		tenon.NewTensorValueFromSpec(
			tenon.ValueTensorSpec{
				ScalarType: tenon.ScalarQUint8,
				Sizes:      []int64{2, 2},
				Strides:    []int64{1, 2},
				Storage:    storage,
				Device:     "cpu",
				Quantizer:  tenon.QuantizerPerTensorAffine,
				Scale:      0.5,
				ZeroPoint:  3,
			},
		),
	)
	defer quantised.Close()
	if _, err := quantised.Tensor(); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error(err)
	}
	got := must(quantised.TensorSpec())
	defer got.Storage.Close()
	if got.Scale != 0.5 || got.ZeroPoint != 3 || got.Quantizer != tenon.QuantizerPerTensorAffine ||
		!slices.Equal(got.Strides, []int64{1, 2}) {
		t.Errorf("%+v", got)
	}
	meta := must(
		tenon.NewTensorValueFromSpec(
			tenon.ValueTensorSpec{ScalarType: tenon.ScalarHalf, Sizes: []int64{7}, Device: "meta"},
		),
	)
	defer meta.Close()
	if spec := must(meta.TensorSpec()); spec.Storage != nil || spec.Device != "meta" {
		t.Errorf("%+v", spec)
	}

	indices := must(tenon.FromSlice([]int64{0, 2}, []int64{1, 2}, nil))
	defer indices.Close()
	indexValue := must(tenon.NewTensorValue(indices))
	defer indexValue.Close()
	sparse := must(
		tenon.NewTensorValueFromSpec(
			tenon.ValueTensorSpec{
				Layout:    tenon.LayoutSparseCOO,
				Sizes:     []int64{3},
				Coalesced: tenon.CoalescedYes,
				Indices:   indexValue,
				Values:    tensorValue(t, 1, 2),
			},
		),
	)
	defer sparse.Close()
	part := must(sparse.TensorPart(tenon.PartIndices))
	defer part.Close()
	if spec := must(part.TensorSpec()); spec.ScalarType != tenon.ScalarLong ||
		!slices.Equal(spec.Sizes, []int64{1, 2}) {
		t.Errorf("%+v", spec)
	} else {
		spec.Storage.Close()
	}
	if spec := must(sparse.TensorSpec()); spec.Strides != nil || spec.Storage != nil ||
		spec.Coalesced != tenon.CoalescedYes {
		t.Errorf("%+v", spec)
	}
	if _, err := sparse.TensorPart(tenon.PartScales); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	if _, err := tenon.NewTensorValueFromSpec(
		tenon.ValueTensorSpec{ScalarType: tenon.ScalarHalf, Sizes: []int64{7}, Storage: storage},
	); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestScalarTypes(t *testing.T) {
	if name := tenon.ScalarBFloat16.String(); name != "bfloat16" ||
		tenon.ScalarFloat.StorageName() != "FloatStorage" {
		t.Error(name)
	}
	if tenon.ScalarLong.NBytes() != 8 || tenon.ScalarType(99).NBytes() != 0 ||
		tenon.ScalarFloat8E5M2.Since() != "2.1" {
		t.Error("sizes or versions are wrong")
	}
	for _, name := range []string{"float32", "Float", "FloatStorage"} {
		if found, err := tenon.ParseScalarType(name); found != tenon.ScalarFloat || err != nil {
			t.Error(name, found, err)
		}
	}
	if dtype, err := tenon.ScalarHalf.DType(); dtype != tenon.Float16 || err != nil {
		t.Error(dtype, err)
	}
	if found, err := tenon.ScalarTypeOf(tenon.Int64); found != tenon.ScalarLong || err != nil {
		t.Error(found, err)
	}
	if _, err := tenon.ScalarQInt8.DType(); !errors.Is(err, tenon.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := tenon.ParseScalarType("float31"); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestClosedAndNilValues(t *testing.T) {
	value := must(tenon.NewInt(1))
	value.Close()
	for _, err := range []error{
		second(value.Int()), second(value.TypeText()), second(value.Items()),
		second(value.Attributes()), second(value.Tensor()), value.Check("int"),
		second(tenon.NewTuple("", value)), second(tenon.NewEnum("__torch__.E", value)),
	} {
		if !errors.Is(err, tenon.ErrClosed) {
			t.Error(err)
		}
	}
	if value.Len() != 0 || value.ClassName() != "" || value.IsOpaque() || value.Same(value) {
		t.Error("a closed value is something")
	}
	var none *tenon.Value
	if none.Kind() != -1 || none.Len() != 0 || none.Same(none) {
		t.Error("nil is something")
	}
	if _, err := none.Int(); !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Error(err)
	}
}
