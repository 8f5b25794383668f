"""Makes tenon.Storage objects of the C library's pointers, for the modules below storage.py: its
methods call functions of by_fd, by_filename, by_cuda and weak, and those give storages.
"""

from __future__ import annotations

from tenon._native import address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.storage import Storage

_classes: list[type[Storage]] = []


def register(cls: type[Storage]) -> None:
    """Set the class. storage.py calls this, and every user of storages has imported storage.py."""
    _classes.append(cls)


def storage_of(own: Any) -> Storage:
    """Make a storage, which takes a reference of its own, of a pointer that owns one."""
    return _classes[0]._at_pointer(address_of(own))
