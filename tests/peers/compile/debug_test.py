#!/usr/bin/env python3
"""Debug tables of compiled bytecode: the error of the lite interpreter for a call that fails.

For each model of debug_models.py the error must name the modules and source lines that it names for
PyTorch's own archive, and more where PyTorch forgets some. With tables that the import read, these
are lines of the user's files. Without, they are lines of the archive's code, and the archive has no
path of the machine that wrote it.

usage: debug_test.py debian|newest

Exit status 77: that PyTorch is not here, or it has no TorchScript.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

from compile_test import ask, run  # noqa: E402 (found by the path above)
from debug_tables import compare_archives, read_origins  # noqa: E402
from torches import SKIPPED, find_script_torch  # noqa: E402

NAMES = (
    "nested",
    "listed",
    "calling",
    "choosing",
    "choosing_inside",
    "raising",
    "interface",
    "without_result",
)
# The lite interpreter of one or both PyTorch versions names no modules when these fail.
SILENT = {"choosing", "choosing_inside", "raising"}
FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def hierarchy(error: str) -> str:
    """Returns the modules down to the node that failed.

    PyTorch 1.13 names none for an exception that is no torch::Error.
    """
    lines = [line for line in error.splitlines() if "Module hierarchy:" in line]
    return lines[0].split("<unknown>.")[1] if lines else ""


def frames(error: str) -> list[tuple[str, ...]]:
    """Returns for each call its file, line and function, and the marked source lines."""
    found = []
    before = ""
    for line in error.splitlines():
        if match := FRAME.fullmatch(line):
            found.append(match.groups())
        elif line.endswith("<--- HERE"):
            found[-1] = (*found[-1], before.strip())
        before = line
    return found


class DebugTables(unittest.TestCase):
    python: ClassVar[str]
    folder: ClassVar[Path]

    def errors(self, task: str, archives: list[Path]) -> dict[Path, str]:
        done = run(self.python, HERE / "debug_models.py", task, *archives)
        self.assertEqual(done.returncode, 0, done.stdout)
        return {Path(path): text for path, text in json.loads(done.stdout).items()}

    def compiled(self, into: str, ending: str, tables: str) -> dict[str, tuple[Path, Path]]:
        """Returns PyTorch's archive and ours by the model's name. Ours has tables of this kind."""
        ours = self.folder / into
        ours.mkdir()
        pairs = {
            name: (self.folder / f"{name}{ending}.ptl", ours / f"{name}{ending}.ptl")
            for name in NAMES
        }
        tasks = [
            ["compile", theirs.with_suffix(".pt"), mine, tables] for theirs, mine in pairs.values()
        ]
        self.assertEqual({answer[-1] for answer in ask(tasks)}, {"ok"})
        return pairs

    def compare(self, pairs: dict[str, tuple[Path, Path]]) -> None:
        errors = self.errors("run", [path for pair in pairs.values() for path in pair])
        for name, (theirs, ours) in pairs.items():
            with self.subTest(model=name):
                self.assertEqual(compare_archives(ours, theirs), [])
                modules = hierarchy(errors[ours])
                if name == "without_result":
                    self.assertEqual(
                        modules, "inner(Checked)::forward.SELF(Checked)::check.aten::mul_"
                    )
                    self.assertEqual(
                        [frame[2] for frame in frames(errors[ours])],
                        ["<unknown>", "forward", "check"],
                    )
                    continue
                self.assertEqual(modules, hierarchy(errors[theirs]))
                self.assertEqual(frames(errors[ours]), frames(errors[theirs]), errors[ours])
                self.assertTrue(modules or name in SILENT)
        for text in self.errors("load", [ours for _, ours in pairs.values()]).values():
            self.assertIn("Traceback of TorchScript", text)

    def test_lines_of_the_users_files(self) -> None:
        self.compare(self.compiled("carried", "", "carried"))

    def test_lines_of_the_archives_code(self) -> None:
        self.compare(self.compiled("new", ".bare", "carried"))

    def test_no_path_of_the_writer(self) -> None:
        for name, (_, ours) in self.compiled("plain", "", "new").items():
            with self.subTest(model=name):
                places = {
                    origin.place for origins in read_origins(ours).values() for origin in origins
                }
                self.assertTrue(places)
                self.assertTrue(
                    all(place.file.startswith("code/__torch__") for place in places), places
                )


def main() -> int:
    torch_name = sys.argv[1]
    python = find_script_torch(torch_name)
    if python is None:
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tenon-debug-") as folder:
        written = run(python, HERE / "debug_models.py", "write", folder)
        print(written.stdout.rstrip())
        if written.returncode != 0:
            return 1
        DebugTables.python, DebugTables.folder = python, Path(folder)
        done = unittest.main(argv=[sys.argv[0]], exit=False, verbosity=2)
    return 0 if done.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
