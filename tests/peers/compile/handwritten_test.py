#!/usr/bin/env python3
"""Hand-written TorchScript, compiled by Tenon, against torch.jit.load of the same archive.

The programs are those of handwritten_flow.py, handwritten_data.py and handwritten_forks.py, and
random ones of handwritten_random.py. torch.jit.load runs each archive (run_handwritten.py), and the
lite interpreter runs the bytecode that Tenon makes of it. Both must give the same results, or the
same exceptions. PyTorch must take each registered program, and a call must return. A program that
Tenon refuses says so where it is registered, and the test fails if that changes.

usage: handwritten_test.py debian|newest [NAME...] [--programs N] [--seed S] [--keep FOLDER]

--programs and --seed choose how many random programs run, and which. NAME is a registered program,
or random_S for the random one with the seed S, and no others run then. --keep keeps the archives.
Exit status 77: that PyTorch is not here, or it has no TorchScript.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

import handwritten_data  # noqa: E402, F401 (found by the path above; it registers programs)
import handwritten_flow  # noqa: E402, F401
import handwritten_forks  # noqa: E402, F401
from compile_test import ask, run  # noqa: E402
from handwritten_kit import PROGRAMS, Program, read_answers  # noqa: E402
from handwritten_random import random_program  # noqa: E402
from torches import SKIPPED, find_script_torch  # noqa: E402

SEED = 1
N_RANDOM = 150
LEAST_EQUAL = 0.8  # of the random programs; PyTorch refuses the others
# A random program may assign an Optional where PyTorch knows its type already.
ALLOWED_OF_RANDOM = {"equal", "each call raises", "PyTorch refuses it", "neither makes bytecode"}
LINES = 60  # the number of PyTorch's lines to show
REFUSALS = ("error UNSUPPORTED ", "error INVALID_ARGUMENT ")


def verdict(said: str, answer: dict[str, str]) -> tuple[str, str]:
    """Returns the verdict on a program, and the message of the side that found it."""
    if answer["loads"]:
        return "PyTorch refuses it", answer["loads"]
    if said != "ok" and not said.startswith(REFUSALS):
        return "Tenon fails", said
    if said != "ok":
        return ("neither makes bytecode" if answer["own"] else "Tenon refuses it"), said
    if not answer["tenon"]:
        return ("each call raises" if answer["returns"] == "0" else "equal"), ""
    return "DIFFERENT", f"{answer['tenon']} (PyTorch's bytecode: {answer['own'] or 'as expected'})"


def allowed(program: Program, torch_name: str) -> set[str]:
    """Returns the verdicts that a program may have."""
    if program.name not in PROGRAMS:
        return ALLOWED_OF_RANDOM
    if torch_name == "debian" and program.not_old:
        return {"PyTorch refuses it"}
    if program.refused:
        return {"Tenon refuses it"}
    return {"DIFFERENT" if program.unlike else "equal"}


def chosen(names: list[str], n_random: int, seed: int) -> list[Program]:
    """Returns the programs to run."""
    if names:
        seeds = [int(name.removeprefix("random_")) for name in names if name not in PROGRAMS]
        picked = [PROGRAMS[name] for name in names if name in PROGRAMS]
        return picked + [random_program(one) for one in seeds]
    print(f"{len(PROGRAMS)} registered programs, {n_random} random ones from --seed {seed}")
    return [*PROGRAMS.values(), *(random_program(seed + index) for index in range(n_random))]


def judge_all(
    python: str, programs: list[Program], folder: Path
) -> tuple[dict[str, tuple[str, str]], str]:
    """Returns the verdict of each program by its name, and the output of the runs in PyTorch."""
    for program in programs:
        program.write(folder)
    names = [program.name for program in programs]
    tasks = [
        ["compile", folder / f"{one.name}.pt", folder / f"{one.name}.ptl"]
        + [one.switch] * bool(one.switch)
        for one in programs
    ]
    said = ask(tasks)
    done = run(python, HERE / "run_handwritten.py", folder, *names)
    assert done.returncode == 0, done.stdout
    answers = read_answers(folder / "answers.json")
    last = [lines[-1] for lines in said]
    return {
        name: verdict(word, answers[name]) for name, word in zip(names, last, strict=True)
    }, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("torch", choices=["debian", "newest"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--programs", type=int, default=N_RANDOM)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    python = find_script_torch(given.torch)
    if python is None:
        return SKIPPED
    programs = chosen(given.names, given.programs, given.seed)
    with tempfile.TemporaryDirectory(prefix="tenon-handwritten-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        verdicts, printed = judge_all(python, programs, folder)
    n_wrong = 0
    for program in programs:
        found, words = verdicts[program.name]
        if found not in allowed(program, given.torch):
            n_wrong += 1
            print(f"\n{program.name}: {found}, {words}\n{program.code()}")
    if n_wrong and printed:
        print("the runs in PyTorch printed:", *printed.splitlines()[-LINES:], sep="\n")
    of_random = [verdicts[one.name][0] for one in programs if one.name not in PROGRAMS]
    print(f"random programs: {dict(collections.Counter(of_random))}")
    if of_random.count("equal") < LEAST_EQUAL * len(of_random):
        print("PyTorch refuses too many random programs")
        n_wrong += 1
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
