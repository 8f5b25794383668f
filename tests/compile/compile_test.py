#!/usr/bin/env python3
"""Models that PyTorch scripts, compiled by Tenon and run in PyTorch's lite interpreter.

write_models.py writes the corpus under one PyTorch. The agent imports each archive and exports it with bytecode of its own. run_models.py
compares the results with those of eager PyTorch, and the tables with those that PyTorch writes itself. The operators that
Module::operator_names tells are compared with torch.jit.export_opnames.

usage: compile_test.py debian|newest      Exit status 77: that PyTorch is not here, or it has no TorchScript.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from torches import find_torches  # noqa: E402 (found by the path above)

AGENT = os.environ["TENON_COMPILE_AGENT"]
# PyTorch 1.13 runs these and cannot give their results to Python, whoever wrote the bytecode.
NOT_IN_PYTHON = {"debian": {"named_tuple_returned", "tensor_of_bools"}, "newest": set()}
SKIPPED = 77


def run(python: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [python, "-W", "ignore", "-B", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def ask(tasks: list[list[str | Path]]) -> list[list[str]]:
    """The lines that the agent says to each task; the last is "ok" or an error."""
    text = "".join("\t".join(map(str, task)) + "\n" for task in tasks)
    done = subprocess.run([AGENT], input=text, stdout=subprocess.PIPE, text=True, check=False)
    answers: list[list[str]] = [[]]
    for line in done.stdout.splitlines():
        answers[-1].append(line)
        if line == "ok" or line.startswith("error "):
            answers.append([])
    answers.pop()
    assert done.returncode == 0 and len(answers) == len(tasks), f"the agent ended with {done.returncode}"
    return answers


def prove(python: str, torch_name: str, folder: Path) -> list[str]:
    """What is wrong."""
    theirs, ours = folder / "theirs", folder / "ours"
    ours.mkdir()
    written = run(python, HERE / "write_models.py", theirs)
    print(written.stdout.rstrip())
    if written.returncode != 0:
        return ["PyTorch could not write the models"]
    states: dict[str, str] = json.loads((theirs / "models.json").read_text())
    names = [name for name in states if (theirs / f"{name}.pt").exists() and name not in NOT_IN_PYTHON[torch_name]]
    wrong = []
    for name, answer in zip(names, ask([["compile", theirs / f"{name}.pt", ours / f"{name}.ptl"] for name in names]), strict=True):
        if answer[-1] != "ok":
            wrong.append(f"{name}: {answer[-1]}")
    of_torch = [name for name in names if states[name] == "ok"]
    for name, answer in zip(of_torch, ask([["opnames", theirs / f"{name}.pt"] for name in of_torch]), strict=True):
        expected = json.loads((theirs / f"{name}.opnames.json").read_text())
        if answer[0].split() != sorted(expected):
            wrong.append(f"{name}: the operators differ: {sorted(set(answer[0].split()) ^ set(expected))}")
    ran = run(python, HERE / "run_models.py", theirs, ours, *names)
    print(ran.stdout.rstrip())
    if ran.returncode != 0:
        wrong.append("a model differs")
    return wrong


def main() -> int:
    torch_name = sys.argv[1]
    python = find_torches().get(torch_name)
    if python is None:
        print(f"skipped: there is no PyTorch {torch_name} here")
        return SKIPPED
    has_script = run(python, "-c", "import torch; torch.jit.script(torch.nn.ReLU())")
    if has_script.returncode != 0:
        print(f"skipped: this PyTorch has no TorchScript\n{has_script.stdout}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tenon-compile-") as folder:
        wrong = prove(python, torch_name, Path(folder))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
