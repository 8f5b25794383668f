"""Finds the Pythons with a PyTorch that tests use beside Tenon, and runs programs in them.

TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST name them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SKIPPED = 77
Run = subprocess.CompletedProcess[str]
# An import would take a second or two each time, and a broken PyTorch must make the test fail.
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
# torch_server.py exits with this status if torch.jit refuses.
_NO_SCRIPT = 3
_SERVER = Path(__file__).resolve().with_name("torch_server.py")


def has_torch(python: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run([python, "-c", _LOOK], check=False, cwd="/").returncode == 0
    return False


def find_torches() -> dict[str, str]:
    """The Pythons that exist, by the names "debian" and "newest"."""
    pythons = {
        "debian": os.environ.get("TENON_TORCH_DEBIAN", "/usr/bin/python3"),
        "newest": os.environ.get("TENON_TORCH_NEWEST", ""),
    }
    return {name: python for name, python in pythons.items() if python and has_torch(python)}


class _Server:
    """A process with one PyTorch, whose children run programs (torch_server.py)."""

    def __init__(self, python: str) -> None:
        # One thread is enough: a BLAS's thread pools would spin, and the models of the tests are
        # small.
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        command = [python, "-W", "ignore", "-B", str(_SERVER)]
        self.python = python
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | one
        )
        # The server ends when its input ends. Its CPU time counts only if this process waits for
        # it.
        atexit.register(self.process.communicate)

    def run(self, request: dict[str, Any], given: str, is_merged: bool) -> Run:
        """Runs one program to its end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="tenon-torch-") as folder:
            files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
            for file, text in zip(files, (given, "", ""), strict=True):
                file.write_text(text, encoding="utf-8")
            request["files"] = [*map(str, [*files[:2], files[1 if is_merged else 2]])]
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(request).encode() + b"\n")
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise RuntimeError(f"{self.python}: the process with PyTorch ended, see its error")
            texts = [file.read_text(encoding="utf-8", errors="replace") for file in files[1:]]
            return subprocess.CompletedProcess(request["arguments"], int(answer), *texts)


_servers: dict[str, _Server] = {}


def run_torch(
    python: str,
    *arguments: str | Path,
    cwd: str | Path | None = None,
    path: Sequence[str | Path] = (),
    given: str = "",
    is_merged: bool = False,
) -> Run:
    """Runs a program in the PyTorch of this Python: a file with arguments, or "-c" and its text.

    The first call imports PyTorch. Each call runs its program in a child process that already has
    PyTorch. `path` has folders of modules, and `given` is the text of standard input. With
    `is_merged`, standard error goes to standard output.
    """
    if python not in _servers:
        _servers[python] = _Server(python)
    request = {
        "arguments": [*map(str, arguments)],
        "cwd": os.getcwd() if cwd is None else str(cwd),
        "path": [*map(str, path)],
    }
    return _servers[python].run(request, given, is_merged)


def has_script(python: str) -> bool:
    """Tells whether this PyTorch has TorchScript. If not, it prints why the test is skipped."""
    done = run_torch(python, "try_script", cwd="/")
    if done.returncode != _NO_SCRIPT:
        return True
    print(f"{python}: {done.stdout.strip()}\nskipped: this PyTorch has no TorchScript", flush=True)
    return False


def find_script_torch(name: str) -> str | None:
    """Finds a PyTorch for a test of TorchScript. If none is there, it prints why the test skips."""
    python = find_torches().get(name)
    if python is None:
        print(f"skipped: there is no PyTorch {name} here", flush=True)
        return None
    return python if has_script(python) else None


def find_script_torches() -> tuple[dict[str, str], int]:
    """Finds the PyTorches for a test of TorchScript, and its exit status if nothing fails.

    The exit status is 77 if a PyTorch is here that has no TorchScript. The test still runs on the
    others, so that their failures are seen. It is 77 too if there is no PyTorch at all.
    """
    found = find_torches()
    if not found:
        why = "neither TENON_TORCH_DEBIAN nor TENON_TORCH_NEWEST has a PyTorch"
        print(f"skipped: {why}", flush=True)
    scripted = {name: python for name, python in found.items() if has_script(python)}
    return scripted, 0 if found and len(scripted) == len(found) else SKIPPED
