#!/usr/bin/env python3
"""Runs what Tenon compiled. It runs under the Python of the PyTorch that wrote the models (write_models.py).

Each OURSDIR/NAME.ptl is loaded by PyTorch's lite interpreter, its results are compared with those of eager PyTorch, and its tables with
those of OUTDIR/NAME.lite.ptl. One line a model says "ok", "differs" or "fails". A model runs in a child process, because PyTorch does not
check bytecode and may crash. Tables are compared only where PyTorch could write its own.

usage: run_models.py OUTDIR OURSDIR [--details] [NAME...]      --details also prints where the tables differ
"""

import json
import sys
from pathlib import Path

import torch
from models_kit import Call, Result, in_child, result_difference, run_calls, set_up
from tables import compare_archives
from torch.jit.mobile import _load_for_lite_interpreter


def load_expected(path: Path) -> dict:
    return torch.load(str(path), weights_only=False)


def run_differences(ours: Path, expected_path: Path) -> str:
    """How the results differ from those of eager PyTorch; empty if they do not. An exception means that the archive does not load."""
    expected = load_expected(expected_path)
    calls = [Call(method, arguments) for method, arguments in expected["calls"]]
    module = _load_for_lite_interpreter(str(ours))
    results = run_calls(lambda method, arguments: module.run_method(method, *arguments), calls)
    for index, (kept, actual) in enumerate(zip(expected["results"], results, strict=True)):
        found = result_difference(Result(**kept), actual, expected["tolerance"])
        if found:
            return f"call {index}: {found}"
    return ""


def judge(ours: Path, theirs: Path, expected: Path) -> tuple[str, list[str]]:
    """The word for the model's line, and the reasons. The first line of each fits on the model's line."""
    if not ours.exists():
        return "fails", ["Tenon wrote no archive"]
    reasons = []
    try:
        found = run_differences(ours, expected)
    except Exception as error:
        return "fails", [str(error).strip()]
    if found:
        reasons.append(found)
    try:
        reasons += compare_archives(ours, theirs) if theirs.exists() else []
    except (ValueError, KeyError, IndexError) as error:
        reasons.append(f"the tables cannot be read: {error}")
    return ("differs" if reasons else "ok"), reasons


def judge_apart(ours: Path, theirs: Path, expected: Path) -> tuple[str, list[str]]:
    """judge() in a child process. A crash of the child is the model's failure."""
    try:
        word, reasons = in_child(lambda: judge(ours, theirs, expected))
    except RuntimeError as error:
        return "fails", [str(error)]
    return word, reasons


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--details"]
    details = len(words) < len(sys.argv) - 1
    folder, ours = Path(words[0]), Path(words[1])
    set_up()
    index = json.loads((folder / "models.json").read_text())
    names = words[2:] or [name for name, state in index.items() if state == "ok"]
    counts = {"ok": 0, "differs": 0, "fails": 0}
    for name in names:
        # Where PyTorch's own bytecode does not load or crashes, its tables are no model to follow.
        theirs = folder / (f"{name}.lite.ptl" if index[name] == "ok" else "none")
        word, reasons = judge_apart(ours / f"{name}.ptl", theirs, folder / f"{name}.expected.pt")
        counts[word] += 1
        firsts = [reason.splitlines()[0] for reason in reasons[:2] if reason]
        print(f"{name}: {word}" + (f" ({'; '.join(firsts)})" if firsts else ""), flush=True)
        if details and reasons:
            print("\n".join(f"    {line}" for reason in reasons for line in reason.splitlines()))
    print(f"{torch.__version__}: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    return 0 if counts["ok"] == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
