"""A sparse CSR tensor of 10 million non-zeros, against its parts, PyTorch's queue and its check.

Against its parts: the same three tensors go over one connection to a spawned process, as a
composite or as plain tensors. Made anew: each round makes the composite over the same parts, inside
the clock. The process makes a numpy view of each part, reads the first element of each, and
answers. It finds plain tensors by their names, or takes all of them in their order, which is
faster.

First, second and later: each round starts a process by fork, with a new connection or queue, and
makes a tensor in new memory. The clock runs from the send, or from `put`, until that process has
read one value. Over a connection it has made a numpy view of each part by then, and on a queue it
has made PyTorch's tensor. The same tensor is then sent repeatedly. PyTorch makes its tensor in
private memory, and its first `put` copies the parts into shared memory. Tenon's sides do the same,
except for "made in shared memory", where nothing is copied. Neither side checks the indices. All
modules were imported before, on both sides.

Check: tenon_composite_check against PyTorch's own check of the same indices, one thread each.
"""

from __future__ import annotations

import gc
import json
import socket
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from python_pair import (
    CSR_PARTS,
    SMOKE,
    STRATEGIES,
    Consumer,
    Receiver,
    interleave,
    load_tenon,
    print_row,
    torch_name,
)

PYTHON = "newest torch"  # PyTorch 1.13 has no CSR tensor on its queues
ROWS, WHAT = (
    (1_000, "a CSR of 10 thousand non-zeros")
    if SMOKE
    else (1_000_000, "a CSR of 10 million non-zeros")
)
IN_A_ROW = 10
SHAPE = (ROWS, 64)
AGAIN = 10  # sends after the second


def arrays() -> tuple[Any, Any, Any]:
    """New row pointers, column indices and values."""
    import numpy

    pointers = numpy.arange(0, ROWS * IN_A_ROW + 1, IN_A_ROW, dtype=numpy.int64)
    columns = numpy.tile(numpy.arange(IN_A_ROW, dtype=numpy.int64), ROWS)
    return pointers, columns, numpy.ones(ROWS * IN_A_ROW, numpy.float32)


def composite_in_tenon(tenon: Any, mode: str = "shared") -> Any:
    pointers, columns, values = arrays()
    return tenon.SparseTensor.csr(
        tenon.from_numpy(pointers, mode=mode),
        tenon.from_numpy(columns, mode=mode),
        tenon.from_numpy(values),
        SHAPE,
    )


# ---- against its parts


def rows_against_parts(torch: Any, tenon: Any) -> None:
    composite = composite_in_tenon(tenon, "frozen")
    parts = composite.parts
    consumer = Consumer(torch, tenon)
    is_first = True

    def prepare(side: str, give: Callable[[], None]) -> Callable[[], None]:
        nonlocal is_first
        if not is_first:
            consumer.settle()
        is_first = False
        consumer.order(side)
        return give

    def made_anew() -> None:
        anew = tenon.SparseTensor.csr(
            parts["indices"], parts["plain_indices"], parts["values"], SHAPE
        )
        consumer.give_tenon({"sparse": anew})

    def known() -> None:
        consumer.give_tenon({"sparse": composite})

    def as_parts() -> None:
        consumer.give_tenon(parts)

    goal = {"of": "ours-theirs", "at_most": 10}
    for what, give, against, side, of in (
        (WHAT, known, "its parts as tensors, by name", "named", goal),
        (WHAT, known, "its parts as tensors, in their order", "ours", None),
        (f"{WHAT}, made anew", made_anew, "its parts as tensors, by name", "named", None),
    ):
        samples = interleave(
            3 if SMOKE else 1000,
            lambda give=give: prepare("composite", give),  # type: ignore[misc]
            lambda side=side: prepare(side, as_parts),  # type: ignore[misc]
        )
        ours, theirs = ([second * 1e6 for second in each] for each in samples)
        print_row(f"send {what}, Python", "us", against, of, ours, theirs)
    consumer.settle()
    consumer.close()


# ---- first and second


class Line:
    """A connection to a Receiver. The first message creates it, on either side."""

    def __init__(self, tenon: Any, read: Callable[[Any], object]) -> None:
        self._tenon = tenon
        self._read = read
        self._ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection: Any = None

    def _at(self, end: int) -> Any:
        if self._connection is None:
            self._ends[1 - end].close()
            self._connection = self._tenon.Connection(self._ends[end])
        return self._connection

    def put(self, what: Any) -> None:
        self._at(0).send({} if what is None else {"sparse": what})

    def get(self) -> Any:
        composites = self._at(1).recv().composites
        return self._read(composites[0]) if composites else None

    def close(self) -> None:
        self._connection.close()


class Queue:
    """A queue to a Receiver."""

    def __init__(self, torch: Any, read: Callable[[Any], object]) -> None:
        self._read = read
        self._queue = torch.multiprocessing.get_context("fork").Queue()
        self.put = self._queue.put

    def get(self) -> Any:
        what = self._queue.get()
        return None if what is None else self._read(what)

    def close(self) -> None:
        self._queue.close()
        self._queue.join_thread()


@dataclass
class Way:
    """One way to move the tensor from this process to the other."""

    strategy: str  # of torch.multiprocessing
    carrier: Callable[[], Any]
    make: Callable[[], Any]  # outside the clock
    to_send: Callable[[Any], Any] = lambda made: made  # inside the clock, once
    is_born_shared: bool = False
    verb: str = ""
    by: str = ""
    at_least: float = 1  # the goal: how many times as fast as PyTorch
    samples: list[list[float]] = field(default_factory=list)

    def run(self, torch: Any) -> list[float]:
        """Returns microseconds: the first send, the second, and the median of the later ones."""
        torch.multiprocessing.set_sharing_strategy(self.strategy)
        carrier = self.carrier()
        receiver = Receiver(torch, carrier.put, carrier.get)
        made = self.make()
        what = None
        samples = []
        for _ in range(2 + AGAIN):
            begin = time.perf_counter()
            if what is None:
                what = self.to_send(made)
            receiver.give(what)
            samples.append((time.perf_counter() - begin) * 1e6)
            receiver.settle()
        receiver.close()
        carrier.close()
        return [*samples[:2], statistics.median(samples[2:])]


def private_in_torch(torch: Any) -> Any:
    return torch.sparse_csr_tensor(*map(torch.from_numpy, arrays()), SHAPE, check_invariants=False)


def read_in_torch(sparse: Any) -> Any:
    """Returns the tensor after a read of its first value."""
    if sparse.values()[0] != 1:
        raise RuntimeError("other values have arrived")
    return sparse


def rows_of_first_and_second(torch: Any, tenon: Any, name: str) -> None:
    def read_views(composite: Any) -> Any:
        views = [getattr(composite, part).numpy() for part in CSR_PARTS]
        if views[0][0] != 1:
            raise RuntimeError("other values have arrived")
        return views

    def read_composite(composite: Any) -> Any:
        return read_in_torch(tenon.torch.to_torch(composite, trusted=True))

    def in_torch() -> Any:
        return private_in_torch(torch)

    def copied(sparse: Any) -> Any:
        return tenon.torch.from_torch(sparse, copy=True)

    def over_connection() -> Any:
        return Line(tenon, read_views)

    def on_queue() -> Any:
        return Queue(torch, read_composite)

    def on_plain_queue() -> Any:
        return Queue(torch, read_in_torch)

    ours = [
        Way(
            "tenon",
            over_connection,
            lambda: composite_in_tenon(tenon),
            verb="send",
            by="over a connection",
            at_least=5,
            is_born_shared=True,
        ),
        Way(
            "tenon",
            over_connection,
            in_torch,
            copied,
            verb="send",
            by="over a connection",
            at_least=5,
        ),
        Way("tenon", on_queue, in_torch, copied, verb="put", by="as a composite"),
        Way("tenon", on_plain_queue, in_torch, verb="put", by="by the drop-in"),
    ]
    theirs = [Way(strategy, on_plain_queue, in_torch) for strategy in STRATEGIES]
    read_composite(copied(in_torch()))  # forked processes inherit the imported modules
    for turn in range(2 if SMOKE else 21):
        for way in (*ours, *theirs):
            gc.collect()
            taken = way.run(torch)
            if turn:
                way.samples.append(taken)
    for i, number in enumerate(("first", "second", "later")):
        for way in ours:
            if i and way.is_born_shared:
                continue  # later sends would equal those of the copied tensor
            how = "" if i else ", made in shared memory" if way.is_born_shared else ", copied in"
            for peer in theirs:
                print_row(
                    f"{number} {way.verb} of {WHAT} {way.by}{how}",
                    "us",
                    f"{name}, {peer.strategy}",
                    {"of": "theirs/ours", "at_least": way.at_least},
                    *([taken[i] for taken in side.samples] for side in (way, peer)),
                )


def why_no_queue(torch: Any) -> str:
    """Returns why this PyTorch cannot send a CSR tensor, or "" if it can."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(torch.eye(2).to_sparse_csr())
    except (NotImplementedError, RuntimeError) as error:
        return str(error).splitlines()[0]
    return ""


# ---- check


def rows_of_check(torch: Any, tenon: Any, name: str) -> None:
    pointers, columns, values = (torch.from_numpy(array) for array in arrays())
    check_in_torch = torch._validate_sparse_csr_tensor_args

    def theirs() -> None:
        check_in_torch(pointers, columns, values, SHAPE)

    for mode, what in (("frozen", "frozen indices"), ("shared", "indices that are copied first")):
        composite = composite_in_tenon(tenon, mode)
        if (composite.check().parts["indices"].storage == composite.parts["indices"].storage) != (
            mode == "frozen"
        ):
            raise RuntimeError(f"the check of {mode} indices has not done what its row says")
        samples = interleave(
            2 if SMOKE else 20, lambda composite=composite: composite.check, lambda: theirs
        )  # type: ignore[misc]
        print_row(
            f"check {WHAT}, {what}",
            "ms",
            f"{name}'s check",
            None,
            *([second * 1e3 for second in side] for side in samples),
        )


def main() -> None:
    load_tenon()
    import tenon.torch
    import torch
    import torch.multiprocessing

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
    rows_against_parts(torch, tenon)
    why = why_no_queue(torch)
    if why:
        print(
            json.dumps(
                {
                    "left_out": (
                        f"PyTorch {torch.__version__} cannot send a CSR tensor through its queue:"
                        f" {why}"
                    )
                }
            ),
            flush=True,
        )
    else:
        tenon.torch.install()
        torch.sparse.check_sparse_tensor_invariants.disable()  # the default; unset, it warns
        rows_of_first_and_second(torch, tenon, torch_name(torch))
    rows_of_check(torch, tenon, f"PyTorch {torch.__version__.split('+')[0]}")


if __name__ == "__main__":
    main()
