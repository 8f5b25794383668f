"""The rules by which PyTorch's own reducers lend a tensor, and the element types of PyTorch that
Tenon has.

tenon.torch and tenon.dlpack use them.
"""

from __future__ import annotations

import functools
import sys

from tenon import _dtype
from tenon._native import lib
from tenon.error import Unsupported, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def element_type(tensor: Any) -> int:
    """The number of a torch tensor's dtype. Raises Unsupported if Tenon lays out such elements
    otherwise.
    """
    return _number_of(tensor.dtype)


@functools.cache
def _number_of(dtype: Any) -> int:
    try:
        number = _dtype.number_of(dtype)
    except TypeError:
        raise make(
            Unsupported,
            f"Tenon has no element type for {dtype}: lend what it is made of (int_repr() of a"
            " quantised tensor, view(torch.uint8) of bits); for modules there is tenon.TensorSpec",
        ) from None
    if _dtype.bits_of(number) % 8:
        # PyTorch's int1 to int7 and uint1 to uint7 are "shell" types: only their storage exists.
        raise make(
            Unsupported,
            f"PyTorch keeps each element of {dtype} in a byte, and Tenon's {_dtype.name_of(number)}"
            " is packed bit by bit: lend the bytes, from_torch(t.view(torch.uint8)), and view them"
            " as that type in PyTorch again",
        )
    return number


@functools.cache
def _knows_names(cls: type) -> bool:
    return hasattr(cls, "has_names")


@functools.cache
def _is_parameter_class(cls: type) -> bool:
    return any(kind.__name__ == "Parameter" for kind in cls.__mro__)


def is_strided(tensor: Any) -> bool:
    """Whether a tensor is completely described by its strides over its storage: it is neither
    sparse nor nested nor on meta, and has no quantizer.
    """
    strided = sys.modules["torch"].strided
    return bool(
        tensor.layout is strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_meta
    )


def is_strided_on_cpu(tensor: Any) -> bool:
    """Whether a tensor is strided and in memory of the host."""
    return bool(tensor.is_cpu and is_strided(tensor))


def is_named(tensor: Any) -> bool:
    """Whether the tensor has named dimensions. PyTorch 2.14 removed them."""
    cls: Any = type(tensor)
    return _knows_names(cls) and bool(tensor.has_names())


def warn_of_hooks(tensor: Any) -> None:
    """Let PyTorch warn that hooks do not travel."""
    import torch

    torch.utils.hooks.warn_if_has_hooks(tensor)


def check(tensor: Any) -> None:
    """Refuse the tensors that PyTorch's reducers refuse, and warn where they warn.

    The rest of autograd's state, the gradient and the graph, does not travel.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise make(
            Unsupported,
            "the torch tensor has requires_grad and is the result of an operation, no leaf:"
            " autograd does not go on in another process, so only its values can be lent:"
            " from_torch(t.detach())",
        )
    if is_named(tensor):
        raise make(
            Unsupported,
            f"the torch tensor has named dimensions {tuple(tensor.names)}, and names do not travel:"
            " use from_torch(t.rename(None)), and refine_names on the other side",
        )
    if tensor._backward_hooks:
        warn_of_hooks(tensor)


def flags_of(tensor: Any) -> int:
    """The flags of a tensor in Tenon, without the conjugate and negative bits."""
    flags: int = lib.TENON_TENSOR_REQUIRES_GRAD if tensor.requires_grad else 0
    # isinstance(tensor, torch.nn.Parameter) has the same result for subclasses, and for tensors
    # with that mark.
    cls: Any = type(tensor)
    if _is_parameter_class(cls) or getattr(tensor, "_is_param", False):
        flags |= lib.TENON_TENSOR_IS_PARAMETER
    return flags


def with_flags(result: Any, requires_grad: bool, is_parameter: bool) -> Any:
    """The reverse of flags_of: a torch tensor that is a parameter and requires grad as the
    arguments say.
    """
    import torch

    # Only floating-point and complex tensors can require grad. PyTorch raises for the others.
    requires_grad = requires_grad and (result.is_floating_point() or result.is_complex())
    if is_parameter:
        return torch.nn.Parameter(result, requires_grad=requires_grad)
    return result.requires_grad_(True) if requires_grad else result
