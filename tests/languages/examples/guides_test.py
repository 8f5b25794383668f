#!/usr/bin/env python3
"""Runs an example of examples/guides and compares its output with its comments `# prints: LINE`.

The order of the lines is free, since several processes print. Examples named cuda_* run on the
driver of tests/support/fake_cuda, those named torch_* in the Python that TENON_TORCH_NEWEST names.
Exit status 77: that driver, that PyTorch or what the example itself needs is missing.

usage: guides_test.py EXAMPLE
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_torches

DRIVER = Path(os.environ["TENON_BUILD_DIR"]) / "tests/support/fake_cuda/driver-13"


def environment(example: Path, world: str) -> dict[str, str]:
    new = {name: text for name, text in os.environ.items() if not name.startswith("FAKE_CUDA_")}
    new.pop("PYTHONUNBUFFERED", None)  # unbuffered lines of several processes would mix
    if example.name.startswith("cuda_"):
        new["LD_LIBRARY_PATH"] = f"{DRIVER}:{new.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        new["FAKE_CUDA_WORLD"] = world
    return new


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    example = Path(sys.argv[1])
    text = example.read_text(encoding="utf-8")
    promised = re.findall(r"# prints: (.*)$", text, re.MULTILINE)
    python = sys.executable
    if example.name.startswith("torch_"):
        python = find_torches().get("newest", "")
        if not python:
            print("skipped: TENON_TORCH_NEWEST has no PyTorch")
            return 77
    if example.name.startswith("cuda_") and not DRIVER.exists():
        print("skipped: this build has no fake CUDA driver")
        return 77
    with tempfile.TemporaryDirectory() as world:
        env = environment(example, world)
        command = [python, "-B", str(example)]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=env)
    print(done.stdout, end="")
    if done.returncode != 0:
        return done.returncode
    assert promised, "the example promises no output"
    assert sorted(done.stdout.splitlines()) == sorted(promised), promised
    return 0


if __name__ == "__main__":
    sys.exit(main())
