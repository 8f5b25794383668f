"""The drop-in for torch.multiprocessing, queue and DataLoader, against PyTorch's own strategies.

Torch tensors go through a queue of torch.multiprocessing to one idle process. The queue is a Queue,
or a SimpleQueue, which has no thread of its own. The clock runs from `put` until the receiver
reports that it has the tensors. The receiver releases them outside the clock. Fresh: each round
makes private tensors outside the clock, and the send moves them to shared memory. Shared: the
tensors were sent before. The sides take turns of ten rounds, as in a loop of puts, and the first
two rounds of each turn do not count. One worker makes the batches of DataLoader, and the figure is
the mean of a whole pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from python_pair import SMOKE, STRATEGIES, Receiver, load_tenon, print_row

PYTHON = "torch"
ROUNDS = 10  # in each turn
BATCH_SIZE = 16
SAMPLE_NUMEL = 1 << 18


class Queue:
    """A queue to an idle process, with the strategy by which it sends."""

    def __init__(self, torch: Any, strategy: str, kind: str) -> None:
        self._mp = torch.multiprocessing
        self.strategy = strategy
        self._mp.set_sharing_strategy(strategy)
        queue = getattr(self._mp.get_context("fork"), kind)()
        self._receiver = Receiver(torch, queue.put, queue.get)

    def turn(self, make: Callable[[str], Any]) -> list[float]:
        """Returns the microseconds of each round except the first two."""
        self._mp.set_sharing_strategy(self.strategy)
        samples = []
        for _ in range(3 if SMOKE else ROUNDS):
            what = make(self.strategy)
            begin = time.perf_counter()
            self._receiver.give(what)
            samples.append((time.perf_counter() - begin) * 1e6)
            del what
            self._receiver.settle()
        return samples[2:]

    def close(self) -> None:
        self._receiver.close()


def fresh(torch: Any, n: int, numel: int) -> Callable[[str], Any]:
    return lambda strategy: [torch.ones(numel) for _ in range(n)]


def shared(torch: Any, n: int, numel: int) -> Callable[[str], Any]:
    made: dict[str, Any] = {}

    def make(strategy: str) -> Any:
        if strategy not in made:
            made[strategy] = [torch.ones(numel).share_memory_() for _ in range(n)]
        return made[strategy]

    return make


def state_dict(torch: Any, again: bool) -> Callable[[str], Any]:
    layers = [torch.nn.TransformerEncoderLayer(256, 4, 1024) for _ in range(6)]
    weights = torch.nn.Sequential(*layers).state_dict()
    made: dict[str, Any] = {}

    def make(strategy: str) -> Any:
        if not again:
            return {name: value.clone() for name, value in weights.items()}
        if strategy not in made:
            made[strategy] = {
                name: value.clone().share_memory_() for name, value in weights.items()
            }
        return made[strategy]

    return make


# What a case sends, how it makes that, the number of turns, and the goals: how many times as fast
# as each strategy of PyTorch Tenon must be.
Case = tuple[str, Callable[[str], Any], int, tuple[float, float]]


def queue_rows(torch: Any, name: str) -> None:
    cases = (
        ("300 fresh torch tensors of 4 KiB", fresh(torch, 300, 1024), 4, (20, 10)),
        ("300 shared torch tensors of 4 KiB", shared(torch, 300, 1024), 4, (40, 15)),
        ("1 fresh torch tensor of 4 KiB", fresh(torch, 1, 1024), 25, (1, 1)),
        ("1 shared torch tensor of 4 KiB", shared(torch, 1, 1024), 25, (3, 1.5)),
        ("1 fresh torch tensor of 16 MiB", fresh(torch, 1, 4 << 20), 4, (1, 1)),
        ("1 shared torch tensor of 16 MiB", shared(torch, 1, 4 << 20), 25, (1, 1)),
        ("a transformer's state dict, first put", state_dict(torch, again=False), 4, (5, 5)),
        ("a transformer's state dict, second put", state_dict(torch, again=True), 4, (30, 1)),
    )
    measure(torch, name, "Queue", cases)
    simple = (
        ("1 fresh torch tensor of 4 KiB, SimpleQueue", fresh(torch, 1, 1024), 25, (1, 1)),
        ("1 shared torch tensor of 4 KiB, SimpleQueue", shared(torch, 1, 1024), 25, (3, 1.5)),
    )
    measure(torch, name, "SimpleQueue", simple)


def measure(torch: Any, name: str, kind: str, cases: tuple[Case, ...]) -> None:
    queues = {strategy: Queue(torch, strategy, kind) for strategy in (*STRATEGIES, "tenon")}
    ours = queues["tenon"]
    for what, make, turns, goals in cases:
        for strategy, goal in zip(STRATEGIES, goals, strict=True):
            samples: tuple[list[float], list[float]] = ([], [])
            for _ in range(1 if SMOKE else turns):
                for side, queue in enumerate((ours, queues[strategy])):
                    samples[side].extend(queue.turn(make))
            print_row(
                f"put {what}",
                "us",
                f"{name}, {strategy}",
                {"of": "theirs/ours", "at_least": goal},
                *samples,
            )
    for queue in queues.values():
        queue.close()


def loader_rows(torch: Any, name: str) -> None:
    from torch.utils.data import DataLoader

    sample = torch.ones(SAMPLE_NUMEL)
    n = 4 if SMOKE else 50
    samples = [(sample, number) for number in range((n + 2) * BATCH_SIZE)]

    def mean_ms(strategy: str) -> float:
        torch.multiprocessing.set_sharing_strategy(strategy)
        left = iter(
            DataLoader(
                samples, batch_size=BATCH_SIZE, num_workers=1, multiprocessing_context="fork"
            )
        )
        next(left)
        next(left)
        begin = time.perf_counter()
        count = sum(1 for _ in left)
        return (time.perf_counter() - begin) / count * 1e3

    for strategy in STRATEGIES:
        pairs = [(mean_ms("tenon"), mean_ms(strategy)) for _ in range(1 if SMOKE else 4)]
        ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
        goal = {"of": "theirs/ours", "at_least": 4}
        print_row(
            "a batch of 16 MiB from DataLoader", "ms", f"{name}, {strategy}", goal, ours, theirs
        )


def main() -> None:
    load_tenon()
    import tenon.torch
    import torch
    import torch.multiprocessing

    tenon.torch.install()
    torch.set_num_threads(1)
    name = f"PyTorch {torch.__version__.split('+')[0]}"
    queue_rows(torch, name)
    loader_rows(torch, name)


if __name__ == "__main__":
    main()
