"""CUDA on the fake driver: whether it can be used, the reason if it cannot, and device memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tenon

PROGRAM = """
import os, tenon
print(tenon.cuda_available(), flush=True)
try:
    tenon.require_cuda()
except tenon.Unsupported as error:
    print(error, error.details.get("cuda_error"), flush=True)
if os.fork() == 0:
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        print("child:", error, flush=True)
    os._exit(0)
os.wait()
"""


def test_one_answer() -> None:
    if tenon.cuda_available():
        tenon.require_cuda()
        return
    with pytest.raises(tenon.Unsupported, match="CUDA"):
        tenon.require_cuda()


def run(driver: Path, **more: str) -> list[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), **more}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    if "this build of Tenon has no CUDA" in done.stdout:
        pytest.skip("this wheel was built without CUDA")
    return lines


def test_with_a_device(driver: Path, tmp_path: Path) -> None:
    lines = run(driver, FAKE_CUDA_WORLD=str(tmp_path))
    assert lines[0] == "True"
    assert len(lines) == 2 and lines[1].startswith("child: ") and "child of fork" in lines[1]


def test_without_a_device(driver: Path) -> None:
    lines = run(driver, FAKE_CUDA_WORLD="")
    assert lines[0] == "False"
    assert "CUDA_ERROR_NO_DEVICE" in lines[1] and lines[1].endswith(" 100")
    assert lines[2] == "child: " + lines[1].removesuffix(" 100")


def test_a_tensor_on_the_cpu_has_nothing_of_cuda() -> None:
    tensor = tenon.zeros(3)
    assert tensor.device == tensor.storage.device == "cpu" and tensor.__dlpack_device__() == (1, 0)
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert tenon.from_dlpack(tensor).device == "cpu"
    with pytest.raises(BufferError, match="CPU"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(tenon.TenonError):
        tensor.storage.share_cuda()
    assert tenon.cuda_collect() == 0


@pytest.mark.parametrize(
    "program",
    [
        "lends",
        "waits",
        "items",
        "empties",
        "refuses_the_host",
        "interface",
        "streams",
        "ordered",
        "recorded",
        "waits_without_the_gil",
        "archives",
        "weights_once",
        "errors",
    ],
)
def test_on_a_device(driver: Path, tmp_path: Path, program: str) -> None:
    run(driver, FAKE_CUDA_WORLD=str(tmp_path / "probe"))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_WORLD": str(tmp_path)}
    if program == "recorded":
        environment["FAKE_CUDA_LATENCY"] = "stream=1000000"
    file = Path(__file__).with_name("cuda_programs.py")
    subprocess.run([sys.executable, "-B", str(file), program], env=environment, check=True)
