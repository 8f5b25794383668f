#!/usr/bin/env python3
"""Time of lending and opening device memory: Tenon against PyTorch, and against the driver's bare calls. A table in Markdown.

    bench.py [--raw] [--quick]

Each row is a median in microseconds. Without PyTorch its column is empty.
(tests/bench/cuda.cc is about the fake driver alone: it counts calls.)
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import traceback
from typing import Any

from sides import ON_THE_FAKE, Borrower, new_side, timed
from torch_suite import torch_lacks

KIB, MIB = 1 << 10, 1 << 20


def median(times: list[float]) -> float:
    return statistics.median(times)


def known(name: str, memory: str, count: int, sizes: int) -> tuple[float, float]:
    """Share and open of tensors of memory that both know."""
    side, borrower = new_side(name, memory), Borrower(name, memory)
    tensors = [side.make(bytes(sizes)) for _ in range(count)]
    messages: list[Any] = []
    # Once before, so that handles and mappings are there.
    borrower.ask("hold", [side.lend(tensors[0])])
    shares = timed(tensors, lambda tensor: messages.append(side.lend(tensor)))
    opened = borrower.ask("times", messages)
    borrower.end()
    side.settle_once()
    return median(shares), median(opened)


def new_allocation(memory: str, rounds: int) -> tuple[float, float]:
    """Open and give back of an allocation that nobody has open: Tenon, and the driver's two calls."""
    side, borrower = new_side("tenon", memory), Borrower("tenon", memory)
    ours, theirs = [], []
    for _ in range(rounds):
        tensor = side.make(bytes(32 * MIB))
        message = side.lend(tensor)
        ours += borrower.ask("cycles", [message])
        handle = message.items[1]
        theirs += borrower.ask("bare", [handle])
        del tensor
        side.settle()
    borrower.end()
    return median(ours), median(theirs)


def round_trip(name: str, memory: str, count: int) -> float:
    """A tensor of 1 KiB through a pipe, until its consumer has it and says so."""
    side, borrower = new_side(name, memory), Borrower(name, memory)
    if name == "torch":
        import torch.multiprocessing  # noqa: F401  (teaches pickling about tensors)
    tensors = [side.make(bytes(KIB)) for _ in range(count)]

    def go(tensor: Any) -> None:
        borrower.ask("there", tensor) if name == "torch" else borrower.ask("cycles", [side.lend(tensor)])

    go(tensors[0])
    times = timed(tensors, go)
    borrower.end()
    return median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--raw", action="store_true", help="without PyTorch, with memory of the driver itself")
    arguments = parser.parse_args()
    count, rounds = (50, 3) if arguments.quick else (1000, 30)
    lacks = "--raw was said" if arguments.raw else torch_lacks()
    memory = "raw" if lacks else "torch"
    rows: list[tuple[str, float, str, float | None]] = []
    ours = known("tenon", memory, count, KIB)
    theirs = (None, None) if lacks else known("torch", memory, count, KIB)
    rows.append(("share a tensor of a known allocation", ours[0], "PyTorch", theirs[0]))
    rows.append(("open a tensor of a known allocation", ours[1], "PyTorch", theirs[1]))
    ours_new, bare = new_allocation(memory, rounds)
    rows.append(("open and give back a new allocation of 32 MiB", ours_new, "cuIpcOpenMemHandle, cuIpcCloseMemHandle", bare))
    trips = round_trip("tenon", memory, count), None if lacks else round_trip("torch", memory, count)
    rows.append(("send 1 KiB until it is there, through a pipe", trips[0], "PyTorch", trips[1]))
    if lacks:
        print(f"PyTorch's column is empty: {lacks}")
    if ON_THE_FAKE:
        print("FAKE: the driver of tests/fake_cuda; these times say nothing of CUDA")
    print(f"| median, us{', FAKE' if ON_THE_FAKE else ''} | Tenon | against | |\n|---|---|---|---|")
    for what, our, against, their in rows:
        print(f"| {what} | {our:.1f} | {against} | {'' if their is None else f'{their:.1f}'} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        # Tensors of an exception's frames would outlive what their deleters need of the interpreter.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
