"""Scenarios that test_queue.py runs, each as a program of its own: python queue_program.py SCENARIO
METHOD.
"""

from __future__ import annotations

import asyncio
import collections
import multiprocessing as mp
import os
import queue
import signal
import sys
import threading
import time
import types

import numpy as np
import tenon
from multiprocessing_kit import ended, start, stop

Point = collections.namedtuple("Point", "x y")
N_MESSAGES = 200


class Thing:
    """An object that only pickle can carry."""

    def __init__(self, tensor):
        self.tensor = tensor


def state_of(q, pid):
    return [each.state for each in q.members() if each.pid == pid]


def wait_for_state(q, pid, state):
    while state_of(q, pid) != [state]:
        time.sleep(0.002)


def wait_until_fetched():
    """A process that ends by _exit without multiprocessing leaves no keeper."""
    while tenon.deposit.stats().messages:
        time.sleep(0.002)


# ---- scenarios for each start method


def echo(requests, replies):
    while (value := requests.get(timeout=60)) is not None:
        replies.put(value)


def values(context):
    requests, replies = tenon.Queue(), tenon.Queue()
    process = start(context, echo, requests, replies)
    tensor = tenon.from_numpy(np.arange(6, dtype="int32"))
    for value in (1, 2.5, "text", [1, (2, {"a": {b"b"}})], Point(1, [Point(2, 3)]), 2**100):
        requests.put(value)
        back = replies.get(timeout=60)
        assert back == value and type(back) is type(value), back
    requests.put({"tensor": tensor, "views": [tensor[1:3]], "array": np.eye(3)})
    back = replies.get(timeout=60)
    assert back["tensor"].storage == tensor.storage == back["views"][0].storage
    assert back["views"][0].tolist() == [1, 2] and np.array_equal(back["array"], np.eye(3))
    requests.put(None)
    ended(process)
    assert state_of(requests, process.pid) == ["left"], requests.members()


def double(work, done):
    tensor = work.get(timeout=60)
    tensor.numpy()[...] *= 2
    done.put(os.getpid())


def tensors_are_lent(context):
    work, done = tenon.Queue(), tenon.Queue()
    process = start(context, double, work, done)
    tensor = tenon.from_numpy(np.arange(4.0))
    copied = tenon.stats().bytes_copied
    work.put(tensor)
    assert done.get(timeout=60) == process.pid
    assert tensor.tolist() == [0, 2, 4, 6] and tenon.stats().bytes_copied == copied
    ended(process)


def produce(q, number):
    for i in range(N_MESSAGES):
        q.put((number, i, tenon.from_numpy(np.full(3, i, "int32"))))


def consume(q, results):
    got = []
    while (value := q.get(timeout=60)) is not None:
        number, i, tensor = value
        assert tensor.tolist() == [i] * 3
        got.append((number, i))
    results.put(got)


def exactly_once(context):
    q, results = tenon.Queue(), tenon.Queue()
    producers = [start(context, produce, q, number) for number in range(3)]
    consumers = [start(context, consume, q, results) for _ in range(3)]
    for process in producers:
        ended(process)
    for _ in consumers:
        q.put(None)
    lists = [results.get(timeout=60) for _ in consumers]
    for got in lists:
        for number in range(3):
            mine = [i for sender, i in got if sender == number]
            assert mine == sorted(mine)
    everything = [item for got in lists for item in got]
    assert len(everything) == 3 * N_MESSAGES == len(set(everything))
    for process in consumers:
        ended(process)


async def produce_async(q, number):
    for i in range(N_MESSAGES):
        await q.put_async((number, i, tenon.from_numpy(np.full(3, i, "int32"))))


async def consume_async(q, results):
    got = []

    async def receive():
        while (value := await q.get_async()) is not None:
            number, i, tensor = value
            assert tensor.tolist() == [i] * 3
            got.append((number, i))

    await asyncio.wait_for(asyncio.gather(receive(), receive()), 90)
    await results.put_async(got)


def run_async(function, *args):
    asyncio.run(function(*args))


def tasks_in_processes(context):
    """Each value goes to one of two tasks of three processes, in the order of its sender."""
    q, results = tenon.Queue(capacity=4), tenon.Queue()
    producers = [start(context, run_async, produce_async, q, number) for number in range(2)]
    consumers = [start(context, run_async, consume_async, q, results) for _ in range(3)]
    for process in producers:
        ended(process)
    for _ in range(2 * len(consumers)):
        q.put(None)
    lists = [results.get(timeout=60) for _ in consumers]
    everything = [item for got in lists for item in got]
    assert len(everything) == 2 * N_MESSAGES == len(set(everything))
    for process in consumers:
        ended(process)


def put_and_exit(q):
    for i in range(20):
        q.put([i, tenon.from_numpy(np.full(3, i, "int32"))])


def exit_after_put(context):
    q = tenon.Queue()
    process = start(context, put_and_exit, q)
    ended(process)
    assert q.qsize() == 20
    for i in range(20):
        number, tensor = q.get(timeout=60)
        assert number == i and tensor.tolist() == [i] * 3


def hand_on(method, q):
    process = start(mp.get_context(method), put_pid, q)
    ended(process)


def put_pid(q):
    q.put(os.getpid())


def grandchild(context):
    q = tenon.Queue()
    process = start(context, hand_on, context.get_start_method(), q)
    assert q.get(timeout=60) not in (os.getpid(), process.pid)
    ended(process)


def get_queue(carrier):
    carrier.get().put("from the child")


def queue_in_a_queue(context):
    carrier, q = context.SimpleQueue(), tenon.Queue()
    process = start(context, get_queue, carrier)
    carrier.put(q)
    assert q.get(timeout=60) == "from the child"
    ended(process)
    carrier.close()


def put_and_stay(q):
    q.put({"slow": tenon.zeros((4,))})  # a value without tensors would not need its sender
    signal.pause()


def stopped_sender(context):
    """A sender that is stopped before this process has met it."""
    q = tenon.Queue()
    process = start(context, put_and_stay, q)
    while not q.qsize():
        time.sleep(0.002)
    stop(process.pid)
    q.put("own")
    assert q.get(timeout=60) == "own"
    try:
        q.get(timeout=0.3)
    except queue.Empty as error:
        assert error.__cause__.details["pid"] == str(process.pid), error.__cause__
    else:
        raise AssertionError
    os.kill(process.pid, signal.SIGCONT)
    assert q.get(timeout=60)["slow"].tolist() == [0.0] * 4
    process.kill()
    ended(process, -signal.SIGKILL)


def join_and_wait(q):
    q.get()


def death_is_reported(context):
    q = tenon.Queue(report_deaths=True)
    silent = tenon.Queue.join(q.storage)
    process = start(context, join_and_wait, q)
    wait_for_state(q, process.pid, "here")
    os.kill(process.pid, signal.SIGKILL)
    try:
        q.get(timeout=60)
    except tenon.PeerGone as error:
        assert error.details["pid"] == str(process.pid), error.details
    else:
        raise AssertionError
    ended(process, -signal.SIGKILL)
    assert state_of(q, process.pid) == ["dead"]
    for each in q, silent:
        each.put("it goes on")
        assert each.get(timeout=60) == "it goes on"
        try:
            each.get(timeout=0.05)
        except queue.Empty:
            continue
        raise AssertionError


def end_is_no_death(context):
    q = tenon.Queue(report_deaths=True)
    process = start(context, join_and_wait, q)
    wait_for_state(q, process.pid, "here")
    q.put(None)
    ended(process)
    assert state_of(q, process.pid) == ["left"]
    try:
        q.get(timeout=0.05)
    except queue.Empty:
        return
    raise AssertionError


def pickled(context):
    requests, replies = tenon.Queue(pickled=True), tenon.Queue(pickled=True)
    process = start(context, echo, requests, replies)
    tensor = tenon.zeros(3)
    twice = [1]
    requests.put([Thing(tensor), twice, twice])
    thing, first, second = replies.get(timeout=60)
    assert type(thing) is Thing and thing.tensor.storage == tensor.storage and first is second
    requests.put(None)
    ended(process)


def wait_for_class(q, replies):
    value = q.get(timeout=60)
    replies.put([type(value).__module__, value.left, value._asdict(), value])


def unknown_class(context):
    """The receiver has not imported the class of a NamedTuple."""
    q, replies = tenon.Queue(), tenon.Queue()
    process = start(context, wait_for_class, q, replies)
    wait_for_state(q, process.pid, "here")  # a child of fork has no later modules
    module = types.ModuleType("only_here")
    module.Pair = collections.namedtuple("Pair", "left right", module="only_here")
    sys.modules["only_here"] = module
    pair = module.Pair(1, "r")
    q.put(pair)
    found, left, fields, back = replies.get(timeout=60)
    assert found != "only_here" and left == 1 and fields == {"left": 1, "right": "r"}
    assert back == pair
    ended(process)


# ---- scenarios for one start method


def wait_in_thread(q, got):
    for _ in range(2):
        got.append(q.get(timeout=60))


def fork_while_threads_wait(context):
    q = tenon.Queue()
    got = []
    threads = [threading.Thread(target=wait_in_thread, args=(q, got)) for _ in range(2)]
    for thread in threads:
        thread.start()
    pids = []
    for number in range(4):
        pid = os.fork()
        if not pid:
            q.put(number)
            assert [each.pid for each in q.members() if each.is_self] == [os.getpid()]
            q.leave()
            wait_until_fetched()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    for thread in threads:
        thread.join(60)
    assert sorted(got) == [0, 1, 2, 3], got
    assert [each.pid for each in q.members() if each.is_self] == [os.getpid()]


def interrupts(context):
    """SIGINT ends the wait of the main thread, and no value is lost or doubled."""
    q = tenon.Queue(capacity=2)
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(True))
    full = [q.put, 1], [q.put, 2], [q.put, 3]
    for function, *args in ([q.get], *full):
        if args and args[0] < 3:
            function(*args)
            continue
        for number in (signal.SIGUSR1, signal.SIGINT):
            threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
        started = time.monotonic()
        try:
            function(*args)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError
        assert time.monotonic() - started < 30
    assert heard
    assert [q.get(timeout=0), q.get(timeout=0)] == [1, 2] and q.empty()


if __name__ == "__main__":
    scenario, method = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(100)
    globals()[scenario](mp.get_context(method))
