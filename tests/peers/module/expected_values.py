"""PyTorch's values for the models of built_values.py."""

import math
from typing import Any

import torch
import zoo
from expected import Expected, expected, ramp
from torch import Tensor


@expected()
def scalars() -> Expected:
    constants = (
        -3,
        0.1,
        True,
        'it\'s "q" \\ here\n',
        "\u00e9t\u00e9 \u6f22",
        float("-inf"),
        math.nan,
        [1, 2],
        [],
        (7, "seven"),
        1 - 2j,
    )
    return Expected([((), (*constants, torch.device("cpu"), ramp(3, grad=False)))], exact=True)


def attributes_after(calls: list[int]) -> tuple[Any, ...]:
    """forward(n) adds n to the tensor in every place that has it, and appends it to the first list
    in every place that has it.
    """
    tensor, first = ramp(2, grad=False) + sum(calls), [1, 2, *calls]
    plain = (
        False,
        2**63 - 1,
        -0.0,
        0.5 - 4j,
        "gr\u00fc\u00dfe \U0001f642\x00\n\\'\"\t",
        torch.device("cuda:1"),
        None,
        5,
    )
    nested = (tensor, 2.5, None, ["u"], (1.0,), (1, ("one", tensor)))
    ints = [0, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**63 - 1, -(2**63)]
    lists = (
        ints,
        [0.0, 1e-310, math.inf, math.nan, 0.1],
        [True, False],
        ["", "a", "a", "w" * 300],
        [1 + 2j, -1j],
    )
    more = ([tensor, ramp(1, grad=False), tensor], [1, None], [])
    dicts = ({"x": tensor, "\u00e4": ramp(3, grad=False)}, {3: ["c"], -1: []}, {0.5: True}, {})
    return *plain, *nested, *lists, *more, *dicts, first, first, [first, first, [1, 2]], (4, [0.25])


@expected()
def attributes() -> Expected:
    return Expected([((8,), attributes_after([8])), ((4,), attributes_after([8, 4]))], exact=True)


@expected()
def states() -> Expected:
    x = torch.linspace(-1.0, 1.0, 8).reshape(2, 4)
    weight = torch._make_per_tensor_quantized_tensor(
        torch.arange(-4, 4).to(torch.int8).reshape(2, 4), 0.5, 0
    )
    y = torch.ops.quantized.linear_dynamic(
        x, torch.ops.quantized.linear_prepack(weight, torch.tensor([1.0, -1.0]))
    )
    return Expected([((x,), (y, [0.5, 0.25], "table!"))])


@expected()
def kept() -> Expected:
    return Expected([((torch.tensor([1.0, 2.0]),), torch.tensor([7.0, -3.0]))])


def buffers(tensors: dict[str, Tensor]) -> Expected:
    return Expected([((), 1)], {f"buffer {name}": tensor for name, tensor in tensors.items()})


@expected()
def dtypes() -> Expected:
    names = [
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "bool",
    ]
    names += ["complex32", "complex64", "complex128"]
    tensors = {}
    for name in names:
        numbers = [0, 1, 2, 100, 7] if name != "bool" else [0, 1, 1, 0, 1]
        tensors[f"of_{name}"] = torch.tensor(numbers).to(getattr(torch, name))
        tensors[f"some_{name}"] = tensors[f"of_{name}"][1:3]
    return buffers(tensors)


@expected(
    hasattr(torch, "float8_e8m0fnu"),
    "no float8, or not all, and no unsigned types of more than 8 bits",
)
def new_dtypes() -> Expected:
    tensors = {
        f"of_{name}": torch.tensor([0, 1, 2, 100]).to(getattr(torch, name))
        for name in ("uint16", "uint32", "uint64")
    }
    for name in (
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float8_e4m3fnuz",
        "float8_e8m0fnu",
    ):
        tensors[f"of_{name}"] = torch.tensor([1, 2, 0x40, 0x48], dtype=torch.uint8).view(
            getattr(torch, name)
        )
    return buffers(tensors)


@expected(hasattr(torch, "bcomplex32"), "no bits, no integers of less than 8 bits, no bcomplex32")
def opaque_dtypes() -> Expected:
    names = ["bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "bcomplex32", "float4_e2m1fn_x2"]
    names += [f"{sign}int{bits}" for sign in ("u", "") for bits in range(1, 8)]
    sizes = {"bits16": 4, "bcomplex32": 2}
    raw = {
        f"buffer of_{name}": (getattr(torch, name), [sizes.get(name, 8)], bytes(range(1, 9)))
        for name in names
    }
    return Expected([((), 1)], raw=raw)


@expected()
def quantised() -> Expected:
    tensors = {}
    for name, dtype, numbers in (
        ("qint8", torch.int8, [-3, 0, 5, 127]),
        ("quint8", torch.uint8, [0, 3, 200, 255]),
        ("qint32", torch.int32, [-(2**31), 0, 9, 7]),
    ):
        tensors[f"of_{name}"] = torch._make_per_tensor_quantized_tensor(
            torch.tensor(numbers, dtype=dtype).reshape(2, 2), 0.25, 2
        )
    scales, zero_points, numbers = (
        torch.tensor([0.1, 0.2], dtype=torch.float64),
        torch.tensor([1, 2]),
        torch.arange(1, 7),
    )
    for name, axis, sizes, dtype in (
        ("channels", 0, (2, 3), torch.int8),
        ("along", 1, (3, 2), torch.uint8),
    ):
        plain = numbers.to(dtype).reshape(sizes)
        tensors[name] = torch._make_per_channel_quantized_tensor(plain, scales, zero_points, axis)
    return buffers(tensors)


@expected()
def sparse() -> Expected:
    values = torch.tensor([2.0, 3.0, 4.0])
    coo = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [1, 0, 2]]), values, (2, 3))
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 2]]), values, (2, 3))
    hybrid = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([[5.0, 6.0]]), (3, 2))
    csr = torch.sparse_csr_tensor(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), values, (2, 3))
    return buffers({"coo": coo, "coalesced": coo, "twice": twice, "hybrid": hybrid, "csr": csr})


@expected()
def views() -> Expected:
    base = torch.arange(24) / 2
    tensors = {
        "base": base,
        "matrix": base.view(4, 6),
        "transposed": base.view(4, 6).t(),
        "middle": base[5:11],
        "strided": base[1::5],
        "expanded": base[2:3].expand(3, 2).as_strided((3, 2), (0, 0), 2),
        "windows": base.as_strided((3, 4), (2, 1), 3),
        "channels_last": base.as_strided((1, 4, 2, 3), (24, 1, 12, 4)),
        "nothing": base[4:4],
        "scalar": base[23],
        "part": torch.arange(4.0, 8.0)[1:],
        "empty": torch.empty(2, 0, 4, dtype=torch.int64),
        "meta": torch.empty(3, 4, device="meta"),
        "other_meta": torch.empty(3, 4, device="meta", dtype=torch.int64).t(),
    }
    found = buffers(tensors)
    found.none = ["no_parameter", "no_buffer"]
    found.tensors = {
        "parameter frozen": ramp(2, grad=False),
        "parameter trained": ramp(2, 2),
        **found.tensors,
    }
    return found


@expected(zoo.TORCH >= (2, 0), "it does not read that a tensor is conjugated or negated")
def conjugated() -> Expected:
    complexes, floats = torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([5.0, 6.0, 0.0, 7.0])
    return buffers(
        {"plain": complexes, "conj": complexes.conj(), "neg": torch._neg_view(floats[1::2])}
    )
