"""SPDL's iterate_in_subprocess without an arena, with SPDL's own arenas and with Tenon's, side by
side.

usage: spdl_arena.py [--rounds N] [--method fork|spawn|forkserver] [--read] [--units N] [--size
       64KiB|1MiB|16MiB]…

Runs with a Python that has Tenon, numpy and PyPI's spdl_core. The first row of a payload has the
median time in µs for one item, from the first item of an iteration to its last. The second row has
the time that both processes were on a CPU, which a busy machine disturbs less. The worker yields
one array again and again. The consumer looks at one byte of each item, or with --read at all of
them, and drops it. All arenas have room for as many units (--units, 8). The rounds alternate, each
in a random order, so that a slow moment of the machine meets all.

A ratio is the median over the rounds of the time of SPDL's arena of the same kind over Tenon's. The
pool and Tenon's "views" give views, the ring and Tenon's "copies" give copies. Above 1, Tenon is
faster.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from functools import partial
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SIZES = {"64KiB": 1 << 16, "1MiB": 1 << 20, "16MiB": 1 << 24}
NONE, POOL, RING, VIEWS, COPIES = (
    "no arena",
    "SPDL pool",
    "SPDL ring",
    "Tenon views",
    "Tenon copies",
)
WAYS = (NONE, POOL, RING, VIEWS, COPIES)


class Source:
    def __init__(self, count: int, nbytes: int) -> None:
        self.count = count
        self.nbytes = nbytes

    def __iter__(self) -> Iterator[Any]:
        import numpy as np

        array = np.ones(self.nbytes, "uint8")
        for _ in range(self.count):
            yield array


def start_silent_tracker() -> None:
    """SPDL's arenas unregister each of their names twice, and the resource tracker prints a
    traceback for each.
    """
    from multiprocessing import resource_tracker

    sys.stderr.flush()
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    resource_tracker.ensure_running()
    os.dup2(kept, 2)
    os.close(kept)
    os.close(silent)


def arena(way: str, nbytes: int, units: int) -> Any:
    from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool
    from tenon.integrations.spdl import Arena

    if way == POOL:
        return SharedMemorySegmentPool(nbytes, units)
    if way == RING:
        return SharedMemoryRingBuffer(nbytes * units)
    if way in (VIEWS, COPIES):
        return Arena(nbytes * units, zero_copy=way == VIEWS)
    return None


def on_cpu(pid: int) -> float:
    """Returns the seconds for which the threads of a process were on a CPU."""
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        nanoseconds += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return nanoseconds / 1e9


def time_iteration(iterable: Any, reads: bool) -> tuple[float, float]:
    """Returns microseconds for one item: wall time, and CPU time of both processes."""
    worker = iterable._interface.process.pid
    items = iter(iterable)
    next(items)
    count = 0
    busy = on_cpu(worker) + time.process_time()
    begin = time.perf_counter()
    for item in items:
        count += int(item.min() if reads else item[-1])
    end = time.perf_counter()
    busy = on_cpu(worker) + time.process_time() - busy
    return (end - begin) / count * 1e6, busy / count * 1e6


def print_row(name: str, rounds: list[dict[str, float]]) -> None:
    medians = [statistics.median(figures[way] for figures in rounds) for way in WAYS]
    ratios = [
        statistics.median(figures[theirs] / figures[ours] for figures in rounds)
        for theirs, ours in ((POOL, VIEWS), (RING, COPIES))
    ]
    print(
        f"{name:12}"
        + "".join(f"{median:14.1f}" for median in medians)
        + "".join(f"{ratio:11.2f}x" for ratio in ratios),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--method", default="fork", choices=("fork", "spawn", "forkserver"))
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--size", action="append", choices=SIZES)
    parser.add_argument("--read", action="store_true")
    options = parser.parse_args()
    from spdl.pipeline import iterate_in_subprocess

    start_silent_tracker()
    print(
        f"{'payload':12}"
        + "".join(f"{way:>14}" for way in WAYS)
        + f"{'views/pool':>12}{'copies/ring':>12}   (µs for one item)"
    )
    for size in options.size or SIZES:
        nbytes = SIZES[size]
        count = max(20, min(500, (1 << 28) // nbytes))
        iterables = {
            way: iterate_in_subprocess(
                partial(Source, count, nbytes),
                mp_context=options.method,
                arena=arena(way, nbytes, options.units),
            )
            for way in WAYS
        }
        clock: list[dict[str, float]] = []
        cpu: list[dict[str, float]] = []
        for number in range(options.rounds + 1):
            figures = {
                way: time_iteration(iterables[way], options.read)
                for way in random.sample(WAYS, len(WAYS))
            }
            if number:  # the first round faults the pages in
                clock.append({way: figure[0] for way, figure in figures.items()})
                cpu.append({way: figure[1] for way, figure in figures.items()})
        iterables.clear()
        print_row(size, clock)
        print_row("  CPU", cpu)


if __name__ == "__main__":
    main()
