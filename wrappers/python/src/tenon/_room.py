"""What storage.py needs of an arena: the class below tenon.Arena, and the wait for room."""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import address_of, ffi, lib, new_struct
from tenon.wait import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Buffer

    from tenon.wait import Cancel


class ArenaBase(Managed):
    """The base of tenon.Arena, which makes storages and so stands above storage.py."""

    __slots__ = ()


def new_storage(
    own: Any,
    nbytes: int,
    mode: int,
    flags: int,
    alignment: int,
    timeout: float | None,
    cancel: Cancel | None,
) -> int:
    """Wait for room in an arena, and make a storage there. Returns the storage's address."""
    options = _options(own, mode, flags, alignment)
    return _wait(
        options,
        lambda out, error: lib.tenon_storage_new(options, nbytes, out, error),
        timeout,
        cancel,
    )


def new_storage_from(
    own: Any,
    data: Buffer,
    mode: int,
    flags: int,
    alignment: int,
    timeout: float | None,
    cancel: Cancel | None,
) -> int:
    """Wait for room in an arena, and make a storage there that holds a copy. Returns the storage's
    address.
    """
    options = _options(own, mode, flags, alignment)
    with memoryview(data) as view, ffi.from_buffer(view) as source:
        nbytes = view.nbytes
        return _wait(
            options,
            lambda out, error: lib.tenon_storage_new_from(options, source, nbytes, out, error),
            timeout,
            cancel,
        )


def _options(own: Any, mode: int, flags: int, alignment: int) -> Any:
    options = new_struct("tenon_storage_options")
    options.mode = mode
    options.flags = flags
    options.alignment = alignment
    options.arena = own
    return options


def _wait(
    options: Any, make: Callable[[Any, Any], int], timeout: float | None, cancel: Cancel | None
) -> int:
    out = ffi.new("tenon_storage **")

    def step(wait: Any, error: Any) -> int:
        options.wait = wait
        return make(out, error)

    run(step, timeout, cancel)
    return address_of(out[0])
