"""Queues against iceoryx2: one way in C and Rust, and to and fro in Python, all processes awake.

tools/bench --peers all installs iceoryx2, and names the program in TENON_ICEORYX2 and the folder of
the Python package in TENON_ICEORYX2_PACKAGE. A message of iceoryx2 goes from a publisher to one
subscriber. Its payload is loaned, sent, received and read, and every process polls.

In C and Rust, short runs of two programs take turns (queue.cc and iceoryx2/iceoryx2_pair.rs), and
a sample is the median of a run. In Python both sides run in the same pair of processes, in turn.
Each row of bare cache lines was measured beside the samples, in the same turns.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from python_pair import SMOKE, load_tenon, print_row
from queue_ends import NBYTES, Pair, TenonEnds

TURNS = 2 if SMOKE else 30
ROUNDS = 5 if SMOKE else 300  # samples of each run of a program
PREFIX = f"tenon_bench_{os.getpid()}_"  # of the names of iceoryx2's files in /dev/shm
RECORD = {"of": "ours/theirs", "at_most": 0.4}
TENSOR = {"of": "ours/theirs", "at_most": 0.6}
# The measure, our list, their list, the goal.
ROWS = (
    ("one way of 64 bytes", "record", "record", RECORD),
    ("one way of 4 KiB known, not opened", "lease", "record", RECORD),
    ("one way of 4 KiB known", "tensor", "tensor", TENSOR),
    ("one way of 4 KiB new, filled", "filled", "filled", TENSOR),
)


def left_out(why: str) -> None:
    print(json.dumps({"left_out": why}), flush=True)


def run_program(*command: str) -> dict[str, float]:
    """Returns the median of each list of samples."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    lists = json.loads(done.stdout)
    return {name: statistics.median(each) for name, each in lists.items() if type(each) is list}


def our_program() -> str:
    return str(Path(os.environ["TENON_BUILD_DIR"]) / "tests" / "bench" / "bench_queue")


def compare_programs(theirs: str) -> None:
    turns = [
        (
            run_program(our_program(), "--samples", str(ROUNDS)),
            run_program(theirs, str(ROUNDS), PREFIX),
        )
        for _ in range(TURNS)
    ]
    for measure, ours, peers, goal in ROWS:
        print_row(
            f"{measure}, C and Rust",
            "ns",
            "iceoryx2 0.10 in Rust",
            goal,
            [each[0][ours] for each in turns],
            [each[1][peers] for each in turns],
        )
    print_row(
        "two cache lines beside those rows",
        "ns",
        "the same in the Rust program",
        None,
        [each[0]["bare"] for each in turns],
        [each[1]["bare"] for each in turns],
    )


class IceoryxEnds:
    """One process's end of two services of iceoryx2."""

    def __init__(self, prefix: str, to: str, back: str) -> None:
        import iceoryx2
        import numpy

        self._numpy = numpy
        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        config = iceoryx2.config.default()
        folder = os.environ.get("TMPDIR", "/tmp") + "/iceoryx2"
        config.global_cfg.root_path = iceoryx2.Path.new(folder)
        config.global_cfg.prefix = iceoryx2.FileName.new(prefix)
        self._node = iceoryx2.NodeBuilder.new().config(config).create(iceoryx2.ServiceType.Ipc)

        def service(name: str) -> Any:
            builder = self._node.service_builder(iceoryx2.ServiceName.new(name))
            return builder.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).open_or_create()

        publisher = service(to).publisher_builder().initial_max_slice_len(NBYTES).create()
        self._loan = publisher.loan_slice_uninit
        self._receive = service(back).subscriber_builder().create().receive

    def ask_known(self, count: int) -> None:
        """Writes and reads the first byte by payload()."""
        loan, receive = self._loan, self._receive
        for _ in range(count):
            sample = loan(NBYTES)
            sample.payload()[0] = 1
            sample.assume_init().send()
            while (received := receive()) is None:
                pass
            received.payload()[0]

    def echo_known(self, count: int) -> None:
        loan, receive = self._loan, self._receive
        for _ in range(count):
            while (received := receive()) is None:
                pass
            received.payload()[0]
            sample = loan(NBYTES)
            sample.payload()[0] = 1
            sample.assume_init().send()

    def ask_new(self, count: int) -> None:
        """Fills the payload and reads its first byte by views of numpy."""
        for _ in range(count):
            self._send_filled()
            self._read_view()

    def echo_new(self, count: int) -> None:
        for _ in range(count):
            self._read_view()
            self._send_filled()

    def _send_filled(self) -> None:
        sample = self._loan(NBYTES)
        self._numpy.frombuffer(sample.payload().as_memory_view(), "uint8").fill(1)
        sample.assume_init().send()

    def _read_view(self) -> None:
        while (received := self._receive()) is None:
            pass
        self._numpy.frombuffer(received.payload().as_memory_view(), "uint8")[0]


def compare_packages(tenon: Any) -> None:
    context = multiprocessing.get_context("spawn")
    to, back = tenon.Queue(), tenon.Queue()
    pair = Pair(
        context,
        {"ours": (TenonEnds, to, back), "theirs": (IceoryxEnds, PREFIX, "there", "back")},
        {"ours": (TenonEnds, back, to), "theirs": (IceoryxEnds, PREFIX, "back", "there")},
        pinned=True,
    )
    rounds, warm_up, count = (2, 2, 2) if SMOKE else (100, 50, 200)
    bare = []
    samples: dict[str, tuple[list[float], list[float]]] = {"known": ([], []), "new": ([], [])}
    for turn in range(rounds + 1):
        for kind, sides in samples.items():
            for name, side in zip(("ours", "theirs"), sides, strict=True):
                second = pair.time(name, kind, warm_up, count)
                if turn > 0:
                    side.append(second * 1e6)
        if turn % 10 == 0:
            bare.append(bare_in_all_cpus())
    pair.close()
    for what, kind, goal in (
        ("4 KiB known, to and fro, read by a view", "known", None),
        (
            "4 KiB new, to and fro, with views of numpy",
            "new",
            {"of": "ours/theirs", "at_most": 0.5},
        ),
    ):
        against = "iceoryx2 0.10 in Python" + (", payload()" if kind == "known" else "")
        print_row(f"{what}, Python", "us", against, goal, *samples[kind])
    print_row("two cache lines beside those rows, Python", "ns", "", None, bare, [])


def bare_in_all_cpus() -> float:
    """Returns the time of two cache lines. The processes of this benchmark wait meanwhile."""
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        return run_program(our_program(), "--samples", "10")["bare"]
    finally:
        os.sched_setaffinity(0, here)


def remove_files() -> None:
    """Removes what iceoryx2 leaves in /dev/shm when all of its processes have ended."""
    for path in Path("/dev/shm").glob(f"{PREFIX}*"):
        path.unlink(missing_ok=True)


def main() -> None:
    atexit.register(remove_files)
    program = os.environ.get("TENON_ICEORYX2", "")
    package = os.environ.get("TENON_ICEORYX2_PACKAGE", "")
    why = os.environ.get("TENON_ICEORYX2_LEFT_OUT", "not installed (tools/bench --peers all)")
    if program:
        compare_programs(program)
    else:
        left_out(f"iceoryx2 in Rust: {why}")
    if not package:
        left_out(f"iceoryx2 in Python: {why}")
        return
    # The package is of this Python, so the folder serves both processes.
    sys.path.append(package)
    compare_packages(load_tenon())


if __name__ == "__main__":
    main()
