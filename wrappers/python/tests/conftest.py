"""Fixtures of every test: a watchdog, and a count of fds and storages before and after the test."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tenon
from hypothesis import settings
from names import settled

# Hypothesis keeps no example database, so a test run leaves nothing in the tree. A failure prints
# the blob that repeats its example.
settings.register_profile("tenon", database=None, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("tenon")


# The watchdog writes to this fd which test hangs. pytest captures stderr while a test runs, and the
# captured text is lost when the process dies.
STDERR = [2]


def pytest_configure() -> None:
    """pytest calls this function while it captures nothing."""
    STDERR[0] = os.dup(2)
    # A shell starts its background jobs with SIGINT ignored. Python and its children would keep
    # that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """pytest calls this function after it has imported all test modules and before the first test.

    held() collects twice for each test. A collection of the objects of pytest, Hypothesis and NumPy
    takes 0.05 seconds of CPU time, so they are frozen here. The collector still looks at all
    objects that tests make.
    """
    gc.collect()
    gc.freeze()


def count_fds() -> int:
    """Count the open fds of this process. The fds of segments that the arena keeps warm are left
    out, and so are the fds of directories: those in which this process had names stay open.
    """
    count = -tenon.stats().segment_fds
    for number in os.listdir("/proc/self/fd"):
        try:
            count += not stat.S_ISDIR(os.fstat(int(number)).st_mode)
        except OSError:
            # This fd belongs to the listing itself and is closed by now.
            pass
    return count


def held() -> tuple[int, int, int]:
    """The counts of everything that could leak."""
    gc.collect()
    tenon.trim()
    return count_fds(), tenon.stats().storages, tenon.stats().bytes_opened


def held_now() -> tuple[int, int, int]:
    """held(), repeated until two counts agree: the library's thread may close an fd between the two
    counts of count_fds().
    """
    value = held()
    for _ in range(100):
        time.sleep(0.002)
        again = held()
        if again == value:
            break
        value = again
    return value


@pytest.fixture(autouse=True, scope="session")
def the_librarys_thread() -> None:
    """Starts the library's thread, which stays with its fds from the first lend on."""
    tenon.Arena(4096, prefault_nbytes=1).close()


@pytest.fixture(autouse=True)
def nothing_left(the_librarys_thread: None) -> Iterator[None]:
    faulthandler.dump_traceback_later(120, exit=True, file=STDERR[0])
    before = held_now()
    yield
    # Peers and the library's thread may let go a moment after the test has ended. An fd of the
    # previous test may have been counted in `before` and closed since, so only more fds are an
    # error.
    for _ in range(250):
        after = held()
        more = [
            name
            for name, old, new in zip(
                ("fds", "storages", "bytes opened"), before, after, strict=True
            )
            if new > old
        ]
        if not more:
            break
        time.sleep(0.02)
    faulthandler.cancel_dump_traceback_later()
    assert not more, f"left over: {', '.join(more)}; {before} before, {after} after"


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A function that starts Python programs. Programs that still run at the end are killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(
        program: str, *arguments: object, fds: tuple[int, ...] = (), python: str = sys.executable
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [python, "-B", "-c", program, *map(str, arguments)],
            pass_fds=fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def watched() -> Iterator[str]:
    """A directory in memory in which this process has names.

    All tests share it, and it is made first: the fds that the library opens to watch it stay open
    for a while.
    """
    path = tempfile.mkdtemp(dir="/dev/shm", prefix="py-names-")
    os.chmod(path, 0o755)
    keep = tenon.Storage.new_filename(8, tenon.Filename(directory=path))
    lent = tenon.Storage.new(8)
    lent.share_filename(filename=tenon.Filename("socket", directory=path))
    in_shared_memory = tenon.Storage.new_filename(8, tenon.Filename(prefix="tenon-py-warm-"))
    del keep, lent, in_shared_memory
    tenon.trim()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(watched: str) -> Iterator[str]:
    assert os.listdir(watched) == []
    yield watched
    left = settled(watched)
    for name in left:
        os.unlink(os.path.join(watched, name))
    assert left == []


@pytest.fixture
def unwatched() -> Iterator[str]:
    """A directory in which this process has no names, so that the library's thread does not watch
    it.
    """
    path = tempfile.mkdtemp(dir="/dev/shm", prefix="py-names-")
    yield path
    left = settled(path)
    shutil.rmtree(path)
    assert left == []


@pytest.fixture
def driver() -> Path:
    """The folder of the fake driver (tests/support/fake_cuda)."""
    folder = Path(os.environ.get("TENON_BUILD_DIR", "")) / "tests/support/fake_cuda/driver-13"
    if not (folder / "libcuda.so.1").exists():
        pytest.skip("tests/support/fake_cuda was not built")
    return folder
