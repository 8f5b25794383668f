"""1 to 1,000 tensors of 4 KiB in one call, Python to Python, against both of PyTorch's strategies.

Fresh: private arrays (numpy; torch) become shared and are sent. Tenon copies each one into shared
memory by tenon.from_numpy. PyTorch's `put` copies each one by itself. Shared: the tensors are in
shared memory already. The consumer builds all views (numpy; torch), reads the first element of
each view, and acknowledges with one byte. The release of the tensors is outside the clock. The goal
is on 300 tensors.
"""

from __future__ import annotations

import json
import resource
from typing import Any

from python_pair import SMOKE, STRATEGIES, Consumer, interleave, load_tenon, print_row, torch_name

PYTHON = "torch"
GOAL = {"of": "theirs/ours", "at_least": 30}
GOAL_COUNT = 300
NBYTES = 4096
# The numbers of tensors, with their rounds. A smoke run leaves out 1,000, which take PyTorch half a
# second.
COUNTS = {1: 100, 10: 60, 100: 20, GOAL_COUNT: 30, 1000: 8}
SMOKE_COUNTS = {10: 1, GOAL_COUNT: 1}


def too_few_fds(count: int, strategy: str) -> bool:
    """Whether the fd limit is too low: PyTorch's default strategy holds several fds for each tensor
    in flight.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return strategy == "file_descriptor" and allowed < 3 * count


def main() -> None:
    tenon = load_tenon()
    import numpy
    import torch

    consumer = Consumer(torch, tenon)
    orders = [0]

    def measure(count: int, rounds: int, what: str, strategy: str, ours: Any, theirs: Any) -> None:
        def prepare(side: str, make: Any) -> Any:
            if orders[0]:
                consumer.settle()
            orders[0] += 1
            give = make()
            consumer.order(side, strategy if side == "theirs" else None)
            return give

        samples = interleave(
            rounds,
            lambda: prepare("ours", ours),
            lambda: prepare("theirs", theirs),
        )
        mine, peers = ([second * 1e3 for second in each] for each in samples)
        print_row(
            f"{count} x 4 KiB in one call, {what}, Python",
            "ms",
            f"{torch_name(torch)}, {strategy}",
            GOAL if count == GOAL_COUNT else None,
            mine,
            peers,
        )

    for strategy in STRATEGIES:
        for count, rounds in (SMOKE_COUNTS if SMOKE else COUNTS).items():
            name = f"{count} x 4 KiB in one call, {strategy}"
            if too_few_fds(count, strategy):
                print(json.dumps({"left_out": f"{name}: RLIMIT_NOFILE is too low for PyTorch"}))
                continue
            arrays = [numpy.full(NBYTES, i % 251, dtype="uint8") for i in range(count)]
            tensors = [torch.from_numpy(array) for array in arrays]

            def fresh_tenon(arrays: Any = arrays) -> Any:
                return lambda: consumer.give_tenon([tenon.from_numpy(array) for array in arrays])

            def fresh_torch(tensors: Any = tensors) -> Any:
                # put moves its tensors to shared memory, so each round needs private ones.
                private = [tensor.clone() for tensor in tensors]
                return lambda: consumer.give_torch(private)

            measure(count, rounds, "fresh", strategy, fresh_tenon, fresh_torch)
            lent = [tenon.from_numpy(array) for array in arrays]
            torch.multiprocessing.set_sharing_strategy(strategy)
            shared = [tensor.clone().share_memory_() for tensor in tensors]
            measure(
                count,
                rounds,
                "shared",
                strategy,
                lambda lent=lent: lambda: consumer.give_tenon(lent),
                lambda shared=shared: lambda: consumer.give_torch(shared),
            )
    consumer.settle()
    consumer.close()


if __name__ == "__main__":
    main()
