"""The place where new torch storages lie: small ones in Tenon's default home, large ones in an
arena. _storage uses it. An arena keeps the memory of a loop of large batches warm.

The default home gives each block of more than 8 MiB a segment of its own, and the kernel makes new
pages for it each time.

Any thread may call these functions. A forked child begins with no arena, because its parent's
belong to the parent. new_storage and new_storage_from raise ResourceExhausted if there is no room.
"""

from __future__ import annotations

import os
import threading

from tenon.arena import Arena
from tenon.error import ResourceExhausted
from tenon.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGE_NBYTES = 8 << 20
"""The size in bytes of the largest block that the default home keeps warm."""

MOST_IDLE_NBYTES = 256 << 20
"""The most free bytes of an idle arena for large blocks. If an arena has more free bytes than this,
than its bytes in use, and than twice the next block, it gets no new blocks and ends with its last
one.
"""

_LOOK_EACH = 32
"""How many new blocks are made between two reads of the arena's statistics.

A read takes milliseconds, because it asks the kernel about pages.
"""


class _LargeBlocks:
    """An arena for large blocks.

    Its memory goes back to the system with the arena, when the last block and the last lease have
    gone.
    """

    def __init__(self) -> None:
        self._arena: Arena | None = None
        self.reserved: Arena | None = None
        self._n_new = 0
        self.lock = threading.Lock()

    def forget(self) -> None:
        """Drop the arenas in a forked child, because they belong to the parent."""
        self._arena = None
        self.reserved = None
        self.lock = threading.Lock()

    def arena(self, nbytes: int) -> Arena:
        """The arena for one more block of `nbytes` bytes."""
        with self.lock:
            self._n_new += 1
            if (
                self._arena is not None
                and self._n_new % _LOOK_EACH == 0
                and self._is_idle(self._arena, nbytes)
            ):
                self._arena = None
            if self._arena is None:
                self._arena = Arena(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
            return self._arena

    @staticmethod
    def _is_idle(arena: Arena, nbytes: int) -> bool:
        stats = arena.stats()
        return stats.bytes_free > max(
            MOST_IDLE_NBYTES, 2 * nbytes, stats.bytes_live + stats.bytes_lent
        )


_large = _LargeBlocks()
os.register_at_fork(after_in_child=_large.forget)


def reserve(nbytes: int) -> None:
    """Put this process's new torch memory into one arena of nbytes bytes, which is allocated now.

    Such memory can be pinned, here and in the processes to which it is lent (tenon.torch.pin). An
    arena that grows cannot be pinned. Call this in a DataLoader's worker_init_fn, with room for all
    batches that wait or are held. Tensors that no longer fit lie outside the arena. A forked child
    does not inherit the arena. A further call replaces the arena for new memory.

    Raises ResourceExhausted if there is no room. Then the former arena stays.
    """
    arena = Arena(nbytes)
    arena.reserve(nbytes)
    _large.reserved = arena


def _born(make: Callable[[Arena | None], Storage], nbytes: int) -> Storage:
    """Call make(arena) with the first arena that has room, or make(None) for the default home."""
    if _large.reserved is not None:
        try:
            return make(_large.reserved)
        except ResourceExhausted:
            pass  # it is full
    if nbytes > LARGE_NBYTES:
        try:
            return make(_large.arena(nbytes))
        except ResourceExhausted:
            # The address space of the arena is fragmented, so the block gets a segment of its own
            pass
    return make(None)


def new_storage(nbytes: int, *, zeroed: bool = False, will_fill: bool = False) -> Storage:
    """Make a shared storage for a torch storage of `nbytes` bytes."""
    return _born(
        lambda arena: Storage.new(nbytes, zeroed=zeroed, will_fill=will_fill, arena=arena), nbytes
    )


def new_storage_from(data: Any, nbytes: int) -> Storage:
    """Make a shared storage with a copy of `nbytes` bytes. Other Python threads run meanwhile."""
    return _born(lambda arena: Storage.new_from(data, arena=arena), nbytes)
