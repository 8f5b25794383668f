"""Programs that test_cuda_transport.py runs on the fake driver, and tests/process/gpu on a real
one.

Each program is a process: python cuda_transport_programs.py PROGRAM. The memory belongs to a pool,
so its handle has an fd. Handle and fd go over a socket.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
import tenon
from cuda_kit import DATA, Array, check, collected, cuda, nothing_left, over, read, use_device


class PoolProps(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("max_size", ctypes.c_size_t),
        ("reserved", ctypes.c_ubyte * 56),
    ]


class PoolArray(Array):
    """Bytes in the memory of a pool."""

    def __init__(self, data: bytes, handle_types: int = 1) -> None:
        super().__init__(b"")
        check(cuda.cuMemFree_v2(ctypes.c_uint64(self.pointer)))
        self.pool, pointer = ctypes.c_void_p(), ctypes.c_uint64()
        check(
            cuda.cuMemPoolCreate(
                ctypes.byref(self.pool), ctypes.byref(PoolProps(1, handle_types, 1, 0))
            )
        )
        check(
            cuda.cuMemAllocFromPoolAsync(
                ctypes.byref(pointer), ctypes.c_size_t(len(data)), self.pool, None
            )
        )
        check(cuda.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(len(data))))
        self.nbytes, self.pointer = len(data), pointer.value

    def free(self, _: object = None) -> None:
        super().free()
        check(cuda.cuMemPoolDestroy(self.pool))


def receives() -> None:
    """Opens the memory that comes over the socket whose number is the argument, and sends its
    bytes.
    """
    use_device()
    with socket.socket(fileno=int(sys.argv[2])) as line:
        message, fds, _, _ = socket.recv_fds(line, 1 << 16, 253)
        handle = pickle.loads(message)
        assert len(fds) == len(handle.fds) == 1
        # The sender's fd numbers mean nothing here, so a handle without its fds is refused.
        with pytest.raises(tenon.TenonError):
            tenon.open_cuda(handle.with_fds([]))
        with pytest.raises(tenon.Unsupported, match="read-only"):
            tenon.open_cuda(handle.with_fds(fds), read_only=True)
        with tenon.open_cuda(handle.with_fds(fds)) as storage:
            for fd in fds:
                os.close(fd)
            tensor = over(storage)
            line.send(read(tensor))
            # Received memory can be lent on.
            again = storage.share_cuda()
            assert again.transport == "pool" and len(again.fds) == 1
            tenon.release_cuda_counter(again.counter, again.slot)
            del tensor
        assert collected()


def sends() -> None:
    use_device()
    array = PoolArray(DATA)
    tensor = tenon.from_dlpack(array)
    with pytest.raises(tenon.Unsupported, match="the fd of its pool"):
        tensor.storage.share_cuda(transport="ipc")
    handle = tensor.storage.share_cuda()
    assert (
        handle.transport == "pool"
        and len(handle.fds) == 1
        and handle == pickle.loads(pickle.dumps(handle))
    )
    with pytest.raises(tenon.Unsupported, match="IPC"):
        handle.torch_tuple()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        receiver = subprocess.Popen(
            [sys.executable, "-B", sys.argv[0], "receives", str(there.fileno())],
            pass_fds=[there.fileno()],
        )
        there.close()
        socket.send_fds(here, [pickle.dumps(handle)], handle.fds)
        assert here.recv(1 << 16) == DATA
        assert receiver.wait() == 0
    del tensor
    nothing_left()
    assert array.freed == 1


def refused() -> None:
    use_device()
    for tensor, transport, match in (
        (tenon.from_dlpack(PoolArray(DATA, 0)), "auto", "handle type"),
        (tenon.from_dlpack(Array(DATA)), "fd", "a CUDA IPC handle"),
        (tenon.from_dlpack(Array(DATA)), "pool", "a CUDA IPC handle"),
    ):
        with pytest.raises(tenon.Unsupported, match=match):
            tensor.storage.share_cuda(transport=transport)  # type: ignore[arg-type]
    del tensor
    with pytest.raises(ValueError):
        tenon.from_dlpack(Array(DATA)).storage.share_cuda(transport="post")  # type: ignore[arg-type]
    nothing_left()


PROGRAMS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (receives, sends, refused)
}

if __name__ == "__main__":
    if not tenon.cuda_available():
        sys.exit(77)
    PROGRAMS[sys.argv[1]]()
