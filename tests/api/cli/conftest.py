"""Shared by the tests of the command line: it runs `tenon`, processes that hold names, and private
directories.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
TENON = os.environ["TENON_CLI_PROGRAM"]
HOLDER = os.environ["TENON_CLI_HOLDER"]
SOURCE = Path(__file__).resolve().parents[3]

# The watchdog writes to this fd which test hangs. pytest captures stderr while a test runs, and the
# captured text is lost when the process dies.
STDERR = [2]


def pytest_configure() -> None:
    """pytest calls this function while it captures nothing."""
    STDERR[0] = os.dup(2)


Result = subprocess.CompletedProcess[str]


def run(*arguments: object, prefix: list[str] | None = None, **options: Any) -> Result:
    """Run tenon. Its standard input is empty by default."""
    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "LC_ALL": "C.UTF-8",
        **options.pop("env", {}),
    }
    command = [*(prefix or []), TENON, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=environment,
        **options,
    )


def read_json(*arguments: object, rc: int = 0, **options: Any) -> Any:
    done = run(*arguments, "--json", **options)
    assert (done.returncode, done.stderr) == (rc, ""), done.stdout
    return json.loads(done.stdout)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_until_stopped(pid: int) -> None:
    wait_until(
        lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T",
        "it does not stop",
    )


def read_line(process: subprocess.Popen[bytes]) -> str:
    """Read one line of a process's output, byte by byte, so that no later byte is taken."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], 60)
        byte = os.read(process.stdout.fileno(), 1) if ready else b""
        assert byte, f"the process ended or said nothing: {line!r}"
        line += byte
    return os.fsdecode(line[:-1])


def samples_of(text: str) -> dict[str, dict[str, float]]:
    """The samples by metric and labels. Every line must have the form of the format."""
    samples: dict[str, dict[str, float]] = {}
    declared: dict[str, str] = {}
    for line in text.splitlines():
        if found := re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line):
            if found[1] == "TYPE":
                assert found[2] not in declared and found[3] in {"gauge", "counter"}
                declared[found[2]] = found[3]
            continue
        found = re.fullmatch(
            r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([0-9.]+)', line
        )
        assert found, line
        assert found[1] == list(declared)[-1], "samples of a metric stand together"
        assert (declared[found[1]] == "counter") == found[1].endswith("_total")
        labels = found[2] or ""
        assert labels not in samples.setdefault(found[1], {}), line
        samples[found[1]][labels] = float(found[3])
    return samples


BOARD_NBYTES = 2048 * 128


def board_bytes(body: bytes, **fields: int) -> bytes:
    head = {
        "version": 1,
        "row": 128,
        "incompat": 0,
        "pid": os.getpid(),
        "rows": 2047,
        "used": len(body) // 128,
        **fields,
    }
    numbers = (
        head["version"],
        head["row"],
        head["incompat"],
        0,
        head["pid"],
        head["rows"],
        0,
        0,
        head["used"],
    )
    return (b"TENONBRD" + struct.pack("<IIQQIIQqQ", *numbers)).ljust(128, b"\0") + body


class FakeBoard:
    """An fd of this process whose name and content imitate a board."""

    def __init__(
        self,
        content: bytes,
        nbytes: int = BOARD_NBYTES,
        seal: bool = True,
        name: str = "tenon-board-fake",
    ) -> None:
        self.fd = os.memfd_create(name, os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.truncate(self.fd, nbytes)
        os.pwrite(self.fd, content[:nbytes], 0)
        if seal:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class Holder:
    """A process that holds one name."""

    def __init__(
        self, *arguments: object, argv0: str = HOLDER, prefix: tuple[str, ...] = (), **options: Any
    ) -> None:
        command = [*prefix, argv0 if not prefix else HOLDER, *map(str, arguments)]
        executable = None if prefix else HOLDER
        self.process = subprocess.Popen(
            command, executable=executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )
        self.pid = self.process.pid
        self.name = read_line(self.process)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> None:
        """Stop the process. It keeps its name and does nothing."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.pid)

    def end(self) -> None:
        """End the process in an orderly way."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    faulthandler.dump_traceback_later(200, exit=True, file=STDERR[0])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory in shared memory for one test, which other users may use too."""
    path = tempfile.mkdtemp(prefix="cli-test-", dir="/dev/shm")
    os.chmod(path, 0o1777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def hold(directory: str) -> Iterator[Callable[..., Holder]]:
    """hold("file", 4096) starts a process that holds something in the directory."""
    holders: list[Holder] = []

    def start(
        kind: str, nbytes: int, name: str | None = None, where: str | None = None, **options: Any
    ) -> Holder:
        holder = Holder(
            kind, where or directory, nbytes, *([] if name is None else [name]), **options
        )
        holders.append(holder)
        return holder

    yield start
    for holder in holders:
        holder.close()


class PrivateShm:
    """A mount namespace with a private /dev/shm, which a process keeps alive. Put `enter` before a
    command that is to run in it.
    """

    def __init__(self, mounts: str) -> None:
        self.own_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        script = f"{mounts} && echo ready && exec cat"
        self.process = subprocess.Popen(
            [
                "unshare",
                *self.own_user,
                "--mount",
                "--propagation",
                "private",
                "bash",
                "-c",
                script,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        if self.process.stdout.readline() != b"ready\n":
            why = self.process.stderr.read().decode().strip()
            self.close()
            pytest.skip(f"no mount namespace here: {why}")
        user = ["--user", "--preserve-credentials"] if self.own_user else []
        self.enter = ["nsenter", *user, "--mount", "--target", str(self.process.pid)]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def private_shm() -> Iterator[Callable[[str], PrivateShm]]:
    """private_shm(mounts) makes a namespace. `mounts` are the shell commands that mount what the
    test needs.
    """
    made: list[PrivateShm] = []

    def start(mounts: str = "mount -t tmpfs -o mode=1777,size=256m tmpfs /dev/shm") -> PrivateShm:
        made.append(PrivateShm(mounts))
        return made[-1]

    yield start
    for one in made:
        one.close()
