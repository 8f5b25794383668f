"""Write an archive that PyTorch's lite interpreter runs, and list the operators that it calls."""

import tempfile
import zipfile
from pathlib import Path

import numpy
import tenon

layer = tenon.Module("Linear")
layer.add_parameter("weight", numpy.ones((3, 4), "float32"))
layer.define("""
def forward(self, x: Tensor) -> Tensor:
  if torch.dim(x) == 1:
    x = torch.unsqueeze(x, 0)
  return torch.relu(torch.linear(x, self.weight))
""")

print(layer.opnames())  # prints: ['aten::eq.int', 'aten::linear', 'aten::relu', 'aten::unsqueeze']

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "linear.ptl")
    report = tenon.export_module(layer, path, bytecode="compile", methods=["forward"])
    print(report.bytecode_functions)  # prints: 1
    print("linear/bytecode.pkl" in zipfile.ZipFile(path).namelist())  # prints: True

    try:
        tenon.export_module(layer, path, bytecode="compile", methods=["train"])
    except tenon.NotFound as error:
        print(error.strerror)  # prints: __torch__.Linear has no method train
