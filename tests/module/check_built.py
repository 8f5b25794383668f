#!/usr/bin/env python3
"""Runs what the agent built, in the PyTorch that runs this, and compares it with the same computed by PyTorch's own layers.

usage: check_built.py FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FOLDER = Path(sys.argv[1])


def ramp(*sizes: int, first: float = 0.0) -> Tensor:
    numel = int(torch.tensor(sizes).prod())
    return (first + (torch.arange(numel) % 17 - 8).to(torch.float32) / 16).reshape(sizes)


def linear(x: Tensor, n_in: int, n_out: int, first: float = 0.0) -> Tensor:
    return F.linear(x, ramp(n_out, n_in, first=first), ramp(n_out, first=first))


def mlp(x: Tensor) -> Tensor:
    return linear(torch.relu(linear(x, 4, 8)), 8, 3, 0.25)


def sequential(x: Tensor) -> Tensor:
    return linear(linear(linear(x, 4, 4), 4, 4, 0.5), 4, 4)


def cnn(x: Tensor) -> Tensor:
    conv, norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
    conv.load_state_dict({"weight": ramp(4, 3, 3, 3)})
    norm.load_state_dict(
        {
            "weight": ramp(4, first=1.0),
            "bias": ramp(4),
            "running_mean": ramp(4),
            "running_var": ramp(4, first=2.0),
            "num_batches_tracked": torch.tensor(0),
        }
    )
    return nn.Sequential(conv, norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()).eval()(x)


def attention(x: Tensor, mask: Tensor | None = None) -> Tensor:
    heads = nn.MultiheadAttention(8, 2, batch_first=True)
    heads.load_state_dict(
        {
            "in_proj_weight": torch.cat([ramp(8, 8, first=0.5), ramp(8, 8, first=0.125), ramp(8, 8, first=0.125)]),
            "in_proj_bias": torch.cat([ramp(8, first=0.5), ramp(8, first=0.125), ramp(8, first=0.125)]),
            "out_proj.weight": ramp(8, 8, first=0.125),
            "out_proj.bias": ramp(8, first=0.125),
        }
    )
    return heads(x, x, x, attn_mask=mask, need_weights=False)[0]


def lstm(x: Tensor) -> tuple[Tensor, Tensor]:
    layer = nn.LSTM(4, 3)
    layer.load_state_dict({"weight_ih_l0": ramp(12, 4), "weight_hh_l0": ramp(12, 3), "bias_ih_l0": ramp(12), "bias_hh_l0": ramp(12)})
    y, (_, c) = layer(x)
    return y, c


def embedding(ids: Tensor, offsets: Tensor) -> Tensor:
    return F.embedding_bag(ids, ramp(10, 4), offsets)


def control_flow(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(n):
        y = y + float(i) if i % 2 == 0 else y * 2
    y = ((y + 1.5) + -2) * 3
    while bool(y.sum() > 100.0):
        y = y / 10.0
    return y


def types(x: Tensor) -> tuple[Tensor, int]:
    return ((x + 1) * ramp(1, first=2.5) + ramp(2) - 1.0) * 3, 5 + 2 + 7


def constants(x: Tensor) -> tuple[Any, ...]:
    return -3, 0.1, True, 'it\'s "q" \\ here', "\u00e9t\u00e9", float("-inf"), 2, 0, 1 - 2j, ramp(3) + x


def shared(x: Tensor) -> Tensor:
    return x @ ramp(4, 4) @ ramp(4, 4)


X = torch.linspace(-1.0, 1.0, 8).reshape(2, 4)
MASK = torch.tensor([[0.0, -1.0, 0.5], [0.25, 0.0, 0.0], [0.0, 0.0, -2.0]])
SEQUENCE = torch.linspace(-1.0, 1.0, 48).reshape(2, 3, 8)
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "mlp": [(X,)],
    "sequential": [(X,)],
    "cnn": [(torch.linspace(-1.0, 1.0, 96).reshape(2, 3, 4, 4),)],
    "attention": [(SEQUENCE,), (SEQUENCE, MASK)],
    "lstm": [(torch.linspace(-1.0, 1.0, 40).reshape(5, 2, 4),)],
    "embedding": [(torch.tensor([1, 2, 3, 4]), torch.tensor([0, 3]))],
    "control_flow": [(torch.tensor([1.0, 2.0]), 4), (torch.tensor([1e6, 2.0]), 3)],
    "types": [(torch.tensor([1.0, -2.0]),)],
    "constants": [(torch.tensor([1.0, 2.0, 3.0]),)],
    "shared": [(X,)],
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def main() -> int:
    failed = []
    for name, calls in CALLS.items():
        module = torch.jit.load(str(FOLDER / f"{name}.pt"))
        for arguments in calls:
            expected, found = globals()[name](*arguments), module(*arguments)
            if not same(expected, found):
                failed.append(f"{name}{arguments}: {found} and not {expected}")
        if any(parameter.requires_grad is False for parameter in module.parameters()):
            failed.append(f"{name}: a parameter does not require a gradient")
        if not module.training or module.eval().training:
            failed.append(f"{name}: training cannot be switched")
    tied = torch.jit.load(str(FOLDER / "shared.pt"))
    if tied.encoder.weight.data_ptr() != tied.decoder.weight.data_ptr():
        failed.append("shared: two weights")
    print("\n".join(failed) or f"PyTorch {torch.__version__}: {len(CALLS)} modules built by hand")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
