"""What storage.py needs of an arena: the class below tenon.Arena, and the wait for room."""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import address_of, new_struct
from tenon.wait import waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.wait import Cancel


class ArenaBase(Managed):
    """The base of tenon.Arena, which makes storages and so stands above storage.py."""

    __slots__ = ()


def wait_for_room(
    own: Any,
    place: tuple[int, int, int],
    new: tuple[Any, ...],
    timeout: float | None,
    cancel: Cancel | None,
) -> int:
    """Wait for room in an arena, and make a storage there by a function of the library. `new` has
    the function and its arguments after the options. `place` has the mode, the flags and the
    alignment. Returns the storage's address.
    """
    function, *what = new
    fields = dict(zip(("mode", "flags", "alignment"), place, strict=True))
    options = new_struct("tenon_storage_options", arena=own, **fields)

    def step(wait: Any, out: Any, error: Any) -> int:
        options.wait = wait
        return int(function(options, *what, out, error))

    return address_of(waited("tenon_storage", step, timeout, cancel))
