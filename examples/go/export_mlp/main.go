// Builds a multilayer perceptron by hand and writes it as a file that torch.jit.load runs, without
// PyTorch. usage: export_mlp [FILE]
package main

import (
	"fmt"
	"log"
	"os"

	"libtenon/tenon"
)

// addParameter adds a float32 parameter with plain numbers as weights.
func addParameter(layer *tenon.Module, name string, sizes ...int64) error {
	numel := int64(1)
	for _, size := range sizes {
		numel *= size
	}
	elements := make([]float32, numel)
	for i := range elements {
		elements[i] = 0.25 * float32(i%7-3)
	}
	plain, err := tenon.FromSlice(elements, sizes, nil)
	if err != nil {
		return err
	}
	defer plain.Close() // the module has its own references
	storage, err := plain.Storage()
	if err != nil {
		return err
	}
	defer storage.Close()
	tensor, err := tenon.NewTensor(
		storage,
		tenon.Spec{DType: tenon.Float32, Sizes: sizes, Flags: tenon.RequiresGrad},
	)
	if err != nil {
		return err
	}
	defer tensor.Close()
	value, err := tenon.NewTensorValue(tensor)
	if err != nil {
		return err
	}
	defer value.Close()
	return layer.AddParameter(name, value)
}

func addLinear(mlp *tenon.Module, name string, in, out int64) error {
	layer, err := tenon.NewModule("layers.Linear")
	if err != nil {
		return err
	}
	defer layer.Close()
	if err := addParameter(layer, "weight", out, in); err != nil {
		return err
	}
	if err := addParameter(layer, "bias", out); err != nil {
		return err
	}
	err = layer.Define(`def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight, self.bias)
`)
	if err != nil {
		return err
	}
	return mlp.AddSubmodule(name, layer, "")
}

func run(file string) error {
	mlp, err := tenon.NewModule("MLP")
	if err != nil {
		return err
	}
	defer mlp.Close()
	if err := addLinear(mlp, "fc1", 4, 8); err != nil {
		return err
	}
	if err := addLinear(mlp, "fc2", 8, 3); err != nil {
		return err
	}
	err = mlp.Define(`def forward(self, x: Tensor) -> Tensor:
  return self.fc2.forward(torch.relu(self.fc1.forward(x)))
`)
	if err != nil {
		return err
	}
	if err := mlp.SetExtraFile("labels.txt", []byte("cat\ndog\nowl\n")); err != nil {
		return err
	}
	report, err := tenon.ExportModule(mlp, file, nil)
	if err != nil {
		return err
	}
	fmt.Printf(
		"%s: %d records, %d bytes, for PyTorch %s and later\n",
		file,
		report.Records,
		report.NBytes,
		report.OldestPyTorch,
	)
	return nil
}

func main() {
	file := "mlp.pt"
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	if err := run(file); err != nil {
		log.Fatal(err)
	}
}
