"""Writes modules, values and state dicts into a folder, and their list into expected.json.

pickle_test.py runs this file with a Python that has PyTorch. expected.json also says which tensors
each state dict has.

Usage: pickle_maker.py FOLDER
"""

# These types are written in the way that torch.jit.script of every PyTorch reads.
# ruff: noqa: UP006, UP035, UP045

import collections
import enum
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

warnings.simplefilter("ignore")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Word(enum.Enum):
    YES = "yes"
    NO = "no"


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


@torch.jit.script
class Counter:
    def __init__(self, start: int) -> None:
        self.count = start
        self.names: List[str] = ["a", "b"]

    def step(self) -> int:
        self.count += 1
        return self.count


class Attributes(nn.Module):
    """Has one of everything that an attribute can be."""

    color: Color
    word: Word

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(3, 2))
        self.same_weight = self.weight
        self.row = self.weight.detach()[1]
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("running", torch.zeros(4))
        self.register_buffer("unsaved", torch.zeros(1), persistent=False)
        self.ints = torch.jit.Attribute([1, 256, 65536, -1, 2**40, -(2**40)], List[int])
        self.floats = torch.jit.Attribute(
            [0.0, -0.0, 1e300, float("inf"), float("nan")], List[float]
        )
        self.bools = torch.jit.Attribute([True, False], List[bool])
        self.tensors = torch.jit.Attribute(
            [torch.ones(1), torch.ones(2), self.running], List[torch.Tensor]
        )
        self.texts = torch.jit.Attribute(["a", "", "ünïcödé", "a", "weight"], List[str])
        self.options = torch.jit.Attribute([1, None], List[Optional[int]])
        self.lists = torch.jit.Attribute([[1], [], [2, 3]], List[List[int]])
        self.no_ints = torch.jit.Attribute([], List[int])
        self.no_texts = torch.jit.Attribute([], List[str])
        self.by_text = torch.jit.Attribute({"x": 1.0, "y": 2.0}, Dict[str, float])
        self.by_int = torch.jit.Attribute({1: [1, 2], 70000: []}, Dict[int, List[int]])
        self.nested = torch.jit.Attribute(
            {"k": {"l": torch.ones(1)}}, Dict[str, Dict[str, torch.Tensor]]
        )
        self.no_entries = torch.jit.Attribute({}, Dict[str, int])
        self.one = torch.jit.Attribute((1,), Tuple[int])
        self.three = torch.jit.Attribute((1, "a", 2.0), Tuple[int, str, float])
        self.four = torch.jit.Attribute(
            (1, True, None, (2, 3)), Tuple[int, bool, Optional[int], Tuple[int, int]]
        )
        self.pair = torch.jit.Attribute(Pair(torch.ones(1), 3), Pair)
        self.complex_number = torch.jit.Attribute(1 + 2j, complex)
        self.device = torch.device("cpu")
        self.cuda = torch.device("cuda:1")
        self.same_device = torch.device("cpu")
        self.dtype = torch.float32
        self.nothing = torch.jit.Attribute(None, Optional[torch.Tensor])
        self.something = torch.jit.Attribute(torch.ones(1), Optional[torch.Tensor])
        self.color = Color.BLUE
        self.word = Word.YES

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.color == Color.RED or self.word == Word.NO:
            return x
        return x + self.weight.sum() + len(self.pair)


class Tensors(nn.Module):
    """Has tensors of every kind that an archive can hold."""

    def __init__(self) -> None:
        super().__init__()
        names = [
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "bool",
            "bfloat16",
        ]
        names += [
            name
            for name in ("uint16", "uint32", "float8_e5m2", "float8_e4m3fn")
            if hasattr(torch, name)
        ]
        for name in names:
            self.register_buffer(f"of_{name}", torch.ones(3).to(getattr(torch, name)))
        base = torch.arange(24.0).reshape(2, 3, 4)
        self.base = base
        self.transposed = base.transpose(0, 2)
        self.strided = base[:, ::2, 1:]
        self.expanded = torch.ones(1, 3).expand(5, 3)
        self.channels_last = torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
        self.scalar = torch.tensor(3.5)
        self.empty = torch.zeros(0)
        self.empty_rows = torch.zeros(0, 3)
        self.meta = torch.ones(2, 3, device="meta")
        self.coo = torch.eye(3).to_sparse()
        self.csr = torch.eye(3).to_sparse_csr()
        self.conjugate = torch.ones(2, dtype=torch.complex64).conj()
        self.negative = torch.ones(2, dtype=torch.complex64).conj().imag
        self.both = torch._neg_view(torch.ones(2, dtype=torch.complex64).conj())
        self.per_tensor = torch.quantize_per_tensor(torch.ones(2), 0.1, 3, torch.qint8)
        self.qint32 = torch.quantize_per_tensor(torch.ones(2), 0.1, 3, torch.qint32)
        scales, zero_points = torch.tensor([0.1, 0.2]), torch.tensor([1, 2])
        self.per_channel = torch.quantize_per_channel(
            torch.ones(2, 2), scales, zero_points, 0, torch.quint8
        )
        self.float_params = torch.quantize_per_channel(
            torch.ones(2, 2), scales, zero_points.float(), 0, torch.quint8
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.base.sum()


class Stateful(nn.Module):
    """Has a __getstate__, whose state is no dict of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.weight = torch.ones(2)

    @torch.jit.export
    def __getstate__(self) -> Tuple[float, torch.Tensor, bool]:
        return (self.scale, self.weight, self.training)

    @torch.jit.export
    def __setstate__(self, state: Tuple[float, torch.Tensor, bool]) -> None:
        self.scale = state[0]
        self.weight = state[1]
        self.training = state[2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.weight


class DictState(Stateful):
    @torch.jit.export
    def __getstate__(self) -> Dict[str, torch.Tensor]:  # type: ignore[override]
        return {"weight": self.weight}

    @torch.jit.export
    def __setstate__(self, state: Dict[str, torch.Tensor]) -> None:  # type: ignore[override]
        self.scale = 1.0
        self.weight = state["weight"]
        self.training = False


class Constants(nn.Module):
    """Has tensors and objects that the code needs, which PyTorch writes into constants.pkl."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x) + torch.ones(4) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        return x + torch.arange(4) + torch.ones(2, 2).sum()


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.counter.step()


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(10, 4)
        self.decoder = nn.Linear(4, 10, bias=False)
        self.decoder.weight = self.encoder.weight
        self.again = self.decoder
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.by_name = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(4, 4)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(x)
        for block in self.blocks:
            x = block(x)
        return self.decoder(x)


def modules() -> dict[str, Any]:
    torch.manual_seed(0)
    cnn = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 9, 10),
    )
    made: dict[str, Any] = {
        "attributes": torch.jit.script(Attributes()),
        "tensors": torch.jit.script(Tensors()),
        "stateful": torch.jit.script(Stateful()),
        "dict_state": torch.jit.script(DictState()),
        "constants": torch.jit.script(Constants()),
        "plain_class": torch.jit.script(Plain()),
        "shared": torch.jit.script(Shared()),
        "mlp": torch.jit.script(
            nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
        ),
        "cnn": torch.jit.script(cnn),
        "cnn_frozen": torch.jit.freeze(torch.jit.script(cnn).eval()),
        "cnn_traced": torch.jit.trace(cnn.eval(), torch.rand(1, 3, 8, 8)),
        "lstm": torch.jit.script(nn.LSTM(4, 6, num_layers=2, bidirectional=True)),
        "gru": torch.jit.script(nn.GRU(4, 6)),
        "transformer": torch.jit.script(nn.TransformerEncoderLayer(16, 2, 32)),
        "transformer_traced": torch.jit.trace(
            nn.TransformerEncoderLayer(16, 2, 32).eval(), torch.rand(3, 1, 16), check_trace=False
        ),
        "embedding_bag": torch.jit.script(nn.EmbeddingBag(10, 3, mode="sum")),
        "norms": torch.jit.script(
            nn.Sequential(nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4))
        ),
        "large": torch.jit.script(
            nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(60)])
        ),
    }
    try:
        linear = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        made["dynamically_quantised"] = torch.jit.script(
            torch.ao.quantization.quantize_dynamic(linear, {nn.Linear}, dtype=torch.qint8)
        )
    except RuntimeError as error:  # this PyTorch has no quantised engine
        print(f"no dynamically quantised module: {error}", file=sys.stderr)
    return made


def values() -> dict[str, Any]:
    tensor = torch.arange(4.0)
    return {
        "none": None,
        "int": 5,
        "negative": -(2**31),
        "long": -(2**31) - 1,
        "float": 0.1,
        "str": "text",
        "complex": 1 - 1j,
        "ints": [1, 2, 3],
        "no_list": (),
        "tuple": (1, "a", None, True, 2.5),
        "device": (torch.device("cpu"), torch.device("cpu"), "cpu"),
        "dict": {"a": tensor, "b": tensor, "c": tensor[1:]},
        "tensors": [tensor, tensor, tensor.reshape(2, 2)],
        "texts": [["a", "b"], ["b", "c"]],
        "many": {f"name {i}": float(i) for i in range(400)},
    }


class Odd:
    def __init__(self) -> None:
        self.value = 3


def state_dicts() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(
        collections.OrderedDict(
            [("fc", nn.Linear(4, 3)), ("bn", nn.BatchNorm1d(3)), ("out", nn.Linear(3, 3))]
        )
    )
    model.out.bias = model.fc.bias
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(2, 4)).sum().backward()
    optimizer.step()
    base = torch.arange(12.0).reshape(3, 4)
    return {
        "model": model.state_dict(),
        "parameters": dict(model.named_parameters()),
        "checkpoint": {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": 3,
            "name": "x",
            "big": 2**70,
            "set": {1, 2},
        },
        "views": {
            "base": base,
            "row": base[1],
            "column": base[:, 1],
            "same": base,
            "transposed": base.t(),
        },
        "kinds": {
            **{
                name: torch.ones(2).to(getattr(torch, name))
                for name in ("uint8", "int64", "float16", "bfloat16", "bool", "complex64")
            },
            **{
                name: torch.ones(2).to(getattr(torch, name))
                for name in ("uint16", "float8_e4m3fn")
                if hasattr(torch, name)
            },
            "coo": torch.eye(2).to_sparse(),
            "csr": torch.eye(2).to_sparse_csr(),
            "per_tensor": torch.quantize_per_tensor(torch.ones(2), 0.1, 3, torch.qint8),
            "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
            "empty": torch.zeros(0, 2),
            "scalar": torch.tensor(1.5),
        },
        "lists": [torch.ones(1), (torch.ones(2), {"x": torch.ones(3)}), "text", b"bytes"],
        "odd": {
            "tensor": torch.ones(1),
            "odd": Odd(),
            "size": torch.Size([1, 2]),
            "device": torch.device("cpu"),
            "dtype": torch.float32,
        },
    }


def storage_bytes(tensor: torch.Tensor) -> str:
    storage = (
        tensor.untyped_storage()
        if hasattr(tensor, "untyped_storage")
        else tensor.storage().untyped()
    )
    return bytes(storage.tolist()).hex()


def describe_strided(tensor: torch.Tensor) -> dict[str, Any]:
    flags = (" conj" if tensor.is_conj() else "") + (" neg" if tensor.is_neg() else "")
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sizes": list(tensor.size()),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "flags": (
            flags + (f" {tensor.qscheme()}".replace("torch.", "") if tensor.is_quantized else "")
        ),
        "bytes": storage_bytes(tensor),
    }


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    out: dict[str, Any] = {
        "parameter": isinstance(tensor, nn.Parameter),
        "grad": tensor.requires_grad,
        "layout": str(tensor.layout).removeprefix("torch."),
    }
    tensor = tensor.detach()
    if tensor.layout == torch.strided:
        out["parts"] = [describe_strided(tensor)]
    elif tensor.layout == torch.sparse_coo:
        out["sizes"] = list(tensor.size())
        out["parts"] = [describe_strided(tensor._indices()), describe_strided(tensor._values())]
    else:
        out["sizes"] = list(tensor.size())
        out["parts"] = [
            describe_strided(part)
            for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        ]
    return out


def walk(name: str, value: Any, out: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            walk(f"{name}.{key}" if name else str(key), item, out)
    elif isinstance(value, (list, tuple)):  # torch.Size is a tuple
        for i, item in enumerate(value):
            walk(f"{name}.{i}" if name else str(i), item, out)
    elif isinstance(value, torch.Tensor):
        out.append((name, describe(value)))
    else:
        out.append((name, None))


def main() -> None:
    folder = Path(sys.argv[1])
    expected: dict[str, Any] = {"archives": [], "state_dicts": []}
    for name, module in modules().items():
        path = folder / f"{name}.pt"
        torch.jit.save(module, str(path))
        expected["archives"].append(path.name)
        if name not in ("tensors",):
            # The archive alone is loaded and written once more, with other values in the memo.
            again = folder / f"{name}_again.pt"
            torch.jit.save(torch.jit.load(str(path)), str(again))
            expected["archives"].append(again.name)
    if hasattr(torch._C, "_pickle_save"):
        for name, value in values().items():
            path = folder / f"value_{name}.pt"
            path.write_bytes(torch._C._pickle_save(value))
            expected["archives"].append(path.name)
    for name, state in state_dicts().items():
        for protocol in (2, 3, 4, 5):
            buffer = io.BytesIO()
            torch.save(state, buffer, pickle_protocol=protocol)
            path = folder / f"state_{name}_{protocol}.pt"
            path.write_bytes(buffer.getvalue())
            # The list has what PyTorch reads back, which can differ from what was saved: 1.13 drops
            # conj.
            entries: list[tuple[str, Any]] = []
            walk("", torch.load(io.BytesIO(buffer.getvalue()), weights_only=False), entries)
            expected["state_dicts"].append({"file": path.name, "entries": entries})
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


if __name__ == "__main__":
    main()
