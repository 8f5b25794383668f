// Tests of objects: every kind of value, sent to another process and back, and errors.

package tenon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"libtenon/tenon"
)

func init() {
	roles["object"] = func() error { return withParent(returnObject) }
}

// carried puts a value into a message and reads it again.
func carried(t testing.TB, value any) any {
	t.Helper()
	m := must(tenon.NewMessageFromObject(value, nil))
	defer m.Close()
	received := must(m.Object())
	t.Cleanup(func() { tenon.CloseObject(received) })
	return received
}

// nested makes lists in lists, depth of them, with a number in the innermost one.
func nested(depth int) any {
	value := any(int64(1))
	for range depth {
		value = []any{value}
	}
	return value
}

func idOf(tensor *tenon.Tensor) uint64 {
	storage := must(tensor.Storage())
	defer storage.Close()
	return storage.ID()
}

func TestObjectKinds(t *testing.T) {
	nothingLeft(t)
	sent := tenon.Dict{
		{"none", nil},
		{"bools", []any{true, false}},
		{"ints", []any{0, int8(-1), int16(2), int32(-3), int64(math.MinInt64), uint(4), uint8(5),
			uint16(6), uint32(math.MaxUint32), uint64(math.MaxInt64), uintptr(7), 'x'}},
		{"floats", tenon.Tuple{float32(0.5), -1.5, math.Inf(1), math.SmallestNonzeroFloat64}},
		{"complex", []any{complex64(1 - 2i), complex(math.Inf(-1), 0.25)}},
		{"texts", []string{"", "ä\x00€😀", strings.Repeat("x", 100_000)}},
		{"bytes", []any{[]byte(nil), []byte{0, 255}}},
		{"set", tenon.Set{3, "x", tenon.Tuple{1, nil}, []byte("x")}},
		{"int64s", []int64{1, -1}},
		{"float64s", []float64{0.25}},
		{"map", map[string]any{"b": 2, "a": map[string]any{}, "c": nil}},
		// A container that ends here is not confused with the containers around it.
		{"empty", []any{[]any{}, tenon.Tuple{}, tenon.Set(nil), tenon.Dict{},
			[]any{[]any{7}, []any{}}}},
		{7, "an int as a key"},
		{-0.5, tenon.Dict{{true, 1}}},
		{tenon.Tuple{"a", 1}, nested(190)},
	}
	wanted := tenon.Dict{
		{"none", nil},
		{"bools", []any{true, false}},
		{"ints", []any{int64(0), int64(-1), int64(2), int64(-3), int64(math.MinInt64), int64(4),
			int64(5), int64(6), int64(math.MaxUint32), int64(math.MaxInt64), int64(7), int64('x')}},
		{"floats", tenon.Tuple{0.5, -1.5, math.Inf(1), math.SmallestNonzeroFloat64}},
		{"complex", []any{1 - 2i, complex(math.Inf(-1), 0.25)}},
		{"texts", []any{"", "ä\x00€😀", strings.Repeat("x", 100_000)}},
		{"bytes", []any{[]byte{}, []byte{0, 255}}},
		{"set", tenon.Set{int64(3), "x", tenon.Tuple{int64(1), nil}, []byte("x")}},
		{"int64s", []any{int64(1), int64(-1)}},
		{"float64s", []any{0.25}},
		{"map", tenon.Dict{{"a", tenon.Dict{}}, {"b", int64(2)}, {"c", nil}}},
		{"empty", []any{[]any{}, tenon.Tuple{}, tenon.Set{}, tenon.Dict{},
			[]any{[]any{int64(7)}, []any{}}}},
		{int64(7), "an int as a key"},
		{-0.5, tenon.Dict{{true, int64(1)}}},
		{tenon.Tuple{"a", int64(1)}, nested(190)},
	}
	received := carried(t, sent)
	for i, entry := range received.(tenon.Dict) {
		if !reflect.DeepEqual(entry, wanted[i]) {
			t.Errorf("%#v, not %#v", entry, wanted[i])
		}
	}
	if again := carried(t, received); !reflect.DeepEqual(again, any(wanted)) {
		t.Error("a received object was sent, and another one arrived")
	}
	if !math.IsNaN(carried(t, math.NaN()).(float64)) || carried(t, nil) != nil {
		t.Error("another number")
	}
}

// The keys of a map are sorted, so that its bytes are the same each time.
func TestObjectOfMapIsTheSameEachTime(t *testing.T) {
	all := make(map[string]any)
	for i := range 50 {
		all[fmt.Sprint("key ", i)] = i
	}
	var first []byte
	for range 10 {
		m := must(tenon.NewMessageFromObject(all, nil))
		if first == nil {
			first = m.UserBytes()
		} else if !bytes.Equal(m.UserBytes(), first) {
			t.Error("other bytes")
		}
		m.Close()
	}
}

// returnObject receives what TestObjectInAnotherProcess sends, writes to it, and sends it back.
func returnObject(c *tenon.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	received, err := c.RecvObject(ctx)
	if err != nil {
		return err
	}
	defer tenon.CloseObject(received)
	all := must(received.(tenon.Dict).Map())
	tensors := must(all["tensors"].(tenon.Dict).Map())
	whole, part := tensors["whole"].(*tenon.Tensor), tensors["part"].(*tenon.Tensor)
	frozen := tensors["frozen"].(*tenon.Tensor)
	spec := must(part.Spec())
	wanted := tenon.Spec{DType: tenon.Float32, Sizes: []int64{2, 3}, Strides: []int64{1, 2},
		Offset: 100}
	if !reflect.DeepEqual(spec, wanted) || idOf(whole) != idOf(part) || idOf(frozen) == idOf(part) {
		return fmt.Errorf("the part is %+v", spec)
	}
	if values := must(tenon.ReadOnlySlice[float64](frozen)); values[1] != 1.5 {
		return fmt.Errorf("the frozen tensor is %v", values)
	}
	if _, err := tenon.Slice[float64](frozen); !errors.Is(err, tenon.ErrPermission) {
		return fmt.Errorf("the frozen tensor is writable: %v", err)
	}
	must(tenon.Slice[float32](whole))[105] = 42
	composites := all["composites"].([]any)
	sparse, meta := composites[0].(*tenon.Composite), composites[1].(*tenon.Composite)
	if sparse.Layout() != tenon.LayoutSparseCSR || meta.DType() != tenon.BFloat16 {
		return fmt.Errorf("%v of %v, %v", sparse.Layout(), sparse.DType(), meta.DType())
	}
	// The second column of this tensor is outside of it, and only this call notices that.
	if _, err := sparse.Check(); !errors.Is(err, tenon.ErrCorrupt) {
		return fmt.Errorf("a wrong column gives %v", err)
	}
	return c.SendObject(ctx, received)
}

func TestObjectInAnotherProcess(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	storage := must(tenon.NewStorage(4096, &tenon.StorageOptions{Zeroed: true}))
	defer storage.Close()
	whole := must(tenon.NewTensor(storage, tenon.Spec{DType: tenon.Float32, Sizes: []int64{1024}}))
	defer whole.Close()
	part := must(tenon.NewTensor(storage, tenon.Spec{DType: tenon.Float32, Sizes: []int64{2, 3},
		Strides: []int64{1, 2}, Offset: 100}))
	defer part.Close()
	spec := csrSpec(t, tenon.Shared)
	must(tenon.Slice[int64](spec.PlainIndices))[1] = 4
	sparse := must(tenon.NewComposite(spec))
	defer sparse.Close()
	meta := must(tenon.NewComposite(tenon.CompositeSpec{Layout: tenon.LayoutMeta,
		Sizes: []int64{1 << 40}, DType: tenon.BFloat16}))
	defer meta.Close()
	command, c := start(t, "object")
	check(t, c.SendObject(ctx, map[string]any{
		"composites": []any{sparse, meta},
		"state":      map[string]*tenon.Tensor{"b": part, "a": whole},
		"list":       []*tenon.Tensor{whole, part},
		"tensors": map[string]any{
			"whole": whole, "part": part,
			"frozen": tensorOf(t, tenon.Frozen, []float64{0.5, 1.5}, 2),
		},
		"large": make([]byte, 100_000),
	}))
	received := must(c.RecvObject(ctx))
	defer tenon.CloseObject(received)
	check(t, command.Wait())
	state, _ := received.(tenon.Dict).Get("state")
	list, _ := received.(tenon.Dict).Get("list")
	if state := state.(tenon.Dict); state[0].Key != "a" || state[1].Key != "b" ||
		idOf(state[1].Value.(*tenon.Tensor)) != storage.ID() ||
		idOf(list.([]any)[0].(*tenon.Tensor)) != storage.ID() {
		t.Error("the state dict or the list of tensors came back otherwise")
	}
	large, _ := received.(tenon.Dict).Get("large")
	tensors, _ := received.(tenon.Dict).Get("tensors")
	returned, _ := tensors.(tenon.Dict).Get("part")
	if !bytes.Equal(large.([]byte), make([]byte, 100_000)) ||
		idOf(returned.(*tenon.Tensor)) != storage.ID() {
		t.Error("something else came back")
	}
	if values := must(tenon.Slice[float32](whole)); values[105] != 42 {
		t.Error("the other process did not write to this memory")
	}
}

// ask is the function that README.md shows.
func ask(ctx context.Context, connection *tenon.Connection, layer *tenon.Tensor) (int64, error) {
	state := map[string]any{
		"step":    1,
		"weights": map[string]any{"layer1": layer},
		"note":    "the second run",
	}
	if err := connection.SendObject(ctx, state); err != nil {
		return 0, err
	}
	received, err := connection.RecvObject(ctx)
	if err != nil {
		return 0, err
	}
	defer tenon.CloseObject(received) // closes the tensors in it
	dict, _ := received.(tenon.Dict)
	value, _ := dict.Get("step")
	step, isInt := value.(int64)
	if !isInt {
		return 0, fmt.Errorf("there is no step in %v", received)
	}
	return step, nil
}

// answer is the function that docs/guides/object_graphs.md shows.
func answer(ctx context.Context, connection *tenon.Connection) error {
	state, err := connection.RecvObject(ctx)
	if err != nil {
		return err
	}
	defer tenon.CloseObject(state) // closes the tensors in it
	dict, _ := state.(tenon.Dict)
	value, _ := dict.Get("step")
	step, isInt := value.(int64)
	value, _ = dict.Get("weights")
	weights, _ := value.(tenon.Dict)
	value, _ = weights.Get("layer1")
	layer, isTensor := value.(*tenon.Tensor)
	if !isInt || !isTensor {
		return fmt.Errorf("no step or no layer1 in %v", state)
	}
	// the sender sees it
	err = tenon.With(layer, func(values []float32) error { values[0] = 42; return nil })
	if err != nil {
		return err
	}
	losses := []float64{0.5, 0.25}
	return connection.SendObject(ctx, map[string]any{"step": step + 1, "losses": losses})
}

func TestObjectsOfThePages(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	left, right := pair(t)
	answered := make(chan error, 1)
	go func() { answered <- answer(ctx, right) }()
	layer := floats(t, 1000, nil)
	if step := must(ask(ctx, left, layer)); step != 2 {
		t.Error(step)
	}
	check(t, <-answered)
	if values := must(tenon.Slice[float32](layer)); values[0] != 42 {
		t.Error("not the same memory")
	}
	check(t, left.SendObject(ctx, tenon.Dict{{"step", 1}}))
	err := answer(ctx, right)
	if err == nil || !strings.HasPrefix(err.Error(), "no step or no layer1") {
		t.Error(err)
	}
}

func TestObjectsRefused(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 4, nil)
	endless := []any{nil, nil}
	endless[0], endless[1] = endless, endless
	endlessDict := make(tenon.Dict, 1)
	endlessDict[0] = tenon.Entry{Key: 1, Value: map[string]any{"a": endlessDict}}
	for _, each := range []struct {
		value any
		index string
		text  string
	}{
		{make(chan int), "0", "the object: a chan int cannot be sent"},
		{map[string]any{"a": 0, "b": []any{1, tensor, make(chan int)}}, "7",
			`dict["b"][2]: a chan int cannot be sent`},
		{tenon.Dict{{1, tenon.Tuple{}}, {tenon.Tuple{1}, []any{0, struct{}{}}}}, "7",
			"dict[key(1)][1]: a struct {} cannot be sent"},
		{tenon.Dict{{"a", 0}, {time.Second, 0}}, "3",
			"dict.key(1): a time.Duration cannot be sent"},
		{[]any{[]any{[]any{}}, &tensor}, "3", "list[1]: a **tenon.Tensor cannot be sent"},
		{tenon.Tuple{uint64(math.MaxUint64)}, "1",
			"tuple[0]: the uint64 18446744073709551615 is larger than any int64"},
		{uint(1 << 63), "0", "the object: the uint 9223372036854775808 is larger than any int64"},
		{[]any{tensor, "\xff"}, "2", "list[1]: node 2 of the object: the text is not UTF-8"},
		{tenon.Dict{{-7, map[string]any{"x": []string{"a", "\xff"}}}}, "6",
			`dict[-7]["x"][1]: node 6`},
		{tenon.Set{1, true}, "2", "set[1]: node 2"},
		{tenon.Dict{{"a", nil}, {"b", nil}, {"a", nil}}, "5", "dict.key(2): node 5"},
		{tenon.Dict{{[]any{}, nil}}, "1", "dict.key(0): node 1"},
		{tenon.Tuple{(*tenon.Tensor)(nil)}, "1", "tuple[0]: node 1 of the object: tensor is NULL"},
		{tenon.Tuple{1, (*tenon.Composite)(nil)}, "2",
			"tuple[1]: node 2 of the object: composite is NULL"},
		{endless, "200", "list[0][0][0][0][0]…[0][0][0][0][0][0]: node 200"},
		{endlessDict, "400", `dict[1]["a"][1]["a"][1]…[1]["a"][1]["a"][1]["a"]: node 400`},
		{nested(201), "200", "list[0]"},
	} {
		_, err := tenon.NewMessageFromObject(each.value, nil)
		var e *tenon.Error
		if !errors.As(err, &e) || e.Code != tenon.ErrInvalidArgument ||
			e.Details["index"] != each.index || !strings.HasPrefix(e.Message, each.text) {
			t.Errorf("%v, and not at %s: %s", err, each.index, each.text)
		}
	}
	if !reflect.DeepEqual(carried(t, nested(200)), nested(200)) {
		t.Error("another object")
	}

	bad := func(wanted error, value any, access tenon.Access) {
		t.Helper()
		options := &tenon.ShareOptions{Access: access}
		if _, err := tenon.NewMessageFromObject(value, options); !errors.Is(err, wanted) {
			t.Error(err)
		}
	}
	frozen := floats(t, 4, &tenon.StorageOptions{Mode: tenon.Frozen})
	both := []any{frozen, tensor}
	bad(tenon.ErrPermission, both, tenon.AccessReadOnly)
	bad(tenon.ErrPermission, both, tenon.AccessWritable)
	bad(nil, []any{frozen}, tenon.AccessReadOnly)
	bad(nil, []any{tensor}, tenon.AccessWritable)
	bad(tenon.ErrUnsupported, floats(t, 4, &tenon.StorageOptions{Private: true}), tenon.AccessAuto)
	composite := csr(t, tenon.Shared)
	tensor.Close()
	composite.Close()
	bad(tenon.ErrClosed, both, tenon.AccessAuto)
	for place, value := range map[string]any{
		`the Tensor at dict["a"] is already closed`:  tenon.Dict{{"a", tensor}},
		"the Composite at list[1] is already closed": []any{1, composite},
	} {
		_, err := tenon.NewMessageFromObject(value, nil)
		if !errors.Is(err, tenon.ErrClosed) || !strings.Contains(err.Error(), place) {
			t.Error(err)
		}
	}
}

func TestMessageWithoutObject(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	bad := func(wanted error, err error) *tenon.Error {
		t.Helper()
		var e *tenon.Error
		if errors.As(err, &e); !errors.Is(err, wanted) {
			t.Error(err)
		}
		return e
	}
	object := func(m *tenon.Message) error { _, err := m.Object(); return err }
	m := must(tenon.NewMessage(floats(t, 4, nil)))
	defer m.Close()
	bad(tenon.ErrCorrupt, object(m))
	check(t, m.SetUserBytes([]byte("tenonobj\x09\x00\x00\x00\x01\x00\x00\x00N.")))
	bad(tenon.ErrIncompatible, object(m))
	left, right := pair(t)
	check(t, m.SetUserBytes([]byte("hello")))
	check(t, left.Send(ctx, m))
	check(t, left.SendObject(ctx, "next"))
	_, err := right.RecvObject(ctx)
	bad(tenon.ErrCorrupt, err)
	// That message is lost, and the connection still works.
	if next := must(right.RecvObject(ctx)); next != "next" {
		t.Error(next)
	}

	// A pickle of protocol 4 that would call builtins.print without arguments.
	calling := must(tenon.NewMessage())
	defer calling.Close()
	check(t, calling.SetUserBytes([]byte("tenonobj\x01\x00\x00\x00\x00\x00\x00\x00"+
		"\x80\x04\x8c\x08builtins\x8c\x05print\x93)R.")))
	e := bad(tenon.ErrUnsupported, object(calling))
	if e == nil || !strings.Contains(e.Message, "print") || e.Details["offset"] == "" {
		t.Errorf("%#v", e)
	}

	bad(tenon.ErrInvalidArgument, object(nil))
	calling.Close()
	bad(tenon.ErrClosed, object(calling))
}

func TestDict(t *testing.T) {
	dict := tenon.Dict{{[]byte("k"), 1}, {"other", 2}, {"k", nil}, {nil, 4}}
	for key, wanted := range map[string]any{"k": nil, "other": 2} {
		if value, ok := dict.Get(key); value != wanted || !ok {
			t.Error(key, value, ok)
		}
	}
	if value, ok := dict.Get("j"); value != nil || ok {
		t.Error(value, ok)
	}
	wanted := map[string]any{"other": 2, "k": nil}
	if all := must(dict[1:3].Map()); !reflect.DeepEqual(all, wanted) {
		t.Error(all)
	}
	if all := must(tenon.Dict(nil).Map()); all == nil || len(all) != 0 {
		t.Error(all)
	}
	for text, wrong := range map[string]tenon.Dict{
		"entry 0 of the dict is a []uint8 and no string": dict,
		"entry 2 of the dict is a <nil> and no string":   dict[1:],
		`the dict has the key "k" twice`:                 {{"k", 1}, {"k", 1}},
	} {
		_, err := wrong.Map()
		if !errors.Is(err, tenon.ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
			t.Error(err)
		}
	}
}

func TestCloseObject(t *testing.T) {
	nothingLeft(t)
	var all []interface{ Closed() bool }
	tensor := func() any {
		all = append(all, must(tenon.FromSlice([]float32{1}, []int64{1}, nil)))
		return all[len(all)-1]
	}
	composite := csr(t, tenon.Shared)
	all = append(all, composite)
	list := []any{nil, tensor(), tenon.Tuple{tensor(), composite}, (*tenon.Tensor)(nil)}
	list[0] = list
	tenon.CloseObject(tenon.Dict{
		{tensor(), map[string]any{"a": tensor(), "b": tenon.Set{tensor(), 1}}},
		{(*tenon.Composite)(nil), list},
		{list, make(chan int)},
	})
	single := tensor()
	tenon.CloseObject(single)
	for i, each := range all {
		if !each.Closed() {
			t.Errorf("%d of %d is still open", i, len(all))
		}
	}
}

func TestObjectWaits(t *testing.T) {
	nothingLeft(t)
	ctx := background(t)
	left, right := pair(t)
	soon, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	if _, err := right.RecvObject(soon); !errors.Is(err, tenon.ErrTimeout) {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := left.SendObject(done, 0); !errors.Is(err, tenon.ErrCancelled) {
		t.Error(err)
	}
	// When the socket takes no more, the connection keeps the last object, and Flush sends it.
	var sent int64
	for {
		sent++
		soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		err := left.SendObject(soon, []any{sent, make([]byte, 60_000)})
		stop()
		if errors.Is(err, tenon.ErrTimeout) {
			break
		}
		check(t, err)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- left.Flush(ctx) }()
	for number := range sent - 1 {
		if received := must(right.RecvObject(ctx)); received.([]any)[0] != number+1 {
			t.Fatal(received.([]any)[0], number+1)
		}
	}
	check(t, <-flushed)
	left.Close()
	last, err := right.RecvObject(ctx)
	// If the time was over before the last send began, the connection kept nothing of it.
	if err == nil {
		if last.([]any)[0] != sent {
			t.Error(last.([]any)[0], sent)
		}
		_, err = right.RecvObject(ctx)
	}
	if !errors.Is(err, tenon.ErrPeerGone) {
		t.Error(err)
	}
	if err := left.SendObject(ctx, 0); !errors.Is(err, tenon.ErrClosed) {
		t.Error(err)
	}
	if _, err := (*tenon.Connection)(nil).RecvObject(ctx); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Error(err)
	}
}

// 300 tensors and their names cross in as few calls of C as one does, in each direction. The test
// counts calls and measures no time.
func TestObjectInOneCrossing(t *testing.T) {
	state := make(map[string]any)
	for i := range 300 {
		state[fmt.Sprint("layer.", i)] = floats(t, 16, nil)
	}
	var m *tenon.Message
	if n := calls(func() { m = must(tenon.NewMessageFromObject(state, nil)) }); n != 1 {
		t.Errorf("%d calls to make a message of 300 tensors", n)
	}
	defer m.Close()
	var received any
	// These are the calls that make the object, count its nodes, give them, and release the object.
	if n := calls(func() { received = must(m.Object()) }); n != 4 {
		t.Errorf("%d calls to read 300 tensors", n)
	}
	if dict := received.(tenon.Dict); len(dict) != 300 || dict[299].Key != "layer.99" {
		t.Error("another object")
	}
	tenon.CloseObject(received)
}
