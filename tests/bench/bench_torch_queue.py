"""One tensor of 4 KiB to 64 MiB, Python to Python, against PyTorch's queue, both strategies.

New: each round makes a tensor, fills it, sends it, and waits for one byte of acknowledgement. The
consumer builds its view (numpy or torch) and reads the first element. Known: the tensor is in
shared memory already and is sent repeatedly. Tenon makes its tensors in shared memory. PyTorch's
tensors are private, and `put` copies them into shared memory, as its users have it. The tensor is
released outside the clock.
"""

from __future__ import annotations

from typing import Any

from python_pair import SMOKE, STRATEGIES, Consumer, interleave, load_tenon, print_row, torch_name

PYTHON = "torch"
GOAL = None
SIZES = (
    ("4 KiB", 4 << 10, 300),
    ("16 KiB", 16 << 10, 200),
    ("64 KiB", 64 << 10, 200),
    ("256 KiB", 256 << 10, 150),
    ("1 MiB", 1 << 20, 100),
    ("4 MiB", 4 << 20, 50),
    ("16 MiB", 16 << 20, 25),
    ("64 MiB", 64 << 20, 15),
)


def main() -> None:
    tenon = load_tenon()
    import torch

    consumer = Consumer(torch, tenon)

    def measure(what: str, strategy: str, rounds: int, give_ours: Any, give_theirs: Any) -> None:
        started = [False]

        def prepare(side: str, give: Any) -> Any:
            if started[0]:
                consumer.settle()
            started[0] = True
            consumer.order(side, strategy if side == "theirs" else None)
            return give

        samples = interleave(
            2 if SMOKE else rounds,
            lambda: prepare("ours", give_ours),
            lambda: prepare("theirs", give_theirs),
        )
        consumer.settle()
        ours, theirs = ([second * 1e6 for second in each] for each in samples)
        print_row(
            f"hand over {what}, Python",
            "us",
            f"{torch_name(torch)}, {strategy}",
            GOAL,
            ours,
            theirs,
        )

    for name, nbytes, rounds in SIZES[::4] if SMOKE else SIZES:
        for strategy in STRATEGIES:

            def new_tenon(nbytes: int = nbytes) -> None:
                tensor = tenon.empty(nbytes, "uint8")
                tensor.numpy().fill(1)
                consumer.give_tenon(tensor)

            def new_torch(nbytes: int = nbytes) -> None:
                consumer.give_torch(torch.full((nbytes,), 1, dtype=torch.uint8))

            measure(f"{name}, new", strategy, rounds, new_tenon, new_torch)
            ours = tenon.zeros(nbytes, "uint8")
            torch.multiprocessing.set_sharing_strategy(strategy)
            theirs = torch.zeros(nbytes, dtype=torch.uint8).share_memory_()
            measure(
                f"{name}, known",
                strategy,
                rounds,
                lambda ours=ours: consumer.give_tenon(ours),
                lambda theirs=theirs: consumer.give_torch(theirs),
            )
    consumer.close()


if __name__ == "__main__":
    main()
