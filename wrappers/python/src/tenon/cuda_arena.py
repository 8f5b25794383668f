"""Arenas of device memory: one allocation, and so one handle, for many storages."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon._options import CUDA_TRANSPORT_NAMES, CUDA_TRANSPORTS, number_of, unsigned
from tenon.by_cuda import ordinal
from tenon.error import call
from tenon.storage import Storage
from tenon.wait import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, SupportsIndex

    from tenon.wait import Cancel


class CudaArenaStats(Frozen):
    """What an arena on a device holds, all of one moment.

    device: this process's number of it. transport: how the arena is lent. bytes_capacity: what it
    can hold. bytes_used: in storages, or kept by a stream or a receiver, and blocks_used: how many
    blocks that is. bytes_free: nobody's; bytes_largest_free: the longest piece of them. bytes_peak:
    the most that was used at once.
    """

    __slots__ = (  # noqa: RUF023 (the order of __init__)
        "device",
        "transport",
        "bytes_capacity",
        "bytes_used",
        "bytes_free",
        "bytes_largest_free",
        "bytes_peak",
        "blocks_used",
    )

    device: int
    transport: str
    bytes_capacity: int
    bytes_used: int
    bytes_free: int
    bytes_largest_free: int
    bytes_peak: int
    blocks_used: int

    def __init__(self, *values: Any) -> None:
        self._set(**dict(zip(type(self).__slots__, values, strict=True)))


class CudaArena(Managed):
    """One allocation on a device, which whoever receives its storages opens once, be it over a
    Connection, by share_cuda or in PyTorch.

    Closing it gives this reference back: its storages live on, and its memory goes with the last of
    them and the last who keeps it. Who is lent one byte of it can read and write all of it.
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

        capacity_nbytes: all of it is taken at once; rounded up to what the device gives. device:
        this process's number of it. transport: how it is to be lent; "auto" is "ipc" where the
        device has it, for PyTorch opens that, else "fd".
        """
        self._cdata = None
        options = ffi.new("tenon_cuda_arena_options *")
        options.struct_size = ffi.sizeof("tenon_cuda_arena_options")
        options.device = ordinal(device)
        options.transport = number_of(CUDA_TRANSPORTS, transport, "transport")
        options.capacity_nbytes = unsigned(capacity_nbytes, "capacity_nbytes")
        out = ffi.new("tenon_cuda_arena **")
        call(lib.tenon_cuda_arena_new, options, out)
        self._cdata = ffi.gc(out[0], lib.tenon_cuda_arena_release)

    def allocate(
        self, nbytes: int, *, timeout: float | None = 0, cancel: Cancel | None = None
    ) -> Storage:
        """A storage in it whose bytes are what they happen to be.

        A full arena raises ResourceExhausted, whose details["holders"] says who holds what was
        lent. timeout: seconds to wait for blocks to come back, after which it is Timeout; None
        waits for ever. A block is free when its storage has gone, the streams in which it was used
        have passed, and every receiver has let go or was killed.
        """
        own, size = self._own(), unsigned(nbytes, "nbytes")
        out = ffi.new("tenon_storage **")
        run(
            lambda wait, error: lib.tenon_cuda_arena_allocate(own, size, wait, out, error),
            timeout,
            cancel,
        )
        return Storage._adopt(int(ffi.cast("uintptr_t", out[0])))

    def stats(self) -> CudaArenaStats:
        """What it holds, now. Looks for what was given back first."""
        out = ffi.new("tenon_cuda_arena_stats *")
        out.struct_size = ffi.sizeof("tenon_cuda_arena_stats")
        call(lib.tenon_cuda_arena_stats_get, self._own(), out)
        found = {name: getattr(out, name) for name in CudaArenaStats.__slots__}
        found["transport"] = CUDA_TRANSPORT_NAMES[out.transport]
        return CudaArenaStats(*found.values())

    def __repr__(self) -> str:
        if self.closed:
            return "<tenon.CudaArena, closed>"
        now = self.stats()
        return (
            f"<tenon.CudaArena of {now.bytes_capacity} bytes on cuda:{now.device}: {now.bytes_used}"
            " used>"
        )
