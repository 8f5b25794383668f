"""Weights that processes share by a name: attach, load, take over, against safetensors and copies.

The file is in the page cache. A worker is a process that has opened another file of weights and
waits for orders, so that the start of Python and its imports are not counted. "To the first byte"
means that a worker has opened the name and has read one element.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

ROUNDS = 3 if SMOKE else 15
MIB = 1 << 20
PAGE = mmap.PAGESIZE
WORKERS = 8
# A worker has the name of the process that started it.
NAME = sys.argv[3] if sys.argv[1:2] == ["--work"] else f"tenon-bench-{os.getpid()}"


def write_file(path: Path, count: int, nbytes: int) -> None:
    """Writes a safetensors file of `count` tensors of float32, `nbytes` in all."""
    each = nbytes // count // 4 * 4
    header = json.dumps(
        {
            f"model.layers.{number // 12}.experts.{number % 12}.down_proj.weight": {
                "dtype": "F32",
                "shape": [each // 4],
                "data_offsets": [number * each, (number + 1) * each],
            }
            for number in range(count)
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    block = os.urandom(min(each, MIB))
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for _ in range(count):
            for done in range(0, each, len(block)):
                file.write(block[: each - done])


# ---- workers


def pss_nbytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("smaps_rollup has no Pss")


def work(path: str) -> None:
    """Runs a worker: each line of standard input is an order, and each answer is one line."""
    import tenon

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        write_file(Path(file.name), 1, PAGE)
        tenon.open_weights(file.name)["model.layers.0.experts.0.down_proj.weight"].numpy().max()
        with contextlib.suppress(ImportError):
            from safetensors.numpy import load_file

            load_file(file.name)
    held: Any = None
    for line in sys.stdin:
        order = line.strip()
        begin = time.perf_counter()
        if order == "attach":
            held = tenon.weights.open(path, name=NAME)
            held[held.names()[0]].numpy()[0]
        elif order == "attach all":
            held = tenon.weights.open(path, name=NAME)
            for name in held.names():
                held[name].numpy()[:: PAGE // 4].max()
        elif order == "load all":
            held = load_file(path)
        elif order == "drop":
            held = None
        answer = pss_nbytes() if order == "pss" else time.perf_counter() - begin
        print(answer, flush=True)


class Worker:
    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", __file__, "--work", str(path), NAME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.do("ready")

    def order(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()

    def answer(self) -> float:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            raise RuntimeError("a worker ended")
        return float(line)

    def do(self, order: str) -> float:
        self.order(order)
        return self.answer()

    def end(self, by: int = signal.SIGKILL) -> None:
        self._process.send_signal(by)
        self._process.communicate()


def all_do(workers: list[Worker], order: str) -> list[float]:
    for worker in workers:
        worker.order(order)
    return [worker.answer() for worker in workers]


# ---- rows


def attach_rows(tenon: Any, folder: Path) -> None:
    large = 64 if SMOKE else 512
    cases = [(1000, large, 5), (10_000, large, 10)]
    if not SMOKE:
        cases.append((1000, 4096, 5))
    for count, mib, goal_ms in cases:
        path = folder / "attach.safetensors"
        write_file(path, count, mib * MIB)
        with tenon.weights.open(path, name=NAME):
            samples = []
            holders = [Worker(path) for _ in range(0 if SMOKE else 8)]
            all_do(holders, "attach")
            for _ in range(ROUNDS):
                worker = Worker(path)
                samples.append(worker.do("attach") * 1e3)
                worker.end()
            for holder in holders:
                holder.end()
        path.unlink()
        print_row(
            f"a tenth process attaches to {mib} MiB in {count} tensors, to the first byte",
            "ms",
            "",
            {"of": "ours", "at_most": goal_ms},
            samples,
            [],
        )


def read_in_parallel(path: Path, threads: int) -> None:
    """Reads the file into fresh shared memory with that many threads, each its own part."""
    nbytes = path.stat().st_size
    source, target = os.open(path, os.O_RDONLY), os.memfd_create("bench")
    os.ftruncate(target, nbytes)
    with mmap.mmap(target, nbytes) as memory, memoryview(memory) as view:
        part = -(-nbytes // threads)

        def read(begin: int) -> None:
            end = min(begin + part, nbytes)
            while begin < end:
                with view[begin : min(begin + 8 * MIB, end)] as piece:
                    begin += os.preadv(source, [piece], begin)

        running = [threading.Thread(target=read, args=(i * part,)) for i in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    os.close(source)
    os.close(target)


def load_rows(tenon: Any, path: Path) -> None:
    mib = path.stat().st_size // MIB

    def ours() -> None:
        with tenon.weights.open(path, name=NAME):
            pass

    best = min(
        range(1, 5),
        key=lambda threads: min(
            interleave(2, lambda: lambda: read_in_parallel(path, threads), lambda: lambda: None)[0]
        ),
    )
    seconds = interleave(ROUNDS, lambda: ours, lambda: lambda: read_in_parallel(path, best))
    print_row(
        f"the first process loads {mib} MiB",
        "ms",
        f"reads by {best} threads into fresh shared memory",
        {"of": "theirs/ours", "at_least": 0.9},
        [one * 1e3 for one in seconds[0]],
        [one * 1e3 for one in seconds[1]],
    )


def mapped_rows(tenon: Any, path: Path) -> None:
    import numpy

    def ours() -> None:
        with tenon.open_weights(path) as weights:
            for name in weights.names():
                weights[name].numpy()[:: PAGE // 4].max()

    def theirs() -> None:
        with path.open("rb") as file:
            bare = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            numpy.frombuffer(bare, numpy.float32, bare.size() // 4)[:: PAGE // 4].max()

    seconds = interleave(ROUNDS, lambda: ours, lambda: theirs)
    print_row(
        f"map a file of {path.stat().st_size // MIB} MiB and read a number of each page",
        "ms",
        "mmap of the bare file",
        {"of": "ours/theirs", "at_most": 1.5},
        [one * 1e3 for one in seconds[0]],
        [one * 1e3 for one in seconds[1]],
    )


def worker_rows(path: Path) -> None:
    mib = path.stat().st_size // MIB
    workers = [Worker(path) for _ in range(WORKERS)]
    holder = Worker(path)
    rounds = 1 if SMOKE else 5

    def measure(order: str) -> tuple[float, float]:
        """Returns the milliseconds, and the growth of the workers' memory in MiB."""
        before = sum(all_do(workers, "pss"))
        begin = time.perf_counter()
        all_do(workers, order)
        end = time.perf_counter()
        grown = sum(all_do(workers, "pss")) - before
        all_do(workers, "drop")
        return (end - begin) * 1e3, grown / MIB

    cold = [(measure("attach all"), measure("load all")) for _ in range(rounds)]
    holder.do("attach")
    warm = [(measure("attach all"), measure("load all")) for _ in range(rounds)]
    for worker in [*workers, holder]:
        worker.end()
    goals: list[tuple[str, str, Any, int, dict[str, Any]]] = [
        (
            f"{WORKERS} workers open {mib} MiB and read all pages, the first of them loads",
            "ms",
            cold,
            0,
            {"of": "theirs/ours"},
        ),
        (f"memory (PSS) of these {WORKERS} workers", "MiB", cold, 1, {"at_least": 7}),
        (
            f"{WORKERS} workers open {mib} MiB that a process keeps and read all pages",
            "ms",
            warm,
            0,
            {"at_least": 4},
        ),
    ]
    for name, unit, rows, which, goal in goals:
        print_row(
            name,
            unit,
            "safetensors.numpy",
            {"of": "theirs/ours", **goal},
            [ours[which] for ours, _ in rows],
            [theirs[which] for _, theirs in rows],
        )


def takeover_rows(path: Path) -> None:
    samples = []
    for _ in range(ROUNDS):
        server, survivor, newcomer = (Worker(path) for _ in range(3))
        for worker in (server, survivor):
            worker.do("attach")
        server.end()
        samples.append(newcomer.do("attach") * 1e3)
        survivor.end()
        newcomer.end()
    print_row(
        "a newcomer attaches after the server was killed",
        "ms",
        "",
        {"of": "ours", "at_most": 10},
        samples,
        [],
    )


def publish_rows(tenon: Any) -> None:
    """A trainer's version of one tensor, against one memcpy into memory that has its pages."""
    import numpy

    mib = 16 if SMOKE else 256
    state = {"weight": numpy.ones(mib * MIB // 4, numpy.float32)}
    target = numpy.ones_like(state["weight"])
    # Version 1 stays, and so do the last two of the trainer's.
    kept = [tenon.weights.publish(NAME, {"weight": target[:1]})]

    def publish(reuse: bool) -> None:
        kept.append(tenon.weights.publish(NAME, state, reuse=reuse))
        del kept[1:-1]

    for reuse, name, goal in (
        (True, "into memory of an older version", {"of": "theirs/ours", "at_least": 0.8}),
        (False, "into new memory", {"of": "theirs/ours"}),
    ):
        for _ in range(4):
            publish(reuse)
        seconds = interleave(
            ROUNDS,
            lambda reuse=reuse: lambda: publish(reuse),
            lambda: lambda: numpy.copyto(target, state["weight"]),
        )
        print_row(
            f"publish a state dict of {mib} MiB {name}",
            "ms",
            "one memcpy into memory that has its pages",
            goal,
            [one * 1e3 for one in seconds[0]],
            [one * 1e3 for one in seconds[1]],
        )
    kept.clear()


def main() -> None:
    tenon = load_tenon()
    publish_rows(tenon)
    with tempfile.TemporaryDirectory(prefix="tenon-bench-", dir="/var/tmp") as folder:
        attach_rows(tenon, Path(folder))
        path = Path(folder) / "model.safetensors"
        write_file(path, 300, (32 if SMOKE else 512) * MIB)
        load_rows(tenon, path)
        mapped_rows(tenon, path)
        takeover_rows(path)
        try:
            import safetensors  # noqa: F401
        except ImportError:
            print(json.dumps({"left_out": "the safetensors package is missing"}), flush=True)
        else:
            worker_rows(path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    else:
        main()
