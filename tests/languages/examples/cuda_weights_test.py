#!/usr/bin/env python3
"""The example cuda_weights of any language: what it prints on the driver of
tests/support/fake_cuda; without one it says why and ends with 77.

It gets what the examples export_mlp and replace_weights write. After it the fake's ledger must tell
that the worker opened memory once for each archive, that the lender had all of it back, and that no
rule was broken. Exit status 77: the Python package is not installed.

usage: cuda_weights_test.py COMMAND...
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
DRIVER = Path(os.environ["TENON_BUILD_DIR"]) / "tests/support/fake_cuda/driver-13"
ALLOCATION = 2
SHAPES = {"fc1.weight": [8, 4], "fc1.bias": [8], "fc2.weight": [3, 8], "fc2.bias": [3]}


def expected(file: Path, scale: float) -> list[str]:
    lines = [f"{file}:"]
    for name, shape in SHAPES.items():
        numel = shape[0] * shape[-1] if len(shape) == 2 else shape[0]
        total = sum(0.25 * (i % 7 - 3) for i in range(numel)) * scale
        lines.append(f"  {name}: float32 {shape} on cuda:0, the sum is {total:g}")
    return lines


def environment(driver: bool, world: str | None) -> dict[str, str]:
    new = {name: text for name, text in os.environ.items() if not name.startswith("FAKE_CUDA_")}
    if driver:
        new["LD_LIBRARY_PATH"] = f"{DRIVER}:{new.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    if world is not None:
        new["FAKE_CUDA_WORLD"] = world
    return new


def check_lend(command: list[str], files: list[Path], world: str) -> None:
    output = subprocess.run(
        [*command, *map(str, files)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(True, world),
    ).stdout
    print(output, end="")
    # Go prints no commas between the numbers of a slice.
    lines = [re.sub(r"(\d) (\d)", r"\1, \2", line) for line in output.splitlines()]
    wanted = [
        line for file, scale in zip(files, (1, 0.5), strict=True) for line in expected(file, scale)
    ]
    wanted.append("0 storages are still lent")
    assert lines == wanted, wanted
    os.environ["FAKE_CUDA_WORLD"] = world
    ledger = ctypes.CDLL(str(DRIVER / "libcuda.so.1"))
    for function in (
        ledger.fake_cuda_calls,
        ledger.fake_cuda_live,
        ledger.fake_cuda_faults,
        ledger.fake_cuda_left,
    ):
        function.restype = ctypes.c_uint64
    assert ledger.fake_cuda_calls(b"cuIpcOpenMemHandle", 0) == len(files), (
        "memory was opened more than once for an archive"
    )
    assert ledger.fake_cuda_live(0, 0) == 0, "something is held"
    assert ledger.fake_cuda_left(ALLOCATION, 0) == 0, "memory was not given back before the end"
    assert ledger.fake_cuda_faults(0) == 0, "a rule was broken"


def check_refusal(command: list[str], files: list[Path], env: dict[str, str], reason: str) -> None:
    done = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, check=False, env=env
    )
    print(done.stderr, end="")
    assert done.returncode == 77 and not done.stdout, done
    assert re.search(f"^cuda_weights: .*{reason}", done.stderr, re.MULTILINE), done.stderr


def has_driver() -> bool:
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL("libcuda.so.1"))
    return False


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    command = sys.argv[1:]
    if importlib.util.find_spec("tenon") is None or importlib.util.find_spec("numpy") is None:
        print("skipped: the Python packages tenon and numpy are not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as world:
        files = [Path(folder) / "mlp.pt", Path(folder) / "new.pt"]
        for example, arguments in (("export_mlp", files[:1]), ("replace_weights", files)):
            subprocess.run(
                [
                    sys.executable,
                    "-B",
                    SOURCE / "examples" / "python" / f"{example}.py",
                    *arguments,
                ],
                check=True,
                stdout=subprocess.PIPE,
            )
        if not has_driver():
            check_refusal(
                command, files, environment(False, None), "(no CUDA driver here|has no CUDA)"
            )
        if DRIVER.exists():
            check_refusal(command, files, environment(True, None), "no device")
            check_lend(command, files, world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
