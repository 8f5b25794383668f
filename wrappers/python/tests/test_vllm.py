"""tenon.integrations.vllm.MessageQueue: its surface, and what it does in one process and, by the
scenarios of vllm_program.py, in several. Tests that are named as rows of vLLM's own test show the
same behaviour. dropin/vllm_queue.py runs vLLM's file itself.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import pickle
import re
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from tenon.integrations import _vllm_rendezvous, vllm
from tenon.integrations.vllm import Handle, MessageQueue

PROGRAM = Path(__file__).with_name("vllm_program.py")
EVERY_METHOD = (
    "every_worker_gets_each_object",
    "a_killed_worker_is_named",
)
ONCE = (
    "a_stopped_worker_is_named",
    "a_worker_that_left_is_named",
    "a_worker_killed_before_it_reads_is_named",
    "the_death_of_the_writer_is_named",
    "another_takes_the_place_of_a_reader_that_died",
    "interrupts",
)


class Made:
    """A class of which pickle makes instances."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Made) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


Pair = tuple[MessageQueue, MessageQueue]
Maker = Callable[..., Pair]


@pytest.fixture
def make() -> Iterator[Maker]:
    """Makes a writer and a reader of it, which are ready."""

    def function(max_chunk_bytes: int = 1 << 20, max_chunks: int = 2, *, copy: bool = True) -> Pair:
        writer = MessageQueue(1, 1, None, max_chunk_bytes, max_chunks)
        reader = MessageQueue.create_from_handle(writer.export_handle(), 0, copy=copy)
        writer.wait_until_ready()
        reader.wait_until_ready()
        return writer, reader

    yield function


def in_thread(function: Callable[..., Any], *args: Any) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(function(*args))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


def lent(writer: MessageQueue) -> int:
    stats = writer._arena.stats()
    return stats.blocks_live + stats.blocks_lent


# ---- the surface


def test_surface() -> None:
    """The members that vLLM 0.33.0's executors and groups use, with their defaults."""

    def shown(function: Callable[..., Any]) -> str:
        parameters = inspect.signature(function).parameters.values()
        names = [p for p in parameters if p.kind is not p.KEYWORD_ONLY and p.name != "self"]
        return " ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in names)

    assert shown(MessageQueue.__init__) == (
        "n_reader n_local_reader local_reader_ranks=None max_chunk_bytes=25165824 max_chunks=10"
        " connect_ip=None enable_shm_tensor_arena=False"
    )
    assert shown(MessageQueue.enqueue) == "obj timeout=None"
    assert shown(MessageQueue.dequeue) == "timeout=None indefinite=False"
    assert shown(MessageQueue.broadcast_object) == "obj=None"
    assert shown(MessageQueue.create_from_handle) == "handle rank"
    assert shown(MessageQueue.create_from_process_group) == (
        "pg max_chunk_bytes max_chunks writer_rank=0 external_writer_handle=None blocking=True"
    )
    assert shown(MessageQueue.create_from_process_group_single_reader) == (
        "pg max_chunk_bytes max_chunks reader_rank=0 blocking=False"
    )
    for name in ("export_handle", "wait_until_ready", "shutdown"):
        assert shown(getattr(MessageQueue, name)) == ""


def test_remote_readers_are_refused(make: Maker) -> None:
    with pytest.raises(tenon.Unsupported, match="1 of 3 readers are remote"):
        MessageQueue(3, 2)
    writer, _ = make()
    handle = writer.export_handle()
    with pytest.raises(tenon.Unsupported, match="rank -1 is not one of the local readers"):
        MessageQueue.create_from_handle(handle, -1)
    elsewhere = Handle([0], handle.path, handle.nonce, "another machine", handle.pid)
    with pytest.raises(tenon.Unsupported, match="in another place"):
        MessageQueue.create_from_handle(elsewhere, 0)
    # vLLM's executor looks for readers on other machines by this.
    assert handle.remote_subscribe_addr is None


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((2, 2, [0]), "not 2 different ranks"),
        ((2, 2, [1, 1]), "not 2 different ranks"),
        ((1, 1, None, 1024, 0), "at least one chunk"),
        ((1, 1, None, 0, 1), "at least one chunk"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        MessageQueue(*arguments)


def test_each_end_has_its_calls(make: Maker) -> None:
    writer, reader = make()
    with pytest.raises(RuntimeError, match="only a reader"):
        writer.dequeue()
    with pytest.raises(RuntimeError, match="only the writer"):
        reader.enqueue(1)
    assert writer._is_writer and not writer._is_local_reader and not writer._is_remote_reader
    assert reader._is_local_reader and not reader._is_writer and not reader._is_remote_reader
    assert (writer.local_reader_rank, reader.local_reader_rank) == (-1, 0)
    assert (writer.n_local_reader, writer.n_remote_reader) == (1, 0)


def test_no_readers() -> None:
    """A group of one process has a queue without readers."""
    writer = MessageQueue(0, 0)
    writer.wait_until_ready()
    assert writer.broadcast_object("alone") == "alone"


# ---- joining


def test_handle() -> None:
    """The handle is plain data, and its secret is not printed. The folder of the socket is private,
    and is gone when all readers have come.
    """
    writer = MessageQueue(2, 2, [3, 7])
    handle = pickle.loads(pickle.dumps(writer.export_handle()))
    assert handle == writer.export_handle() and handle.local_reader_ranks == [3, 7]
    assert len(handle.nonce) == 32 and "nonce" not in repr(handle)
    folder = Path(handle.path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    readers = [MessageQueue.create_from_handle(handle, rank) for rank in (7, 3)]
    assert [each.local_reader_rank for each in readers] == [1, 0]
    assert folder.exists()
    writer.wait_until_ready()
    assert not folder.exists()
    with pytest.raises(tenon.NotFound, match="all its readers have come"):
        MessageQueue.create_from_handle(handle, 3)
    writer.enqueue("both")
    assert [each.dequeue(timeout=60) for each in readers] == ["both"] * 2


def test_the_folder_goes_with_the_writer() -> None:
    writer = MessageQueue(1, 1)
    folder = Path(writer.export_handle().path).parent
    assert folder.exists()
    if not os.fork():  # a child's copy of the writer removes nothing
        del writer
        os._exit(0)
    assert os.wait()[1] == 0
    assert folder.exists()
    handle = writer.export_handle()
    del writer
    assert not folder.exists()
    with pytest.raises(tenon.NotFound, match="it has ended"):
        MessageQueue.create_from_handle(handle, 0)


def test_strangers_are_refused() -> None:
    writer = MessageQueue(2, 2)
    handle = writer.export_handle()
    wrong = Handle([0], handle.path, bytes(32), handle.machine, handle.pid)
    unknown = Handle([9], handle.path, handle.nonce, handle.machine, handle.pid)
    first, second = (
        MessageQueue.create_from_handle(handle, 0),
        MessageQueue.create_from_handle(handle, 0),
    )
    strangers = [MessageQueue.create_from_handle(wrong, 0)]
    strangers.append(MessageQueue.create_from_handle(unknown, 9))
    silent = _vllm_rendezvous.connect(handle, 1)
    silent.close()
    last = MessageQueue.create_from_handle(handle, 1)
    writer.wait_until_ready()
    first.wait_until_ready()
    last.wait_until_ready()
    texts = [
        "belongs to another queue",
        "no reader of rank 9",
        "has joined as the reader of rank 0",
    ]
    for stranger, text in zip([*strangers, second], texts, strict=True):
        with pytest.raises(tenon.PermissionDenied, match=text):
            stranger.dequeue(timeout=60)
    writer.enqueue(1)
    assert first.dequeue(timeout=60) == last.dequeue(timeout=60) == 1


def test_enqueue_waits_for_the_readers() -> None:
    writer = MessageQueue(1, 1)
    with pytest.raises(TimeoutError, match=r"the readers of the ranks \[0\] have not come"):
        writer.enqueue(0, timeout=0)
    thread, results = in_thread(writer.enqueue, "early")
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    assert reader.dequeue(timeout=60) == "early"
    thread.join()
    assert results == [None]


def test_the_writer_ends_before_all_have_come() -> None:
    writer = MessageQueue(2, 2)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    pid = writer.export_handle().pid
    with pytest.raises(TimeoutError, match=r"ranks \[1\] have not come"):
        writer.enqueue(0, timeout=0.01)
    with pytest.raises(TimeoutError, match=f"not all readers of process {pid} have come"):
        reader.dequeue(timeout=0)
    del writer
    gc.collect()
    with pytest.raises(tenon.PeerGone) as error:
        reader.wait_until_ready()
    assert error.value.details["pid"] == str(pid)


def test_reader_in_reference_cycle_is_collected_without_blocking(make: Maker) -> None:
    _, reader = make()
    reader.cycle = reader  # type: ignore[attr-defined]
    gone = weakref.ref(reader)
    del reader
    thread, _ = in_thread(gc.collect)
    thread.join(10)
    assert not thread.is_alive() and gone() is None


# ---- what travels


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("nbytes", [0, 8, 3000, 4096, 5000, 100_000, 1 << 20, 5_000_000])
def test_sizes(make: Maker, nbytes: int, copy: bool) -> None:
    """Inline, in a block of the arena, and larger than the arena, with the pickle itself large and
    small.
    """
    writer, reader = make(copy=copy)
    array = np.arange(nbytes, dtype="uint8")
    values: list[Any] = [
        array,
        array.tobytes(),
        [array, "x" * nbytes, array[::2], array.reshape(-1, 4).T],
        {"each": [array[i : i + 5000] for i in range(0, nbytes, 5000)]},
        Made(bytearray(array)),
    ]
    for value in values:
        writer.enqueue(value)
        received = reader.dequeue(timeout=60)
        np.testing.assert_equal(received, value)
        assert type(received) is type(value)
        del received
    gc.collect()
    assert lent(writer) == 0


@pytest.mark.parametrize("kind", ["numpy", "numpy_readonly"])
@pytest.mark.parametrize("nbytes", [(1 << 20) - 2, 1 << 20, 2 << 20])
def test_broadcast_retains_values_after_ring_reuse(make: Maker, kind: str, nbytes: int) -> None:
    writer, reader = make(2 << 20, 1)
    array = np.full(nbytes // 2, 17, "uint16")
    array.flags.writeable = kind == "numpy"
    writer.enqueue(array)
    received = reader.dequeue(timeout=60)
    assert received.flags.writeable == array.flags.writeable
    for value in range(4):
        writer.enqueue(np.full(1 << 19, value, "uint16"))
        assert (reader.dequeue(timeout=60) == value).all()
        assert (received == array).all()
    if array.flags.writeable:
        received[0] = 42
        assert array[0] == 17


def test_a_view_keeps_its_block(make: Maker) -> None:
    """With copy=False the arrays lie in the writer's memory. They are read-only, and the writer
    does not use their block again before they go. Other objects go on.
    """
    writer, reader = make(1 << 20, 2, copy=False)
    held = []
    for value in range(12):
        writer.enqueue({"array": np.full(400_000, value, "uint8")})
        held.append(reader.dequeue(timeout=60)["array"])
    assert lent(writer) == 5
    for value, array in enumerate(held):
        assert (array == value).all() and not array.flags.writeable and not array.flags.owndata
    part = held[0][5:10]
    del array, held
    assert lent(writer) == 1 and (part == 0).all()
    copied = None
    writer.enqueue(np.zeros(400_000, "uint8"))
    copied = reader.dequeue(timeout=60, copy=True)
    copied[0] = 1
    del part
    assert lent(writer) == 0


def test_an_object_that_cannot_be_pickled(make: Maker) -> None:
    writer, reader = make()
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        writer.enqueue([np.zeros(10_000), lambda: 0])
    writer.enqueue(1)
    assert reader.dequeue(timeout=60) == 1
    assert lent(writer) == 0


def test_registered_reducers_are_used(make: Maker) -> None:
    writer, reader = make()
    writer.enqueue(re.compile("a+"))
    assert reader.dequeue(timeout=60) == re.compile("a+")


@pytest.mark.parametrize(
    "user_bytes, nbytes",
    [
        (b"", 0),
        (b"\2", 0),
        (b"\1short", 8),
        (struct.pack("<cxxxIQ", b"\1", 0, 1), 0),  # no block
        (struct.pack("<cxxxIQ", b"\1", 2, 1), 8),  # too short for the sizes
        (struct.pack("<cxxxIQ", b"\1", 0, 9), 8),  # too short for the pickle
        (struct.pack("<cxxxIQ", b"\1", 1, 0), 64),  # a buffer that is too large
        (struct.pack("<cxxxIQ", b"\1", 0, 1 << 63), 64),
        (struct.pack("<cxxxIQ", b"\1", 0xFFFFFFFF, 0), 64),
    ],
)
def test_corrupt_messages(make: Maker, user_bytes: bytes, nbytes: int) -> None:
    writer, reader = make()
    tensors = []
    if nbytes:
        tensors.append(tenon.from_numpy(np.full(nbytes, 0x7F, "uint8")))
    writer._publisher.send(tensors, None, user_bytes)
    with pytest.raises(tenon.Corrupt):
        reader.dequeue(timeout=60)
    writer.enqueue("next")
    assert reader.dequeue(timeout=60) == "next"


def test_no_file_in_dev_shm(make: Maker) -> None:
    """Where vLLM checks the free space of /dev/shm, Tenon puts nothing."""
    before = sorted(os.listdir("/dev/shm"))
    writer, reader = make(24 << 20, 10)
    writer.enqueue(np.zeros(1 << 20))
    reader.dequeue(timeout=60)
    assert sorted(os.listdir("/dev/shm")) == before
    # Memory is taken as it is needed.
    assert writer._arena.stats().bytes_reserved < 24 << 20


# ---- waiting


def test_timeouts(make: Maker) -> None:
    writer, reader = make(1 << 20, 1)
    for seconds in (-1, 0, 0.05):
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=f"the writer, process {os.getpid()}"):
            reader.dequeue(timeout=seconds)
        assert time.monotonic() - begun >= seconds
    writer.enqueue(1)
    for seconds in (-1, 0, 0.05):
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=f"rank 0, process {os.getpid()}, has not taken"):
            writer.enqueue(2, timeout=seconds)
        assert time.monotonic() - begun >= seconds
    assert reader.dequeue(timeout=0) == 1
    writer.enqueue(2, timeout=0)
    assert reader.dequeue(timeout=0) == 2


@pytest.mark.parametrize("max_chunks, room", [(1, 1), (2, 2), (3, 4), (10, 16)])
def test_room(make: Maker, max_chunks: int, room: int) -> None:
    writer, reader = make(1 << 20, max_chunks)
    for number in range(room):
        writer.enqueue(number, timeout=0)
    with pytest.raises(TimeoutError):
        writer.enqueue(room, timeout=0)
    assert [reader.dequeue(timeout=0) for _ in range(room)] == list(range(room))


def test_message_queue_idle_wake(make: Maker) -> None:
    """A reader that sleeps wakes for an object, and uses no CPU time until then."""
    writer, reader = make()
    thread, results = in_thread(reader.dequeue)
    time.sleep(0.05)
    begun = time.thread_time(), time.process_time()
    time.sleep(0.5)
    assert time.process_time() - begun[1] < 0.1
    writer.enqueue("hello world")
    thread.join(60)
    assert results == ["hello world"]


def test_message_queue_busy_to_idle(make: Maker) -> None:
    """Objects that come fast, and one that comes after a pause."""
    writer, reader = make()
    thread, results = in_thread(lambda: [reader.dequeue(timeout=60) for _ in range(2001)])
    for number in range(2000):
        writer.enqueue(number)
    time.sleep(0.3)
    writer.enqueue(2000)
    thread.join(60)
    assert results == [list(range(2001))]


@pytest.mark.parametrize("is_joined", [True, False])
def test_message_queue_shutdown_idle(is_joined: bool) -> None:
    writer = MessageQueue(1, 1)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)
    if is_joined:
        writer.wait_until_ready()
    with pytest.raises(TimeoutError):
        reader.dequeue(timeout=0.01)
    thread, results = in_thread(reader.dequeue)
    time.sleep(0.1)
    assert not results
    reader.shutdown()
    thread.join(10)
    assert [str(each) for each in results] == ["cancelled"]
    assert type(results[0]) is RuntimeError and reader.shutting_down
    with pytest.raises(RuntimeError, match="cancelled"):
        reader.dequeue(timeout=1)


def test_message_queue_shutdown_busy(make: Maker) -> None:
    """shutdown in the middle of a stream. What was sent is still received."""
    writer, reader = make(1 << 20, 4)
    received = []

    def read() -> None:
        while True:
            received.append(reader.dequeue())

    thread, results = in_thread(read)
    for number in range(1000):
        writer.enqueue(number)
    reader.shutdown()
    thread.join(60)
    assert [str(each) for each in results] == ["cancelled"]
    assert received == list(range(1000))


def test_shutdown_of_the_writer(make: Maker) -> None:
    """It ends the writer's own waits, and takes nothing from the readers."""
    writer, reader = make(1 << 20, 1)
    writer.enqueue(1)
    thread, results = in_thread(writer.enqueue, 2)
    time.sleep(0.1)
    with pytest.raises(TimeoutError, match="another thread is waiting"):
        writer.enqueue(3, timeout=0.01)
    writer.shutdown()
    thread.join(10)
    assert [str(each) for each in results] == ["cancelled"] and writer.shutting_down
    assert reader.dequeue() == 1
    writer.enqueue(3)
    assert reader.dequeue() == 3
    lonely = MessageQueue(1, 1)
    thread, results = in_thread(lonely.wait_until_ready)
    time.sleep(0.1)
    lonely.shutdown()
    thread.join(10)
    assert [str(each) for each in results] == ["cancelled"]


def test_concurrent_readers_are_not_stranded_on_stale_ring_slot(make: Maker) -> None:
    writer, reader = make()
    threads = [in_thread(reader.dequeue, 60) for _ in range(2)]
    time.sleep(0.1)
    writer.enqueue("first")
    writer.enqueue("second")
    for thread, _ in threads:
        thread.join(60)
    assert sorted(results[0] for _, results in threads) == ["first", "second"]


def test_threads_share_the_writer() -> None:
    writer = MessageQueue(1, 1, None, 1 << 20, 4)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0)

    def write(name: int) -> None:
        for number in range(200):
            writer.enqueue((name, number, bytes(number * 50)))

    threads = [in_thread(write, name) for name in range(3)]
    last = [-1, -1, -1]
    for _ in range(600):
        name, number, data = reader.dequeue(timeout=60)
        assert number == last[name] + 1 and len(data) == number * 50
        last[name] = number
    for thread, results in threads:
        thread.join()
        assert results == [None]


def test_warning_logs(
    make: Maker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "VLLM_RINGBUFFER_WARNING_INTERVAL", 0.01)
    caplog.set_level(logging.INFO, vllm.__name__)
    writer, reader = make(1 << 20, 1)

    def lines() -> list[str]:
        found = [record.message for record in caplog.records]
        caplog.clear()
        return found

    lines()
    with pytest.raises(TimeoutError):
        reader.dequeue(timeout=0.2)
    found = lines()
    assert 2 <= len(found) <= 20
    assert all(
        "No available shared memory broadcast block found in 0 sec" in each for each in found
    )
    assert f"the writer, process {os.getpid()}, has sent nothing" in found[0]
    with pytest.raises(TimeoutError):
        reader.dequeue(timeout=0.1, indefinite=True)
    assert not lines()
    writer.enqueue(1)
    with pytest.raises(TimeoutError):
        writer.enqueue(2, timeout=0.1)
    assert f"the reader of rank 0, process {os.getpid()}, has not taken" in lines()[0]


# ---- several processes


def run(scenario: str, method: str) -> None:
    done = subprocess.run(
        [sys.executable, "-B", PROGRAM, scenario, method],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        # A worker of fork is not to wait for a killed front end.
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_DFL),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("scenario", EVERY_METHOD)
def test_every_method(scenario: str, method: str) -> None:
    run(scenario, method)


@pytest.mark.parametrize("scenario", ONCE)
def test_once(scenario: str) -> None:
    run(scenario, "fork")
