"""Shared by the scenarios of multiprocessing_program.py."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

import numpy as np
import tenon
import tenon.multiprocessing

# Set at import, because a process that spawn or forkserver started begins with the other strategy.
NAMES = os.environ.get("TENON_TEST_NAMES", "")
if NAMES:
    tenon.multiprocessing.set_sharing_strategy("file_system")
    tenon.multiprocessing.configure(filename=tenon.Filename(directory=NAMES))


def lend(values, **options):
    return tenon.from_numpy(np.asarray(values, "float32"), **options)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def keepers(count: int = 0) -> list[int]:
    """Wait until this program has `count` keepers, and return their pids. The marker in the
    environment is unique to this program.
    """
    marker = b"TENON_TEST_MARKER=" + os.environ["TENON_TEST_MARKER"].encode()
    while True:
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdecimal() and marker in Path("/proc", name, "environ").read_bytes().split(
                    b"\0"
                ):
                    if b"\0--keep\0" in Path("/proc", name, "cmdline").read_bytes():
                        found.append(int(name))
            except OSError:
                pass
        # A process in the middle of its exec shows no environment, so fewer may be found at first.
        if len(found) >= count:
            assert len(found) == count, found
            return found
        time.sleep(0.01)


def wait_until_gone(pids) -> None:
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        select.select([fd], [], [])
        os.close(fd)


def same(tensor, values) -> None:
    assert tensor.tolist() == np.asarray(values, "float32").tolist(), tensor.tolist()


def start(context, target, *args):
    process = context.Process(target=target, args=args)
    process.start()
    return process


def start_and_wait(context, target, *args):
    """Start a process, and wait until it sets the event that it gets as its last argument."""
    is_ready = context.Event()
    process = start(context, target, *args, is_ready)
    assert is_ready.wait(60)
    return process


def stay_after_put(q, is_put) -> None:
    """The last call of a sender that is to be killed. All messages are in the pipe before the event
    is set.
    """
    q.close()
    q.join_thread()
    is_put.set()
    signal.pause()


def ended(process, code=0) -> None:
    process.join()
    assert process.exitcode == code, process.exitcode


def stop(pid):
    """Send SIGSTOP, and wait until no thread of the process runs. kill() returns before the last
    thread has stopped.
    """
    os.kill(pid, signal.SIGSTOP)
    while True:
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            # A thread that has ended cannot be running.
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as stat,
            ):
                states.append(stat.read().rpartition(")")[2].split()[0])
        if all(state in "TtZX" for state in states):
            return
        time.sleep(0.001)
