"""Live PyTorch processes: Debian's PyTorch always, and the newest one if TENON_TORCH_NEWEST names a
Python that has it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tenon


class PeerError(Exception):
    def __init__(self, text: str, kinds: list[str]) -> None:
        super().__init__(text)
        self.kinds = kinds


class Peer:
    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self.python, self.environment = python, environment
        self.started: list[subprocess.Popen[str]] = []
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [python, "-B", str(Path(__file__).with_name("peer.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        self.version = self.run("value = torch.__version__")

    def run(self, code: str, *fds: int) -> Any:
        """Run code in the peer. Return the value that the code sets, or raise PeerError for its
        exception.
        """
        value, out = self.run_with_fds(code, *fds)
        assert out == []
        return value

    def run_with_fds(self, code: str, *fds: int) -> tuple[Any, list[int]]:
        socket.send_fds(self.socket, [json.dumps({"code": code}).encode()], fds)
        data, out, _, _ = socket.recv_fds(self.socket, 1 << 16, 8)
        assert data, f"the PyTorch process ended with {self.process.wait(60)}"
        reply = json.loads(data)
        if "error" in reply:
            raise PeerError(reply["error"], reply["kind"])
        return reply["value"], out

    def alone(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run code in a process of its own, which may die."""
        return subprocess.run(
            [self.python, "-B", "-c", code],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def program(self, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a file in a process of its own. multiprocessing can import the file there."""
        return subprocess.run(
            [self.python, "-B", str(path), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def start(self, code: str) -> subprocess.Popen[str]:
        """Start code in a process of its own, which ends with the test."""
        process = subprocess.Popen(
            [self.python, "-B", "-c", code],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def end_started(self) -> None:
        while self.started:
            process = self.started.pop()
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def let_go(self) -> None:
        """Drop the objects that the peer keeps. Those that a function of its code sees are in a
        cycle, so the peer collects.
        """
        self.run("import gc; kept.clear(); gc.collect()")

    def stop(self) -> None:
        self.socket.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()


def find(name: str, default: str | None) -> str:
    python = os.environ.get(name) or default
    if python is None:
        pytest.skip(f"{name} is not set: no such PyTorch here (tools/test --peers all brings it)")
    if not os.access(python, os.X_OK):
        pytest.skip(f"uid {os.getuid()} cannot run {python}")
    try:
        # PyTorch is looked up and not imported: the import takes a second or two, and a broken
        # PyTorch must make the tests fail and not skip.
        look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        done = subprocess.run([python, "-c", look], check=False)
    except PermissionError:
        pytest.skip(f"uid {os.getuid()} cannot run {python}")
    if done.returncode:
        pytest.skip(f"{python} has no torch")
    return python


@pytest.fixture(scope="session")
def manager_folder() -> Iterator[None]:
    """A manager of this test run. Another build may have started one for this user."""
    with (
        tempfile.TemporaryDirectory(prefix="tenon-manager-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TENON_MANAGER_FOLDER", folder)
        yield


@pytest.fixture(scope="session", params=["debian", "newest"])
def peer(request: pytest.FixtureRequest, manager_folder: None) -> Iterator[Peer]:
    python = (
        find("TENON_TORCH_DEBIAN", "/usr/bin/python3")
        if request.param == "debian"
        else find("TENON_TORCH_NEWEST", None)
    )
    with tempfile.TemporaryDirectory() as folder:
        # The peer uses this Python's Tenon package, whatever its own interpreter has, because the
        # tests also check that one wheel serves both. The copy has the compiled modules. They save
        # 0.1 seconds in each process of the same version of Python.
        shutil.copytree(Path(tenon.__file__).parent, Path(folder, "tenon"))
        shutil.copy(Path(__file__).with_name("freeze_torch.py"), Path(folder, "sitecustomize.py"))
        version = "import sys; print(sys.version_info[:2])"
        theirs = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)
        backend = importlib.util.find_spec("_cffi_backend")
        if (
            theirs.stdout.strip() == str(sys.version_info[:2])
            and backend is not None
            and backend.origin is not None
        ):
            shutil.copy(backend.origin, folder)
        started = Peer(python, {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"})
        try:
            yield started
        finally:
            started.stop()


COUNT = """
import gc, os, sys, time
kept.clear(); gc.collect()
def count():
    found = len(os.listdir('/proc/self/fd'))
    return found - sys.modules['tenon'].stats().segment_fds if 'tenon' in sys.modules else found
"""

# The library's thread closes fds a moment after their last object is gone.
COUNT_BEFORE = f"""{COUNT}
value, n_same = count(), 0
while n_same < 10:
    time.sleep(0.01)
    found = count()
    n_same = n_same + 1 if found == value else 0
    value = found
"""

COUNT_AFTER = f"""{COUNT}
value, deadline = count(), time.monotonic() + 5
while value != BEFORE and time.monotonic() < deadline:
    time.sleep(0.01)
    value = count()
"""


@pytest.fixture(autouse=True)
def forget(peer: Peer) -> Iterator[None]:
    """Check that the peer's objects and fds go with the test."""
    before = peer.run(COUNT_BEFORE)
    yield
    peer.end_started()
    if peer.process.poll() is None:
        assert peer.run(f"BEFORE = {before}\n{COUNT_AFTER}") == before
