"""Gives clang-tidy the sources of impl, capi/src, manager and cli, and remembers which were clean.

usage: lint_tidy.py --tool CLANG_TIDY --build FOLDER --name NAME [ARGUMENT of clang-tidy ...]

tools/lint calls this for `tidy` and `analyze`. clang-tidy spends most of its time on the headers,
so sources that are compiled with the same options are looked at together, also those of several
folders. The compile commands of FOLDER say which options these are. Most of them are for a file
that only includes sources, one of CMake's unity files. FOLDER/NAME holds a stamp for each unit that
was clean, and the commands that clang-tidy is given.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("impl", "capi/src", "manager", "cli")
HEADERS = ("impl", "capi", "manager", "cli")
INCLUDE = re.compile(r'^#include "(/[^"]+)"$', re.M)
# The most bytes of sources that one process looks at. More would need more memory, and a change of
# one file would cost more.
LARGEST = 450_000
# gcc's options for a precompiled header, which clang cannot read.
PRECOMPILED = re.compile(r" -fpch-preprocess\b| -Winvalid-pch\b| -include \S*/cmake_pch\.hxx\b")


@dataclass
class Unit:
    """The input of one clang-tidy process. `file` is one of `sources`, or includes all of them."""

    file: Path
    sources: list[Path]
    entry: dict[str, str] | None

    def options(self) -> str:
        """The part of the command that is equal for all files with the same options.

        A source that is compiled by itself may define a symbol that another target's source defines
        too, such as impl/cuda/absent.cc. So the name of its target is one of its options.
        """
        if self.entry is None:
            return ""
        command, _, made = self.entry["command"].partition(" -o ")
        return command + (made.partition(".dir/")[0] if self.sources == [self.file] else "")

    def nbytes(self) -> int:
        return sum(file.stat().st_size for file in self.sources)


def included(unity: Path) -> list[Path]:
    """The sources of a unity file. The list is empty if `unity` has any other line of code."""
    sources = []
    try:
        lines = unity.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        if found := INCLUDE.match(line):
            sources.append(Path(found[1]))
        elif line and not line.startswith(("/*", "//", "#undef", "#define", "#ifdef", "#endif")):
            return []
    return sources


def find_units(root: Path, build: Path) -> list[Unit]:
    """Find units that together contain each source of FOLDERS at least once."""
    missing = {file for folder in FOLDERS for file in (root / folder).rglob("*.cc")}
    own = frozenset(missing)
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    units = []
    for entry in entries:
        file = Path(entry["directory"], entry["file"])
        if file in own or "/Unity/" not in str(file):
            continue
        sources = included(file)
        if sources and own.issuperset(sources) and not missing.isdisjoint(sources):
            units.append(Unit(file, sources, entry))
            missing.difference_update(sources)
    for entry in entries:
        file = Path(entry["directory"], entry["file"])
        if file in missing:
            units.append(Unit(file, [file], entry))
            missing.remove(file)
    # clang-tidy guesses the command for a source that this build does not compile.
    units += [Unit(file, [file], None) for file in sorted(missing)]
    return merge(units)


def merge(units: list[Unit]) -> list[Unit]:
    """Merge units that have the same options, unless the result would be larger than LARGEST."""
    merged = []
    open_units: dict[str, Unit] = {}
    for unit in units:
        found = open_units.get(unit.options())
        if unit.entry is not None and found and found.nbytes() + unit.nbytes() <= LARGEST:
            found.sources.extend(unit.sources)
            continue
        merged.append(unit)
        if unit.entry is not None:
            open_units[unit.options()] = unit
    return merged


def digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()[:40]


def write_commands(units: list[Unit], folder: Path) -> None:
    """Write the compile commands. A unit of several sources gets a file that includes them. NOLINT
    comments keep these includes from being findings.
    """
    commands = []
    for number, unit in enumerate(units):
        if unit.entry is None:
            continue
        entry = dict(unit.entry)
        if unit.sources != [unit.file]:
            together = folder / f"unit_{number}.cc"
            together.write_text(
                "".join(
                    f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n'
                    for file in unit.sources
                )
            )
            entry["command"] = entry["command"].replace(str(unit.file), str(together))
            entry["file"] = str(together)
            unit.file = together
        commands.append(entry)
    (folder / "compile_commands.json").write_text(json.dumps(commands))


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options, arguments = parser.parse_known_args()
    root = options.root.resolve()
    build = options.build.resolve()
    if not (build / "compile_commands.json").exists():
        print(
            f"tools/lint: {build}/compile_commands.json is missing: configure that build first",
            file=sys.stderr,
        )
        return 1
    folder = build / options.name
    folder.mkdir(exist_ok=True)

    headers = sorted(file for name in HEADERS for file in (root / name).rglob("*.h*"))
    version = subprocess.run([options.tool, "--version"], capture_output=True, check=True).stdout
    common = digest(
        *(file.read_bytes() for file in headers),
        (root / ".clang-tidy").read_bytes(),
        Path(__file__).read_bytes(),
        version,
        " ".join(arguments).encode(),
    )
    todo = []
    for unit in find_units(root, build):
        contents = (file.read_bytes() for file in unit.sources)
        names = " ".join(map(str, unit.sources))
        key = digest(common.encode(), unit.options().encode(), names.encode(), *contents)
        if not (folder / key).exists():
            todo.append((unit, folder / key))
    print(f"{sum(len(unit.sources) for unit, _ in todo)} files to look at, in {len(todo)} units")
    if not todo:
        return 0
    write_commands([unit for unit, _ in todo], folder)

    def look(job: tuple[Unit, Path]) -> bool:
        unit, stamp = job
        command = [
            options.tool,
            "--quiet",
            "-p",
            str(folder),
            f"--config-file={root / '.clang-tidy'}",
        ]
        done = subprocess.run(
            [*command, *arguments, str(unit.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            stamp.touch()
            return True
        lines = [line for line in done.stdout.splitlines() if "warnings generated" not in line]
        print("\n".join(lines), flush=True)
        return False

    # The largest unit goes first, so that it does not begin when all others have ended.
    todo.sort(key=lambda job: -job[0].nbytes())
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return 0 if all(list(pool.map(look, todo))) else 1


if __name__ == "__main__":
    sys.exit(main())
