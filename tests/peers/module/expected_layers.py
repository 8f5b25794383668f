"""The results of PyTorch's own layers for the models of built_layers.py."""

from typing import Any

import torch
import torch.nn.functional as F
from expected import Expected, expected, ramp
from torch import Tensor, nn

X = torch.linspace(-1.0, 1.0, 8).reshape(2, 4)
MASK = torch.tensor([[0.0, -1.0, 0.5], [0.25, 0.0, 0.0], [0.0, 0.0, -2.0]])
SEQUENCE = torch.linspace(-1.0, 1.0, 48).reshape(2, 3, 8)

Tensors = dict[str, Tensor]


def linear(path: str, n_in: int, n_out: int, first: float = 0.0) -> Tensors:
    return {
        f"parameter {path}.weight": ramp(n_out, n_in, first=first),
        f"parameter {path}.bias": ramp(n_out, first=first),
    }


def apply(tensors: Tensors, path: str, x: Tensor) -> Tensor:
    return F.linear(x, tensors[f"parameter {path}.weight"], tensors[f"parameter {path}.bias"])


def loaded(layer: nn.Module, **tensors: Tensor) -> nn.Module:
    layer.load_state_dict(tensors)
    return layer.eval()


@expected()
def mlp() -> Expected:
    t = linear("fc1", 4, 8) | linear("fc2", 8, 3, 0.25)
    return Expected([((X,), apply(t, "fc2", torch.relu(apply(t, "fc1", X))))], t)


@expected()
def sequential() -> Expected:
    t = linear("0", 4, 4) | linear("1", 4, 4, 0.5)
    y = apply(t, "0", apply(t, "1", apply(t, "0", X)))
    again = {name.replace(" 0", " 2"): tensor for name, tensor in t.items() if " 0" in name}
    return Expected([((X,), y)], t | again)


@expected()
def cnn() -> Expected:
    x = torch.linspace(-1.0, 1.0, 96).reshape(2, 3, 4, 4)
    t = {
        "parameter conv.weight": ramp(4, 3, 3, 3),
        "parameter norm.weight": ramp(4, first=1.0),
        "parameter norm.bias": ramp(4),
    }
    t |= {
        "buffer norm.running_mean": ramp(4, grad=False),
        "buffer norm.running_var": ramp(4, first=2.0, grad=False),
    }
    conv = loaded(nn.Conv2d(3, 4, 3, padding=(1, 0), bias=False), weight=t["parameter conv.weight"])
    of_norm = {name.split(".")[1]: tensor for name, tensor in t.items() if " norm." in name}
    norm = loaded(nn.BatchNorm2d(4), num_batches_tracked=torch.tensor(0), **of_norm)
    return Expected(
        [((x,), nn.Sequential(conv, norm, nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Flatten())(x))], t
    )


@expected()
def transformer_block() -> Expected:
    t: Tensors = {}
    for name, first in (("q", 0.5), ("k", 0.125), ("v", 0.125), ("out", 0.125)):
        t |= linear(f"attention.{name}", 8, 8, first)
    t |= {"parameter norm1.weight": ramp(8, first=1.0), "parameter norm1.bias": ramp(8)}
    t |= linear("fc1", 8, 16) | linear("fc2", 16, 8, 0.25)
    t |= {"parameter norm2.weight": ramp(8, first=0.5), "parameter norm2.bias": ramp(8)}
    names = {
        "attention.out": "self_attn.out_proj",
        "fc1": "linear1",
        "fc2": "linear2",
        "norm1": "norm1",
        "norm2": "norm2",
    }
    state = {
        f"{to}.{end}": t[f"parameter {name}.{end}"]
        for name, to in names.items()
        for end in ("weight", "bias")
    }
    for end in ("weight", "bias"):
        state[f"self_attn.in_proj_{end}"] = torch.cat(
            [t[f"parameter attention.{name}.{end}"] for name in "qkv"]
        )
    block = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    block.load_state_dict(state)
    block.eval()
    # Without gradients PyTorch 2 takes a faster path, which treats a mask of floats as one of
    # bools.
    with torch.enable_grad():
        plain, masked = block(SEQUENCE).detach(), block(SEQUENCE, src_mask=MASK).detach()
    return Expected([((SEQUENCE,), plain), ((SEQUENCE, MASK), masked)], t)


@expected()
def lstm() -> Expected:
    x = torch.linspace(-1.0, 1.0, 40).reshape(2, 5, 4)
    t, state = {}, {}
    for layer, n_in in enumerate((4, 6)):
        for end in ("", "_reverse"):
            for name, to, sizes in (
                ("w_ih", "weight_ih", (12, n_in)),
                ("w_hh", "weight_hh", (12, 3)),
                ("b_ih", "bias_ih", (12,)),
                ("b_hh", "bias_hh", (12,)),
            ):
                tensor = ramp(*sizes, first=0.25 * layer + 0.125 * bool(end))
                t[f"parameter {name}_l{layer}{end}"] = state[f"{to}_l{layer}{end}"] = tensor
    y, (_, c) = loaded(nn.LSTM(4, 3, num_layers=2, batch_first=True, bidirectional=True), **state)(
        x
    )
    return Expected([((x,), (y, c))], t)


@expected()
def embedding_bag() -> Expected:
    weight, ids, offsets, weights = (
        ramp(10, 4),
        torch.tensor([1, 2, 3, 9]),
        torch.tensor([0, 3]),
        torch.tensor([0.5, 1.0, -1.0, 2.0]),
    )
    mean, weighted = (
        F.embedding_bag(ids, weight, offsets),
        F.embedding_bag(ids, weight, offsets, mode="sum", per_sample_weights=weights),
    )
    return Expected(
        [((ids, offsets), mean), ((ids, offsets, weights), weighted)], {"parameter weight": weight}
    )


def controlled(x: Tensor, n: int) -> tuple[Any, ...]:
    y, seen = x, []
    for i in range(min(n, 7)):
        y = y * 2 if i % 2 else y + float(i)
        seen += [] if i % 2 else [i]
    y = ((y + 1.5) + -2) * 3
    while bool(y.sum() > 100.0):
        y = y / 10.0
    return y, [i * i for i in seen], [(3, "x"), (5, "skip")], {"a": [1.5, -2.0], "b": []}


@expected()
def control_flow() -> Expected:
    arguments: list[tuple[Any, ...]] = [
        (torch.tensor([1.0, 2.0]), 4),
        (torch.tensor([1e6, 2.0]), 3),
        (torch.tensor([0.5]), 20),
    ]
    return Expected([(call, controlled(*call)) for call in arguments])


@expected()
def types() -> Expected:
    x, by = torch.tensor([1.0, -2.0]), ramp(1, first=2.5, grad=False)
    y = (((x + 1) * 2) * by + ramp(2, grad=False) - 1.0) * 3
    # The counter is at 5, and each call adds 1 and 2. The point has a 7.
    return Expected([((x,), (y, 5 + 3 + 7)), ((x,), (y, 5 + 6 + 7))], {"buffer scaler.by": by})


@expected()
def shared() -> Expected:
    weight = ramp(4, 4)
    return Expected(
        [((X,), X @ weight @ weight)],
        {"parameter encoder.weight": weight, "parameter decoder.weight": weight},
        extra_files={"note.txt": b"hello", "bytes/of any kind": bytes(range(256)), "nothing": b""},
    )


@expected()
def clashing() -> Expected:
    x = torch.tensor([1.0, 2.0])
    a, b, c = (ramp(2, first=first, grad=False) for first in (0.5, -0.25, 3.0))
    return Expected(
        [((x,), (x + a + b) * c - 0.5)], {"buffer a.by": a, "buffer b.by": b, "buffer c.by": c}
    )


@expected()
def changed() -> Expected:
    t = {
        "parameter body.weight": ramp(4, 4, first=-0.5),
        "parameter body.bias": ramp(4, first=-0.5),
    }
    t |= {
        "parameter head.weight": ramp(2, 4, first=-0.5),
        "parameter head.bias": torch.tensor([10.0, 20.0], requires_grad=True),
    }
    scale = ramp(1, first=2.0)
    y = apply(t, "head", torch.relu(apply(t, "body", X))) * scale * 3.0
    return Expected(
        [((X,), (y, ["after", "all"], None))],
        {"parameter scale": scale, **t},
        absent=["old", "nothing", "gone"],
    )
