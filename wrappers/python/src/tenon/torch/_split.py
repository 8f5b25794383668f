"""PyTorch's side of tenon.pickle: keeps the storages of torch tensors out of the pickle. Imports
torch.

This module makes a strided tensor again from its storage. A sparse, nested, quantised or meta
tensor is taken apart, and its parts are strided tensors. So a receiver need not allow any function
of PyTorch's.
"""

from __future__ import annotations

import sys

import torch

from tenon import _torch_rules
from tenon import pickle as _pickle
from tenon._native import lib
from tenon._torch_dlpack import math_bits, through_dlpack, with_math_bits
from tenon.error import Corrupt, Unsupported, make
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.torch import _composite, _storage
from tenon.torch._exchange import torch_dtype
from tenon.torch._rebuild import rebuild_storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TYPED: Any = torch.storage.TypedStorage


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _number(untyped: Any, dtype: Any, pickler: Any) -> int:
    if not untyped.nbytes():
        return -1  # no memory, so nothing can be shared
    return int(pickler.number(("torch", untyped._cdata), untyped, _name_of(dtype)))


def _is_jagged(obj: Any) -> bool:
    # The class of PyTorch's jagged tensors is in a module that is imported with the first of them.
    nested = sys.modules.get("torch.nested._internal.nested_tensor")
    return nested is not None and type(obj) is nested.NestedTensor


def reduce(obj: Any, pickler: Any) -> Any:
    """The reducer of PyTorch's tensors and storages in tenon.pickle's pickler.

    NotImplemented means that the object is neither, or a tensor of another class. Raises
    Unsupported for a tensor that _torch_rules.check refuses, or whose parts PyTorch does not give.
    """
    if type(obj) in _PLAIN or _is_jagged(obj):
        if not _torch_rules.is_strided(obj):
            # The pickler writes a part that several tensors share once. That matters, because
            # PyTorch adds two jagged tensors only if they have the same offsets.
            return _pickle._torch_composite, tuple(_composite.take_apart(obj))
        _torch_rules.check(obj)
        flags = _torch_rules.flags_of(obj) | math_bits(obj)
        number = _number(_storage.untyped_of(obj), obj.dtype, pickler)
        pickler.tensors.setdefault(number, obj)
        form = (_name_of(obj.dtype), tuple(obj.shape), obj.stride(), obj.storage_offset(), flags)
        return _pickle._torch_tensor, (number, *form)
    if isinstance(obj, _TYPED):
        return _pickle._torch_storage, (
            _number(obj.untyped(), obj.dtype, pickler),
            _name_of(obj.dtype),
        )
    if isinstance(obj, torch.UntypedStorage):
        return _pickle._torch_storage, (_number(obj, torch.uint8, pickler), None)
    return NotImplemented


# ---- the other way


def _untyped(found: Any) -> Any:
    """The torch storage over a storage that came with an object. None stands for a storage without
    bytes.
    """
    if found is None:
        return torch.UntypedStorage(0)
    if isinstance(found, _TYPED):
        return found.untyped()
    if isinstance(found, torch.UntypedStorage):
        return found
    if isinstance(found, Storage):
        return rebuild_storage(found, 0, found.nbytes)
    if isinstance(found, Tensor) and found.dtype == "uint8" and found.is_contiguous:
        return rebuild_storage(found.storage, found.offset, found.nbytes)
    raise make(
        Corrupt,
        f"{type(found).__name__} is no storage that a torch tensor can lie over",
        field="storage",
    )


def storage_of(found: Any, dtype: Any) -> Any:
    """The torch storage, which is typed if there is a dtype."""
    untyped = _untyped(found)
    return untyped if dtype is None else _TYPED(wrap_storage=untyped, dtype=torch_dtype(dtype))


def _check_bounds(untyped: Any, itemsize: int, shape: Any, strides: Any, offset: Any) -> None:
    """Raise Corrupt if a tensor does not fit into its storage. PyTorch would enlarge a storage that
    is too small.
    """
    numbers = (*shape, *strides, offset)
    if len(shape) != len(strides) or not all(
        isinstance(each, int) and 0 <= each < 1 << 63 for each in numbers
    ):
        raise make(
            Corrupt,
            f"shape {shape}, strides {strides} and offset {offset} are of no tensor",
            field="tensor.shape",
        )
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if 0 not in shape and (last + 1) * itemsize > untyped.nbytes():
        raise make(
            Corrupt,
            f"a tensor with shape {shape}, strides {strides} and offset {offset} does not fit into"
            f" its storage of {untyped.nbytes()} bytes",
            field="tensor.shape",
        )


def tensor_of(found: Any, dtype: Any, shape: Any, strides: Any, offset: Any, flags: Any) -> Any:
    """Make a torch tensor over a storage that came with an object.

    Raises Corrupt if the tensor does not fit into the storage, and Unsupported if this PyTorch has
    no such dtype.
    """
    untyped = _untyped(found)
    empty = torch.empty(0, dtype=torch_dtype(dtype), device=untyped.device)
    _check_bounds(untyped, empty.element_size(), shape, strides, offset)
    result = with_math_bits(empty.set_(untyped, offset, shape, strides), flags)
    requires_grad, is_parameter = (
        flags & lib.TENON_TENSOR_REQUIRES_GRAD,
        flags & lib.TENON_TENSOR_IS_PARAMETER,
    )
    return _torch_rules.with_flags(result, bool(requires_grad), bool(is_parameter))


class Settled:
    """Parts of tensors from an untrusted sender, in memory that no other process can write.

    PyTorch follows the indices in the parts, so they must stay as they were when they were checked.
    Each object that is loaded has a Settled of its own. It keeps the parts alive, because it knows
    them by id.
    """

    def __init__(self) -> None:
        self._parts: dict[
            int, tuple[Any, Any]
        ] = {}  # by id of a part: the part, and the one that is used instead

    def note(self, part: Any, found: Any) -> None:
        """Remember a tensor that was made over a storage, if nobody can write the storage any
        more.
        """
        storage = found.storage if isinstance(found, Tensor) else found
        if (
            isinstance(storage, Storage)
            and storage.mode == "frozen"
            and storage.is_sealed
            and part.is_contiguous()
        ):
            self._parts[id(part)] = part, part

    def settle(self, part: Any) -> Any:
        """The part, or a copy of it. All tensors that share the part get the same copy."""
        known = self._parts.get(id(part))
        if known is None:
            known = self._parts[id(part)] = part, part.clone(memory_format=torch.contiguous_format)
        return known[1]


def _is_part(part: Any) -> bool:
    return type(part) is torch.Tensor and _torch_rules.is_strided(part) and not part.requires_grad


def composite_of(settled: Settled | None, *state: Any) -> Any:
    """Make a torch tensor of parts that came with an object. If `settled` is given, the sender is
    not trusted, and the numbers in the parts are checked.

    A check would not protect from a trusted sender, which may run code here anyway. A check reads
    all indices, and needs a copy of those that the sender can still change. The tensor would then
    not share its indices with the sender or with other tensors of the object.

    Raises Corrupt for parts or numbers that are wrong.
    """
    apart = _composite.TakenApart(*state)
    if not all(_is_part(part) for part in apart.parts.values()):
        raise make(
            Corrupt,
            f"the parts of a {apart.layout} tensor are no strided torch tensors",
            field="parts",
        )
    if settled is not None:
        parts = {
            name: part if name == "values" else settled.settle(part)
            for name, part in apart.parts.items()
        }
        apart = apart._replace(parts=parts)
    # The shapes of the parts are always checked, because PyTorch's functions that make such tensors
    # check little.
    composite = _composite.composite_of(
        apart, {name: through_dlpack(part, {}) for name, part in apart.parts.items()}
    )
    if settled is not None:
        composite.check()
    return _composite.assemble(apart, torch_dtype)


def lendable(storage: Any, tensor: Any) -> Tensor:
    """The bytes of a torch storage as a tensor that can be sent.

    Private memory moves to Tenon's, as in torch.multiprocessing. Raises Unsupported for a storage
    on a device, and ResourceExhausted if there is no room.
    """
    if storage.device.type != "cpu":
        raise make(
            Unsupported,
            f"a torch storage on {storage.device} is not sent with an object: send tensor.cpu()",
        )
    place = _storage.place(storage) if tensor is None else _storage.place_of_tensor(tensor)
    own, begin, nbytes = place
    return Tensor.over(own, (nbytes,), "uint8", offset=begin)
