"""tenon.Queue against PyTorch's queues: a tensor of 4 KiB to and fro, and 300 of them in one put.

Known: the tensor is in shared memory already and is sent repeatedly. New: each message has a new
tensor, which its sender fills. The receiver builds a view (numpy or torch) and reads its first
element. A row of 300 ends when an empty answer is back. There, "fresh" means arrays or tensors in
private memory, which put copies, and each array has a storage of its own.
"""

from __future__ import annotations

from typing import Any

from python_pair import SMOKE, STRATEGIES, load_tenon, print_row, torch_name
from queue_ends import MANY, NBYTES, Pair, TenonEnds

PYTHON = "torch"


class TorchEnds:
    """One process's end of two of PyTorch's queues."""

    def __init__(self, to: Any, back: Any) -> None:
        import torch

        self._torch, self._put, self._get = torch, to.put, back.get

    def set_strategy(self, strategy: str) -> None:
        self._torch.multiprocessing.set_sharing_strategy(strategy)
        # A tensor keeps the strategy by which it came into shared memory.
        self._known = self._shared()
        self._many: list[Any] = []

    def _shared(self) -> Any:
        return self._torch.zeros(NBYTES, dtype=self._torch.uint8).share_memory_()

    def echo_file_descriptor(self, count: int) -> None:
        self.set_strategy("file_descriptor")

    def echo_file_system(self, count: int) -> None:
        self.set_strategy("file_system")

    ask_file_descriptor = echo_file_descriptor
    ask_file_system = echo_file_system

    def _new(self) -> Any:
        return self._torch.full((NBYTES,), 1, dtype=self._torch.uint8)

    def ask_known(self, count: int) -> None:
        for _ in range(count):
            self._put(self._known)
            self._get()[0]

    def echo_known(self, count: int) -> None:
        for _ in range(count):
            self._get()[0]
            self._put(self._known)

    def ask_new(self, count: int) -> None:
        for _ in range(count):
            self._put(self._new())
            self._get()[0]

    def echo_new(self, count: int) -> None:
        for _ in range(count):
            self._get()[0]
            self._put(self._new())

    def ask_many_known(self, count: int) -> None:
        # The first round makes them. It only warms up.
        self._many = self._many or [self._shared() for _ in range(MANY)]
        for _ in range(count):
            self._put(self._many)
            self._get()

    def ask_many_fresh(self, count: int) -> None:
        """put moves the tensors into shared memory, so each message needs other ones."""
        for _ in range(count):
            self._put([self._new() for _ in range(MANY)])
            self._get()

    def echo_many_known(self, count: int) -> None:
        for _ in range(count):
            for tensor in self._get():
                tensor[0]
            self._put(None)

    echo_many_fresh = echo_many_known


def main() -> None:
    tenon = load_tenon()
    import torch
    import torch.multiprocessing as multiprocessing

    torch.set_num_threads(1)
    context = multiprocessing.get_context("spawn")
    makers: dict[str, tuple[Any, Any, Any]] = {
        "ours": (TenonEnds, tenon.Queue(), tenon.Queue()),
        "SimpleQueue": (TorchEnds, context.SimpleQueue(), context.SimpleQueue()),
        "Queue": (TorchEnds, context.Queue(), context.Queue()),
    }
    there = {name: (maker, back, to) for name, (maker, to, back) in makers.items()}
    pair = Pair(context, makers, there)
    version = torch_name(torch).removesuffix(" queue")

    def measure(what: str, kind: str, unit: str, name: str, strategy: str, goal: float) -> None:
        is_many = kind.startswith("many")
        rounds = 2 if SMOKE else 20 if is_many else 50
        # PyTorch's warm-up is short, because nothing of it spins.
        warm_up, count = (5, 10) if is_many else (50, 200)
        if SMOKE:
            warm_up, count = 2, 2
        ours, theirs = [], []
        pair.time(name, strategy, 0, 1)
        for turn in range(rounds + 1):
            samples = (
                pair.time("ours", kind, warm_up, count),
                pair.time(name, kind, 1, 1 if is_many else 10),
            )
            if turn > 0:
                ours.append(samples[0])
                theirs.append(samples[1])
        scale = 1e3 if unit == "ms" else 1e6
        print_row(
            f"{what} by tenon.Queue, Python",
            unit,
            f"{version} {name}, {strategy}",
            {"of": "ours", "at_most": goal},
            [second * scale for second in ours],
            [second * scale for second in theirs],
        )

    # A smoke run has one row of each kind. The other rows differ in PyTorch's part alone.
    default, other = STRATEGIES
    for name, strategy in (("SimpleQueue", default), ("SimpleQueue", other), ("Queue", default)):
        measure("4 KiB known, to and fro", "known", "us", name, strategy, 2)
        measure("4 KiB new, to and fro", "new", "us", name, strategy, 2)
        if SMOKE:
            break
    for strategy in STRATEGIES[:1] if SMOKE else STRATEGIES:
        measure("300 x 4 KiB known", "many_known", "ms", "Queue", strategy, 0.3)
        measure("300 x 4 KiB fresh", "many_fresh", "ms", "Queue", strategy, 0.5)
    pair.close()


if __name__ == "__main__":
    main()
