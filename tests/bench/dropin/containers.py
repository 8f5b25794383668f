"""tenon.torch.SharedList against a list: memory of all processes with the start method forkserver,
and the time to read an item.

usage: containers.py [--count N] [--workers N] [--runs N] [--torch] [--no-list]

The memory is the proportional set size (PSS) of the main process and its workers, after each has
read all strings. That of the same processes with an empty list is taken away. --torch imports
PyTorch in all of them. --no-list leaves out the list, of which every process has a copy. The reads
are at random indices, from 1,000,000 items at most. Their time is that of the CPU, the least of
several rounds. The arrays of the list are copied.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import statistics
import subprocess
import sys
import time
import timeit
from typing import Any

import numpy
from tenon.torch.containers import SharedDict, SharedList, SharedTensor

MIB = 1 << 20


def path(number: int) -> str:
    return f"/data/train/class_{number % 1000:03}/{number:08}.jpg"


def pss() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10


def work(items: Any, has_torch: bool, read: Any, measured: Any, results: Any) -> None:
    if has_torch:
        import torch  # noqa: F401
    total = sum(map(len, items))
    gc.collect()
    read.wait()
    results.put((total, pss()))
    measured.wait()


def measure_memory(kind: str, count: int, workers: int, has_torch: bool) -> None:
    """Prints the PSS of all processes, the packed bytes, and the seconds that packing took."""
    if has_torch:
        import torch  # noqa: F401
    context = multiprocessing.get_context("forkserver")
    source = map(path, range(0 if kind == "empty" else count))
    begin = time.perf_counter()
    items: Any = list(source) if kind == "list" else SharedList(source)
    seconds = time.perf_counter() - begin
    read, measured, results = context.Barrier(workers + 1), context.Event(), context.Queue()
    begin = time.perf_counter()
    processes = [
        context.Process(target=work, args=(items, has_torch, read, measured, results))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    starting = time.perf_counter() - begin
    total = sum(map(len, items))
    read.wait()
    answers = [results.get() for _ in processes]
    whole = pss() + sum(bytes_ for _, bytes_ in answers)
    measured.set()
    for process in processes:
        process.join()
    if any(answer[0] != total for answer in answers):
        raise SystemExit("a worker has read other strings")
    print(whole, items.nbytes if kind == "shared" else 0, seconds, starting)


def compare_memory(options: argparse.Namespace) -> None:
    kinds = ["empty", "shared"] if options.no_list else ["empty", "shared", "list"]
    rows: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for _ in range(options.runs):
        for kind in kinds:
            command = [
                sys.executable,
                __file__,
                "--one",
                kind,
                "--count",
                str(options.count),
                "--workers",
                str(options.workers),
            ]
            output = subprocess.run(
                command + ["--torch"] * options.torch, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            rows[kind].append([float(word) for word in output.split()])
    middle = {
        kind: [statistics.median(column) for column in zip(*samples, strict=True)]
        for kind, samples in rows.items()
    }
    empty, packed = middle["empty"][0], middle["shared"][1]
    print(
        f"{options.count:,} strings, {options.workers} workers, forkserver; packed:"
        f" {packed / MIB:.1f} MiB; medians of {options.runs} runs"
    )
    print(
        f"{'':12} {'PSS':>10} {'less empty':>12} {'of packed':>10} {'making it':>10}"
        f" {'starting':>10}"
    )
    for kind, (whole, _, seconds, starting) in middle.items():
        extra = whole - empty
        print(
            f"{kind:12} {whole / MIB:6.1f} MiB {extra / MIB:8.1f} MiB {extra / packed:10.2f}"
            f" {seconds:8.2f} s {starting:8.2f} s"
        )


def least(run: Any, count: int) -> float:
    # CPU time is not affected by other processes on the machine, unlike wall time.
    return min(timeit.repeat(run, timer=time.process_time, number=1, repeat=15)) / count * 1e6


def microseconds(read: Any, indices: list[Any]) -> float:
    return least(lambda: [read[index] for index in indices], len(indices))


def compare_reads(count: int) -> None:
    count = min(count, 1_000_000)
    few = min(count, 100_000)
    chance = random.Random(1)
    rows: list[tuple[str, int, Any]] = [
        ("str", count, path),
        ("int", few, lambda number: number),
        ("tuple (str, int)", few, lambda number: (path(number), number)),
        ("dict of str and int", few, lambda number: {"path": path(number), "label": number}),
        ("list of 100 ints", few, lambda number: [number] * 100),
        ("mixed", few, lambda number: [path(number), None, number, 0.5]),
        ("array, 1 KiB", few // 10, lambda number: numpy.full(256, number, "f4")),
        ("array, 1 MiB", 20, lambda number: numpy.full(MIB // 4, number, "f4")),
        ("array, 64 MiB", 2, lambda number: numpy.full(16 * MIB, number, "f4")),
    ]
    print(f"\n{'a read at random, µs':24} {'SharedList':>10} {'list':>10}")
    for name, number, make in rows:
        shared = SharedList(map(make, range(number)))
        indices = [chance.randrange(number) for _ in range(min(number, 10_000))]
        plain = [make(index) for index in range(number)]
        if isinstance(plain[0], numpy.ndarray):
            known = least(lambda plain=plain: [item.copy() for item in plain], len(plain))
        else:
            known = microseconds(plain, indices)
        print(f"{name:24} {microseconds(shared, indices):10.3f} {known:10.3f}")
        del shared, plain
    keys = [path(number) for number in range(few)]
    mapping = SharedDict({key: number for number, key in enumerate(keys)})
    asked = [chance.choice(keys) for _ in range(10_000)]
    known = microseconds({key: number for number, key in enumerate(keys)}, asked)
    print(f"{'SharedDict, a str key':24} {microseconds(mapping, asked):10.3f} {known:10.3f}")
    tensor = SharedTensor(numpy.zeros((1000, 256), "f4"))
    print(
        f"{'SharedTensor, 1 KiB row':24}"
        f" {microseconds(tensor, [chance.randrange(1000) for _ in range(10_000)]):10.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="memory and reading time of tenon.torch.SharedList"
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--no-list", action="store_true")
    parser.add_argument("--one", choices=("empty", "shared", "list"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure_memory(options.one, options.count, options.workers, options.torch)
        return
    compare_memory(options)
    compare_reads(options.count)


if __name__ == "__main__":
    main()
