"""Torch tensors that are born in Tenon's shared memory, so that lending them moves nothing.

Imports torch when used. The functions raise ResourceExhausted if there is no room.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any


def _new(
    size: Any, dtype: Any, zeroed: bool, requires_grad: bool, *, will_fill: bool = False
) -> Any:
    import torch

    from tenon.torch import _storage, _strategy

    _strategy.recognise()
    shape = torch.Size(size)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    nbytes = shape.numel() * torch._utils._element_size(dtype)
    tensor = torch.empty(shape if not nbytes else 0, dtype=dtype)
    if nbytes:
        tensor.set_(_storage.new(nbytes, zeroed=zeroed, will_fill=will_fill), 0, shape)
    return tensor.requires_grad_() if requires_grad else tensor


def _shape(size: tuple[Any, ...]) -> Any:
    """The sizes, which a caller gives one by one or as one sequence."""
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size


def empty(*size: Any, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.empty on the CPU, in Tenon's shared memory."""
    return _new(_shape(size), dtype, False, requires_grad)


def zeros(*size: Any, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.zeros on the CPU, in Tenon's shared memory."""
    return _new(_shape(size), dtype, True, requires_grad)


def ones(*size: Any, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.ones on the CPU, in Tenon's shared memory."""
    return _filled(_new(_shape(size), dtype, False, False, will_fill=True), 1, requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.full on the CPU, in Tenon's shared memory."""
    import torch

    dtype = torch.full((), fill_value).dtype if dtype is None else dtype
    return _filled(_new(size, dtype, False, False, will_fill=True), fill_value, requires_grad)


def _filled(tensor: Any, value: Any, requires_grad: bool) -> Any:
    tensor.fill_(value)
    return tensor.requires_grad_() if requires_grad else tensor


def empty_like(like: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.empty_like on the CPU, in Tenon's shared memory, with contiguous strides."""
    return _new(like.size(), like.dtype if dtype is None else dtype, False, requires_grad)


def zeros_like(like: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.zeros_like on the CPU, in Tenon's shared memory, with contiguous strides."""
    return _new(like.size(), like.dtype if dtype is None else dtype, True, requires_grad)


def ones_like(like: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.ones_like on the CPU, in Tenon's shared memory, with contiguous strides."""
    return full_like(like, 1, dtype=dtype, requires_grad=requires_grad)


def full_like(like: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """torch.full_like on the CPU, in Tenon's shared memory, with contiguous strides."""
    tensor = _new(like.size(), like.dtype if dtype is None else dtype, False, False, will_fill=True)
    return _filled(tensor, fill_value, requires_grad)


def born_shared() -> AbstractContextManager[None]:
    """A context in which the tensors that torch's factories make on the CPU lie in Tenon's shared
    memory: torch.empty, rand, tensor, arange and so on.

        with tenon.torch.born_shared():
            model = Policy()

    It holds for this thread only.
    """
    from tenon.torch._born_shared import BornShared

    mode: AbstractContextManager[None] = BornShared()
    return mode
