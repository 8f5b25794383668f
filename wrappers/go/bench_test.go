// A benchmark of the receiver's side.

package tenon_test

import (
	"context"
	"testing"

	"libtenon/tenon"
)

// The benchmark receives 300 tensors of 4 KiB, and looks at each of them and reads it.
// tests/bench/go has the other benchmarks.
func BenchmarkReceive300(b *testing.B) {
	left, right := pair(b)
	m := must(tenon.NewMessage())
	defer m.Close()
	tensors, names := make([]*tenon.Tensor, 300), make([]string, 300)
	for i := range tensors {
		tensors[i], names[i] = floats(b, 1024, nil), "layer"
	}
	check(b, m.AddAll(names, tensors, nil))
	ctx := context.Background()
	for b.Loop() {
		b.StopTimer()
		check(b, left.Send(ctx, m))
		b.StartTimer()
		got := must(right.Recv(ctx))
		sum := float32(0)
		for _, view := range must(got.Views()) {
			sum += must(tenon.ReadOnlySlice[float32](view))[1]
		}
		if sum != 300 {
			b.Fatal(sum)
		}
		b.StopTimer()
		got.Close()
		b.StartTimer()
	}
}
