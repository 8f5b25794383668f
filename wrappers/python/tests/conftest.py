"""What every test gets: a watchdog, and a count of fds and storages before and after."""

from __future__ import annotations

import faulthandler
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import tenon
from hypothesis import settings

# No example database: a test run leaves nothing in the tree.
settings.register_profile("tenon", database=None, deadline=None, max_examples=60)
settings.load_profile("tenon")


def count_fds() -> int:
    """Open fds of this process that are not those of segments which the arena keeps warm."""
    return len(os.listdir("/proc/self/fd")) - tenon.stats().segment_fds


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    faulthandler.dump_traceback_later(120, exit=True)
    gc.collect()
    tenon.trim()
    before = (count_fds(), tenon.stats().storages, tenon.stats().bytes_opened)
    yield
    gc.collect()
    tenon.trim()
    after = (count_fds(), tenon.stats().storages, tenon.stats().bytes_opened)
    faulthandler.cancel_dump_traceback_later()
    assert after == before, "fds, storages, bytes opened"


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts Python programs; those that still run at the end are killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(program: str, *arguments: object, fds: tuple[int, ...] = (), python: str = sys.executable) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [python, "-B", "-c", program, *map(str, arguments)], pass_fds=fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
