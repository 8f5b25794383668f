"""Scenarios that test_vllm.py runs, each as a program of its own: python vllm_program.py SCENARIO
METHOD.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import time

import numpy as np
import pytest
import tenon
from multiprocessing_kit import start
from tenon.integrations.vllm import MessageQueue

N_MESSAGES = 300


def payload(number):
    """An object for the message of a number: inline, in a block, or larger than the arena."""
    nbytes = (10, 3000, 5000, 100_000, 3_000_000)[number % 5]
    return {"number": number, "array": np.full(nbytes // 8, number), "text": "x" * (nbytes // 20)}


def check(obj, number):
    assert obj["number"] == number and (obj["array"] == number).all(), (obj["number"], number)
    obj["array"][0] = -1


class Workers:
    """Processes that read from a queue, each with a queue for its answers, as vLLM's executor has
    them.
    """

    def __init__(self, context, target, count=4, max_chunk_bytes=1 << 20, max_chunks=2):
        self.requests = MessageQueue(count, count, None, max_chunk_bytes, max_chunks)
        handle = self.requests.export_handle()
        pipes = [context.Pipe() for _ in range(count)]
        self.processes = [
            start(context, run_worker, target, handle, rank, pipe[1])
            for rank, pipe in enumerate(pipes)
        ]
        self.answers = [MessageQueue.create_from_handle(pipe[0].recv(), 0) for pipe in pipes]
        self.requests.wait_until_ready()
        for each in self.answers:
            each.wait_until_ready()

    def join(self):
        for each in self.processes:
            each.join()
            assert each.exitcode == 0, each


def run_worker(target, handle, rank, pipe):
    requests = MessageQueue.create_from_handle(handle, rank)
    answers = MessageQueue(1, 1)
    pipe.send(answers.export_handle())
    requests.wait_until_ready()
    answers.wait_until_ready()
    target(requests, answers)
    # The front end reads the answers of a worker that has ended, too.


def answer(requests, answers):
    for number in range(N_MESSAGES):
        check(requests.dequeue(timeout=60, indefinite=True), number)
        answers.enqueue(number)
    assert requests.dequeue(timeout=60) is None


def every_worker_gets_each_object(context):
    workers = Workers(context, answer)
    for number in range(N_MESSAGES):
        workers.requests.enqueue(payload(number), timeout=60)
        if number % 3 == 0 or number == N_MESSAGES - 1:
            for each in workers.answers:
                while each.dequeue(timeout=60) < number:
                    pass
    workers.requests.broadcast_object(None)
    workers.join()
    # Nothing that was lent is left.
    stats = workers.requests._arena.stats()
    assert stats.blocks_live == stats.blocks_lent == 0, stats


def echo(requests, answers):
    while (obj := requests.dequeue(timeout=60)) is not None:
        answers.enqueue(obj)


def ask(workers, ranks, obj):
    workers.requests.enqueue(obj, timeout=60)
    assert [workers.answers[rank].dequeue(timeout=60) for rank in ranks] == [obj] * len(ranks)


def a_killed_worker_is_named(context):
    workers = Workers(context, echo)
    ask(workers, range(4), "all")
    left = [0, 1, 2, 3]
    for victim in (2, 0, 3, 1):
        process = workers.processes[victim]
        process.kill()
        process.join()
        left.remove(victim)
        with pytest.raises(tenon.PeerGone, match=f"rank {victim}, process {process.pid}") as error:
            for _ in range(20):
                # The kernel tells of the end a moment later.
                workers.requests.enqueue("before the report", timeout=60)
                for rank in left:
                    assert workers.answers[rank].dequeue(timeout=60) == "before the report"
                time.sleep(0.01)
        assert error.value.details == {"pid": str(process.pid), "rank": str(victim)}
        # Its queue of answers names it too.
        with pytest.raises(tenon.PeerGone) as error:
            while True:
                workers.answers[victim].dequeue(timeout=60)
        assert error.value.details["pid"] == str(process.pid)
        ask(workers, left, f"after {victim}")
    workers.requests.enqueue("nobody is left")


def a_stopped_worker_is_named(context):
    workers = Workers(context, echo, 2)
    process = workers.processes[1]
    os.kill(process.pid, signal.SIGSTOP)
    sent = 0
    with pytest.raises(TimeoutError, match=f"rank 1, process {process.pid}"):
        while True:
            workers.requests.enqueue(sent, timeout=0.2)
            assert workers.answers[0].dequeue(timeout=60) == sent
            sent += 1
    assert sent == 2
    os.kill(process.pid, signal.SIGCONT)
    for number in range(sent):
        assert workers.answers[1].dequeue(timeout=60) == number
    ask(workers, range(2), "awake")
    workers.requests.enqueue(None)
    workers.join()


def leave(requests, answers):
    assert requests.dequeue(timeout=60) == "go"


def a_worker_that_left_is_named(context):
    workers = Workers(context, leave, 2)
    workers.requests.enqueue("go")
    workers.join()
    found = set()
    for _ in range(1000):
        try:
            workers.requests.enqueue("nobody hears this", timeout=60)
        except tenon.PeerGone as error:
            found.add(int(error.details["rank"]))
            assert int(error.details["pid"]) == workers.processes[max(found)].pid or len(found) == 2
            if len(found) == 2:
                break
    assert found == {0, 1}
    workers.requests.enqueue("nobody is left")


def sleep(requests, answers):
    signal.pause()


def a_worker_killed_before_it_reads_is_named(context):
    workers = Workers(context, sleep, 2)
    workers.processes[1].kill()
    workers.processes[1].join()
    with pytest.raises(tenon.PeerGone, match="rank 1"):
        for number in range(3):
            workers.requests.enqueue(number, timeout=60)
    workers.processes[0].kill()
    workers.processes[0].join()


def write_and_die(pipe):
    queue = MessageQueue(1, 1)
    pipe.send(queue.export_handle())
    queue.wait_until_ready()
    for number in range(5):
        queue.enqueue(payload(number))
    os.kill(os.getpid(), signal.SIGKILL)


def the_death_of_the_writer_is_named(context):
    ours, theirs = context.Pipe()
    process = start(context, write_and_die, theirs)
    queue = MessageQueue.create_from_handle(ours.recv(), 0)
    queue.wait_until_ready()
    process.join()
    for number in range(5):
        check(queue.dequeue(timeout=60), number)
    with pytest.raises(tenon.PeerGone) as error:
        queue.dequeue()
    assert error.value.details["pid"] == str(process.pid)


def join_and_die(handle, rank):
    MessageQueue.create_from_handle(handle, rank)
    os.kill(os.getpid(), signal.SIGKILL)


def join_and_read(handle, rank):
    queue = MessageQueue.create_from_handle(handle, rank)
    queue.wait_until_ready()
    assert queue.dequeue(timeout=60) == "hello"


def another_takes_the_place_of_a_reader_that_died(context):
    """A reader that dies before the queue is ready leaves its rank to another process."""
    queue = MessageQueue(2, 2)
    for _ in range(3):
        process = start(context, join_and_die, queue.export_handle(), 0)
        process.join()
        with pytest.raises(TimeoutError, match=r"the readers of the ranks \[.*1\] have not come"):
            queue.enqueue("nobody is here", timeout=0.01)
    processes = [start(context, join_and_read, queue.export_handle(), rank) for rank in range(2)]
    queue.enqueue("hello", timeout=60)
    for each in processes:
        each.join()
        assert each.exitcode == 0


def interrupts(context):
    """Ctrl-C ends a wait for readers, for an object and for room."""
    import threading

    queue = MessageQueue(1, 1, None, 1 << 20, 1)
    handle = queue.export_handle()

    def interrupt(function, *args):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            function(*args)
        assert time.monotonic() - started < 30

    interrupt(queue.wait_until_ready)
    interrupt(queue.enqueue, 0)
    reader = MessageQueue.create_from_handle(handle, 0)
    interrupt(reader.dequeue)
    queue.wait_until_ready()
    interrupt(reader.dequeue)
    queue.enqueue(1)
    interrupt(queue.enqueue, 2)
    assert reader.dequeue() == 1


if __name__ == "__main__":
    scenario, method = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(100)
    globals()[scenario](mp.get_context(method))
