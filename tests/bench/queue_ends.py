"""Helpers of the Python benchmarks of queues: the ends of tenon.Queue, and a process that answers.

An end has two methods for each kind of message: ask_KIND(count) sends messages and receives the
answer to each, and echo_KIND(count) is what the other process does meanwhile. Both have their loop
inside, so that a round trip has no call of the benchmark.
"""

from __future__ import annotations

import os
import time
from multiprocessing.context import BaseContext
from typing import Any

NBYTES = 4096
MANY = 300


class TenonEnds:
    """One process's end of two tenon.Queues."""

    def __init__(self, to: Any, back: Any) -> None:
        import numpy
        import tenon

        self._tenon, self._put, self._get = tenon, to.put, back.get
        self._known = tenon.zeros(NBYTES, "uint8")
        self._many = [tenon.zeros(NBYTES, "uint8") for _ in range(MANY)]
        self._arrays = [numpy.ones(NBYTES, "uint8") for _ in range(MANY)]

    def ask_known(self, count: int) -> None:
        put, get, tensor = self._put, self._get, self._known
        for _ in range(count):
            put(tensor)
            get().numpy()[0]

    def echo_known(self, count: int) -> None:
        put, get, tensor = self._put, self._get, self._known
        for _ in range(count):
            get().numpy()[0]
            put(tensor)

    def ask_new(self, count: int) -> None:
        put, get, empty = self._put, self._get, self._tenon.empty
        for _ in range(count):
            tensor = empty(NBYTES, "uint8")
            tensor.numpy().fill(1)
            put(tensor)
            get().numpy()[0]

    def echo_new(self, count: int) -> None:
        put, get, empty = self._put, self._get, self._tenon.empty
        for _ in range(count):
            get().numpy()[0]
            tensor = empty(NBYTES, "uint8")
            tensor.numpy().fill(1)
            put(tensor)

    def ask_many_known(self, count: int) -> None:
        self._ask_many(self._many, count)

    def ask_many_fresh(self, count: int) -> None:
        """numpy arrays, which put copies into shared memory."""
        self._ask_many(self._arrays, count)

    def _ask_many(self, values: list[Any], count: int) -> None:
        for _ in range(count):
            self._put(values)
            self._get()

    def echo_many_known(self, count: int) -> None:
        for _ in range(count):
            views = [tensor.numpy() for tensor in self._get()]
            for view in views:
                view[0]
            self._put(None)

    def echo_many_fresh(self, count: int) -> None:
        for _ in range(count):
            for array in self._get():
                array[0]
            self._put(None)


def pin(index: int) -> None:
    """Restricts this process to one of the CPUs that it may use."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[min(index, len(cpus) - 1)]})


def answer(makers: dict[str, tuple[Any, ...]], cpu: int | None, orders: Any) -> None:
    """Runs the other process, until it gets None. A maker is a class of ends and its arguments."""
    if cpu is not None:
        pin(cpu)
    ends = {name: maker(*arguments) for name, (maker, *arguments) in makers.items()}
    orders.send(None)
    for name, kind, count in iter(orders.recv, None):
        getattr(ends[name], f"echo_{kind}")(count)
        orders.send(None)


class Pair:
    """This process's ends, and another process that has the other ends.

    The arguments of `here` and `there` are makers by the same names. With pinned=True each process
    has a CPU of its own.
    """

    def __init__(
        self,
        context: BaseContext,
        here: dict[str, tuple[Any, ...]],
        there: dict[str, tuple[Any, ...]],
        pinned: bool = False,
    ) -> None:
        self._orders, theirs = context.Pipe()
        self._process = context.Process(
            target=answer, args=(there, 1 if pinned else None, theirs), daemon=True
        )
        self._process.start()
        if pinned:
            pin(0)
        theirs.close()
        self.ends = {name: maker(*arguments) for name, (maker, *arguments) in here.items()}
        self._orders.recv()

    def time(self, name: str, kind: str, warm_up: int, count: int) -> float:
        """Returns the seconds of one round trip, the mean of `count` after `warm_up` others. Those
        wake the other process.
        """
        self._orders.send((name, kind, warm_up + count))
        ask = getattr(self.ends[name], f"ask_{kind}")
        ask(warm_up)
        begin = time.perf_counter()
        ask(count)
        end = time.perf_counter()
        self._orders.recv()
        return (end - begin) / count

    def close(self) -> None:
        self._orders.send(None)
        # join would wait for PyTorch's manager of names too, which has the child's fds.
        give_up = time.monotonic() + 30
        while self._process.exitcode is None and time.monotonic() < give_up:
            time.sleep(0.01)
