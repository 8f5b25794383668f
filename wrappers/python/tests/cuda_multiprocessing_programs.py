"""Programs that test_cuda_multiprocessing.py runs on the fake driver.

Each program is a process and takes PROGRAM and METHOD.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import signal
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import tenon
import tenon.multiprocessing
from cuda_kit import DATA, Array, check, collected, cuda, nothing_left, over, read, use_device
from cuda_transport_programs import PoolArray

loads = ForkingPickler.loads


def dumps(value: object) -> bytes:
    return bytes(ForkingPickler.dumps(value))


# ---- the other process


def echo(inbox: Any, outbox: Any) -> None:
    """Describes each received message to the parent until None comes, and writes into the first
    byte of the message's first tensor.
    """
    use_device()
    while (tensors := inbox.get()) is not None:
        told = [
            (
                each.device,
                each.dtype,
                each.shape,
                each.strides,
                each.offset,
                read(each) if each.is_contiguous else b"",
            )
            for each in tensors
        ]
        if tensors[0].numel:
            check(
                cuda.cuMemsetD8_v2(
                    ctypes.c_uint64(tensors[0]._address), ctypes.c_ubyte(9), ctypes.c_size_t(1)
                )
            )
        same = [each.storage == tensors[0].storage for each in tensors]
        del tensors
        gc.collect()
        assert collected()
        outbox.put((told, same))
    outbox.close()
    outbox.join_thread()


def started(context: Any) -> tuple[Any, Any, Any]:
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    return process, inbox, outbox


def ended(process: Any, inbox: Any) -> None:
    inbox.put(None)
    process.join()
    assert process.exitcode == 0, process.exitcode


def lends(context: Any, array: Any) -> None:
    """Views of one storage arrive over one storage. The sender sees what the receiver writes, and
    gets the memory back.
    """
    process, inbox, outbox = started(context)
    tensor = tenon.from_dlpack(array)
    halves = tensor.view((50, 40), "float16")
    for turn in range(3):
        inbox.put([tensor, halves[1:, ::2], halves[3], over(tensor.storage)])
        (first, columns, row, whole), same = outbox.get(timeout=30)
        now = DATA if turn == 0 else b"\t" + DATA[1:]
        assert first == whole == ("cuda:0", "uint8", (4000,), (1,), 0, now)
        assert (
            columns == ("cuda:0", "float16", (49, 20), (40, 2), 40, b"") and row[5] == DATA[240:320]
        )
        assert same == [True] * 4
    assert read(tensor) == b"\t" + DATA[1:]
    inbox.put([tensor])
    del tensor, halves  # the queue's message keeps the memory
    assert outbox.get(timeout=30)[0][0][5][1:] == DATA[1:]
    gc.collect()
    assert collected() and array.freed == 1
    ended(process, inbox)
    nothing_left()


def queue(context: Any) -> None:
    lends(context, Array(DATA))
    assert tenon.multiprocessing.unfetched() == (0, 0)


def with_fds(context: Any) -> None:
    """Memory of a pool has an fd. The fd travels as the fds of the host's segments do."""
    lends(context, PoolArray(DATA))
    assert tenon.multiprocessing.unfetched() == (0, 0)


def together(context: Any) -> None:
    """One message carries tensors of the host, of a pool, of cudaMalloc and an empty one. Empty
    tensors stay on their device.
    """
    process, inbox, outbox = started(context)
    arrays = [PoolArray(DATA), Array(DATA), PoolArray(b"abc")]
    tensors = [tenon.from_dlpack(each) for each in arrays]
    empty = tenon.from_dlpack(Array(b""))
    inbox.put([*tensors, empty])
    told, same = outbox.get(timeout=30)
    assert [each[5] for each in told] == [DATA, DATA, b"abc", b""] and same == [
        True,
        False,
        False,
        False,
    ]
    assert told[3] == ("cuda:0", "uint8", (0,), (1,), 0, b"")
    for number in range(2):
        inbox.put([empty] * (number + 1))
        told, same = outbox.get(timeout=30)
        assert [each[0] for each in told] == ["cuda:0"] * (number + 1) and all(same)
    ended(process, inbox)
    host, there = loads(dumps([tenon.zeros(3), tensors[0]]))
    assert host.device == "cpu" and there.storage == tensors[0].storage
    del tensors, empty, there
    gc.collect()
    assert collected() and [each.freed for each in arrays] == [1, 1, 1]
    nothing_left()


def unread(context: Any) -> None:
    """A message is loaded once. A message that was not loaded keeps the memory."""
    use_device()
    for array in (Array(DATA), PoolArray(DATA)):
        tensor = tenon.from_dlpack(array)
        message = dumps(tensor)
        tensor.close()
        gc.collect()
        assert tenon.cuda_collect() == 1 and not array.freed
        with loads(message) as back:
            assert read(back) == DATA
        assert collected() and array.freed == 1
        with pytest.raises(tenon.TenonError):
            loads(message)
    with pytest.raises(tenon.PermissionDenied, match="read-only"):
        dumps(tenon.from_dlpack(Array(DATA, read_only=True)))
    gc.collect()
    nothing_left()


def opens(line: Any) -> None:
    try:
        line.recv()
    except tenon.Unsupported as error:
        assert "child of fork" in str(error)
        line.send("refused")


def no_cuda_there(context: Any) -> None:
    """A receiver that cannot open device memory says why, and gives the memory back."""
    use_device()
    for array in (Array(DATA), PoolArray(DATA)):
        tensor = tenon.from_dlpack(array)
        here, there = context.Pipe()
        process = context.Process(target=opens, args=(there,))
        process.start()
        here.send(tensor)
        assert here.recv() == "refused"
        process.join()
        assert process.exitcode == 0
        tensor.close()
        assert collected() and array.freed == 1
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    if not tenon.cuda_available():
        sys.exit(77)
    use_device()
    globals()[sys.argv[1]](multiprocessing.get_context(sys.argv[2]))
