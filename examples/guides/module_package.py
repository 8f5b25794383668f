"""Put two modules and a file into one package of torch.package, and change one of them in the
package.
"""

import tempfile
from pathlib import Path

import numpy
import tenon


def linear(name: str) -> tenon.Module:
    layer = tenon.Module(name)
    layer.add_parameter("weight", numpy.ones((3, 4), "float32"))
    layer.define("""
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight)
""")
    return layer


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "models.pt")
    tenon.export_package(
        path,
        {"models/a.pkl": linear("A"), "models/b.pkl": linear("B"), "models/note.txt": "two layers"},
    )

    with tenon.Package(path) as package:
        # prints: ('models/a.pkl', 'models/b.pkl') b'two layers'
        print(package.modules, package.read("models/note.txt"))
        package["models/a.pkl"]["weight"] = numpy.zeros((3, 4), "float32")
        tenon.export_package(path, base=package)  # all of it again, with the new weight

    with tenon.Package(path) as package:
        # prints: [0.0, 12.0]
        print([float(package[name]["weight"].numpy().sum()) for name in package])
