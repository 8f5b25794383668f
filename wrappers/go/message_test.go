// Tests of messages, and of how many calls of C they take.

package tenon_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"libtenon/tenon"
)

func TestMessage(t *testing.T) {
	nothingLeft(t)
	first, second := floats(t, 4, nil), floats(t, 2, nil)
	m := must(tenon.NewMessage(first))
	defer m.Close()
	check(t, m.Add("é", second))
	check(t, m.Add("", second))
	check(
		t,
		m.AddAll(
			[]string{"a", "b"},
			[]*tenon.Tensor{first, first},
			&tenon.ShareOptions{Access: tenon.AccessWritable},
		),
	)
	check(t, m.SetUserBytes([]byte("user")))
	if m.Len() != 5 || string(m.UserBytes()) != "user" {
		t.Fatal(m.Len(), m.UserBytes())
	}
	for i, want := range []string{"-", "é", "", "a", "b"} {
		if name, ok := m.Name(i); name != strings.TrimPrefix(want, "-") || ok != (want != "-") {
			t.Errorf("tensor %d has the name %q, %v", i, name, ok)
		}
	}
	views := must(m.Views())
	check(t, m.Add(strings.Repeat("x", 4096), second)) // this may move the names
	if len(views) != 5 || views[1].Name() != "é" ||
		must(tenon.ReadOnlySlice[float32](views[1]))[1] != 1 {
		t.Error("the views show something else")
	}
	found := must(m.Find("b"))
	defer found.Close()
	if found.Numel() != 4 {
		t.Error("another tensor was found")
	}
	if _, err := m.Find("c"); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	if _, err := m.Find("b\x00"); !errors.Is(err, tenon.ErrNotFound) {
		t.Error(err)
	}
	tensors := must(m.Tensors())
	taken := must(views[4].Tensor())
	defer taken.Close()
	m.Close()
	if len(tensors) != 6 || tensors[5].Numel() != 2 {
		t.Error("a tensor went with its message")
	}
	for _, tensor := range tensors {
		tensor.Close()
	}
}

func TestMessageRefused(t *testing.T) {
	nothingLeft(t)
	tensor := floats(t, 4, nil)
	private := floats(t, 4, &tenon.StorageOptions{Private: true})
	m := must(tenon.NewMessage())
	defer m.Close()
	bad := func(code tenon.Code, err error) {
		t.Helper()
		if !errors.Is(err, code) {
			t.Error(err)
		}
	}
	bad(tenon.ErrInvalidArgument, m.Add("\xff", tensor))
	bad(tenon.ErrInvalidArgument, m.Add("a\x00b", tensor))
	bad(tenon.ErrInvalidArgument, m.Add(strings.Repeat("x", 4097), tensor))
	bad(tenon.ErrInvalidArgument, m.AddAll([]string{"a"}, []*tenon.Tensor{tensor, tensor}, nil))
	bad(tenon.ErrUnsupported, m.AddAll(nil, []*tenon.Tensor{tensor, private}, nil))
	err := m.AddAll(nil, []*tenon.Tensor{tensor}, &tenon.ShareOptions{Access: tenon.AccessReadOnly})
	bad(tenon.ErrPermission, err)
	var e *tenon.Error
	if !errors.As(err, &e) || !strings.Contains(e.Details["option"], "LENDER_WRITES") ||
		e.Cause == nil {
		t.Errorf("%#v", e)
	}
	bad(tenon.ErrInvalidArgument, m.SetUserBytes(make([]byte, tenon.MaxUserNBytes+1)))
	_, err = m.Tensor(0)
	bad(tenon.ErrInvalidArgument, err)
	_, err = m.Tensor(-1)
	bad(tenon.ErrInvalidArgument, err)
	if m.Len() != 0 || m.UserBytes() != nil || len(must(m.Views())) != 0 ||
		len(must(m.Tensors())) != 0 {
		t.Error("something was added")
	}
}

// calls counts the calls of C that work makes.
func calls(work func()) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := runtime.NumCgoCall()
	work()
	return runtime.NumCgoCall() - before
}

// 300 tensors cross in as few calls of C as one does, in each direction. The test counts calls and
// measures no time.
func TestOneCrossing(t *testing.T) {
	tensors := make([]*tenon.Tensor, 300)
	names := make([]string, 300)
	for i := range tensors {
		tensors[i], names[i] = floats(t, 1024, nil), fmt.Sprint("layer.", i)
	}
	m := must(tenon.NewMessage())
	defer m.Close()
	if n := calls(func() { check(t, m.AddAll(names, tensors, nil)) }); n != 1 {
		t.Errorf("%d calls to add 300 tensors", n)
	}
	var views []tenon.TensorView
	if n := calls(func() { views = must(m.Views()) }); n != 2 { // their number, and the views
		t.Errorf("%d calls to see 300 tensors", n)
	}
	if n := calls(func() {
		for i, view := range views {
			values := must(tenon.ReadOnlySlice[float32](view))
			if values[1023] != 1023 || view.Name() != names[i] {
				t.Fatal("another tensor")
			}
			check(t, tenon.With(view, func(values []float32) error { values[0] = 1; return nil }))
		}
	}); n != 0 {
		t.Errorf("%d calls to read and write 300 tensors", n)
	}
	if n := calls(func() {
		for _, tensor := range must(m.Tensors()) {
			defer tensor.Close()
		}
	}); n != 2+300 { // 300 of them are the Closes
		t.Errorf("%d calls to take 300 tensors", n)
	}
}

func TestDescriptor(t *testing.T) {
	for _, bytesOnly := range []bool{false, true} {
		nothingLeft(t)
		tensor := floats(t, 4, nil)
		m := must(tenon.NewMessage(tensor))
		d := must(tenon.NewDescriptor(m, &tenon.DescriptorOptions{BytesOnly: bytesOnly}))
		m.Close()
		if (len(d.FDs()) == 0) != bytesOnly {
			t.Fatal(d.FDs())
		}
		data := d.Bytes()
		again := must(tenon.OpenDescriptor(data, d.FDs(), nil))
		view := must(again.Views())[0]
		must(tenon.Slice[float32](view))[3] = 42
		if must(tenon.Slice[float32](tensor))[3] != 42 {
			t.Error("not the same memory")
		}
		again.Close()
		var e *tenon.Error
		wrong := bytes.Clone(data)
		wrong[0] ^= 1
		if _, err := tenon.OpenDescriptor(wrong, d.FDs(), nil); !errors.As(err, &e) ||
			e.Code != tenon.ErrCorrupt ||
			e.Details["field"] != "magic" {
			t.Errorf("%#v", err)
		}
		for n := 0; n < len(data); n += len(data) / rounds(len(data)) {
			if _, err := tenon.OpenDescriptor(data[:n], d.FDs(), nil); !errors.As(err, &e) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		if _, err := tenon.OpenDescriptor(data, []int{1 << 40}, nil); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Error(err)
		}
		d.Close()
		tensor.Close()
	}
}
