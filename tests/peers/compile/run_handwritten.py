#!/usr/bin/env python3
"""Runs programs of hand-written TorchScript. It runs under the Python of one PyTorch.

FOLDER/NAME.pt is an archive that handwritten_kit.py wrote. FOLDER/NAME.ptl is what Tenon made of
the archive, if Tenon compiled it. torch.jit.load runs the archive, and PyTorch's lite interpreter
runs Tenon's bytecode. If the results differ or Tenon's bytecode is missing, PyTorch's own bytecode
runs too. The programs run in child processes, because PyTorch does not check bytecode and may
crash.

FOLDER/answers.json says for each program:

- "loads": why torch.jit.load refuses the archive, or an empty text
- "returns": the number of calls in which torch.jit.load raises no exception
- "tenon": how the results of Tenon's bytecode differ from those of torch.jit.load, or an empty text
- "own": the same for PyTorch's own bytecode

usage: run_handwritten.py FOLDER NAME...
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from models_kit import Call, Result, apart, difference, result_difference, run_calls, set_up
from torch.jit.mobile import _load_for_lite_interpreter

# A program that is slower than this is taken to have no end.
SECONDS = 20
OF_ONE_CHILD = 25  # programs, because a fork of a process with PyTorch takes long
# PyTorch's bytecode may move a value out of its register in a loop. The next round then fails with
# this.
INTERNAL = "INTERNAL ASSERT FAILED"
WIDE = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -6.0]])
LONG = torch.tensor([[0.0, 9.0, 2.0]])
# Values of the arguments of handwritten_kit.SIGNATURE.
CALLS = [
    Call("forward", arguments)
    for arguments in (
        (WIDE, 3, 2.5, True, "abc", [4, 5, 6], {"a": 1, "b": 2}, None),
        (LONG, -2, -0.5, False, "a", [7], {"z": 0}, 5),
        (LONG, 1, 0.25, True, "b,ca", [0, 1, 2, 3], {"bc": 3, "4": 7, "0": 1}, 0),
        (LONG, 0, 7.5, False, "", [2], {"q": -1}, None),
        (WIDE, 6, -3.75, True, "xyzzy", [6, 2, 6], {"6": 4, "a": 9}, 3),
    )
]

Runner = Callable[[Path], list[Result]]


def run_scripted(path: Path) -> list[Result]:
    module = torch.jit.load(str(path))
    return run_calls(lambda method, arguments: getattr(module, method)(*arguments), CALLS)


def run_lite(path: Path) -> list[Result]:
    module = _load_for_lite_interpreter(str(path))
    return run_calls(lambda method, arguments: module.run_method(method, *arguments), CALLS)


def run_own(path: Path) -> list[Result]:
    """Runs PyTorch's own bytecode of an archive."""
    own = path.with_suffix(".own.ptl")
    torch.jit.load(str(path))._save_for_lite_interpreter(str(own))
    return run_lite(own)


def message(result: Result) -> str:
    """Returns the text of a TorchScript exception, without the source lines before and the notes
    after it.

    Both sides raise a Python exception whose class says nothing. The class that the program itself
    raises is a part of the message, as in "AssertionError: why".
    """
    text = str(result.value)
    found = re.search(r"\nRuntimeError: (.*)\n$", text) if "TorchScript" in text else None
    return found[1] if found else re.sub(r"^\w*Error: ", "", text.split("\n")[0])


def differences(expected: list[Result], actual: list[Result]) -> str:
    for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
        other.warned = one.warned  # only the lite interpreter reports these
        if one.raised and INTERNAL in str(one.value):
            continue
        found = result_difference(one, other, 0)
        if one.raised and other.raised:
            said = f"it says {message(other)!r} and should say {message(one)!r}"
            found = "" if message(one) == message(other) else said
            found = found or difference(one.arguments, other.arguments, 0, "an argument")
        if found:
            return f"call {index}: {found}"
    return ""


def first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def bytecode_differences(run: Runner, path: Path, expected: list[Result]) -> str:
    try:
        return differences(expected, run(path))
    except Exception as error:
        return first_line(error)


def judge(path: Path) -> dict[str, str]:
    signal.alarm(SECONDS)
    answer = {"loads": "", "returns": "", "tenon": "there is no bytecode", "own": ""}
    try:
        expected = run_scripted(path)
    except Exception as error:
        return {**answer, "loads": first_line(error)}
    answer["returns"] = str(sum(not result.raised for result in expected))
    ours = path.with_suffix(".ptl")
    if ours.exists():
        answer["tenon"] = bytecode_differences(run_lite, ours, expected)
    if answer["tenon"]:
        answer["own"] = bytecode_differences(run_own, path, expected)
    return answer


def died(message: str) -> dict[str, str]:
    return {"loads": "", "returns": "", "tenon": message, "own": "not run"}


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    set_up()
    # The first archive makes PyTorch look things up. After this every child has them.
    warm = folder / "warm.pt"
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), str(warm))
    torch.jit.load(str(warm))._save_for_lite_interpreter(str(warm))
    _load_for_lite_interpreter(str(warm))
    answers: dict[str, dict[str, str]] = {}
    for first in range(0, len(names), OF_ONE_CHILD):
        some = names[first : first + OF_ONE_CHILD]
        answers |= dict(
            zip(some, apart(judge, [folder / f"{name}.pt" for name in some], died), strict=True)
        )
    (folder / "answers.json").write_text(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
