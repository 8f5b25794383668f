"""Finds the storage under an address that another library got from this process.

Tensor.numpy, __dlpack__ and tenon.torch.to_torch note the storages whose bytes they give away. So
from_torch knows Tenon's own memory when it comes home, and lends it without a copy. Noting and finding
take logarithmic time, for a model has many tensors.
"""

from __future__ import annotations

import os
from _thread import RLock
from bisect import bisect_right, insort

from tenon.weak import WeakRef

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.storage import Storage

# By the address of a storage's first byte: the storage's id, how many bytes it has, and a reference that
# keeps none of them.
_noted: dict[int, tuple[int, int, WeakRef]] = {}
_addresses: list[int] = []  # the keys, sorted
# What died is swept when the table has doubled.
_MIN_SWEEP = 256
_sweep_at = _MIN_SWEEP
# Living storages overlap if a part of an open segment was opened. find looks at so many at most.
_MAX_STEPS = 16
# A finalizer may call note in the middle of another call, so the lock lets its own thread in again. The
# child of a fork makes a new lock.
_lock = RLock()


def _renew() -> None:
    global _lock
    _lock = RLock()


os.register_at_fork(after_in_child=_renew)


def note(storage: Storage, first: int) -> None:
    """Remember a storage whose first byte is at the address `first`.

    Private memory is not noted, because it cannot be lent.
    """
    known = _noted.get(first)
    if (known is not None and known[0] == storage.id) or not storage.nbytes or not storage.is_shared:
        return
    if known is not None and known[1] >= storage.nbytes and not known[2].expired:
        # The storage is the first part of one that is there.
        return
    with _lock:
        if len(_addresses) >= _sweep_at:
            _sweep()
        if first not in _noted:
            insort(_addresses, first)
        _noted[first] = storage.id, storage.nbytes, WeakRef(storage)


def _sweep() -> None:
    global _sweep_at
    for first in [first for first, (_, _, weak) in _noted.items() if weak.expired]:
        del _noted[first]
    _addresses[:] = sorted(_noted)
    _sweep_at = max(_MIN_SWEEP, 2 * len(_addresses))


def find(address: int) -> tuple[Storage, int] | None:
    """The living storage that has this byte, and how many bytes into it the byte lies."""
    with _lock:
        index = bisect_right(_addresses, address)
        for first in reversed(_addresses[max(index - _MAX_STEPS, 0) : index]):
            _, nbytes, weak = _noted[first]
            if address < first + nbytes:
                # A dead storage's addresses may be another's by now.
                storage = weak.lock()
                if storage is not None:
                    return storage, address - first
    return None
