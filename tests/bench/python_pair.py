"""Helpers of the Python benchmarks: rows, turns, and a consumer in a process of its own that serves
both sides.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

SMOKE = "--smoke" in sys.argv[1:]
STRATEGIES = ("file_descriptor", "file_system")
CSR_PARTS = ("values", "indices", "plain_indices")


def load_tenon() -> Any:
    """Returns the package. If the package is missing, prints a row that says so."""
    try:
        import numpy  # noqa: F401
        import tenon
    except ImportError as error:
        print(json.dumps({"left_out": f"{sys.executable}: {error}"}), flush=True)
        raise SystemExit(0) from None
    return tenon


def interleave(
    rounds: int,
    ours: Callable[[], Callable[[], object]],
    theirs: Callable[[], Callable[[], object]],
) -> tuple[list[float], list[float]]:
    """Returns the seconds of each side, in turn.

    Each side is called outside the clock to prepare a round. The call that it returns is timed.
    """
    samples: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + rounds // 10 + 1):
        for side, prepare in enumerate((ours, theirs)):
            run = prepare()
            begin = time.perf_counter()
            run()
            end = time.perf_counter()
            if turn > rounds // 10:
                samples[side].append(end - begin)
            del run
    return samples


def print_row(
    measure: str,
    unit: str,
    against: str,
    goal: dict[str, Any] | None,
    ours: list[float],
    theirs: list[float],
) -> None:
    print(
        json.dumps(
            {
                "measure": measure,
                "unit": unit,
                "against": against,
                "goal": goal,
                "ours": ours,
                "theirs": theirs,
            }
        ),
        flush=True,
    )


def receive(get: Callable[[], Any], answers: Any) -> None:
    """Runs the process of a Receiver, until it gets None."""
    import torch

    torch.set_num_threads(1)
    while (what := get()) is not None:
        answers.send_bytes(b"here")
        del what
        answers.send_bytes(b"gone")


class Receiver:
    """An idle process, made by fork. It receives by `get` what this process sends by `put`."""

    def __init__(self, torch: Any, put: Callable[[Any], object], get: Callable[[], Any]) -> None:
        context = torch.multiprocessing.get_context("fork")
        self._put = put
        self._answers, theirs = context.Pipe()
        self._process = context.Process(target=receive, args=(get, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, what: Any) -> None:
        self._put(what)
        self._answers.recv_bytes()

    def settle(self) -> None:
        """Waits, outside the clock, until the receiver has released its tensors."""
        self._answers.recv_bytes()

    def close(self) -> None:
        self._put(None)
        self._process.join()
        self._answers.close()


def torch_name(torch: Any) -> str:
    return f"PyTorch {torch.__version__.split('+')[0]} queue"


def consume(ours: socket.socket, ack: socket.socket, queue: Any, orders: Any) -> None:
    """Runs the other process. For each hand-over that is ordered, of either side, it builds every
    view, reads the first byte of each, and acknowledges.

    Tenon's message has plain tensors ("ours"), the parts of a CSR tensor by their names ("named"),
    or a CSR tensor as a composite ("composite").
    """
    import tenon

    connection = tenon.Connection(ours)
    for side in iter(orders.recv, None):
        if side == "ours":
            message = connection.recv()
            views = [tensor.numpy() for tensor in message]
        elif side == "composite":
            composite = connection.recv().composites[0]
            views = [getattr(composite, name).numpy() for name in CSR_PARTS]
        elif side == "named":
            message = connection.recv()
            views = [message[name].numpy() for name in CSR_PARTS]
        else:
            views = queue.get()
            views = views if isinstance(views, list) else [views]
        for view in views:
            view[0]
        ack.send(b"\1")
        # Everything that was received is released before the next round's clock starts.
        message = composite = views = view = None
        ack.send(b"\2")
    connection.close()


class Consumer:
    """Makes hand-overs to a `consume` process, by Tenon or by PyTorch's queue."""

    def __init__(self, torch: Any, tenon: Any) -> None:
        import torch.multiprocessing as multiprocessing

        # The consumer is spawned and not forked, so that it has no threads or memory of this
        # process.
        context = multiprocessing.get_context("spawn")
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        acks = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._multiprocessing = multiprocessing
        self._queue = context.Queue()
        orders, self._orders = context.Pipe(duplex=False)
        self._process = context.Process(
            target=consume, args=(ends[1], acks[1], self._queue, orders), daemon=True
        )
        self._process.start()
        for end in (ends[1], acks[1], orders):
            end.close()
        self._ack = acks[0]
        self._ack.settimeout(120)
        self._socket = ends[0]
        self._connection = tenon.Connection(ends[0])

    def order(self, side: str, strategy: str | None = None) -> None:
        """Tells the consumer, outside the clock, to wait for the hand-over."""
        if strategy:
            self._multiprocessing.set_sharing_strategy(strategy)
        self._orders.send(side)

    def give_tenon(self, tensors: Any) -> None:
        self._connection.send(tensors)
        self._await()

    def give_torch(self, tensors: Any) -> None:
        self._queue.put(tensors)
        self._await()

    def _await(self) -> None:
        if self._ack.recv(1) != b"\1":
            raise RuntimeError("the consumer is gone")

    def settle(self) -> None:
        """Waits, outside the clock, until the consumer has released its tensors."""
        if self._ack.recv(1) != b"\2":
            raise RuntimeError("the consumer is gone")

    def close(self) -> None:
        self._orders.send(None)
        self._process.join(30)
        self._connection.close()
        self._queue.close()
