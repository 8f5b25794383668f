"""What every test gets: a watchdog, and a count of fds and storages before and after."""

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

# No example database: a test run leaves nothing in the tree. A failure prints what repeats its
# example.
settings.register_profile("tenon", database=None, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("tenon")


# Where a watchdog says which test hangs. While a test runs, pytest keeps what goes to stderr, and
# would lose it with the process.
STDERR = [2]


def pytest_configure() -> None:
    """Called while pytest captures nothing."""
    STDERR[0] = os.dup(2)
    # A shell starts its background jobs with SIGINT ignored. Python leaves it so, and so do the
    # children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Called when all modules of the tests are imported, and before the first test.

    held() collects twice for each test. A collection of the objects of pytest, Hypothesis and NumPy
    takes 0.05 seconds of CPU time, so the collector no longer looks at them. It looks at all that
    tests make.
    """
    gc.collect()
    gc.freeze()


def count_fds() -> int:
    """Open fds of this process that are not those of segments which the arena keeps warm, nor of
    directories in which it had names.
    """
    count = -tenon.stats().segment_fds
    for number in os.listdir("/proc/self/fd"):
        try:
            count += not stat.S_ISDIR(os.fstat(int(number)).st_mode)
        except OSError:
            # The listing's own.
            pass
    return count


def held() -> tuple[int, int, int]:
    """What could leak."""
    gc.collect()
    tenon.trim()
    return count_fds(), tenon.stats().storages, tenon.stats().bytes_opened


def held_now() -> tuple[int, int, int]:
    """What is held when nothing is being let go of: the library's thread may close an fd between
    the two counts of count_fds().
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
    """It stays, with its fds, from the first lend on."""
    tenon.Arena(4096, prefault_nbytes=1).close()


@pytest.fixture(autouse=True)
def nothing_left(the_librarys_thread: None) -> Iterator[None]:
    faulthandler.dump_traceback_later(120, exit=True, file=STDERR[0])
    before = held_now()
    yield
    # Others, and the library's thread, may let go a moment after the test is through. What the
    # thread was about to close for the test before, `before` has counted and `after` has not.
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
    """Starts Python programs; those that still run at the end are killed."""
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
    """A directory of our own, in memory.

    One for all tests, and first: what the library opens to watch it stays open for a while.
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
    """Another, in which this process has no names, so that its thread does not look."""
    path = tempfile.mkdtemp(dir="/dev/shm", prefix="py-names-")
    yield path
    left = settled(path)
    shutil.rmtree(path)
    assert left == []


@pytest.fixture
def driver() -> Path:
    """The folder of the CUDA driver that tests/fake_cuda plays."""
    folder = Path(os.environ.get("TENON_BUILD_DIR", "")) / "tests" / "fake_cuda" / "driver-13"
    if not (folder / "libcuda.so.1").exists():
        pytest.skip("tests/fake_cuda was not built")
    return folder
