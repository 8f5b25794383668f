// Imports a model, puts new weights in, and exports the model. Here the new weights are half the
// old ones. In practice a trainer makes them. usage: replace_weights FILE OUT
package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	"libtenon/tenon"
)

// halve gives a new tensor of the same sizes with halved elements. It gives nil for a tensor that
// does not have contiguous float32 elements.
func halve(old *tenon.Value) (*tenon.Value, error) {
	tensor, err := old.Tensor()
	if errors.Is(err, tenon.ErrUnsupported) { // quantised, sparse, …
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer tensor.Close()
	spec, err := tensor.Spec()
	if err != nil {
		return nil, err
	}
	if spec.DType != tenon.Float32 || !tensor.IsContiguous() {
		return nil, nil
	}
	view, err := tenon.NewView[float32](tensor) // the tensor is a read-only view of the file
	if err != nil {
		return nil, err
	}
	defer view.Close()
	halves := make([]float32, view.Len())
	for i, element := range view.All() {
		halves[i] = element * 0.5
	}
	made, err := tenon.FromSlice(halves, spec.Sizes, nil)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	storage, err := made.Storage()
	if err != nil {
		return nil, err
	}
	defer storage.Close()
	flagged, err := tenon.NewTensor(
		storage,
		tenon.Spec{DType: spec.DType, Sizes: spec.Sizes, Flags: spec.Flags},
	)
	if err != nil {
		return nil, err
	}
	defer flagged.Close()
	return tenon.NewTensorValue(flagged)
}

func replace(model *tenon.Module) (int, error) {
	tensors, err := model.Tensors()
	if err != nil {
		return 0, err
	}
	defer tensors.Close()
	weights := make(map[string]*tenon.Value)
	for _, member := range tensors {
		if member.Kind != tenon.MemberParameter {
			continue
		}
		value, err := halve(member.Value)
		if err != nil {
			return 0, err
		}
		if value != nil {
			defer value.Close()
			weights[member.Name] = value // "encoder.0.weight"
		}
	}
	// Load replaces all of them or none. A name that the model does not have is an error.
	_, _, err = model.Load(weights, tenon.AllowMissing)
	return len(weights), err
}

func run(file, out string) error {
	model, err := tenon.ImportModule(file, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	n, err := replace(model)
	if err != nil {
		return err
	}
	if _, err := tenon.ExportModule(model, out, nil); err != nil {
		return err
	}
	fmt.Printf("%s: %d parameters replaced\n", out, n)
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: replace_weights FILE OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
