"""Save tensors as a file of weights."""

import tempfile
from pathlib import Path

import numpy
import tenon

folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "net.safetensors")
state = {"fc.weight": numpy.ones((2, 3), "float32"), "fc.bias": numpy.zeros(2, "float32")}

tenon.weights.save(path, state, metadata={"format": "pt"})
# torch.load(path, weights_only=True) reads this file.
tenon.weights.save(path.with_suffix(".pt"), state, form="torch")

with tenon.open_weights(path) as weights:
    print(weights.names())  # prints: ('fc.bias', 'fc.weight')
with tenon.open_weights(path.with_suffix(".pt")) as weights:
    print(weights["fc.bias"].tolist())  # prints: [0.0, 0.0]
folder.cleanup()
