"""Torch storages over Tenon's memory: finds them, makes them, and moves private ones there.
_reducers, _rebuild and _split use it.

Imports torch. Any thread may call these functions, and a forked child gets new locks. The functions
that make or move storages raise ResourceExhausted if there is no room. A torch storage over Tenon's
memory keeps that memory alive.
"""

from __future__ import annotations

import os
import threading
from functools import cache

import torch

from tenon import _dtype, _torch_rules
from tenon._native import ffi
from tenon._torch_dlpack import IN_EVERY_DLPACK
from tenon.multiprocessing import canonical
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.torch import _strategy
from tenon.torch._exchange import copy_on_write, open_shared, torch_dtype
from tenon.torch._home import new_storage, new_storage_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Place = tuple[Storage, int, int]
    """A Tenon storage, the offset in bytes where a torch storage begins in it, and the size of the
    torch storage in bytes.
    """

_UINT8 = _dtype.number_of("uint8")
_ONE = (1,)

SMALL_NBYTES = 1 << 16
"""Private memory of at most this many bytes is copied with the GIL held, so that no other Python
thread writes to it meanwhile.
"""

_KEEP_NBYTES = 1 << 20
"""The most bytes of a storage's former memory that are kept because other code may still look at
them. A larger memory is freed, as PyTorch always does.
"""


@cache
def has_untyped_storage() -> bool:
    return hasattr(torch.Tensor, "untyped_storage")


@cache
def has_swap() -> bool:
    return hasattr(torch.UntypedStorage, "_swap_data_ptr_")


@cache
def count_storage() -> Any:
    return getattr(torch._C, "_storage_Use_Count", None)


@cache
def numbers() -> dict[Any, int]:
    """Tenon's numbers of the element types that PyTorch and Tenon share."""
    found = {}
    for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)}:
        try:
            number, nbytes = _dtype.number_of(dtype), torch._utils._element_size(dtype)
        except TypeError:
            continue  # Tenon or PyTorch does not know the size of its elements
        # PyTorch's int1 to int7 have a byte for each element, and Tenon's are packed.
        if _dtype.bits_of(number) == 8 * nbytes:
            found[dtype] = number
    return found


@cache
def _dtypes() -> dict[int, Any]:
    return {number: dtype for dtype, number in numbers().items()}


@cache
def numbers_in_every_dlpack() -> frozenset[int]:
    return frozenset(_dtype.number_of(name) for name in IN_EVERY_DLPACK)


def untyped_of(tensor: Any) -> Any:
    """The untyped storage of a torch tensor.

    PyTorch 1.13 has no untyped_storage, and a slow storage().
    """
    return tensor.untyped_storage() if has_untyped_storage() else tensor._storage()


# ---- the torch storages of this process over Tenon's memory


class _Known:
    """Weak references to torch storages over Tenon's memory. By them each part of a Tenon storage
    has one torch storage at a time.

    native/torch.c reads and adds references too, under the lock. The caller of find and
    forget_expired holds the lock. Each reference is freed once, with _free_weak_ref.
    """

    def __init__(self) -> None:
        self.references: dict[tuple[int, int, int], int] = {}
        self.limit = 128
        self.lock = threading.RLock()

    def find(self, key: tuple[int, int, int]) -> Any | None:
        reference = self.references.get(key)
        return None if reference is None else torch.UntypedStorage._new_with_weak_ptr(reference)

    def add(self, key: tuple[int, int, int], untyped: Any) -> None:
        with self.lock:
            reference = self.references.get(key)
            if reference is not None:
                if reference == untyped._cdata:
                    return
                untyped._free_weak_ref(reference)
            self.references[key] = untyped._weak_ref()
            if len(self.references) > self.limit:
                self.forget_expired()

    def forget_expired(self) -> None:
        for key, reference in list(self.references.items()):
            if torch.UntypedStorage._expired(reference):
                del self.references[key]
                torch.UntypedStorage._free_weak_ref(reference)
        self.limit = max(128, 2 * len(self.references))

    def any_alive(self) -> bool:
        with self.lock:
            self.forget_expired()
            return bool(self.references)


known = _Known()


def any_alive() -> bool:
    """Whether a torch storage over Tenon's memory is alive."""
    return known.any_alive()


def over(storage: Storage, begin: int, nbytes: int) -> Any:
    """The torch storage over a part of a Tenon storage. It is the one that is alive, or a new one,
    which keeps the memory alive.

    Read-only memory is mapped again, copy-on-write, because PyTorch has no read-only tensors and a
    write would kill the process.
    """
    key = (storage.id, begin, nbytes)
    with known.lock:
        untyped = known.find(key)
        if untyped is None:
            untyped = _new_over(storage, begin, nbytes)
            known.add(key, untyped)
    return untyped


def _new_over(storage: Storage, begin: int, nbytes: int) -> Any:
    if storage.read_only:
        storage = copy_on_write(storage)
    return untyped_of(torch.frombuffer(storage.data, dtype=torch.uint8, count=nbytes, offset=begin))


def tensor_over(tensor: Tensor) -> Any:
    """Make a torch tensor over a tensor's elements. Its torch storage is the whole Tenon
    storage.
    """
    storage = tensor.storage
    key = (storage.id, 0, storage.nbytes)
    number = tensor._dtype_number
    with known.lock:
        untyped = known.find(key)
        if untyped is None:
            whole = tensor.nbytes == storage.nbytes and tensor.is_contiguous
            if whole and not tensor.read_only and number in numbers_in_every_dlpack():
                result = torch._C._from_dlpack(tensor._to_dlpack(False, False, False))
                known.add(key, untyped_of(result))
                return result
            untyped = over(storage, 0, storage.nbytes)
    # torch_dtype raises if this PyTorch lacks the type
    dtype = _dtypes().get(number) or torch_dtype(tensor.dtype)
    return torch.empty(0, dtype=dtype).set_(untyped, tensor.offset, tensor.shape, tensor.strides)


def new(nbytes: int, *, zeroed: bool = False, will_fill: bool = False) -> Any:
    """Make a torch storage in Tenon's shared memory, of at least one byte."""
    return over(canonical(new_storage(nbytes, zeroed=zeroed, will_fill=will_fill)), 0, nbytes)


def find(untyped: Any) -> Place | None:
    """The place of a torch storage of the CPU in Tenon's shared memory, or None if it does not lie
    there.
    """
    nbytes = untyped.nbytes()
    tensor = Tensor._at(untyped.data_ptr(), _UINT8, (nbytes,), _ONE, 0)
    return None if tensor is None else (canonical(tensor.storage), tensor.offset, nbytes)


# ---- moving private memory

# The address of a storage selects its lock. If two threads send one storage at once, only one of
# them moves it.
locks = [threading.Lock() for _ in range(16)]


def _lock_of(untyped: Any) -> threading.Lock:
    number: int = untyped._cdata >> 5
    return locks[number % len(locks)]


def _after_in_child() -> None:
    locks[:] = [threading.Lock() for _ in locks]
    known.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_in_child)


def place(untyped: Any) -> Place:
    """The place of a torch storage of the CPU in Tenon's shared memory. The storage is moved there
    if necessary.

    If the storage has more than SMALL_NBYTES, writes of other threads during the move may be lost.
    Raises Unsupported for a storage that lies in a mapped file.
    """
    return find(untyped) or _move(untyped, None)


def place_of_tensor(tensor: Any) -> Place:
    """The place of a tensor's storage in Tenon's shared memory. The storage is moved there if
    necessary.
    """
    return find(untyped_of(tensor)) or move_of_tensor(tensor)


def move_of_tensor(tensor: Any) -> Place:
    """As place_of_tensor, for a tensor that was not found in Tenon's memory."""
    untyped = untyped_of(tensor)
    if not has_swap() and not _strategy.is_shared_by_torch(untyped):
        lock = _lock_of(untyped)
        # _replace checks whether the tensor has the storage alone, and this reference would count
        del untyped
        with lock:
            if find(untyped_of(tensor)) is None:
                _replace(tensor)
        untyped = untyped_of(tensor)
    return _move(untyped, tensor)


def _move(untyped: Any, tensor: Any) -> Place:
    found = _adopted(untyped)
    if found is None:
        with _lock_of(untyped):
            found = find(untyped)
            if found is None:
                found = (
                    _swap(untyped, tensor)
                    if has_swap() and not _strategy.is_shared_by_torch(untyped)
                    else _adopt(untyped)
                )
    storage, begin, nbytes = found
    known.add((storage.id, begin, nbytes), untyped)
    return found


def _copied(untyped: Any) -> tuple[Storage, Any]:
    """Make a Tenon storage with the same bytes, and a torch storage over it."""
    nbytes = untyped.nbytes()
    source = ffi.cast("char *", untyped.data_ptr())
    if nbytes > SMALL_NBYTES:
        storage = canonical(new_storage_from(ffi.buffer(source, nbytes), nbytes))
        return storage, _new_over(storage, 0, nbytes)
    storage = canonical(new_storage(nbytes, will_fill=True))
    target = _new_over(storage, 0, nbytes)
    ffi.memmove(ffi.cast("char *", target.data_ptr()), source, nbytes)
    return storage, target


def _swap(untyped: Any, tensor: Any) -> Place:
    """Move a storage with all its views, gradients and weak references."""
    count = count_storage()
    # One reference is the tensor's, and one the Python object's.
    alone = (
        tensor is not None
        and count is not None
        and count(untyped._cdata) <= 2
        and tensor._use_count() <= 1
    )
    storage, target = _copied(untyped)
    untyped._swap_data_ptr_(target)
    if not alone and storage.nbytes <= _KEEP_NBYTES:
        untyped._tenon_former = target  # a NumPy array or a DLPack consumer may point there
    return storage, 0, storage.nbytes


def _replace(tensor: Any) -> None:
    """Give a tensor that has its storage alone another storage. If it is not alone, nothing
    changes.

    This is for a PyTorch without _swap_data_ptr_. There, only after the tensor has let go of its
    storage can we see whether it had the storage alone.
    """
    if (
        type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_inference()
    ):
        return
    untyped = untyped_of(tensor)
    former = untyped._weak_ref()
    _, target = _copied(untyped)
    del untyped
    tensor.data = _over_same(tensor, target)
    let_go(tensor, former)


def _over_same(tensor: Any, untyped: Any) -> Any:
    return torch.empty(0, dtype=tensor.dtype).set_(
        untyped, tensor.storage_offset(), tensor.size(), tensor.stride()
    )


def let_go(tensor: Any, former: int) -> bool:
    """Whether a tensor that was given another storage had the former one alone. If not, the tensor
    gets the former storage back. The call frees the weak reference.
    """
    try:
        if torch.UntypedStorage._expired(former):
            return True
        untyped = torch.UntypedStorage._new_with_weak_ptr(former)
        if untyped is None:
            return True
        tensor.data = _over_same(tensor, untyped)
        return False
    finally:
        torch.UntypedStorage._free_weak_ref(former)


def _adopted(untyped: Any) -> Place | None:
    adopted = getattr(untyped, "_tenon_adopted", None)
    if adopted is None or adopted[0] != untyped.data_ptr():
        return None
    return adopted[1], 0, untyped.nbytes()


def _adopt(untyped: Any) -> Place:
    """Open the memory that PyTorch shares. Private memory moves into a file of PyTorch's first."""
    storage = canonical(open_shared(untyped, share=True))
    if has_untyped_storage():
        # Since PyTorch 2.1 the attributes of a storage live as long as the storage. In older
        # versions it is opened for each message.
        untyped._tenon_adopted = untyped.data_ptr(), storage
    return storage, 0, untyped.nbytes()


def is_movable(tensor: Any) -> bool:
    """Whether a tensor has memory that can move with it: a strided tensor of the CPU that is not
    empty.
    """
    return _torch_rules.is_strided_on_cpu(tensor) and bool(untyped_of(tensor).nbytes())
