"""Proves that compare.py and run.py can fail: they get doctored outputs, and must notice each of
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import prepare

HERE = Path(__file__).parent
IDS = [case["id"] for case in prepare.committed()]
GOOD = "".join(f"ok {name}\n" for name in IDS)
LAST = IDS[-1]
CUDA = [case["id"] for case in prepare.committed("cuda")]
ON_CUDA = "".join(f"ok {name}\n" for name in CUDA)
NO_CUDA = GOOD
for _name in CUDA:
    NO_CUDA = NO_CUDA.replace(f"ok {_name}\n", f"skip {_name} requires cuda: no driver\n")

# name: (output of language a, output of language b, the expected complaint or "")
COMPARED: dict[str, tuple[str | None, str | None, str]] = {
    "alike": (GOOD, GOOD, ""),
    "a skip with a reason": (
        GOOD,
        GOOD.replace(f"ok {LAST}", f"skip {LAST} cannot be said here"),
        "",
    ),
    "a language that is not here": (GOOD, "# skipped: no compiler\n", ""),
    "a case is missing": (GOOD, GOOD.replace(f"ok {LAST}\n", ""), "was not executed"),
    "a case is missing everywhere": (
        GOOD.replace(f"ok {LAST}\n", ""),
        GOOD.replace(f"ok {LAST}\n", ""),
        "was not executed",
    ),
    "a skip without a reason": (
        GOOD,
        GOOD.replace(f"ok {LAST}", f"skip {LAST}"),
        "without a reason",
    ),
    "skipped everywhere": (
        GOOD.replace(f"ok {LAST}", f"skip {LAST} x"),
        GOOD.replace(f"ok {LAST}", f"skip {LAST} y"),
        "by no language",
    ),
    "a failure": (
        GOOD,
        GOOD.replace(f"ok {LAST}", f"FAIL {LAST} 1 is not 2"),
        "failed: 1 is not 2",
    ),
    "a language is missing": (GOOD, None, "b: no output"),
    "an empty output": (GOOD, "", "was not executed"),
    "an unknown case": (GOOD, GOOD + "ok other/case\n", "is no case"),
    "a case twice": (GOOD, GOOD + f"ok {LAST}\n", "twice"),
    "an unknown line": (GOOD, GOOD + "fine thanks\n", "no such line"),
    "no language": ("# skipped: x\n", "# skipped: y\n", "no language was executed"),
    "no CUDA": (NO_CUDA, NO_CUDA, ""),
    "CUDA for one only": (GOOD, NO_CUDA, "others find what it requires"),
}
# The same cases for --cuda.
COMPARED_ON_CUDA: dict[str, tuple[str | None, str | None, str]] = {
    "alike": (ON_CUDA, ON_CUDA, ""),
    "CUDA for nobody": (
        (ON_CUDA.replace("ok", "skip").replace("\n", " requires cuda: no driver\n"),) * 2
        + ("by no language",)
    ),
    "a case is missing": (ON_CUDA, ON_CUDA.replace(f"ok {CUDA[0]}\n", ""), "was not executed"),
}

# A runner that does everything right, except for the text that is appended. JUDGED has the
# complaints of run.py.
RUNNER = """
import json, os, sys
cases = json.load(open(sys.argv[1] + "/cases.json"))
lines = ["ok " + case["id"] for case in cases]
code = 0
"""
JUDGED = {
    "all right": ("", ""),
    "a case is missing": ("lines.pop()", "not executed"),
    "a case twice": ("lines.append(lines[0])", "printed 2 times"),
    "a skip without a reason": ("lines[0] = lines[0].replace('ok', 'skip')", "without a reason"),
    "a failure": ("lines[0] = lines[0].replace('ok', 'FAIL') + ' why'; code = 1", "why"),
    "a failure and exit code 0": (
        "lines[0] = lines[0].replace('ok', 'FAIL') + ' why'",
        "exit code 0",
    ),
    "exit code 1": ("code = 1", "exit code 1"),
    "a file is left": (
        (
            "c = next(c for c in cases if c['kind'] == 'new_named_file'); open(c['directory'] +"
            " '/left', 'w').close()"
        ),
        "left in the directory",
    ),
    "a count is left": (
        (
            "c = next(c for c in cases if c['kind'] == 'named_file'); f = open(c['path'], 'r+b');"
            " f.write(b'9'); f.close()"
        ),
        "has other bytes",
    ),
    "a skip for what is not required": (
        "lines[0] = lines[0].replace('ok', 'skip') + ' requires cuda: no driver'",
        "has what it requires",
    ),
    "a file is gone": (
        "c = next(c for c in cases if c['kind'] == 'named_file'); os.unlink(c['path'])",
        "is gone",
    ),
}
# The same with --cuda, where everything that the cases require is there.
JUDGED_ON_CUDA = {
    "all right": ("", ""),
    "no driver is found": (
        "lines = [line.replace('ok', 'skip') + ' requires cuda: no driver' for line in lines]",
        "has what it requires",
    ),
    "no place of the driver": ("code = int('driver-13' not in os.environ['LD_LIBRARY_PATH'])", ""),
    "no empty world": ("code = len(os.listdir(os.environ['FAKE_CUDA_WORLD']))", ""),
}


def run(program: str, folder: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-B", str(HERE / program), *arguments],
        env={**os.environ, "TENON_BUILD_DIR": folder},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


def check(name: str, code: int, output: str, wanted: str) -> bool:
    good = code == 0 if not wanted else code == 1 and wanted in output
    if not good:
        print(
            f"FAIL {name}: exit code {code}, expected"
            f" {wanted or 'success'!r}\n{textwrap.indent(output[-2000:], '  ')}"
        )
    return good


def main() -> None:
    good = True
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder, "vectors")
        vectors.mkdir()
        for table, suffix, options in ((COMPARED, "", []), (COMPARED_ON_CUDA, ".cuda", ["--cuda"])):
            for name, (first, second, wanted) in table.items():
                for language, text in (("a", first), ("b", second)):
                    path = vectors / f"{language}{suffix}.txt"
                    path.unlink(missing_ok=True)
                    if text is not None:
                        path.write_text(text)
                good = (
                    check(
                        f"compare.py{suffix}, {name}",
                        *run("compare.py", folder, *options, "a", "b"),
                        wanted,
                    )
                    and good
                )
        for judged, options in ((JUDGED, []), (JUDGED_ON_CUDA, ["--cuda"])):
            for name, (change, wanted) in judged.items():
                runner = Path(folder, "runner.py")
                runner.write_text(f"{RUNNER}{change}\nprint('\\n'.join(lines))\nsys.exit(code)\n")
                (vectors / "a.json").write_text(
                    f'{{"run": ["{sys.executable}", "-B", "{runner}"]}}'
                )
                good = (
                    check(
                        f"run.py{''.join(options)}, {name}",
                        *run("run.py", folder, *options, "a"),
                        wanted,
                    )
                    and good
                )
    print(
        f"{len(COMPARED) + len(COMPARED_ON_CUDA)} outputs compared,"
        f" {len(JUDGED) + len(JUDGED_ON_CUDA)} runners judged"
    )
    sys.exit(not good)


if __name__ == "__main__":
    main()
