"""Programs that test_cuda_event.py runs on the fake driver, and tests/process/gpu on a real one.

Each program is a process: python cuda_event_programs.py PROGRAM.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import tenon
from cuda_kit import (
    DATA,
    EVENT,
    ON_THE_FAKE,
    Array,
    Gate,
    Receiver,
    check,
    collected,
    cuda,
    give,
    live,
    new_host_room,
    new_stream,
    nothing_left,
    over,
    take,
    use_device,
)


class TorchStream:
    """A stream object like PyTorch's."""

    def __init__(self, stream: int) -> None:
        self.cuda_stream = stream


def fill(pointer: int, byte: int, stream: int) -> None:
    check(
        cuda.cuMemsetD8Async(
            ctypes.c_uint64(pointer),
            ctypes.c_ubyte(byte),
            ctypes.c_size_t(len(DATA)),
            ctypes.c_void_p(stream),
        )
    )


def events() -> int:
    return live(EVENT, os.getpid())


def looks() -> int:
    return int(cuda.fake_cuda_calls(b"cuEventQuery", os.getpid()))


def interrupt_who_waits(before: int) -> None:
    """Send Ctrl-C when a thread waits for an event: on the fake driver, once events were looked at
    more than `before` + 2 times; on a real driver, which does not count, after 0.3 seconds.
    """
    if not ON_THE_FAKE:
        time.sleep(0.3)
    while ON_THE_FAKE and looks() <= before + 2:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


# ---- the other process


def orders_after() -> None:
    """The receiver gives its copy to its stream before the sender opens its gate, so only the event
    holds the copy back.
    """
    use_device()
    stream = new_stream()
    memory, handle = take()
    with tenon.open_cuda(memory) as storage, tenon.CudaEvent.from_ipc_handle(handle) as event:
        assert event.query() is False
        with pytest.raises(tenon.WouldBlock):
            event.synchronize(timeout=0)
        with pytest.raises(tenon.Unsupported, match="lent on"):
            event.ipc_handle()
        event.wait(TorchStream(stream))
        room = new_host_room(1)
        tensor = over(storage)
        pointer = ctypes.c_uint64(tensor.__cuda_array_interface__["data"][0])
        check(cuda.cuMemcpyDtoHAsync_v2(room, pointer, ctypes.c_size_t(1), ctypes.c_void_p(stream)))
        give("waits")
        check(cuda.cuStreamSynchronize(ctypes.c_void_p(stream)))
        event.synchronize(timeout=60)
        assert event.query() is True
        give(room.raw)
        del tensor
    assert collected()


def sees_what_is_recorded() -> None:
    """The sender sends the event as a queue does, in a ForkingPickler's bytes."""
    use_device()
    event = pickle.loads(take())
    assert type(event) is tenon.CudaEvent and event.query() is False
    give("opened")
    event.synchronize(timeout=60)
    assert event.query() is True
    event.close()


# ---- programs


def travels() -> None:
    use_device()
    stream = new_stream()
    receiver = Receiver("sees_what_is_recorded")
    with tenon.CudaEvent(interprocess=True) as event:
        gate = Gate(stream)
        event.record(stream)
        sent = bytes(ForkingPickler.dumps(event))
        # The sender receives its own event object.
        assert pickle.loads(sent) is event
        receiver.send(sent)
        assert receiver.receive() == "opened"
        gate.open()
        receiver.end()
    with pytest.raises(tenon.InvalidArgument, match="interprocess"):
        ForkingPickler.dumps(tenon.CudaEvent())
    with pytest.raises(TypeError, match="interprocess=True and put it on a multiprocessing Queue"):
        pickle.dumps(event)
    check(cuda.cuStreamDestroy_v2(ctypes.c_void_p(stream)))
    nothing_left()


def orders() -> None:
    use_device()
    stream = new_stream()
    receiver = Receiver("orders_after")
    array = Array(DATA)
    tensor = tenon.from_dlpack(array)
    memory = tensor.storage.share_cuda()
    with tenon.CudaEvent(interprocess=True) as event:
        handle = event.ipc_handle()
        assert type(handle) is bytes and len(handle) == 64 and event.ipc_handle() == handle
        gate = Gate(stream)
        fill(array.pointer, 9, stream)
        event.record(stream)
        receiver.send((memory, handle))
        assert receiver.receive() == "waits"
        gate.open()
        assert receiver.receive() == b"\t"
        receiver.end()
        assert event.query() is True
    tensor.close()
    nothing_left()


def waits() -> None:
    use_device()
    stream, other = new_stream(), new_stream()
    before = events()
    event = tenon.CudaEvent()
    assert event.query() is True and repr(event) == "<tenon.CudaEvent>"
    event.synchronize()
    gate = Gate(stream)
    event.record(TorchStream(stream))
    assert event.query() is False
    with pytest.raises(tenon.WouldBlock):
        event.synchronize(timeout=0)
    with pytest.raises(tenon.Timeout):
        event.synchronize(timeout=0.003)
    cancel = tenon.Cancel()
    threading.Timer(0, cancel.trigger).start()
    with pytest.raises(tenon.Cancelled):
        event.synchronize(cancel=cancel)
    event.wait(other)
    threading.Thread(target=interrupt_who_waits, args=(looks() if ON_THE_FAKE else 0,)).start()
    with pytest.raises(KeyboardInterrupt):
        event.synchronize()
    threading.Timer(0, gate.open).start()
    event.synchronize()
    assert event.query() is True
    event.wait()
    event.record()
    event.record(2)
    # Streams may still wait for an event whose last reference is gone.
    check(cuda.cuCtxSynchronize())
    event.close()
    with pytest.raises(ValueError, match="CudaEvent is already closed"):
        event.query()
    assert repr(event) == "<tenon.CudaEvent, closed>" and events() == before
    nothing_left()


def errors() -> None:
    before = events()
    for device in (-1, 999):
        with pytest.raises(tenon.InvalidArgument):
            tenon.CudaEvent(device=device)
    with pytest.raises(tenon.InvalidArgument, match="IPC handle"):
        tenon.CudaEvent().ipc_handle()
    event = tenon.CudaEvent(device=0, interprocess=True)
    handle = event.ipc_handle()
    # cuda.h names no error for a handle that its own process opens.
    own = (
        (tenon.InvalidArgument, "the process that made it cannot")
        if ON_THE_FAKE
        else (tenon.TenonError, "")
    )
    with pytest.raises(own[0], match=own[1]) as info:
        tenon.CudaEvent.from_ipc_handle(handle)
    assert "cuda_error" in info.value.details
    wrong: Any
    for wrong in (b"", handle[:63], handle + b"x"):
        with pytest.raises(tenon.InvalidArgument, match="64"):
            tenon.CudaEvent.from_ipc_handle(wrong)
    for wrong in (None, "x" * 64, 64):
        with pytest.raises(TypeError):
            tenon.CudaEvent.from_ipc_handle(wrong)
    with pytest.raises(ValueError):
        tenon.CudaEvent.from_ipc_handle(handle, 1 << 31)
    for wrong in (1.5, "1", object()):
        with pytest.raises(TypeError):
            event.record(wrong)
        with pytest.raises(TypeError):
            event.wait(wrong)
    with pytest.raises(ValueError, match="negative"):
        event.synchronize(timeout=-1)
    pid = os.fork()
    if pid == 0:
        try:
            for call in (
                event.query,
                event.record,
                event.wait,
                event.synchronize,
                event.ipc_handle,
                tenon.CudaEvent,
            ):
                with pytest.raises(tenon.Unsupported, match="child of fork"):
                    call()
            event.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert event.query() is True
    event.close()
    assert events() == before
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        sys.exit(77 if "this build of Tenon has no CUDA" in str(error) else str(error))
    globals()[sys.argv[1]]()
