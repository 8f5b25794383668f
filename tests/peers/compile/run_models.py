#!/usr/bin/env python3
"""Runs the archives that Tenon compiled. It runs under the Python of the PyTorch that wrote the
models (write_models.py).

torch.jit.load and PyTorch's lite interpreter run each OURSDIR/NAME.ptl. The results are compared
with those of eager PyTorch, and the tables with those of OUTDIR/NAME.lite.ptl. FLATBUFFERS/NAME.ptl
has the flatbuffer form, and both loaders run it too. One line a model says "ok", or the error.
Models run in a child process, because PyTorch does not check bytecode and may crash. Tables are
compared only where PyTorch could write its own.

usage: run_models.py [--details] [--answers FILE] OUTDIR OURSDIR FLATBUFFERS [NAME...]

--details also prints where the tables differ.

--answers writes the errors of each form of each model as JSON.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models_kit import Call, Result, apart, result_difference, run_calls, set_up
from tables import compare_archives
from torch.jit.mobile import _load_for_lite_interpreter

FORMS = ("archive", "bytecode", "tables", "flatbuffer")
NOT_COMPARED = "PyTorch has none"


def run_differences(
    invoke: Callable[[str, tuple[Any, ...]], Any], expected: dict[str, Any], is_lite: bool
) -> str:
    """Returns how the results differ from those of eager PyTorch, or an empty text."""
    calls = [Call(method, arguments) for method, arguments in expected["calls"]]
    results = run_calls(invoke, calls)
    for index, (kept, actual) in enumerate(zip(expected["results"], results, strict=True)):
        wanted = Result(**kept)
        if not is_lite:
            wanted.warned = (
                actual.warned
            ) = []  # the warnings that were kept are the lite interpreter's
        found = result_difference(wanted, actual, expected["tolerance"])
        if found:
            return f"call {index}: {found}"
    return ""


def run_archive(module: Any, expected: dict[str, Any]) -> str:
    return run_differences(
        lambda method, arguments: getattr(module, method)(*arguments), expected, is_lite=False
    )


def run_bytecode(module: Any, expected: dict[str, Any]) -> str:
    return run_differences(
        lambda method, arguments: module.run_method(method, *arguments), expected, is_lite=True
    )


def run_flatbuffer(path: Path, expected: dict[str, Any]) -> str:
    # If PyTorch opens a path, it maps the file only for reading. Then a module that writes to its
    # own buffers crashes, whoever wrote the file.
    for loader, load, run in (
        ("torch.jit.load", torch.jit.load, run_archive),
        ("the lite loader", _load_for_lite_interpreter, run_bytecode),
    ):
        with path.open("rb") as file:
            module = load(file)
        found = run(module, expected)
        if found:
            return f"{loader}: {found}"
    return ""


def judge(ours: Path, flatbuffer: Path, theirs: Path, expected_path: Path) -> dict[str, str]:
    """Returns the error of each form, or an empty text."""
    if not ours.exists() or not flatbuffer.exists():
        return dict.fromkeys(FORMS, "Tenon wrote no archive, or no flatbuffer")
    expected = torch.load(str(expected_path), weights_only=False)
    found = {}
    forms: dict[str, Callable[[], str]] = {
        "archive": lambda: run_archive(torch.jit.load(str(ours)), expected),
        "bytecode": lambda: run_bytecode(_load_for_lite_interpreter(str(ours)), expected),
        "flatbuffer": lambda: run_flatbuffer(flatbuffer, expected),
    }
    for form, run in forms.items():
        try:
            found[form] = run()
        except Exception as error:
            found[form] = str(error).strip() or type(error).__name__
    try:
        found["tables"] = (
            "\n".join(compare_archives(ours, theirs)) if theirs.exists() else NOT_COMPARED
        )
    except (ValueError, KeyError, IndexError) as error:
        found["tables"] = f"they cannot be read: {error}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("flatbuffers", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args()
    set_up()
    index = json.loads((options.folder / "models.json").read_text())
    names = options.names or [name for name, state in index.items() if state == "ok"]

    def work(name: str) -> dict[str, str]:
        # Where PyTorch's own bytecode does not load or crashes, its tables are no reference.
        theirs = options.folder / (f"{name}.lite.ptl" if index[name] == "ok" else "none")
        return judge(
            options.ours / f"{name}.ptl",
            options.flatbuffers / f"{name}.ptl",
            theirs,
            options.folder / f"{name}.expected.pt",
        )

    answers = dict(
        zip(names, apart(work, names, lambda message: dict.fromkeys(FORMS, message)), strict=True)
    )
    for name in names:
        wrong = {
            form: text for form, text in answers[name].items() if text and text != NOT_COMPARED
        }
        print(
            f"{name}: "
            + (
                "; ".join(f"{form}: {text.splitlines()[0]}" for form, text in wrong.items()) or "ok"
            ),
            flush=True,
        )
        if options.details and wrong:
            print("\n".join(f"    {line}" for text in wrong.values() for line in text.splitlines()))
    n_right = sum(
        all(text in ("", NOT_COMPARED) for text in answer.values()) for answer in answers.values()
    )
    print(f"{torch.__version__}: {n_right} of {len(names)} models are right in all forms")
    if options.answers:
        options.answers.write_text(json.dumps(answers))
    return 0 if n_right == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
