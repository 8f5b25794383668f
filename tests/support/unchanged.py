"""Runs a slow test, or says that nothing it reads has changed since it passed on this machine.

usage: unchanged.py --name NAME --build-dir FOLDER --inputs PATHSPEC... -- COMMAND [ARGUMENT...]

A pass is kept in FOLDER/passed, so a clean checkout has none and runs all tests. A pass counts only
if TENON_TEST_UNCHANGED is "skip", which a whole run of tools/test without --full sets. Then the
test is skipped (exit status 77), and FOLDER/unchanged.txt gets a line about it.

The inputs are the files that git would add below the pathspecs, this file, the command, the
variables of the environment that say how to build, and the packages and compilers of the machine.
Without git there is no list of files, so the test runs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
# The environment variables that say where and how to build. Other variables differ between
# terminals.
BUILDS_BY = ("TENON_", "CMAKE", "CARGO", "RUST", "GO", "NODE", "NPM", "PYTHON", "LD_")
BUILDS_WITH = ("PATH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")
# These variables belong to one run.
OF_ONE_RUN = ("TENON_TEST_RUN", "TENON_TEST_SEED", "TENON_TEST_UNCHANGED", "TENON_APT_UPDATED")


def output_of(*command: str) -> bytes:
    """The output of a command, or nothing if the machine lacks the command."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stdout
    except OSError:
        return b""


def files_of(pathspecs: list[str]) -> list[str]:
    listed = output_of(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *pathspecs
    )
    return sorted(set(filter(None, os.fsdecode(listed).split("\0"))))


def hash_of(files: list[str], command: list[str]) -> str:
    found = hashlib.sha256()

    def add(*words: bytes | str) -> None:
        for word in words:
            data = os.fsencode(word) if isinstance(word, str) else word
            found.update(b"%d:" % len(data) + data)

    for name in [*files, str(Path(__file__).resolve())]:
        path = ROOT / name
        add(name)
        if path.is_symlink():
            add(os.readlink(path))
        elif path.is_file():
            add(path.read_bytes())
    add(*command)
    for name, value in sorted(os.environ.items()):
        built_by = name.startswith(BUILDS_BY) or name in BUILDS_WITH
        if built_by and name not in OF_ONE_RUN:
            add(name, value)
    add(os.uname().nodename, os.uname().release)
    with contextlib.suppress(OSError):
        add(Path("/var/lib/dpkg/status").read_bytes())
    packages = (ROOT / "build").glob("venv*/lib/python*/site-packages/*.dist-info")
    # Tenon's own package is built from the input files, so it is left out.
    add(*sorted(str(each) for each in packages if not each.name.startswith("tenon")))
    for compiler in (["cargo", "--version"], ["rustc", "--version"], ["go", "version"]):
        add(output_of(*compiler))
    return found.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--inputs", required=True, nargs="+")
    ours = sys.argv[1 : sys.argv.index("--")]
    command = sys.argv[sys.argv.index("--") + 1 :]
    options = parser.parse_args(ours)

    files = files_of(options.inputs)
    before = hash_of(files, command)
    memory: Path = options.build_dir / "passed" / options.name
    if files and os.environ.get("TENON_TEST_UNCHANGED") == "skip" and memory.exists():
        passed, _, inputs = memory.read_text().strip().partition(" ")
        if inputs == before:
            line = f"{options.name}: unchanged since PASS on {passed}, inputs {inputs[:12]}"
            print(line)
            with (options.build_dir / "unchanged.txt").open("a") as told:
                told.write(line + "\n")
            return SKIPPED

    memory.unlink(missing_ok=True)
    status = subprocess.run(command, check=False).returncode
    # A pass is not kept if an input changed during the test: the test may have read it before or
    # after.
    if status == 0 and files and hash_of(files_of(options.inputs), command) == before:
        memory.parent.mkdir(exist_ok=True)
        made = memory.with_name(f".{memory.name}.{os.getpid()}")
        made.write_text(f"{datetime.datetime.now().date().isoformat()} {before}\n")
        made.replace(memory)
    if status < 0:
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main())
