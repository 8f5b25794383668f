"""Figures about the storages and segments that the library has in this process."""

from __future__ import annotations

from tenon._native import ffi, lib
from tenon.error import filled

_FIELDS = tuple(name for name, _ in ffi.typeof("tenon_stats").fields if name != "struct_size")


class Stats:
    """The figures of the library. They are read one after another, so other threads can change some
    of them in between. All but the counts are bytes.
    """

    __slots__ = _FIELDS

    bytes_copied: int
    storages: int
    segments: int
    segment_fds: int
    bytes_reserved: int
    bytes_live: int
    bytes_retired: int
    bytes_opened: int

    def __repr__(self) -> str:
        return f"tenon.Stats({', '.join(f'{name}={getattr(self, name)}' for name in _FIELDS)})"


def stats() -> Stats:
    """Read the figures of this process."""
    out = filled("tenon_stats", lib.tenon_stats_get)
    result = Stats()
    for name in _FIELDS:
        setattr(result, name, int(getattr(out, name)))
    return result
