"""Programs that test_cuda_arena.py runs on the fake driver, and tests/process/gpu on a real one.

Each program is a process: python cuda_arena_programs.py PROGRAM.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest
import tenon
from cuda_kit import (
    IPC_OPEN,
    Array,
    Gate,
    check,
    collected,
    cuda,
    is_live,
    new_host_room,
    new_stream,
    nothing_left,
    over,
    read,
    use_device,
)

CAPACITY = 2 << 20


class TorchStream:
    """A stream object like PyTorch's."""

    def __init__(self, stream: int) -> None:
        self.cuda_stream = stream


def address_of(tensor: tenon.Tensor) -> int:
    return int(tensor.__cuda_array_interface__["data"][0])


def fill(tensor: tenon.Tensor, byte: int, stream: int) -> None:
    pointer = ctypes.c_uint64(address_of(tensor))
    check(
        cuda.cuMemsetD8Async(
            pointer, ctypes.c_ubyte(byte), ctypes.c_size_t(tensor.nbytes), ctypes.c_void_p(stream)
        )
    )


def given_back(arena: tenon.CudaArena) -> bool:
    """Whether the arena gets all its memory back: waits up to 5 seconds for the receivers."""
    for _ in range(5000):
        if arena.stats().bytes_used == 0:
            return True
        time.sleep(0.001)
    return False


def is_opened(times: int) -> bool:
    return is_live(times, IPC_OPEN, os.getpid())


# ---- the other process


def receives() -> None:
    """The receiver gives its copies to its stream before the sender opens its gate, so only the
    names of the two streams hold the copies back.
    """
    use_device()
    stream = new_stream()
    with tenon.Connection(int(sys.argv[2]), adopt=True, cuda_keep_open=True) as connection:
        connection.set_stream(0, TorchStream(stream))
        tensors = connection.recv()
        room = new_host_room(2)
        for i, name in enumerate(("one", "other")):
            to = ctypes.c_void_p(ctypes.addressof(room) + i)
            check(
                cuda.cuMemcpyDtoHAsync_v2(
                    to,
                    ctypes.c_uint64(address_of(tensors[name])),
                    ctypes.c_size_t(1),
                    ctypes.c_void_p(stream),
                )
            )
        connection.send()
        check(cuda.cuStreamSynchronize(ctypes.c_void_p(stream)))
        assert room.raw == b"\7\x08", room.raw
        assert is_opened(1)
        del tensors
        gc.collect()
        assert is_opened(1)
        assert collected()
        assert is_opened(0)


# ---- programs


def sends() -> None:
    use_device()
    stream = new_stream()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receiver = subprocess.Popen(
        [sys.executable, "-B", sys.argv[0], "receives", str(there.fileno())],
        pass_fds=[there.fileno()],
    )
    there.close()
    with tenon.Connection(here, adopt=True) as connection, tenon.CudaArena(CAPACITY) as arena:
        connection.set_stream(0, stream)
        gate = Gate(stream)
        tensors = {
            "one": over(arena.allocate(1000)),
            "other": over(arena.allocate(1000, timeout=60)),
        }
        fill(tensors["one"], 7, stream)
        fill(tensors["other"], 8, stream)
        connection.send(tensors)
        del tensors
        connection.recv()
        assert arena.stats().blocks_used == 2
        with pytest.raises(tenon.ResourceExhausted) as info:
            arena.allocate(CAPACITY)
        assert "2 leases" in info.value.details["holders"]
        del info
        gate.open()
        assert receiver.wait() == 0
        assert given_back(arena)
    nothing_left()


def comes_home() -> None:
    """In one process the received storage is the sent one. A read-only one is lent only on
    request.
    """
    use_device()
    arena = tenon.CudaArena(CAPACITY, transport="fd")
    mine = over(arena.allocate(100))
    fill(mine, 5, 0)
    left, right = tenon.pair()
    with left, right:
        left.send([mine])
        (back,) = right.recv()
        assert back.storage == mine.storage and read(back) == b"\5" * 100
        array = Array(b"abc", read_only=True)
        frozen = tenon.from_dlpack(array)
        with pytest.raises(tenon.PermissionDenied):
            left.send([frozen])
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        tenon.Connection(one, adopt=True, cuda_let_write=True) as left,
        tenon.Connection(other, adopt=True) as right,
    ):
        left.send([frozen])
        (again,) = right.recv()
        assert again.storage == frozen.storage
    del mine, back, frozen, again
    gc.collect()
    assert given_back(arena)
    arena.close()
    nothing_left()
    assert array.freed == 1


def full() -> None:
    use_device()
    arena = tenon.CudaArena(capacity_nbytes=CAPACITY, device=0, transport="ipc")
    assert arena.allocate(0).nbytes == 0
    storage = arena.allocate(CAPACITY)
    now = arena.stats()
    assert (now.device, now.transport, now.bytes_capacity, now.bytes_used) == (
        0,
        "ipc",
        CAPACITY,
        CAPACITY,
    )
    assert (now.bytes_free, now.bytes_largest_free, now.bytes_peak, now.blocks_used) == (
        0,
        0,
        CAPACITY,
        1,
    )
    assert repr(arena) == f"<tenon.CudaArena of {CAPACITY} bytes on cuda:0: {CAPACITY} used>"
    wanted = {
        "limit": "arena",
        "limit_value": str(CAPACITY),
        "wanted": "256",
        "in_use": str(CAPACITY),
    }
    for error, timeout in ((tenon.ResourceExhausted, 0), (tenon.Timeout, 0.003)):
        with pytest.raises(error) as info:
            arena.allocate(256, timeout=timeout)
        assert wanted.items() <= info.value.details.items()
        del info
    cancel = tenon.Cancel()
    threading.Timer(0, cancel.trigger).start()
    with pytest.raises(tenon.Cancelled):
        arena.allocate(256, timeout=None, cancel=cancel)
    # A closed arena still serves its storage.
    arena.close()
    assert arena.closed and repr(arena) == "<tenon.CudaArena, closed>"
    for call in (arena.stats, lambda: arena.allocate(1)):
        with pytest.raises(ValueError, match="CudaArena is already closed"):
            call()
    assert over(storage).nbytes == CAPACITY
    storage.close()
    nothing_left()


def keeps_its_streams() -> None:
    """A stream whose object is gone is destroyed, and received memory counts as used in the
    stream.
    """
    use_device()
    left, right = tenon.pair()
    stream = TorchStream(new_stream())
    gone = weakref.ref(stream)
    left.set_stream(0, stream)
    del stream
    with left, right:
        assert gone() is not None
        with pytest.raises(TypeError):
            left.set_stream(0, "1")  # type: ignore[arg-type]
        assert gone() is not None
    assert gone() is not None
    left, right = tenon.pair()
    assert gone() is None
    stream = TorchStream(new_stream())
    gone = weakref.ref(stream)
    with left, right:
        left.set_stream(0, stream)
        del stream
        left.set_stream(0)
        assert gone() is None


def refused() -> None:
    for device in (-1, 999):
        with pytest.raises(tenon.InvalidArgument):
            tenon.CudaArena(CAPACITY, device=device)
    with pytest.raises(tenon.InvalidArgument):
        tenon.CudaArena(0)
    with pytest.raises(tenon.InvalidArgument):
        tenon.CudaArena(CAPACITY, transport="pool")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        tenon.CudaArena(-1)
    with tenon.CudaArena(CAPACITY) as arena, pytest.raises(ValueError):
        arena.allocate(-1)
    with tenon.CudaArena(CAPACITY) as arena:
        for make in (tenon.empty, tenon.Storage.new):
            with pytest.raises(TypeError, match=r"arena is a tenon\.Arena, not CudaArena"):
                make(16, arena=arena)  # type: ignore[arg-type]
    left, right = tenon.pair()
    with left, right:
        left.set_stream(0)
        left.set_stream(0, None)
        with pytest.raises(tenon.InvalidArgument):
            left.set_stream(-1)
        wrong: Any
        for wrong in (1.5, "1", object()):
            with pytest.raises(TypeError):
                left.set_stream(0, wrong)
    with pytest.raises(ValueError, match="Connection is already closed"):
        left.set_stream(0)
    keeps_its_streams()
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    if not tenon.cuda_available():
        sys.exit(77)
    globals()[sys.argv[1]]()
