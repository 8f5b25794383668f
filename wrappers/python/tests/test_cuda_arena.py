"""Arenas on a device, and device memory in a connection's messages, on the fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tenon


def test_without_a_device() -> None:
    with pytest.raises(ValueError, match="transport"):
        tenon.CudaArena(1 << 20, transport="none")  # type: ignore[arg-type]
    if tenon.cuda_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(tenon.Unsupported, match="CUDA"):
        tenon.CudaArena(1 << 20)


@pytest.mark.parametrize("program", ["sends", "comes_home", "full", "refused"])
def test_on_a_device(driver: Path, tmp_path: Path, program: str) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "FAKE_CUDA_WORLD": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    file = Path(__file__).with_name("cuda_arena_programs.py")
    done = subprocess.run([sys.executable, "-B", str(file), program], env=environment, check=False)
    if done.returncode == 77:
        pytest.skip("this wheel was built without CUDA")
    assert done.returncode == 0
