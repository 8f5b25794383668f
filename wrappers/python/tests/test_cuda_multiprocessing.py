"""Device memory in multiprocessing's queues and pipes, on the fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = [
    (name, method)
    for name in ("queue", "with_fds", "together")
    for method in ("spawn", "forkserver")
]
PROGRAMS += [("unread", "spawn"), ("no_cuda_there", "fork")]


@pytest.mark.parametrize(("program", "method"), PROGRAMS)
def test_on_a_device(driver: Path, tmp_path: Path, program: str, method: str) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "FAKE_CUDA_WORLD": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    file = Path(__file__).with_name("cuda_multiprocessing_programs.py")
    done = subprocess.run(
        [sys.executable, "-B", str(file), program, method],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this wheel was built without CUDA")
    # A failed feeder thread does not change the exit status, so the output is checked too.
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
