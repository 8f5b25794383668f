"""Weak references: they refer to a storage and do not keep its bytes alive."""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon._storage_of import storage_of
from tenon.error import owned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.storage import Storage


class WeakRef(Managed):
    """A weak reference to a storage. Storage.weak_ref makes it."""

    __slots__ = ()
    _instead = (
        "it keeps nothing alive, so it would lead to nothing in another process; send the storage"
        " itself, weak.lock()"
    )

    def __init__(self, storage: Storage) -> None:
        self._cdata = None
        self._cdata = owned("tenon_weak", lib.tenon_weak_ref, storage._own())

    def lock(self) -> Storage | None:
        """The storage, or None if it is gone."""
        own = ffi.gc(lib.tenon_weak_lock(self._own()), lib.tenon_storage_release)
        return None if own == ffi.NULL else storage_of(own)

    @property
    def expired(self) -> bool:
        """Whether the storage is gone. Once true, it stays true."""
        return bool(lib.tenon_weak_expired(self._own()))

    @property
    def id(self) -> int:
        """The id of the storage. It stays valid after the storage is gone."""
        return int(lib.tenon_weak_id(self._own()))

    def __eq__(self, other: object) -> bool:
        """Whether both refer to the same storage, which may be gone."""
        return self.id == other.id if isinstance(other, WeakRef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def _shown(self) -> str:
        return f" to storage {self.id}{', expired' if self.expired else ''}"
