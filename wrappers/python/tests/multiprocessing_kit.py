"""What the scenarios of multiprocessing_program.py share."""

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

# Here and not in a scenario: who was started by spawn or forkserver begins with the other strategy.
NAMES = os.environ.get("TENON_TEST_NAMES", "")
if NAMES:
    tenon.multiprocessing.set_sharing_strategy("file_system")
    tenon.multiprocessing.configure(filename=tenon.Filename(directory=NAMES))


def lend(values, **options):
    return tenon.from_numpy(np.asarray(values, "float32"), **options)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def keepers(count: int = 0) -> list[int]:
    """The keepers of this program, once there are as many: the marker in the environment is its
    own.
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
        # In the middle of its exec a process has no environment.
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
    """Started, and as far as setting the event that it is given last."""
    is_ready = context.Event()
    process = start(context, target, *args, is_ready)
    assert is_ready.wait(60)
    return process


def stay_after_put(q, is_put) -> None:
    """The last of a sender that is to be killed: all is in the pipe."""
    q.close()
    q.join_thread()
    is_put.set()
    signal.pause()


def ended(process, code=0) -> None:
    process.join()
    assert process.exitcode == code, process.exitcode


def stop(pid):
    """SIGSTOP, and wait until no thread of the process runs any more: kill returns before the last
    one has stopped.
    """
    os.kill(pid, signal.SIGSTOP)
    while True:
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            # A thread that has ended runs no more.
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as stat,
            ):
                states.append(stat.read().rpartition(")")[2].split()[0])
        if all(state in "TtZX" for state in states):
            return
        time.sleep(0.001)
