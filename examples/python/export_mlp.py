"""Builds a multilayer perceptron by hand and writes it as a file that torch.jit.load runs, without
PyTorch. usage: export_mlp.py [FILE]
"""

import sys

import numpy
import tenon


def parameter(*shape: int) -> tenon.Tensor:
    """Makes a parameter with plain numbers as weights."""
    tensor = tenon.empty(shape, requires_grad=True)
    tensor.numpy().flat = 0.25 * (numpy.arange(tensor.numel) % 7 - 3)
    return tensor


def linear(size_in: int, size_out: int) -> tenon.Module:
    layer = tenon.Module("layers.Linear")
    layer.add_parameter("weight", parameter(size_out, size_in))
    layer.add_parameter("bias", parameter(size_out))
    layer.define("""
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight, self.bias)
""")
    return layer


mlp = tenon.Module("MLP")
mlp.add_submodule("fc1", linear(4, 8))
mlp.add_submodule("fc2", linear(8, 3))
mlp.define("""
def forward(self, x: Tensor) -> Tensor:
  return self.fc2.forward(torch.relu(self.fc1.forward(x)))
""")
mlp.extra_files["labels.txt"] = "cat\ndog\nowl\n"

file = sys.argv[1] if len(sys.argv) > 1 else "mlp.pt"
report = tenon.export_module(mlp, file)
print(
    f"{file}: {report.records} records, {report.nbytes} bytes, for PyTorch {report.oldest_pytorch}"
    " and later"
)
