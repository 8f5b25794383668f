#!/usr/bin/env python3
"""Proves that the tests notice a faulty module: built_test.py if one language made it, and
check_built.py if all languages did.

Exit status 77: neither PyTorch is here, or one of them has no TorchScript. The rest passed.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import built_test
import kit
import page
import programs
from built_steps import MODELS, steps_of

# Steps that make no object for later steps. A program that forgot one would go on.
DROPPED = ["parameter", "buffer", "attribute", "constant", "submodule", "define", "types"]
DROPPED += ["before", "after", "extra", "set", "state", "replace", "remove", "load"]
# Fields whose default equals the value here, or of which PyTorch shows nothing.
SAME = {("axis", "0"), ("coalesced", "0"), ("coalesced", "1")}

PROGRAM = """
import subprocess, sys
from pathlib import Path
lines = Path(sys.argv[1]).read_text().splitlines(True)
def c(lines):
  Path(sys.argv[1]).write_text("".join(lines))
  return subprocess.run([*{c!r}, *sys.argv[1:]]).returncode
"""


def other_float(bits: str) -> str:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    return struct.pack(">d", number + 1 if abs(number) < 1e300 else 0.5).hex()


def changes(line: str) -> Iterator[str | None]:
    """Yields the line with a fault. None stands for a missing line."""
    step, *words = line.split("\t")
    if step in DROPPED:
        yield None
    if step == "storage" and words[0]:
        yield f"storage\t{words[0][:-2]}{int(words[0][-2:], 16) ^ 1:02x}"
    elif step in ("bool", "int"):
        yield f"{step}\t{int(words[0]) ^ 1}"
    elif step == "float":
        yield f"float\t{other_float(words[0])}"
    elif step == "complex":
        yield f"complex\t{words[0]}\t{other_float(words[1])}"
    elif step in ("str", "device"):
        yield f"{step}\t{words[0]}9"
    elif step in ("tuple", "list") and len(words) > 1:
        yield "\t".join([step, *words[:-1]])
    elif step in ("dict", "object") and len(words) > 1:
        yield "\t".join([step, *words[:-2]])
    elif step == "spec":
        for at in range(0, len(words), 2):
            if (words[at], words[at + 1]) not in SAME:
                yield "\t".join([step, *words[:at], *words[at + 2 :]])


def broken(lines: list[str]) -> Iterator[list[str]]:
    for number, line in enumerate(lines):
        for changed in changes(line):
            yield [*lines[:number], *([] if changed is None else [changed]), *lines[number + 1 :]]


class Noticed(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.c = programs.Program("c")

    def found_in(self, text: str) -> str:
        """Returns what built_test.py says about this Python program. c(lines) in it executes steps
        in C.
        """
        path = self.folder / "program.py"
        path.write_text(PROGRAM.format(c=self.c.words) + text)
        faulty = programs.Program("c")
        faulty.words = [sys.executable, str(path)]
        return " ".join(built_test.compare(faulty))

    def test_programs(self) -> None:
        self.assertEqual(self.found_in("sys.exit(c(lines))"), "")
        for what, text, wanted in (
            (
                "an attribute is dropped that code reads",
                "sys.exit(c([l for l in lines if 'hidden\\tint' not in l]))",
                "exit status 1",
            ),
            (
                "a member that nothing reads is dropped",
                "sys.exit(c([l for l in lines if 'no_buffer' not in l]))",
                "views.pt differs",
            ),
            (
                "a number is another one",
                "sys.exit(c(['int\\t8\\n' if l == 'int\\t7\\n' else l for l in lines]))",
                "types.pt differs",
            ),
            (
                "an archive is missing",
                "sys.exit(c([l for l in lines if 'export\\t0\\tmlp' not in l]))",
                "mlp.pt differs",
            ),
            (
                "there is one more",
                "Path(sys.argv[2], 'more').write_text('')\nsys.exit(c(lines))",
                "more differs",
            ),
            ("it ends with an error", "c(lines)\nsys.exit(3)", "exit status 3"),
            ("it complains", "c(lines)\nprint('a leak', file=sys.stderr)", "a leak"),
        ):
            with self.subTest(what):
                self.assertIn(wanted, self.found_in(text))

    def test_languages(self) -> None:
        for language in programs.LANGUAGES:
            self.assertTrue(programs.Program(language).words, language)

    def test_page(self) -> None:
        bad, absent = (
            {"result": "failed", "why": ["two", "lines\n"]},
            {"result": "left out", "why": ["too old"]},
        )
        text = page.text(
            {
                "built": {
                    "2.15": {"m": bad, "n": {"result": "ok", "why": []}},
                    "1.13": {"m": absent, "n": bad},
                }
            }
        )
        for line in (
            "1 ok, 1 n/a, 2 FAIL.",
            "| m     | n/a [1]  | FAIL [2] |",
            "| n     | FAIL [2] | ok       |",
            "1. too old",
            "2. two; lines",
        ):
            self.assertIn(line, text.split("\n"))

    def test_unknown_step(self) -> None:
        for line in (
            "model\tx\nforget\t0",
            "spec\tcolour\t1",
            "module\tM\nparameter\t0\tw\t7",
            "module\tM\nset\t0\tw",
            "float\t1.5",
        ):
            with self.subTest(line):
                self.assertIn("exit status 1: line ", self.c.run(line.split("\n"), self.folder))

    def test_in_pytorch(self) -> None:
        if not kit.TORCHES:
            self.skipTest("no PyTorch here")
        archives, n_refused = self.folder / "broken", 0
        for name in MODELS:
            lines = steps_of(name)
            self.assertEqual(self.c.run(lines, archives), "")
            right = (archives / f"{name}.pt").read_bytes()
            for number, steps in enumerate(broken(lines)):
                # The file's name is in the archive, so both need the same name.
                if self.c.run(steps, archives):
                    n_refused += 1
                elif (archives / f"{name}.pt").read_bytes() != right:
                    (archives / f"{name}.pt").rename(archives / f"{name}@{number}.pt")
            (archives / f"{name}.pt").unlink(missing_ok=True)
        python = kit.TORCHES.get("newest") or kit.TORCHES["debian"]
        found = json.loads(
            kit.run_python(python, kit.HERE / "check_built.py", archives, "--broken")
        )
        print(
            f"{n_refused} faults were refused by the library, and {found['judged']} others were run"
            " by PyTorch"
        )
        self.assertGreater(found["judged"], 300)
        self.assertEqual(found["unnoticed"], [])


if __name__ == "__main__":
    done = unittest.main(exit=False, verbosity=2)
    sys.exit(kit.STATUS if done.result.wasSuccessful() else 1)
