"""Scenarios: memory that a receiver lets go returns to the sender, and memory that nobody fetches
is freed within a time limit.
"""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.reduction import ForkingPickler

import tenon
import tenon.multiprocessing
from multiprocessing_kit import ended, lend, same, start

IMAGE = 1 << 20  # elements of float32


def _drop_each(q, ack):
    while q.get() is not None:
        ack.put(1)


def arena_is_used_again(context):
    """Sixteen images fill the arena. Sixty images pass through it."""
    q, ack = context.Queue(), context.SimpleQueue()
    process = start(context, _drop_each, q, ack)
    with tenon.Arena(64 << 20) as arena:
        for _ in range(60):
            tensor = arena.empty((IMAGE,), "float32", timeout=60)
            q.put(tensor)
            ack.get()
            del tensor
        assert arena.stats().bytes_retired == 0
        assert arena.stats().bytes_reserved <= 64 << 20
        q.put(None)
        ended(process)


def _keep_labels(q, ack):
    kept = []
    while (batch := q.get()) is not None:
        image, label = batch
        kept.append(label)
        del image, batch
        ack.put(1)
    assert [label.item() for label in kept] == list(range(len(kept)))


def labels_do_not_keep_images(context):
    """Eight images are under way at a time. Afterwards only the memory of the labels is left."""
    q, ack = context.Queue(), context.SimpleQueue()
    process = start(context, _keep_labels, q, ack)
    for first in range(0, 40, 8):
        for i in range(first, first + 8):
            q.put((tenon.zeros((IMAGE,), "float32"), lend([i])))
        for _ in range(8):
            ack.get()
    deadline = time.monotonic() + 30
    while tenon.stats().bytes_reserved > 4 << 20 and time.monotonic() < deadline:
        tenon.trim()
        time.sleep(0.01)
    assert tenon.stats().bytes_reserved <= 4 << 20, tenon.stats()
    q.put(None)
    ended(process)


def _hold(q, ready):
    kept = q.get()
    ready.put(1)
    signal.pause()
    del kept


def killed_receiver_gives_back(context):
    q, ready = context.Queue(), context.SimpleQueue()
    process = start(context, _hold, q, ready)
    with tenon.Arena(1 << 20) as arena:
        q.put(arena.zeros((1000,), "float32"))
        ready.get()
        assert arena.stats().blocks_lent == 1
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        _until(lambda: not arena.stats().blocks_lent)


def unfetched_goes_by_a_limit(context):
    tenon.multiprocessing.configure(max_unfetched_seconds=0.05)
    old = bytes(ForkingPickler.dumps(lend([1])))
    assert tenon.multiprocessing.unfetched()[0] == 1
    _until(lambda: tenon.multiprocessing.unfetched() == (0, 0))
    _is_withdrawn(old)

    tenon.multiprocessing.configure(max_unfetched_seconds=0, max_unfetched_nbytes=10_000)
    first, second, third = (
        bytes(ForkingPickler.dumps(tenon.zeros((1000,), "float32"))) for _ in range(3)
    )
    _is_withdrawn(first)
    assert ForkingPickler.loads(second).shape == ForkingPickler.loads(third).shape == (1000,)
    tenon.multiprocessing.configure(max_unfetched_nbytes=0)
    same(ForkingPickler.loads(bytes(ForkingPickler.dumps(lend([5])))), [5])


def _is_withdrawn(data):
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound as error:
        assert "withdrawn" in str(error)
    else:
        raise AssertionError("it is still there")


def failed_message_is_taken_back(context):
    """The pickler fails after it has lent a tensor. Nothing stays lent."""
    with tenon.Arena(1 << 20) as arena:
        try:
            ForkingPickler.dumps([arena.zeros((1000,), "float32"), lambda: None])
        except Exception as error:
            assert "pickle" in str(error).lower()
        else:
            raise AssertionError("pickled")
        assert arena.stats().blocks_lent == 0 == tenon.multiprocessing.unfetched()[0]


def unsent_message_is_taken_back(context):
    """Every possible reader has closed the pipe."""
    ours, theirs = context.Pipe()
    theirs.close()
    queue = context.SimpleQueue()
    queue._reader.close()
    with tenon.Arena(1 << 20) as arena:
        for send in (ours.send, queue.put):
            for count in (1, 20):
                try:
                    send([arena.zeros((100,), "float32") for _ in range(count)])
                except BrokenPipeError:
                    pass
                else:
                    raise AssertionError("sent")
                assert arena.stats().blocks_lent == 0 == tenon.multiprocessing.unfetched()[0]


def _until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def unread_message_goes_with_its_pipe(context):
    """The owner of the other end closes it, or reads a message and never loads it."""
    tenon.multiprocessing.configure(fetch_seconds=1)
    with tenon.Arena(8 << 20) as arena:
        ours, theirs = context.Pipe()
        for count in (1, 20):  # a message in pieces, and a whole one
            ours.send([arena.zeros((1000,), "float32") for _ in range(count)])
        assert tenon.multiprocessing.unfetched()[0] == 2
        theirs.recv_bytes()  # the bytes are never loaded
        began = time.monotonic()
        theirs.close()
        _until(lambda: not tenon.multiprocessing.unfetched()[0] and not arena.stats().blocks_lent)
        assert time.monotonic() - began > 0.5
        ours.close()


def unread_message_goes_with_its_queue(context):
    """A queue's last reader ends, or lets go of the queue.

    CPython closes a queue's read end only with its feeder thread.
    """
    tenon.multiprocessing.configure(fetch_seconds=1)
    joinable, simple, back = context.JoinableQueue(), context.SimpleQueue(), context.Queue()
    process = start(context, _leave_the_last, joinable, simple, back)
    with tenon.Arena(8 << 20) as arena:
        for number in range(5):
            joinable.put([arena.zeros((10,), "float32") for _ in range(1 + 10 * number)])
            simple.put(arena.zeros((10,), "float32"))
        same(back.get(), [1])
        _until(lambda: tenon.multiprocessing.unfetched()[0] == 2)
        joinable.close()
        joinable.join_thread()
        del joinable, simple, back
        ended(process)
        _until(lambda: not tenon.multiprocessing.unfetched()[0] and not arena.stats().blocks_lent)


def _leave_the_last(joinable, simple, back):
    tenon.multiprocessing.configure(fetch_seconds=1)
    for _ in range(4):
        joinable.get()
        simple.get()
    back.put(lend([1]))
    back.put(lend([2]))
    _until(lambda: tenon.multiprocessing.unfetched()[0] == 1)
    began = time.monotonic()
    back.close()
    back.join_thread()
    _until(lambda: not tenon.multiprocessing.unfetched()[0])
    assert time.monotonic() - began > 0.5


def messages_with_markers_arrive(context):
    """Markers are on small messages, on one that is larger than the socket's buffer, and on many
    that wait to be read.
    """
    tenon.multiprocessing.configure(fetch_seconds=10)
    ours, theirs = context.Pipe()
    process = start(context, _echo, theirs)
    theirs.close()
    for numbers in (1, 20, 400):
        sent = [lend([number]) for number in range(numbers)]
        ours.send((sent, bytes(numbers * 10_000)))
        back, filling = ours.recv()
        assert len(filling) == numbers * 10_000
        for number, tensor in enumerate(back):
            same(tensor, [number])
    ours.send(None)
    ended(process)
    assert not tenon.multiprocessing.unfetched()[0]


def _echo(connection):
    while (message := connection.recv()) is not None:
        connection.send(message)


def without_room_for_a_marker(context):
    """If no fd is free for a marker, the message goes without a marker."""
    import resource

    ours, theirs = context.Pipe()
    sent = lend([5])
    ForkingPickler.loads(bytes(ForkingPickler.dumps(lend([1]))))  # opens the fds of a first message
    n_open = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 8, limits[1]))
    try:
        while True:
            try:
                fillers.append(os.dup(0))
            except OSError:
                break
        os.close(fillers.pop())
        ours.send(sent)
    finally:
        for fd in fillers:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    same(theirs.recv(), [5])


def many_unread_messages_leave_fds(context):
    """A message has a marker only while fds are plentiful. All messages arrive."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    pipes = [context.Pipe() for _ in range(3)]
    before = len(os.listdir("/proc/self/fd"))
    for number in range(60):
        for ours, _ in pipes:
            ours.send(lend([number]))
    assert len(os.listdir("/proc/self/fd")) - before < 256 // 8 + 16
    for number in range(60):
        for _, theirs in pipes:
            same(theirs.recv(), [number])
    _until(lambda: len(os.listdir("/proc/self/fd")) - before < 16)


def half_a_message_is_given_back(context):
    """The receiver's unpickler fails after the first tensor. The memory returns to the sender."""
    with tenon.Arena(1 << 20) as arena:
        data = bytes(
            ForkingPickler.dumps(
                [arena.zeros((1000,), "float32"), _Fails(), arena.zeros((1000,), "float32")]
            )
        )
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(writer)
            code = 1
            try:
                ForkingPickler.loads(data)
            except ZeroDivisionError:
                # The receiver lives until the sender has all memory back, so that its death cannot
                # be the cause.
                os.read(reader, 1)
                code = 0
            finally:
                os._exit(code)
        os.close(reader)
        _until(lambda: not arena.stats().blocks_lent)
        os.close(writer)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class _Fails:
    def __reduce__(self):
        return divmod, (1, 0)
