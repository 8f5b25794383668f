"""The expected results and contents of each module that is built by hand. PyTorch itself computes
them, from the models of built_layers.py and built_values.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Expected:
    # Arguments of forward and its result, in the form of zoo.plain. The calls are made one after
    # the other.
    calls: list[tuple[tuple[Any, ...], Any]]
    # "parameter a.b" or "buffer a.b", and the tensor: all of them, in the order of the module.
    tensors: dict[str, Tensor] = field(default_factory=dict)
    # Whether results must be equal to the bit.
    exact: bool = False
    extra_files: dict[str, bytes] = field(default_factory=dict)
    # Tensors for which PyTorch has hardly an operator: element type, sizes and the bytes of the
    # storage.
    raw: dict[str, tuple[torch.dtype, list[int], bytes]] = field(default_factory=dict)
    # Parameters and buffers that are None.
    none: list[str] = field(default_factory=list)
    # Names that the module must not have.
    absent: list[str] = field(default_factory=list)


EXPECTED: dict[str, Callable[[], Expected]] = {}
# model -> the reason why this PyTorch lacks it
LEFT_OUT: dict[str, str] = {}


def expected(
    has: bool = True, without: str = ""
) -> Callable[[Callable[[], Expected]], Callable[[], Expected]]:
    """Registers the expected results of a model.

    `has` says whether this PyTorch can have the model, and `without` why not.
    """

    def register(build: Callable[[], Expected]) -> Callable[[], Expected]:
        if has:
            EXPECTED[build.__name__] = build
        else:
            LEFT_OUT[build.__name__] = without
        return build

    return register


def ramp(*sizes: int, first: float = 0.0, grad: bool = True) -> Tensor:
    """Like Steps.ramp of built_steps.py."""
    numel = 1
    for size in sizes:
        numel *= size
    return (
        (first + (torch.arange(numel) % 17 - 8).to(torch.float32) / 16)
        .reshape(sizes)
        .requires_grad_(grad)
    )
