"""300 tensors of 4 KiB in one call, Python to Python, against PyTorch's queue with both of its strategies.

Fresh: 300 private arrays (numpy; torch) become shared and are sent. Tenon copies each in by tenon.from_numpy, PyTorch's `put` copies
each into shared memory by itself. Shared: the 300 tensors are in shared memory already. On the other side both build all 300 views
(numpy; torch), read the first element of each, and acknowledge with one byte. Letting go is outside the clock.
"""

from __future__ import annotations

from typing import Any

from python_pair import SMOKE, STRATEGIES, Consumer, interleave, load_tenon, print_row, torch_name

PYTHON = "torch"
GOAL = {"of": "theirs/ours", "at_least": 30}
COUNT = 300
NBYTES = 4096


def main() -> None:
    tenon = load_tenon()
    import numpy
    import torch

    consumer = Consumer(torch, tenon)
    arrays = [numpy.full(NBYTES, i % 251, dtype="uint8") for i in range(COUNT)]
    tensors = [torch.from_numpy(array) for array in arrays]

    def measure(what: str, strategy: str, ours: Any, theirs: Any) -> None:
        started = [False]

        def prepare(side: str, make: Any) -> Any:
            if started[0]:
                consumer.settle()
            started[0] = True
            give = make()
            consumer.order(side, strategy if side == "theirs" else None)
            return give

        samples = interleave(1 if SMOKE else 30, lambda: prepare("ours", ours), lambda: prepare("theirs", theirs))
        consumer.settle()
        mine, peers = ([second * 1e3 for second in each] for each in samples)
        print_row(f"300 x 4 KiB in one call, {what}, Python", "ms", f"{torch_name(torch)}, {strategy}", GOAL, mine, peers)

    for strategy in STRATEGIES:

        def fresh_tenon() -> Any:
            return lambda: consumer.give_tenon([tenon.from_numpy(array) for array in arrays])

        def fresh_torch() -> Any:
            # put moves the tensors it is given, so each round needs private ones.
            private = [tensor.clone() for tensor in tensors]
            return lambda: consumer.give_torch(private)

        measure("fresh", strategy, fresh_tenon, fresh_torch)
        lent = [tenon.from_numpy(array) for array in arrays]
        torch.multiprocessing.set_sharing_strategy(strategy)
        shared = [tensor.clone().share_memory_() for tensor in tensors]
        measure(
            "shared",
            strategy,
            lambda lent=lent: lambda: consumer.give_tenon(lent),
            lambda shared=shared: lambda: consumer.give_torch(shared),
        )
    consumer.close()


if __name__ == "__main__":
    main()
