"""Pinned memory, on the fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tenon


def test_without_a_device() -> None:
    with (
        tenon.Storage.new(64, private=True) as private,
        pytest.raises(tenon.Unsupported, match="private"),
    ):
        private.pin()
    with tenon.Storage.new(64) as storage:
        with pytest.raises(tenon.InvalidArgument, match="negative"):
            storage.pin(-1)
        assert storage.is_pinned is False
        if tenon.cuda_available():
            pytest.skip("this machine has CUDA")
        with pytest.raises(tenon.Unsupported, match="CUDA"):
            storage.pin()


@pytest.mark.parametrize("program", ["lends", "errors"])
def test_on_a_device(driver: Path, tmp_path: Path, program: str) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "FAKE_CUDA_WORLD": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    file = Path(__file__).with_name("cuda_pinned_programs.py")
    done = subprocess.run([sys.executable, "-B", str(file), program], env=environment, check=False)
    if done.returncode == 77:
        pytest.skip("this wheel was built without CUDA")
    assert done.returncode == 0
