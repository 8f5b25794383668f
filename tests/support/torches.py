"""The Pythons with a PyTorch that tests run beside Tenon.

TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST name them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

SKIPPED = 77
# An import would take a second or two each time. If a PyTorch is broken, the test has to fail.
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
# The exit status says that torch.jit refuses. Any other failure means that PyTorch is broken.
_NO_SCRIPT = 3
_TRY_SCRIPT = f"""
import io, sys, torch
try:
    archive = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), archive)
    archive.seek(0)
    torch.jit.load(archive)
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
    sys.exit({_NO_SCRIPT})
"""


def has_torch(python: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run([python, "-c", _LOOK], check=False, cwd="/").returncode == 0
    return False


def find_torches() -> dict[str, str]:
    """By name, "debian" and "newest", those that are there."""
    pythons = {
        "debian": os.environ.get("TENON_TORCH_DEBIAN", "/usr/bin/python3"),
        "newest": os.environ.get("TENON_TORCH_NEWEST", ""),
    }
    return {name: python for name, python in pythons.items() if python and has_torch(python)}


def has_script(python: str) -> bool:
    """Tells whether this PyTorch has TorchScript. If not, it prints why the test is skipped."""
    command = [python, "-W", "ignore", "-B", "-c", _TRY_SCRIPT]
    done = subprocess.run(command, check=False, cwd="/", stdout=subprocess.PIPE, text=True)
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
