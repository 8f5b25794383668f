"""PyTorch's own sharing strategies and Tenon's, side by side: torch tensors through a multiprocessing queue to one idle process.

usage: put.py [--rounds N]

Runs with a Python that has PyTorch and Tenon. Each figure is the median time in µs from the put until the receiver has all tensors and
says so. The rounds of the strategies alternate, so that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

import tenon.torch.multiprocessing as mp
import torch

STRATEGIES = ("file_descriptor", "file_system", "tenon")


def receive(queue: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    while True:
        what = queue.get()
        if what is None:
            return
        answers.send(len(what))
        del what


class Receiver:
    """A process that receives, and the strategy by which it is sent to."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        mp.set_sharing_strategy(strategy)
        context = mp.get_context("fork")
        self.queue = context.Queue()
        self.answers, theirs = context.Pipe()
        self.process = context.Process(target=receive, args=(self.queue, theirs), daemon=True)
        self.process.start()

    def time(self, what: Any) -> float:
        mp.set_sharing_strategy(self.strategy)
        begin = time.perf_counter()
        self.queue.put(what)
        self.answers.recv()
        return (time.perf_counter() - begin) * 1e6

    def end(self) -> None:
        self.queue.put(None)
        self.process.join()


def fresh(n: int, numel: int) -> Any:
    return lambda strategy: [torch.ones(numel) for _ in range(n)]


def shared(n: int, numel: int) -> Any:
    made: dict[str, Any] = {}

    def make(strategy: str) -> Any:
        if strategy not in made:
            made[strategy] = [torch.ones(numel).share_memory_() for _ in range(n)]
        return made[strategy]

    return make


def model_weights() -> Any:
    layers = [torch.nn.TransformerEncoderLayer(256, 4, 1024) for _ in range(6)]
    return torch.nn.Sequential(*layers).state_dict()


def state_dict(again: bool) -> Any:
    weights = model_weights()
    made: dict[str, Any] = {}

    def make(strategy: str) -> Any:
        if not again:
            return {name: value.clone() for name, value in weights.items()}
        if strategy not in made:
            made[strategy] = {name: value.clone().share_memory_() for name, value in weights.items()}
        return made[strategy]

    return make


CASES = (
    ("300 fresh tensors of 4 KiB", fresh(300, 1024), 1),
    ("300 shared tensors of 4 KiB", shared(300, 1024), 1),
    ("1 fresh tensor of 4 KiB", fresh(1, 1024), 10),
    ("1 shared tensor of 4 KiB", shared(1, 1024), 10),
    ("1 fresh tensor of 16 MiB", fresh(1, 4 << 20), 1),
    ("1 shared tensor of 16 MiB", shared(1, 4 << 20), 10),
    ("state dict of a transformer, first put", state_dict(again=False), 1),
    ("state dict of a transformer, second put", state_dict(again=True), 1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="how many times each case is measured (20)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    receivers = [Receiver(strategy) for strategy in STRATEGIES]
    print(f"PyTorch {torch.__version__}, median of {rounds} rounds, µs from put until all tensors are there")
    print(f"{'':42}" + "".join(f"{strategy:>17}" for strategy in STRATEGIES) + f"{'ratios':>16}")
    for name, make, times in CASES:
        figures: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
        for number in range(rounds + 2):
            for receiver in receivers:
                mp.set_sharing_strategy(receiver.strategy)
                for _ in range(times):
                    what = make(receiver.strategy)
                    took = receiver.time(what)
                    del what
                    if number >= 2:
                        figures[receiver.strategy].append(took)
                gc.collect(0)
        medians = [statistics.median(figures[strategy]) for strategy in STRATEGIES]
        ratios = "  ".join(f"{median / medians[-1]:.1f}" for median in medians[:-1])
        print(f"{name:42}" + "".join(f"{median:17.0f}" for median in medians) + f"{ratios:>16}", flush=True)
    for receiver in receivers:
        receiver.end()


if __name__ == "__main__":
    main()
