"""Arenas of device memory: many storages share one allocation, and so one handle."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import lib, new_struct
from tenon._options import CUDA_TRANSPORT_NAMES, CUDA_TRANSPORTS, number_of, unsigned
from tenon._storage_of import storage_of
from tenon.by_cuda import ordinal
from tenon.error import filled, owned
from tenon.wait import waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, SupportsIndex

    from tenon.storage import Storage
    from tenon.wait import Cancel


class CudaArenaStats(Frozen):
    """The figures of an arena on a device, all of one moment.

    - device: This process's number of the device.
    - transport: How the arena is lent.
    - bytes_capacity: The size of the arena.
    - bytes_used and blocks_used: The bytes and blocks in storages, or kept by a stream or a
      receiver.
    - bytes_free: The bytes that nobody uses.
    - bytes_largest_free: The longest piece of the free bytes.
    - bytes_peak: The most bytes that were used at once.
    """

    device: int
    transport: str
    bytes_capacity: int
    bytes_used: int
    bytes_free: int
    bytes_largest_free: int
    bytes_peak: int
    blocks_used: int
    __slots__ = tuple(__annotations__)


class CudaArena(Managed):
    """A CUDA arena is one allocation on a device. A receiver of its storages opens the allocation
    once, whether over a Connection, by share_cuda or in PyTorch.

    close() releases this reference. The storages of the arena live on. The memory goes when the
    last storage and the last receiver have let it go. A process that is lent one byte of the arena
    can read and write all of it.
    """

    __slots__ = ()

    def __init__(
        self,
        capacity_nbytes: int,
        *,
        device: SupportsIndex = 0,
        transport: Literal["auto", "ipc", "fd", "fabric"] = "auto",
    ) -> None:
        """Make an arena.

        - capacity_nbytes: The size, which is taken at once. The size is rounded up to the device's
          granularity.
        - device: This process's number of the device.
        - transport: How the arena will be lent. "auto" is "ipc", which PyTorch can open, where the
          device has it, and else "fd".
        """
        self._cdata = None
        options = new_struct(
            "tenon_cuda_arena_options",
            device=ordinal(device),
            transport=number_of(CUDA_TRANSPORTS, transport, "transport"),
            capacity_nbytes=unsigned(capacity_nbytes, "capacity_nbytes"),
        )
        self._cdata = owned("tenon_cuda_arena", lib.tenon_cuda_arena_new, options)

    def allocate(
        self, nbytes: int, *, timeout: float | None = 0, cancel: Cancel | None = None
    ) -> Storage:
        """Make a storage in the arena. Its bytes are not initialised.

        A full arena raises ResourceExhausted, whose details["holders"] says which processes hold
        the memory that was lent. timeout is the seconds to wait for blocks to come back, after
        which the call raises Timeout. None waits for ever. A block is free when its storage has
        gone, the streams in which it was used have passed, and every receiver has let go or was
        killed.
        """
        own, size = self._own(), unsigned(nbytes, "nbytes")
        request = lib.tenon_cuda_arena_allocate, own, size
        return storage_of(waited("tenon_storage", *request, timeout=timeout, cancel=cancel))

    def stats(self) -> CudaArenaStats:
        """The arena's figures at this moment. The call first collects the blocks that were given
        back.
        """
        out = filled("tenon_cuda_arena_stats", lib.tenon_cuda_arena_stats_get, self._own())
        return CudaArenaStats._of(out, transport=CUDA_TRANSPORT_NAMES[out.transport])

    def _shown(self) -> str:
        now = self.stats()
        return f" of {now.bytes_capacity} bytes on cuda:{now.device}: {now.bytes_used} used"
