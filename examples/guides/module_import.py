"""Read an archive in two ways: as views of its file, and as copies in an arena that can be lent."""

import tempfile
from pathlib import Path

import numpy
import tenon

layer = tenon.Module("Linear")
layer.add_parameter("weight", numpy.ones((3, 4), "float32"))
layer.define("""
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight)
""")

with tempfile.TemporaryDirectory() as folder, tenon.Arena(1 << 20) as arena:
    path = Path(folder, "linear.pt")
    tenon.export_module(layer, path)

    views = tenon.import_module(path)  # tensors="map": no byte is copied
    assert views.report is not None
    print(views.report.mapped_nbytes, views["weight"].read_only)  # prints: 48 True

    copies = tenon.import_module(path, tensors="fill", arena=arena, check="all")
    here, there = tenon.pair()
    here.send({"weight": copies["weight"]})
    print(there.recv()["weight"].numpy().sum())  # prints: 12.0
