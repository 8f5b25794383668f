"""Scenarios: each message arrives once, with the values that were sent."""

from __future__ import annotations

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import tenon
import tenon.multiprocessing
from multiprocessing_kit import ended, fds, lend, same, start


def _echo(inbox, outbox):
    while (item := inbox.get()) is not None:
        outbox.put(item)
    # The process leaves while the last message may still wait to be fetched.


def identity(context):
    inbox, outbox = context.Queue(), context.Queue()
    process = start(context, _echo, inbox, outbox)
    base = lend(np.arange(24).reshape(4, 6))
    views = [base, base[1:3, ::2], base[::-1], base.view((24,)), base[2, 5]]
    inbox.put((views, base.storage))
    arrived, storage = outbox.get(timeout=60)
    for view, one in zip(views, arrived, strict=True):
        assert (one.shape, one.dtype) == (view.shape, view.dtype)
        assert one.numel == 1 or one.strides == view.strides
        assert one.tolist() == view.tolist()
        assert one.storage == storage == base.storage
    inbox.put(base)
    again = outbox.get(timeout=60)
    assert again.storage == base.storage
    for dtype in ("bfloat16", "bool", "complex64", "int64"):
        tensor = tenon.zeros((3,), dtype)
        inbox.put(tensor)
        assert outbox.get(timeout=60).dtype == dtype
    inbox.put([tenon.empty((0, 4)), tenon.zeros((), requires_grad=True)])
    nothing, scalar = outbox.get(timeout=60)
    assert nothing.shape == (0, 4) and scalar.shape == () and scalar.requires_grad
    indices, values = tenon.from_numpy(np.array([[0, 2], [1, 0]])), lend([1.0, 2.0])
    sparse = tenon.SparseTensor.coo(indices, values, (3, 2), coalesced=True, requires_grad=True)
    inbox.put(
        {"sparse": sparse, "values": values, "meta": tenon.MetaTensor.of((2, 3), "int8", offset=1)}
    )
    got = outbox.get(timeout=60)
    assert (
        repr(got["sparse"]) == repr(sparse)
        and got["sparse"].is_coalesced
        and got["sparse"].requires_grad
    )
    assert (
        got["sparse"].indices.tolist() == [[0, 2], [1, 0]]
        and got["sparse"].values.storage == got["values"].storage == values.storage
    )
    assert (got["meta"].shape, got["meta"].dtype, got["meta"].strides, got["meta"].offset) == (
        (2, 3),
        "int8",
        (3, 1),
        1,
    )
    inbox.put(None)
    ended(process)


def _check_modes(q, done):
    for mode in ("lender_writes", "frozen"):
        tensor = q.get()
        assert tensor.read_only and tensor.storage.mode == mode, (tensor, mode)
        try:
            tensor.numpy()[0] = 1
        except ValueError:
            pass
        else:
            raise AssertionError("written")
    done.set()


def modes(context):
    q, done = context.Queue(), context.Event()
    process = start(context, _check_modes, q, done)
    q.put(lend([1, 2], mode="lender_writes"))
    q.put(lend([1, 2], mode="frozen"))
    ended(process)
    assert done.is_set()


def refused(context):
    for kind in (tenon.zeros((3,), private=True), tenon.zeros((3,), private=True).storage):
        try:
            ForkingPickler.dumps(kind)
        except tenon.Unsupported as error:
            assert "tenon.from_numpy" in str(error) and "tenon.empty" in str(error)
        else:
            raise AssertionError("lent")
    try:
        pickle.dumps(lend([1]))
    except TypeError as error:
        assert "tenon.multiprocessing" in str(error)
    else:
        raise AssertionError("pickled")
    tenon.multiprocessing.configure(max_unfetched_segments=2)
    held = [bytes(ForkingPickler.dumps(lend([1], isolated=True))) for _ in range(2)]
    try:
        ForkingPickler.dumps(lend([1], isolated=True))
    except tenon.ResourceExhausted as error:
        assert (
            error.details["limit"] == "max_unfetched_segments"
            and error.details["limit_value"] == "2"
        )
    else:
        raise AssertionError("no limit")
    for data in held:
        same(ForkingPickler.loads(data), [1])
    same(ForkingPickler.loads(bytes(ForkingPickler.dumps(lend([5], isolated=True)))), [5])


def _load_twice(data, done):
    same(ForkingPickler.loads(data), [3])
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound as error:
        assert "once" in str(error)
    else:
        raise AssertionError("loaded twice")
    done.set()


def twice(context):
    done = context.Event()
    ended(start(context, _load_twice, bytes(ForkingPickler.dumps(lend([3]))), done))
    assert done.is_set()
    data = bytes(ForkingPickler.dumps(lend([3])))
    same(ForkingPickler.loads(data), [3])
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound:
        pass
    else:
        raise AssertionError("loaded twice")


def _sum_all(q, back):
    tensors = q.get()
    back.put(sum(tensor.numpy()[0] for tensor in tensors))


def many(context):
    q, back = context.Queue(), context.Queue()
    process = start(context, _sum_all, q, back)
    tensors = [lend([i] * 8) for i in range(300)] + [lend([i], isolated=True) for i in range(300)]
    before = fds()
    q.put(tensors)
    total = back.get(timeout=60)
    assert total == 2 * sum(range(300)), total
    ended(process)
    # The new fds are a thread's listener and wake-up, the queues' ends, and a watch of the message
    # until the library looks. There is no fd for each tensor.
    assert tenon.multiprocessing.unfetched() == (0, 0)
    assert fds() <= before + 9, (before, fds())


def one_segment_one_fd(context):
    tensors = [lend([i]) for i in range(300)]
    held = [bytes(ForkingPickler.dumps(tensors))]
    before = fds()
    held += [bytes(ForkingPickler.dumps(tensors)) for _ in range(20)]
    messages, segments = tenon.multiprocessing.unfetched()
    assert (messages, segments) == (21, 1), (messages, segments)
    assert fds() == before
    for data in held:
        assert len(ForkingPickler.loads(data)) == 300
    assert tenon.multiprocessing.unfetched() == (0, 0)


def threads(context):
    """Messages that are pickled at the same time do not mix."""
    tensors = [lend([i], isolated=True) for i in range(50)]
    failures = []

    def work(first):
        try:
            for i in range(first, first + 40):
                part = [tensors[i % 50], tensors[(i * 7) % 50]]
                a, b = ForkingPickler.loads(bytes(ForkingPickler.dumps(part)))
                same(a, [i % 50])
                same(b, [(i * 7) % 50])
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
