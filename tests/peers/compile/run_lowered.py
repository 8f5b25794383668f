#!/usr/bin/env python3
"""Runs the archives that Tenon lowered. It runs under the Python of the PyTorch that wrote the
models (write_models.py), or of an old PyTorch.

PyTorch's lite interpreter loads each FOLDER/lowered/VERSION/NAME.ptl, and its results are compared
with those that eager PyTorch gave when FOLDER/theirs was written. Models run in a child process,
because PyTorch does not check bytecode and may crash.

With --backport DIR, PyTorch lowers FOLDER/theirs/NAME.lite.ptl too, to DIR/VERSION/NAME.ptl, for
the names in --backport-names.

The answer is JSON on standard output: the error of each model of each version, or an empty text.
Python 3.9 is enough for this file.
"""

from __future__ import annotations

import argparse
import inspect
import json
from pathlib import Path

import torch
from models_kit import Call, Result, apart, result_difference, run_calls, set_up
from torch.jit.mobile import _load_for_lite_interpreter

# How far results of one PyTorch may differ from those of another.
OTHER_KERNELS = 1e-5


def load_expected(path: Path) -> dict:
    old = (
        {}
        if "weights_only" not in inspect.signature(torch.load).parameters
        else {"weights_only": False}
    )
    return torch.load(str(path), **old)


def run_differences(ours: Path, expected_path: Path, tolerance: float) -> str:
    """Returns how the results differ from those of eager PyTorch, or an empty text.

    An exception means that the archive does not load.
    """
    expected = load_expected(expected_path)
    calls = [Call(method, arguments) for method, arguments in expected["calls"]]
    module = _load_for_lite_interpreter(str(ours))
    results = run_calls(lambda method, arguments: module.run_method(method, *arguments), calls)
    for index, kept in enumerate(expected["results"]):
        found = result_difference(
            Result(**kept), results[index], max(expected["tolerance"], tolerance)
        )
        if found:
            return f"call {index}: {found}"
    return ""


def judge(ours: Path, expected: Path, tolerance: float) -> str:
    """Returns the error of one archive."""
    try:
        return run_differences(ours, expected, tolerance)
    except Exception as error:
        return str(error).strip() or type(error).__name__


def backport(theirs: Path, folder: Path, versions: list[str], names: list[str]) -> None:
    """Lowers archives by PyTorch's own code. PyTorch goes down by one version at a time.

    Each version is made from the one above it, as PyTorch does in memory.
    """
    from torch.jit.mobile import _backport_for_mobile  # an old PyTorch lacks it

    for name in names:
        above = theirs / f"{name}.lite.ptl"
        for version in sorted(versions, key=int, reverse=True):
            (folder / version).mkdir(parents=True, exist_ok=True)
            _backport_for_mobile(str(above), str(folder / version / f"{name}.ptl"), int(version))
            above = folder / version / f"{name}.ptl"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("versions", nargs="+")
    parser.add_argument(
        "--other-kernels", action="store_true", help="another PyTorch wrote the models"
    )
    parser.add_argument("--backport", type=Path)
    parser.add_argument("--backport-names", nargs="*", default=[])
    given = parser.parse_args()
    set_up()
    if given.backport:
        backport(given.folder / "theirs", given.backport, given.versions, given.backport_names)
    tolerance = OTHER_KERNELS if given.other_kernels else 0

    def work(ours: Path) -> str:
        return judge(ours, given.folder / "theirs" / f"{ours.stem}.expected.pt", tolerance)

    answers: dict[str, dict[str, str]] = {}
    for version in given.versions:
        archives = sorted((given.folder / "lowered" / version).glob("*.ptl"))
        answers[version] = {
            archives[i].stem: found for i, found in enumerate(apart(work, archives, str))
        }
    print(json.dumps({"torch": torch.__version__, "answers": answers}))


if __name__ == "__main__":
    main()
