"""Finds the storage under an address that another library got from this process.

Tensor.numpy, __dlpack__ and tenon.torch.to_torch note the storages whose bytes they give away. So from_torch knows Tenon's
own memory when it comes home, and lends it without a copy.
"""

from __future__ import annotations

from tenon.weak import WeakRef

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.storage import Storage

# By the storage's id. A weak reference keeps no bytes; those of dead storages are swept when the table has doubled. There
# is no lock, which a child of fork could inherit held: each use of the table is one step of the interpreter.
_noted: dict[int, tuple[int, int, WeakRef]] = {}
_MIN_SWEEP = 256
_sweep_at = _MIN_SWEEP


def note(storage: Storage, first: int) -> None:
    """first: the address of the storage's first byte. Private memory is not noted: it cannot be lent, wherever it is found."""
    global _sweep_at
    if storage.id in _noted or not storage.nbytes or not storage.is_shared:
        return
    _noted[storage.id] = first, storage.nbytes, WeakRef(storage)
    if len(_noted) >= _sweep_at:
        for key, (_, _, weak) in list(_noted.items()):
            if weak.expired:
                _noted.pop(key, None)
        _sweep_at = max(_MIN_SWEEP, 2 * len(_noted))


def find(address: int) -> tuple[Storage, int] | None:
    """The living storage that has this byte, and how many bytes into it the byte lies."""
    for first, nbytes, weak in list(_noted.values()):
        if first <= address < first + nbytes:
            # A dead storage's addresses may be another's by now.
            storage = weak.lock()
            if storage is not None:
                return storage, address - first
    return None
