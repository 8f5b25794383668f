#!/usr/bin/env python3
"""Writes archives for change_test.py with this PyTorch: modules that have class names in common and
different classes.

usage: write_changed.py FOLDER a|b      one process each: one PyTorch has one class of a name
"""

import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn


def a():
    class Point(NamedTuple):
        x: Tensor
        n: int

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.full((4,), 0.5))

        def forward(self, x: Tensor) -> Point:
            return Point(x * self.w, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.c = torch.tensor([1.0, 2.0, 3.0, 4.0])

        def forward(self, x: Tensor) -> Tensor:
            p = self.inner(x)
            return p.x + p.n + torch.tensor([0.25, 0.5, 0.75, 1.0])

    return Net()


def b():
    class Point(NamedTuple):
        x: Tensor
        y: Tensor

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.full((4,), 0.5))

        def forward(self, x: Tensor) -> Point:
            return Point(x - self.w, self.w)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            p = self.inner(x)
            print("caf\u00e9")
            return torch.cat([p.x, p.y.expand(2, 4)])

    return Net()


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(2)
    net = {"a": a, "b": b}[sys.argv[2]]()
    torch.jit.save(torch.jit.script(net.eval()), str(folder / f"{sys.argv[2]}.pt"))
    if sys.argv[2] == "b":
        return 0
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
    torch.jit.save(torch.jit.script(layers), str(folder / "layers.pt"))
    torch.jit.save(torch.jit.trace(layers, torch.ones(2, 4)), str(folder / "traced.pt"))
    torch.jit.save(torch.jit.script(nn.Linear(4, 4).eval()), str(folder / "linear.pt"))
    torch.jit.save(torch.jit.script(nn.Tanh().eval()), str(folder / "tanh.pt"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
