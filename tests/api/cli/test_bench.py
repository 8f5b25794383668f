"""tenon bench prints its rows and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from conftest import TENON, read_json, run

ROWS = ["fd", "fd_isolated", "name_file", "name_socket"]


def test_rows() -> None:
    report = read_json("bench", "--quick")
    assert report["quick"] is True
    assert [(row["id"], row["nbytes"]) for row in report["rows"]] == [
        *((name, 4096) for name in ROWS),
        *((name, 16 << 20) for name in ROWS),
        ("fd_known", 64 << 20),
    ]
    for row in report["rows"]:
        assert row["tenon_us"] > 0 and row["bare_us"] > 0
        assert abs(row["ratio"] - row["tenon_us"] / row["bare_us"]) < 1e-9 * row["ratio"]


def test_text() -> None:
    done = run("bench", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "LEND",
        "AND",
        "OPEN",
        "SIZE",
        "TENON",
        "BARE",
        "RATIO",
        "BARE",
        "IS",
    ]
    assert len(lines) == 1 + 2 * len(ROWS) + 1 + 1
    assert all(" µs " in line for line in lines[1:-1])


def test_an_interrupt_leaves_nothing() -> None:
    process = subprocess.Popen(
        [TENON, "bench"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    mine = f"bench-{process.pid}-"
    deadline = time.monotonic() + 60
    # Wait until the benchmark runs a round that has a name.
    while not any(name.startswith(mine) for name in os.listdir("/dev/shm")):
        assert process.poll() is None and time.monotonic() < deadline
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    pidfds = []
    for pid in children:
        # A round's process may have ended since.
        with contextlib.suppress(ProcessLookupError):
            pidfds.append(os.pidfd_open(int(pid)))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(mine)]
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)
