#!/usr/bin/env python3
"""Reads pickles that real PyTorch wrote, and compares them with what PyTorch says.

Pickles of archives are written again with the same bytes. State dicts at protocols 2 to 5 hold the
tensors that PyTorch lists.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript and the other passed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_script_torches, run_torch

HERE = Path(__file__).resolve().parent
AGENT = os.environ.get("TENON_TEST_PICKLE_AGENT", "")

TORCHES, STATUS = find_script_torches()


def run_agent(tasks: list[list[str]]) -> list[list[str]]:
    """Returns the lines of each task. The last line is "ok" or "error …"."""
    said = subprocess.run(
        [AGENT],
        input="".join("\t".join(task) + "\n" for task in tasks),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    answers: list[list[str]] = [[]]
    for line in said:
        answers[-1].append(line)
        if line == "ok" or line.startswith("error "):
            answers.append([])
    return answers[:-1]


def unpack(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as container:
        container.extractall(folder)
    return next(folder.iterdir())


class Case(unittest.TestCase):
    torch = ""
    folder: tempfile.TemporaryDirectory[str]
    expected: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="tenon-pickle-")
        cls.addClassCleanup(cls.folder.cleanup)
        done = run_torch(
            TORCHES[cls.torch], HERE / "pickle_maker.py", cls.folder.name, cwd=cls.folder.name
        )
        assert done.returncode == 0, done.stderr
        cls.expected = json.loads(
            (Path(cls.folder.name) / "expected.json").read_text(encoding="utf-8")
        )

    def test_archives_are_written_again_byte_for_byte(self) -> None:
        tasks = []
        root = Path(self.folder.name)
        for name in self.expected["archives"]:
            folder = root / name.removesuffix(".pt")
            place = unpack(root / name, folder)
            for pickle in sorted(place.glob("*.pkl")):
                tasks.append(
                    [
                        "rewrite",
                        str(pickle),
                        str(place / pickle.stem),
                        str(folder / f"{pickle.stem}.again"),
                    ]
                )
        self.assertGreater(len(tasks), 60)
        answers = run_agent(tasks)
        self.assertEqual(len(answers), len(tasks))
        storages = 0
        for task, answer in zip(tasks, answers, strict=True):
            with self.subTest(pickle=os.path.relpath(task[1], root)):
                self.assertEqual(answer[-1], "ok")
                self.assertEqual(Path(task[3]).read_bytes(), Path(task[1]).read_bytes())
                self.assertEqual(answer[:-1], [str(i) for i in range(len(answer) - 1)])
                storages += len(answer) - 1
        self.assertGreater(storages, 200)

    def test_state_dicts_hold_what_pytorch_says(self) -> None:
        root = Path(self.folder.name)
        tasks = []
        places = []
        for state in self.expected["state_dicts"]:
            place = unpack(root / state["file"], root / state["file"].removesuffix(".pt"))
            places.append(place)
            tasks.append(["state_dict", str(place / "data.pkl"), str(place / "data")])
        tensors = 0
        for state, place, answer in zip(
            self.expected["state_dicts"], places, run_agent(tasks), strict=True
        ):
            with self.subTest(state_dict=state["file"]):
                self.assertEqual(answer[-1], "ok")
                lines = dict(
                    line.split("\t", 1) for line in answer[:-1] if not line.endswith("\tother")
                )
                others = [
                    line.removesuffix("\tother").split(":")[0]
                    for line in answer[:-1]
                    if line.endswith("\tother")
                ]
                self.assertEqual(
                    others, [name for name, tensor in state["entries"] if tensor is None]
                )
                self.assertEqual(
                    list(lines), [name for name, tensor in state["entries"] if tensor is not None]
                )
                for name, tensor in state["entries"]:
                    if tensor is not None:
                        self.check_tensor(lines[name], tensor, place)
                        tensors += 1
        self.assertGreater(tensors, 150)

    def check_tensor(self, line: str, tensor: dict[str, Any], place: Path) -> None:
        kind, grad, layout, rest = line.split("\t")
        self.assertEqual(kind, "parameter" if tensor["parameter"] else "tensor")
        # Python's pickle of a sparse tensor does not contain requires_grad.
        if layout == "strided":
            self.assertEqual(grad, "grad" if tensor["grad"] else "no grad")
        self.assertEqual(layout, tensor["layout"])
        parts = rest.split("; ")
        if layout != "strided":
            self.assertEqual(json.loads(parts.pop(0)), tensor["sizes"])
        self.assertEqual(len(parts), len(tensor["parts"]))
        for part, wanted in zip(parts, tensor["parts"], strict=True):
            found = re.fullmatch(r"(\w+) (\[.*\]) (\[.*\]) (\d+) (\S+)(.*)", part)
            self.assertIsNotNone(found, part)
            assert found is not None
            dtype, sizes, strides, offset, key, flags = found.groups()
            self.assertEqual(
                (dtype, json.loads(sizes), json.loads(strides)),
                (wanted["dtype"], wanted["sizes"], wanted["strides"]),
            )
            self.assertEqual((int(offset), flags), (wanted["offset"], wanted["flags"]))
            self.assertEqual((place / "data" / key).read_bytes().hex(), wanted["bytes"])


def load_tests(
    loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str | None
) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    for name in TORCHES:
        suite.addTests(loader.loadTestsFromTestCase(type(f"Case_{name}", (Case,), {"torch": name})))
    return suite


if __name__ == "__main__":
    if not AGENT:
        sys.exit("TENON_TEST_PICKLE_AGENT is not set: CTest sets it")
    if not TORCHES:
        sys.exit(STATUS)
    done = unittest.main(exit=False, verbosity=2)
    sys.exit(STATUS if done.result.wasSuccessful() else 1)
