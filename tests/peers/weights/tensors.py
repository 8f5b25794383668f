"""Tensors of PyTorch as Tenon's, and back. The programs of this folder use this module."""

from __future__ import annotations

import torch
from library import Tensor

TYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
]
TYPE_NUMBERS = {dtype: number for number, dtype in enumerate(TYPES)} | {
    torch.bool: 11,
    torch.bfloat16: 15,
}


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())


def given(tensor: torch.Tensor, numbers: dict[torch.dtype, int] = TYPE_NUMBERS) -> Tensor:
    """Makes a tensor of Tenon with the bytes and the strides of a tensor of PyTorch."""
    tensor = tensor.detach()
    # PyTorch 1.13 has no untyped_storage.
    storage = (getattr(tensor, "untyped_storage", None) or tensor.storage)()
    storage = torch.tensor([], dtype=tensor.dtype).set_(storage)
    return Tensor.of(
        raw(storage),
        numbers[tensor.dtype],
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
    )


def seen(tensor: Tensor) -> torch.Tensor:
    """Makes a tensor of PyTorch from what Tenon gave."""
    dtype = {number: dtype for dtype, number in TYPE_NUMBERS.items()}[tensor.scalar_type]
    if 0 in tensor.sizes:
        return torch.empty(tensor.sizes, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data()), dtype=dtype).as_strided(
        tensor.sizes, tensor.strides, tensor.offset
    )
