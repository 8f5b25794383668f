"""Scenarios: everything that carries tensors between processes, in both directions."""

from __future__ import annotations

import os

import tenon
import tenon.multiprocessing
from multiprocessing_kit import ended, lend, same, start


def _add_one(get, done):
    for tensor in get():
        if tensor.numel:
            tensor.numpy()[...] += 1
    done.set()


def _check_both_ways(context, put, get_method, *args):
    base = lend([[0, 1, 2], [3, 4, 5]])
    column = base[:, 1]
    done = context.Event()
    process = start(context, _add_from, get_method, done, *args)
    put([base, tenon.zeros((0, 3))])
    assert done.wait(60)
    same(base, [[1, 2, 3], [4, 5, 6]])
    same(column, [2, 5])
    ended(process)


def _add_from(get_method, done, *args):
    _add_one(getattr(args[0], get_method), done)


def queue(context):
    q = context.Queue()
    _check_both_ways(context, q.put, "get", q)


def simple_queue(context):
    q = context.SimpleQueue()
    _check_both_ways(context, q.put, "get", q)


def pipe(context):
    for duplex in (True, False):
        reader, writer = context.Pipe(duplex)
        _check_both_ways(context, writer.send, "recv", reader)


def _take_argument(tensor, storage, done):
    assert tensor.storage == storage
    tensor.numpy()[...] = 7
    done.set()


def process_arguments(context):
    tensor = lend([1, 2])
    done = context.Event()
    process = start(context, _take_argument, tensor, tensor.storage, done)
    ended(process)
    assert done.is_set()
    same(tensor, [7, 7])


def _double(tensor):
    tensor.numpy()[...] *= 2
    return tensor[1:], os.getpid()


def pool(context):
    tensors = [lend([i, i + 1]) for i in range(20)]
    workers = context.Pool(2)
    results = workers.map(_double, tensors, chunksize=3)
    workers.close()
    workers.join()
    for i, (tensor, (part, _)) in enumerate(zip(tensors, results, strict=True)):
        same(tensor, [2 * i, 2 * i + 2])
        same(part, [2 * i + 2])
        # The tensor that comes home has the storage that was sent.
        assert part.storage == tensor.storage
    assert tenon.multiprocessing.unfetched() == (0, 0)


def executor(context):
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=context) as workers:
        tensors = [lend([i, i]) for i in range(10)]
        for i, (part, _) in enumerate(workers.map(_double, tensors)):
            same(part, [2 * i])
            same(tensors[i], [2 * i, 2 * i])
