// Tests of files of weights.

package tenon_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"libtenon/tenon"
)

func goldenWeights(file string) string {
	return filepath.Join("..", "..", "tests", "peers", "golden", "weights", file)
}

func weightElements(t testing.TB, weights *tenon.Weights, name string) []float32 {
	t.Helper()
	value := must(weights.Tensor(name))
	defer value.Close()
	tensor := must(value.Tensor())
	defer tensor.Close()
	view := must(tenon.NewView[float32](tensor))
	defer view.Close()
	elements := make([]float32, view.Len())
	view.CopyTo(elements)
	return elements
}

func TestWeightsReplacedAndWrittenAgain(t *testing.T) {
	nothingLeft(t)
	path := filepath.Join(t.TempDir(), "new.pt2")
	for _, file := range []string{"torch-2.15.0.pt2", "torch-2.6.0.pt2"} {
		weights := must(tenon.OpenWeights(goldenWeights(file), nil))
		if names := must(weights.Names()); !slices.Equal(
			names,
			[]string{"weight", "tied", "columns", "shift"},
		) {
			t.Errorf("%s has %v", file, names)
		}
		check(t, weights.Replace("shift", tensorValue(t, 7, 8)))
		if err := weights.Replace("weight", tensorValue(t, 7, 8)); !errors.Is(
			err,
			tenon.ErrInvalidArgument,
		) {
			t.Errorf("another shape: %v", err)
		}
		check(t, weights.Rewrite(path, tenon.DurabilityFile))
		again := must(tenon.OpenWeights(path, nil))
		shift, weight := weightElements(t, again, "shift"), weightElements(t, again, "tied")
		if shift[1] != 8 || weight[5] != 5 {
			t.Errorf("%s: the weights are %v and %v", file, shift, weight)
		}
		again.Close()
		weights.Close()
		if _, err := weights.Names(); !errors.Is(err, tenon.ErrClosed) {
			t.Errorf("closed weights: %v", err)
		}
	}
}

func TestWeightsHaveValues(t *testing.T) {
	nothingLeft(t)
	path := goldenWeights(filepath.Join("..", "checkpoint", "1.13.1", "checkpoint.pt"))
	weights := must(tenon.OpenWeights(path, nil))
	defer weights.Close()
	epoch := must(weights.Value("epoch"))
	defer epoch.Close()
	if number := must(epoch.Int()); number != 3 {
		t.Errorf("epoch is %d", number)
	}
	if names := must(weights.ValueNames()); !slices.Contains(names, "epoch") {
		t.Errorf("the values are %v", names)
	}
	if lines := must(weights.Skipped()); len(lines) != 0 {
		t.Errorf("skipped: %v", lines)
	}
	if _, err := weights.Value("none"); !errors.Is(err, tenon.ErrNotFound) {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestWeightsOfExecuTorch(t *testing.T) {
	nothingLeft(t)
	weights := must(tenon.OpenWeights(goldenWeights("executorch-1.5.1.ptd"), nil))
	defer weights.Close()
	if elements := weightElements(t, weights, "linear.weight"); elements[5] != 5 {
		t.Errorf("linear.weight is %v", elements)
	}
	if _, err := weights.Tensor("none"); !errors.Is(err, tenon.ErrNotFound) {
		t.Errorf("an unknown name: %v", err)
	}
	if err := weights.Rewrite("/nowhere/x.ptd", tenon.DurabilityNone); !errors.Is(
		err,
		tenon.ErrUnsupported,
	) {
		t.Errorf("a .ptd file is written: %v", err)
	}
}

func TestWeightsAreSaved(t *testing.T) {
	nothingLeft(t)
	path := filepath.Join(t.TempDir(), "saved")
	value := tensorValue(t, 7, 8)
	options := &tenon.SaveWeightsOptions{Metadata: map[string]string{"format": "pt"}}
	check(t, tenon.SaveWeights(path, map[string]*tenon.Value{"one": value}, options))
	weights := must(tenon.OpenWeights(path, nil))
	if elements := weightElements(t, weights, "one"); elements[1] != 8 {
		t.Errorf("one is %v", elements)
	}
	if names := must(weights.ValueNames()); !slices.Equal(names, []string{"__metadata__.format"}) {
		t.Errorf("the values are %v", names)
	}
	weights.Close()

	shared := map[string]*tenon.Value{"two": value, "one": value}
	err := tenon.SaveWeights(path, shared, nil)
	if !errors.Is(err, tenon.ErrInvalidArgument) {
		t.Errorf("shared memory in a safetensors file: %v", err)
	}
	for _, options := range []*tenon.SaveWeightsOptions{
		{DuplicateShared: true}, {Form: tenon.WeightsTorchSave},
		{DuplicateShared: true, Form: tenon.WeightsNpz},
	} {
		check(t, tenon.SaveWeights(path, shared, options))
		weights := must(tenon.OpenWeights(path, nil))
		if names := must(weights.Names()); !slices.Equal(names, []string{"one", "two"}) {
			t.Errorf("the names are %v", names)
		}
		weights.Close()
	}
	check(t, tenon.SaveWeights(path, nil, nil))
	if err := tenon.SaveWeights(path, map[string]*tenon.Value{"a\x00": value}, nil); !errors.Is(
		err,
		tenon.ErrInvalidArgument,
	) {
		t.Errorf("a name with a NUL: %v", err)
	}
}
