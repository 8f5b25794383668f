"""Scenarios: the strategy "file_system", where messages hold names."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing.reduction import ForkingPickler

import tenon
import tenon.multiprocessing
from multiprocessing_kit import (
    NAMES,
    ended,
    fds,
    keepers,
    lend,
    same,
    start,
    start_and_wait,
    stay_after_put,
)


def names() -> list[str]:
    return os.listdir(NAMES)


def no_names_left() -> None:
    deadline = time.monotonic() + 30
    while names():
        assert time.monotonic() < deadline, names()
        time.sleep(0.005)


def has_no_server() -> None:
    """No thread of Python's serves deposits, because messages hold names."""
    assert tenon.multiprocessing.unfetched() == (0, 0)
    assert "tenon-lender" not in [thread.name for thread in threading.enumerate()]


def _use_and_put_back(inbox, outbox):
    tensor, view, storage = inbox.get()
    assert tensor.storage == view.storage == storage and not storage.is_sealed
    assert tensor.storage.id == storage.id
    tensor.numpy()[0] = 9
    outbox.put(view)
    assert inbox.get() is None
    has_no_server()


def by_name(context):
    inbox, outbox = context.Queue(), context.Queue()
    process = start(context, _use_and_put_back, inbox, outbox)
    tensor = lend([1, 2, 3])
    assert len(names()) == 1
    inbox.put((tensor, tensor[1:], tensor.storage))
    back = outbox.get(timeout=60)
    same(back, [2, 3])
    assert back.storage == tensor.storage
    same(tensor, [9, 2, 3])
    inbox.put(None)
    ended(process)
    has_no_server()
    del tensor, back
    no_names_left()


def who_is_named(context):
    """Checks which tensors are born in a file. The other tensors must travel too."""
    named = [
        tenon.zeros(3),
        tenon.empty((2, 2), "int8"),
        lend([1]),
        lend([[1, 2], [3, 4]])[:, 1].clone(),
        tenon.zeros(3, isolated=True),
    ]
    assert len(names()) == len(named)
    others = [
        tenon.zeros(3, mode="lender_writes"),
        lend([1], mode="frozen"),
        tenon.zeros(3, alignment=4096),
        tenon.zeros((0, 3)),
        tenon.Tensor.over(tenon.Storage.new_from(bytes(12)), 3),
    ]
    private = tenon.zeros(3, private=True)
    assert len(names()) == len(named)
    assert [t.storage.is_sealed for t in named] == [False] * len(named)
    tenon.multiprocessing.set_sharing_strategy("file_descriptor")
    before = tenon.zeros(3)
    assert len(names()) == len(named)
    # A named tensor travels by fd as well. A tensor without a file travels under the other strategy
    # too.
    for strategy in ("file_descriptor", "file_system"):
        tenon.multiprocessing.set_sharing_strategy(strategy)
        for tensor in [*named, *others, before]:
            back = ForkingPickler.loads(bytes(ForkingPickler.dumps(tensor)))
            assert back.tolist() == tensor.tolist() and (
                not tensor.numel or back.storage.same_memory(tensor.storage)
            )
    try:
        ForkingPickler.dumps(private)
    except tenon.Unsupported:
        pass
    else:
        raise AssertionError("lent")
    del tensor, back, named
    no_names_left()


def strategies(context):
    mp_ = tenon.multiprocessing
    assert mp_.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp_.get_sharing_strategy() == "file_system"
    for wrong in ("", "file", "FILE_SYSTEM", None):
        for kind in (AssertionError, ValueError, tenon.InvalidArgument):
            try:
                mp_.set_sharing_strategy(wrong)
            except kind as error:
                assert "file_descriptor" in str(error) and "file_system" in str(error)
            else:
                raise AssertionError(wrong)
    assert mp_.get_sharing_strategy() == "file_system"
    mp_.set_sharing_strategy("file_descriptor")
    assert mp_.get_sharing_strategy() == "file_descriptor" and not names()
    try:
        mp_.configure(filename=tenon.Filename("one"))
    except ValueError:
        pass
    else:
        raise AssertionError("one name for all")


def _put_named_and_leave(q, count):
    for i in range(count):
        q.put(lend([i] * 4))
    has_no_server()


def names_exit_first(context):
    # This process has a name of its own, so the library's thread watches the names that others let
    # go. The thread must see that messages are in flight.
    ours = lend([0])
    q = context.Queue()
    ended(start(context, _put_named_and_leave, q, 100))
    assert len(names()) == 101 and tenon.sweep(NAMES) == tenon.Sweep(1, 100, 0, 0, 0), tenon.sweep(
        NAMES
    )
    keepers(0)
    for i in range(100):
        tensor = q.get(timeout=60)
        same(tensor, [i] * 4)
        tensor.numpy()[0] = -1
    del tensor, ours
    no_names_left()


def _put_named_and_wait(q, is_put):
    tensor = lend([1])
    q.put(tensor)
    q.put(lend([2]))
    stay_after_put(q, is_put)


def names_killed(context):
    """A killed sender's unopened memory is removed. Memory that a receiver holds stays."""
    q = context.Queue()
    process = start_and_wait(context, _put_named_and_wait, q)
    first = q.get(timeout=60)
    assert len(names()) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    # Until the library's thread has seen the death, the second message can still be opened with all
    # its bytes.
    deadline = time.monotonic() + 5
    while len(names()) != 1:
        assert time.monotonic() < deadline, names()
        time.sleep(0.001)
    try:
        q.get(timeout=60)
    except (tenon.NotFound, tenon.PeerGone) as error:
        assert NAMES in error.details["path"]
    else:
        raise AssertionError("nobody was there")
    same(first, [1])
    first.numpy()[0] = 3
    del first
    no_names_left()


def names_killed_unseen(context):
    """As in names_killed, but the receiver has not used a name yet, so no thread watches the
    directory. Then a message may still arrive with all its bytes.
    """
    q = context.Queue()
    process = start_and_wait(context, _put_named_and_wait, q)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    for value in (1, 2):
        try:
            same(q.get(timeout=60), [value])
        except (tenon.NotFound, tenon.PeerGone) as error:
            assert NAMES in error.details["path"]
    tenon.sweep(NAMES)
    no_names_left()


def _sum_many(q, back):
    tensors = [q.get() for _ in range(2000)]
    assert fds() < 100
    back.put(sum(int(tensor.numpy()[0]) for tensor in tensors))


def names_many(context):
    """2,000 tensors, each in a storage of its own, with room for 256 fds."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    q, back = context.Queue(), context.Queue()
    process = start(context, _sum_many, q, back)
    before = fds()
    for i in range(2000):
        # This process keeps no tensor: the name waits for the message.
        q.put(lend([i]))
    total = back.get(timeout=90)
    assert total == sum(range(2000)), total
    ended(process)
    has_no_server()
    assert fds() <= before + 8, (before, fds())
    no_names_left()


def _hold_named(tensor, is_held):
    is_held.set()
    signal.pause()


def names_killed_receiver(context):
    tensor = lend([5])
    process = start_and_wait(context, _hold_named, tensor)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    same(tensor, [5])
    del tensor
    no_names_left()


def names_twice(context):
    tensor = lend([3])
    data = bytes(ForkingPickler.dumps(tensor))
    same(ForkingPickler.loads(data), [3])
    del tensor
    no_names_left()
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound:
        pass
    else:
        raise AssertionError("loaded twice")
