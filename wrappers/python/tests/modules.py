"""Modules that several tests start from."""

from __future__ import annotations

import numpy as np
import tenon

LINEAR = (
    "def forward(self, x: Tensor) -> Tensor:\n  return torch.linear(x, self.weight, self.bias)\n"
)
MLP = (
    "def forward(self, x: Tensor) -> Tensor:\n  return"
    " self.fc2.forward(torch.relu(self.fc1.forward(x)))\n"
)


def linear(size_in: int, size_out: int, first: float = 0) -> tenon.Module:
    module = tenon.Module("layers.Linear")
    module.add_parameter(
        "weight",
        np.arange(first, first + size_in * size_out, dtype="float32").reshape(size_out, size_in),
    )
    module.add_parameter("bias", np.arange(first, first + size_out, dtype="float32"))
    module.define(LINEAR)
    return module


def mlp() -> tenon.Module:
    module = tenon.Module("MLP")
    module.add_submodule("fc1", linear(4, 8))
    module.add_submodule("fc2", linear(8, 3, 100))
    module.define(MLP)
    return module
