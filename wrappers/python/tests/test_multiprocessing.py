"""tenon.multiprocessing in real processes: each scenario of multiprocessing_program.py runs as a
program, and must leave nothing behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("multiprocessing_program.py")
METHODS = ("fork", "spawn", "forkserver")
EVERY_METHOD = (
    "queue",
    "simple_queue",
    "pipe",
    "pool",
    "executor",
    "process_arguments",
    "identity",
    "modes",
    "twice",
    "many",
    "exit_after_put",
    "exit_with_many_segments",
    "killed_after_put",
    "keeper_times_out",
    "family_is_killed",
    "never_fetched",
    "grandchild",
    "arena_is_used_again",
    "unread_message_goes_with_its_queue",
)
# The carriers again, and scenarios that only names have, under the strategy "file_system".
BY_NAME = (
    "queue",
    "simple_queue",
    "pipe",
    "pool",
    "executor",
    "process_arguments",
    "identity",
    "modes",
    "grandchild",
    "by_name",
    "names_exit_first",
    "names_killed",
    "names_killed_unseen",
    "names_killed_receiver",
    "names_many",
    "names_twice",
)
BY_NAME_ONCE = ("who_is_named", "strategies", "threads", "fork_many_times")
ONCE = (
    "refused",
    "one_segment_one_fd",
    "threads",
    "killed_while_fetched",
    "stopped",
    "root_exits_first",
    "fork_while_serving",
    "fork_does_not_hide_death",
    "fork_many_times",
    "strangers_speak",
    "no_room_for_fds",
    "labels_do_not_keep_images",
    "killed_receiver_gives_back",
    "unfetched_goes_by_a_limit",
    "failed_message_is_taken_back",
    "unsent_message_is_taken_back",
    "unread_message_goes_with_its_pipe",
    "messages_with_markers_arrive",
    "without_room_for_a_marker",
    "many_unread_messages_leave_fds",
    "half_a_message_is_given_back",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory like tmp_path with a short path, because forkserver binds a socket in it."""
    with tempfile.TemporaryDirectory(prefix="mp") as name:
        yield Path(name)


def relatives(marker: str) -> list[str]:
    """Pids of the processes that have the marker in their environment, without zombies."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                environment = Path("/proc", name, "environ").read_bytes()
                if f"TENON_TEST_MARKER={marker}".encode() in environment.split(b"\0"):
                    found.append(f"{name} {Path('/proc', name, 'cmdline').read_bytes()!r}")
            except OSError:
                pass
    return found


def end_relatives(marker: str) -> None:
    for line in relatives(marker):
        os.kill(int(line.split()[0]), signal.SIGKILL)


def run(scenario: str, method: str, folder: Path, names: str = "") -> None:
    marker = uuid.uuid4().hex
    environment = {
        **os.environ,
        "TENON_TEST_MARKER": marker,
        "TENON_TEST_NAMES": names,
        "TMPDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        with open(folder / "output", "wb") as output:
            done = subprocess.run(
                [sys.executable, PROGRAM, scenario, method],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
        text = (folder / "output").read_text()
        (folder / "output").unlink()
        assert done.returncode == (-signal.SIGKILL if scenario == "family_is_killed" else 0), text
        # The keeper looks for its family three times a second, because the kernel reports no event
        # for it.
        deadline = time.monotonic() + 20
        while (left := relatives(marker)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left, left
    finally:
        end_relatives(marker)
    assert "lost" not in text, text
    assert "Traceback" not in text, text
    if scenario != "family_is_killed":
        assert not list(folder.iterdir())
    if names:
        assert os.listdir(names) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scenario", EVERY_METHOD)
def test_every_method(scenario: str, method: str, folder: Path) -> None:
    run(scenario, method, folder)


@pytest.fixture
def names() -> Iterator[str]:
    """A directory in memory for the names of one test. Other processes have their names in /dev/shm
    itself.
    """
    with tempfile.TemporaryDirectory(prefix="py-mp-", dir="/dev/shm") as name:
        yield name


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scenario", BY_NAME)
def test_by_name(scenario: str, method: str, folder: Path, names: str) -> None:
    run(scenario, method, folder, names)


@pytest.mark.parametrize("scenario", BY_NAME_ONCE)
def test_by_name_once(scenario: str, folder: Path, names: str) -> None:
    run(scenario, "fork", folder, names)


@pytest.mark.parametrize("scenario", ONCE)
def test_once(scenario: str, folder: Path) -> None:
    run(scenario, "fork", folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user(folder: Path) -> None:
    run("another_user", "fork", folder)


def python(source: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "order",
    [
        "import tenon, multiprocessing",
        "import multiprocessing, tenon",
        "import multiprocessing.reduction, tenon",
    ],
)
def test_the_order_of_imports_does_not_matter(order: str) -> None:
    python(
        f"{order}\nimport sys, multiprocessing.reduction, multiprocessing.queues\nassert"
        " 'tenon.multiprocessing' not in sys.modules\nassert not [f for f in sys.meta_path if"
        " 'tenon' in getattr(f, '__module__', '')]\nloads, dumps ="
        " multiprocessing.reduction.ForkingPickler.loads,"
        " multiprocessing.reduction.ForkingPickler.dumps\nt = tenon.zeros(3)\nassert"
        " loads(bytes(dumps(t))).storage == t.storage\n"
    )


def test_import_does_not_import_multiprocessing() -> None:
    python(
        "import sys, tenon\nassert 'multiprocessing' not in sys.modules and 'socket' not in"
        " sys.modules"
    )
