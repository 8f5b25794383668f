"""Rows of Queue.put under the strategy "tenon": python put_rows.py [NAME…]. rows.py runs them and
prints their lines.

put() writes a small message in the caller's thread. These rows check what must stay as in CPython.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from queue import Full

from rows import SECONDS, main, row, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Watched:
    """A queue whose thread is idle. It counts the messages that put() writes in the caller's
    thread.
    """

    def __init__(self, context: Any, *arguments: Any) -> None:
        self.queue = context.Queue(*arguments)
        self.queue.put(0)
        assert self.queue.get(timeout=SECONDS) == 0
        self.wait()
        self.n_written = 0
        self.plain = self.queue._send_bytes  # the queue's thread has a reference of its own
        self.queue._send_bytes = self.write

    def write(self, message: Any) -> None:
        self.plain(message)
        self.n_written += 1

    def wait(self) -> None:
        """Wait until the queue's thread has written everything."""
        end = time.monotonic() + SECONDS
        while self.queue._buffer or not self.queue._notempty._waiters:
            assert time.monotonic() < end, "the queue's thread does not come to its wait"
            time.sleep(0.001)

    def get(self) -> Any:
        return self.queue.get(timeout=SECONDS)


def fork_context() -> Any:
    import torch

    return torch.multiprocessing.get_context("fork")


@row
def put_writes_small_messages_itself() -> None:
    import torch

    watched = Watched(fork_context())
    shared = torch.ones(1 << 20).share_memory_()
    for what in (
        shared,
        torch.full((4,), 2.0),
        torch.nn.Parameter(torch.ones(2)),
        (3, [shared[5], {"label": 7}]),
        "text",
        [None] * 300,
    ):
        n_before = watched.n_written
        watched.queue.put(what)
        assert watched.n_written == n_before + 1, what
        got = watched.get()
        assert type(got) is type(what)
        if isinstance(what, torch.Tensor):
            assert values_of(got) == values_of(what)
    watched.queue.put(shared)
    watched.get()[9] = 5
    assert shared[9] == 5


@row
def put_leaves_the_rest_to_the_thread() -> None:
    """Messages that take long to pickle, that PyTorch refuses, or that Tenon does not know go to
    the queue's thread.
    """
    import torch

    watched = Watched(fork_context())
    private = torch.ones(1 << 20)
    deep: list[Any] = [1]
    for _ in range(9):
        deep = [deep]
    for what in (
        private,
        {1, 2},
        deep,
        "x" * 5000,
        [0] * 1000,
        [torch.ones(1) for _ in range(9)],
        torch.ones(3).to_sparse(),
        range(3),
    ):
        watched.queue.put(what)
        watched.get()
        watched.wait()
    assert watched.n_written == 0


@row
def put_keeps_the_order() -> None:
    """Large and small messages, and messages that find no room in the pipe, keep their order. put()
    does not wait for a reader.
    """
    import torch

    watched = Watched(fork_context())
    shared = torch.ones(4).share_memory_()
    n = 3000  # some 300 bytes each, and a pipe holds 64 KiB
    for number in range(n):
        watched.queue.put((number, torch.ones(20000) if number % 100 == 50 else shared))
    assert 0 < watched.n_written < n
    for number in range(n):
        got = watched.get()
        assert got[0] == number and got[1][3] == 1
    watched.wait()
    assert watched.queue.empty()


@row
def put_does_not_split_messages_of_threads() -> None:
    import torch

    watched = Watched(fork_context())
    shared = torch.ones(4).share_memory_()

    def put(thread: int) -> None:
        for number in range(300):
            watched.queue.put((thread, number, shared, "x" * (number % 7 * 200)))

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    following = [0] * 4
    for _ in range(4 * 300):
        which, number, tensor, text = watched.get()
        assert number == following[which] and tensor[0] == 1 and len(text) == number % 7 * 200
        following[which] += 1
    for thread in threads:
        thread.join()


@row
def put_of_many_bytes_that_are_pickled_already() -> None:
    """A small object whose message has more bytes than a pipe takes at once: the thread writes
    it.
    """
    import torch
    from tenon.torch import _direct_put

    watched = Watched(fork_context())
    handed = []

    def pickled(message: Any) -> Any:
        handed.append(message)
        return plain(message)

    plain, _direct_put.Pickled = _direct_put.Pickled, pickled  # type: ignore[misc,assignment]
    shared = torch.ones(4).share_memory_()
    for number in range(20):
        watched.queue.put(
            (shared, [f"{number:01000}"] * 3, {f"{key:0500}": None for key in range(9)})
        )
        got = watched.get()
        got[0][0] = number
        assert got[1][0] == f"{number:01000}" and shared[0] == number
        watched.wait()
    assert watched.n_written == 0 and len(handed) == 20


@row
def put_refuses_as_before() -> None:
    """put() refuses for a full queue, a closed one, and a tensor that PyTorch refuses. The place of
    the refused tensor in the queue is free again.
    """
    import torch

    context = fork_context()
    watched = Watched(context, 2)
    errors: list[str] = []
    watched.queue.put(torch.ones(1))
    watched.queue.put(torch.ones(1))
    try:
        watched.queue.put_nowait(torch.ones(1))
    except Full:
        errors.append("full")
    watched.get()
    watched.get()
    for _ in range(5):
        watched.queue.put(torch.ones(2, requires_grad=True) * 2)  # the thread prints why
        watched.wait()
    for _ in range(2):
        watched.queue.put(torch.ones(1), timeout=SECONDS)
    watched.get()
    watched.get()
    watched.queue.close()
    try:
        watched.queue.put(torch.ones(1))
    except ValueError:
        errors.append("closed")
    watched.queue.join_thread()
    assert errors == ["full", "closed"]


def put_ten(queue: Any, answers: Any) -> None:
    import torch

    try:
        for number in range(10):
            queue.put((number, torch.full((4,), float(number))))
            answers.get(timeout=SECONDS)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@row
def put_in_children() -> None:
    import torch

    for method in ("fork", "spawn"):
        context = torch.multiprocessing.get_context(method)
        queue, answers = context.Queue(), context.JoinableQueue()
        child = context.Process(target=put_ten, args=(queue, answers))
        child.start()
        for number in range(10):
            got = queue.get(timeout=SECONDS)
            assert got[0] == number and values_of(got[1]) == [float(number)] * 4
            answers.put("next")
        child.join()
        assert child.exitcode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
