"""The Pythons with a PyTorch that tests run beside Tenon.

TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST name them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

# An import would take a second or two each time. If a PyTorch is broken, the test has to fail.
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


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
