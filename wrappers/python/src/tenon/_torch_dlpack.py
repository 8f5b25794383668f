"""DLPack between Tenon and PyTorch in one process, including the cases that DLPack or a version of
PyTorch lacks. tenon.dlpack and tenon.torch use it. It imports torch when used.
"""

from __future__ import annotations

from tenon import _dtype, _torch_rules
from tenon._native import lib
from tenon.dlpack import take
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The element types that every PyTorch exports and imports by DLPack. Some versions lack some of the
# other types: bool came with 2.0, the unsigned types and float8 came later. Such elements travel as
# integers of their size, and the other side views them as their own type.
IN_EVERY_DLPACK = frozenset(
    {
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    }
)
MATH_BITS = lib.TENON_TENSOR_CONJ | lib.TENON_TENSOR_NEG


def _in_dlpack(number: int) -> str:
    """The element type as which elements of this type go through DLPack."""
    name, size = _dtype.name_of(number), _dtype.bits_of(number) // 8
    if name in IN_EVERY_DLPACK:
        return name
    return "uint8" if size == 1 else f"int{8 * size}"


def math_bits(tensor: Any) -> int:
    flags: int = lib.TENON_TENSOR_CONJ if tensor.is_conj() else 0
    if tensor.is_neg():
        flags |= lib.TENON_TENSOR_NEG
    return flags


def with_math_bits(tensor: Any, flags: int) -> Any:
    """The same torch tensor with these bits flipped. Flipping a bit twice restores it."""
    import torch

    if flags & lib.TENON_TENSOR_CONJ:
        tensor = tensor.conj()
    return torch._neg_view(tensor) if flags & lib.TENON_TENSOR_NEG else tensor


def through_dlpack(tensor: Any, more: dict[str, int]) -> Tensor:
    """tenon.from_dlpack for a torch tensor.

    DLPack has no conjugate and no negative bit. PyTorch refuses a conjugate tensor, and drops the
    negative bit.
    """
    import contextlib

    import torch

    number, flags = _torch_rules.element_type(tensor), math_bits(tensor)
    tensor = with_math_bits(tensor, flags)
    name = _in_dlpack(number)
    if tensor.dtype != getattr(torch, name):
        tensor = tensor.view(getattr(torch, name))
    # PyTorch exports only from its current device, and orders only that device's current stream.
    with (
        torch.cuda.device(tensor.device)
        if tensor.device.type == "cuda"
        else contextlib.nullcontext()
    ):
        plain = take(tensor, more)
    if plain._dtype_number == number and not flags:
        return plain
    return Tensor._new(plain.storage, number, plain.shape, plain.strides, plain.offset, flags)


def over_device(tensor: Tensor, dtype: Any) -> Any:
    """Make a torch tensor over device memory. PyTorch accepts a device pointer only by DLPack, and
    names its current stream there.
    """
    import torch

    number = _dtype.number_of(_in_dlpack(tensor._dtype_number))
    plain = Tensor._new(tensor.storage, number, tensor.shape, tensor.strides, tensor.offset, 0)
    if plain.read_only:
        # The caller of to_torch has agreed to a writable tensor. A PyTorch older than DLPack 1.0
        # accepts no tensor that is marked as read-only.
        plain = Tensor._from_dlpack(plain._to_dlpack(True, False, True))
    result = torch.from_dlpack(plain)
    return result if result.dtype == dtype else result.view(dtype)
