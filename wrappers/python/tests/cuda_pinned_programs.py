"""Programs that test_cuda_pinned.py runs on the fake driver, and tests/process/gpu on a real one.

Each program is a process: python cuda_pinned_programs.py PROGRAM.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import pytest
import tenon
from cuda_kit import (
    DATA,
    ON_THE_FAKE,
    Array,
    Receiver,
    bytes_at,
    check,
    cuda,
    give,
    live,
    new_stream,
    nothing_left,
    take,
    use_device,
)

REGISTRATION = 14


def copy(to: int, source: int) -> None:
    """Copy in a stream of its own, beside the host, and wait for the copy."""
    stream = ctypes.c_void_p(new_stream())
    check(
        cuda.cuMemcpyAsync(
            ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(len(DATA)), stream
        )
    )
    check(cuda.cuStreamSynchronize(stream))
    check(cuda.cuStreamDestroy_v2(stream))


def registrations() -> int:
    return live(REGISTRATION, os.getpid())


# ---- the other process


def lends_after() -> None:
    """The receiver's device reads what the sender's device wrote, and writes what the sender
    reads.
    """
    use_device()
    with tenon.open_filename(take()) as storage:
        address = storage.pin()
        array = Array(bytes(len(DATA)))
        copy(array.pointer, address)
        assert bytes_at(array.pointer, len(DATA)) == DATA
        check(
            cuda.cuMemsetD8_v2(
                ctypes.c_uint64(array.pointer), ctypes.c_ubyte(9), ctypes.c_size_t(len(DATA))
            )
        )
        copy(address, array.pointer)
        array.free()
        give("written")
        take()
        assert registrations() == int(ON_THE_FAKE)
    assert registrations() == 0


# ---- programs


def lends() -> None:
    use_device()
    receiver = Receiver("lends_after")
    array = Array(DATA)
    storage = tenon.Storage.new(len(DATA), isolated=True)
    address = storage.pin()
    assert storage.pin(device=0) == address and storage.is_pinned is True
    copy(address, array.pointer)
    assert bytes(storage.data) == DATA
    handle = storage.share_filename()
    receiver.send(handle)
    assert receiver.receive() == "written"
    assert bytes(storage.data) == bytes([9]) * len(DATA)
    receiver.send("done")
    receiver.end()
    array.free()
    storage.close()
    nothing_left()
    assert registrations() == 0


def errors() -> None:
    storage = tenon.Storage.new(len(DATA), isolated=True)
    with pytest.raises(tenon.InvalidArgument, match="CUDA device 999"):
        storage.pin(999)
    with pytest.raises(TypeError):
        storage.pin("0")  # type: ignore[arg-type]
    with (
        tenon.Arena() as arena,
        arena.storage(64) as small,
        pytest.raises(tenon.ResourceExhausted, match="ISOLATED") as refused,
    ):
        small.pin()
    assert refused.value.details["limit"] == "memory of the segment"
    with tenon.Storage.new(0) as empty:
        assert empty.pin() == 0 and empty.is_pinned is False
    assert storage.is_pinned is False
    storage.pin()
    pid = os.fork()
    if pid == 0:
        try:
            with pytest.raises(tenon.Unsupported, match="child of fork"):
                storage.pin()
            storage.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert storage.is_pinned is True
    storage.close()
    with pytest.raises(ValueError, match="closed"):
        storage.pin()
    nothing_left()
    assert registrations() == 0


if __name__ == "__main__":
    signal.alarm(100)
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        sys.exit(77 if "this build of Tenon has no CUDA" in str(error) else str(error))
    globals()[sys.argv[1]]()
