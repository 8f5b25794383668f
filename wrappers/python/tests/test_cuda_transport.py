"""Device memory that travels with fds, on the fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("program", ["sends", "refused"])
def test_on_a_device(driver: Path, tmp_path: Path, program: str) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "FAKE_CUDA_WORLD": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    file = Path(__file__).with_name("cuda_transport_programs.py")
    done = subprocess.run([sys.executable, "-B", str(file), program], env=environment, check=False)
    if done.returncode == 77:
        pytest.skip("this wheel was built without CUDA")
    assert done.returncode == 0
