"""Starts the agent that works on archives, and the PyTorch that runs the agent's results. The tests
of this folder use it.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript and the other passed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import page

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_script_torches, run_torch

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
AGENT = os.environ.get("TENON_TEST_MODULE_AGENT", "")

TORCHES, STATUS = find_script_torches()


class Agent:
    """Runs tasks. `answers` has the agent's lines for each task. The last line is "ok" or
    "error …".
    """

    def __init__(self, tasks: list[list[str]]):
        done = subprocess.run(
            [AGENT],
            input="".join("\t".join(task) + "\n" for task in tasks),
            capture_output=True,
            text=True,
            check=False,
        )
        self.answers: list[list[str]] = [[]]
        for line in done.stdout.splitlines():
            self.answers[-1].append(line)
            if line == "ok" or line.startswith("error "):
                self.answers.append([])
        self.answers.pop()
        assert done.returncode == 0 and len(self.answers) == len(tasks), (
            f"the agent ended with {done.returncode}: {done.stderr}"
        )

    def failures(self) -> list[str]:
        return [answer[-1] for answer in self.answers if answer[-1] != "ok"]


def tell(*task: str | Path) -> list[str]:
    """Runs one task. Returns the printed lines without the "ok". An error fails the test."""
    (answer,) = Agent([[str(word) for word in task]]).answers
    assert answer[-1] == "ok", f"{task}: {answer[-1]}"
    return answer[:-1]


def refusal(*task: str | Path) -> str:
    """Runs one task, which must be refused. Returns the error."""
    (answer,) = Agent([[str(word) for word in task]]).answers
    assert answer[-1].startswith("error "), f"{task} was done"
    return answer[-1]


def run_python(python: str, *arguments: str | Path) -> str:
    """Runs a program of tests/peers/models, or one that imports from there. Returns its output."""
    done = run_torch(python, *arguments, cwd=MODELS, path=[MODELS])
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}{done.stderr}"
    return done.stdout


def check(part: str, python: str, *arguments: str | Path) -> str:
    """Runs a checker that has --json, and puts its results on the page, whether they are good or
    not. Returns the last line that it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.json")
        try:
            said = run_python(python, *arguments, "--json", results)
        finally:
            if results.exists():
                found = json.loads(results.read_text())
                writer = f"{found['written_by']} → " if "written_by" in found else ""
                page.put(part, writer + found["torch"], found["models"])
    return said.strip().splitlines()[-1]


class TorchCase(unittest.TestCase):
    """A test with a folder that is removed after the class."""

    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls._temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._temporary.name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls._temporary.cleanup()


def main() -> None:
    if not TORCHES:
        sys.exit(STATUS)
    done = unittest.main(module="__main__", exit=False, verbosity=2)
    sys.exit(STATUS if done.result.wasSuccessful() else 1)
