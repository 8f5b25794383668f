"""The reducers of torch tensors and storages for multiprocessing's pickler. _rebuild has the
receiving side.

A strided tensor of the CPU travels as a tensor over a Tenon storage, under the lease of its message
(tenon.multiprocessing). A quantised tensor is taken apart, and its parts are strided tensors. A
sparse tensor is taken apart too if PyTorch cannot send it. All other tensors go by PyTorch's own
reducers, and so does private memory unless the sharing strategy is "tenon". Imports torch.

The reducers raise Unsupported for a quantised tensor on a device, and ResourceExhausted if private
memory has no room in Tenon's. PyTorch's own reducers raise RuntimeError for a tensor that they
refuse.
"""

from __future__ import annotations

import torch
from torch.multiprocessing import reductions

from tenon import _native_ext, _torch_rules
from tenon import _strategy as _tenon_strategy
from tenon._torch_dlpack import math_bits
from tenon.error import Unsupported, make
from tenon.multiprocessing import collect, collect_storage
from tenon.tensor import Tensor
from tenon.torch import _composite, _rebuild, _storage, _strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tenon.torch._storage import Place

    Reducer = Callable[[Any], tuple[Any, ...]]


# PyTorch 1.13 refuses sparse tensors. Newer versions lend their parts, which come back to this
# module as storages of the same message.
_torch_sends_sparse = hasattr(reductions, "reduce_sparse_tensor")


def _is_lent_in_parts(tensor: Any) -> bool:
    """Whether Tenon takes a tensor apart and lends its parts.

    PyTorch's own reducer drops the quantizer, and the tensor that arrives fails when it is used.
    """
    if not tensor.is_quantized:
        is_sparse = tensor.is_cpu and _composite.layout_name(tensor) in _composite.SPARSE
        return is_sparse and not _torch_sends_sparse and _strategy.is_current()
    if not tensor.is_cpu:
        if not _strategy.is_current():
            return False
        raise make(
            Unsupported,
            f"a quantised tensor ({tensor.dtype}) on {tensor.device} does not travel with its"
            " scale: send tensor.cpu()",
        )
    return _strategy.is_current() or _storage.find(_storage.untyped_of(tensor)) is not None


def _can_be_collected() -> bool:
    """Whether the tensors of a message travel together.

    Under Tenon's own strategy "file_system" each tensor has a name of its own, and travels by
    itself.
    """
    return _tenon_strategy.current != _tenon_strategy.FILE_SYSTEM


def _in_tenon(tensor: Any) -> Tensor | None:
    """The tensor as a Tenon tensor, if it lies in Tenon's memory and Tenon has its element type."""
    number = _storage.numbers().get(tensor.dtype)
    return (
        None
        if number is None
        else Tensor._at(tensor.data_ptr(), number, tensor.shape, tensor.stride(), 0)
    )


def _moved(tensor: Any) -> Tensor | None:
    """As _in_tenon, for a tensor that moves to Tenon's memory now."""
    storage, begin, _ = _storage.move_of_tensor(tensor)
    number = _storage.numbers().get(tensor.dtype)
    if number is None or begin:
        return None
    return Tensor._new(storage, number, tensor.shape, tensor.stride(), tensor.storage_offset(), 0)


def _number_in_message(tensor: Any) -> int | None:
    """The number by which the message refers to the tensor. None means that the tensor does not lie
    in Tenon's memory, or travels by itself.
    """
    if not _can_be_collected():
        return None
    own = _in_tenon(tensor)
    if own is None and _strategy.is_current() and not _is_empty(tensor):
        own = _moved(tensor)
    return None if own is None else collect(own)


def _place(tensor: Any) -> Place | None:
    """The place of the tensor's memory in Tenon's. The strategy "tenon" moves it there."""
    if _is_empty(tensor):
        return None
    if _strategy.is_current():
        return _storage.place_of_tensor(tensor)
    return _storage.find(_storage.untyped_of(tensor))


def _is_empty(tensor: Any) -> bool:
    return not _storage.untyped_of(tensor).nbytes()


def reducer_of_tensors(plain: Reducer) -> Reducer:
    """The reducer of torch.Tensor and torch.nn.Parameter, around PyTorch's own.

    Plain tensors, which most are, do not reach it: native/torch.c reduces them.
    """

    def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
        if not _torch_rules.is_strided_on_cpu(tensor):
            if _is_lent_in_parts(tensor):
                return _rebuild.rebuild_apart, tuple(_composite.take_apart(tensor))
            return plain(tensor)
        if (tensor.requires_grad and not tensor.is_leaf) or _torch_rules.is_named(tensor):
            return plain(tensor)  # PyTorch's reducer refuses it, in PyTorch's words
        number = _number_in_message(tensor)
        place = None
        if number is None:
            place = _place(tensor)
            if place is None:
                return plain(tensor)
        if tensor._backward_hooks:
            _torch_rules.warn_of_hooks(tensor)
        more = _more_of(tensor)
        if number is not None:
            return (
                (_rebuild.pick_tensor, (number,))
                if more is None
                else (_rebuild.pick_tensor, (number, more))
            )
        form = tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tensor.stride()
        return (
            (_rebuild.rebuild_tensor, (place, form))
            if more is None
            else (_rebuild.rebuild_tensor, (place, form, more))
        )

    return _native_ext.torch_reducer(reduce_tensor)


def _more_of(tensor: Any) -> tuple[bool, bool, int] | None:
    """requires_grad, whether the tensor is a Parameter, and its conjugate and negative bits. None
    for most tensors, which have none of these.
    """
    more = tensor.requires_grad, type(tensor) is torch.nn.Parameter, math_bits(tensor)
    return more if any(more) else None


def reducer_of_storages(plain: Reducer) -> Reducer:
    """The reducer of torch.UntypedStorage, around PyTorch's own."""

    def reduce_storage(untyped: Any) -> tuple[Any, ...]:
        if untyped.device.type != "cpu" or not untyped.nbytes():
            return plain(untyped)
        place = _storage.place(untyped) if _strategy.is_current() else _storage.find(untyped)
        if place is None:
            return plain(untyped)
        storage, _, nbytes = place
        if storage.nbytes == nbytes and _can_be_collected():
            number = collect_storage(storage)
            if number is not None:
                return _rebuild.pick_storage, (number,)
        return _rebuild.rebuild_storage, place

    return reduce_storage
