#!/usr/bin/env python3
"""Every module that is built by hand has the same archive, to the byte, from one language as from
C.

usage: built_test.py LANGUAGE

For C itself, two runs are compared. Exit status 77: this machine lacks the language.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import page
import programs
from built_steps import MODELS


def compare(program: programs.Program) -> list[str]:
    """Returns the differences of its archives."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "c"), Path(folder, "found")
        wrong = programs.Program("c").run(programs.all_steps(), wanted) or program.run(
            programs.all_steps(), found
        )
        missing = [name for name in MODELS if not (wanted / f"{name}.pt").exists()]
        return (
            [wrong]
            if wrong
            else [f"{name} differs" for name in [*missing, *programs.differences(wanted, found)]]
        )


def main() -> int:
    (language,) = sys.argv[1:]
    page.clear("languages", language)
    program = programs.Program(language)
    absent = program.build()
    wrong = [] if absent else compare(program)
    result = "left out" if absent else "failed" if wrong else "ok"
    page.put(
        "languages",
        language,
        {f"{len(MODELS)} archives": {"result": result, "why": wrong or [absent]}},
    )
    print("\n".join(wrong) or absent or f"{language}: {len(MODELS)} archives are the same as C's")
    return programs.NO_TOOLCHAIN if absent else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
