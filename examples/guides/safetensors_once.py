"""A program that uses safe_open shares the file with its other processes."""

import tempfile
from pathlib import Path

import numpy as np
import tenon
from safetensors.numpy import save_file
from tenon.integrations.safetensors import safe_open

folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "model.safetensors")
save_file({"layer.weight": np.ones((4, 8), np.float32)}, path, metadata={"format": "np"})

with safe_open(path, framework="np", name="guide-safetensors") as file:
    state = {key: file.get_tensor(key) for key in file.keys()}
    half = file.get_slice("layer.weight")[:2]
    print(file.metadata(), half.shape)  # prints: {'format': 'np'} (2, 8)
state["layer.weight"][0] = 7  # the write stays in this process
with tenon.weights.open(name="guide-safetensors") as others:
    print(others["layer.weight"].numpy().sum())  # prints: 32.0
    print(others.info().loaded)  # prints: False
folder.cleanup()
