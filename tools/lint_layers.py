#!/usr/bin/env python3
"""Refuses an #include that goes against impl/LAYERS.

A folder of impl may include itself and the folders that impl/LAYERS names after its colon. Nothing
in impl may include capi/ or the public headers <tenon/...>. capi/src may include anything. CUDA's
driver, its library and its headers, is named in impl/cuda and in tests alone, and no other library
is opened at run time. The picture of the folders in docs/internals/map.md must be the one that
impl/LAYERS gives. --update writes it.

usage: lint_layers.py [--root DIR] [--update] [--help]
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
DRIVER = re.compile(r"libcuda|\b(cuda|cudaTypedefs)\.h\b|\bdlm?open\s*\(")
# The folders whose code reaches a user.
SHIPPED = ("impl", "capi", "manager", "cli", "wrappers", "examples")
SOURCES = {".h", ".cc", ".c", ".inc", ".hpp", ".py", ".pyi", ".rs", ".go"}


Layers = dict[str, set[str]]
# The folder of folders that TENON_MODULES=OFF leaves out.
WING = "modules"
# The picture stands in this page between these two lines.
PAGE = Path("docs/internals/map.md")
BEGIN, END = "<!-- from impl/LAYERS: tools/lint_layers.py --update -->\n", "<!-- end -->\n"


def read_layers(path: Path, problems: list[str]) -> Layers:
    """Each folder with the folders that it may include."""
    layers: Layers = {}
    text = re.sub(r"#.*", "", path.read_text())
    for line in re.sub(r"\n +", " ", text).splitlines():
        folder, colon, rest = line.partition(":")
        folder = folder.strip()
        if not folder:
            continue
        if not colon:
            problems.append(f"impl/LAYERS: {folder}: the colon is missing")
        if folder in layers:
            problems.append(f"impl/LAYERS: {folder} has two lines")
        problems.extend(
            f"impl/LAYERS: {folder} names {name}, which has no line above it"
            for name in rest.split()
            if name not in layers
        )
        layers[folder] = {name for name in rest.split() if name in layers}
    return layers


def picture(layers: Layers) -> str:
    """The folders in rows: a folder stands below all folders that it may include. Beside each one
    stand the folders that it reaches directly and through no other.
    """
    reach: Layers = {}
    level: dict[str, int] = {}
    for folder, named in layers.items():
        reach[folder] = named.union(*(reach[name] for name in named))
        level[folder] = max((level[name] + 1 for name in named), default=0)
    width = max(map(len, layers))
    lines = []
    for folder in sorted(layers, key=lambda name: (level[name], list(layers).index(name))):
        direct = [
            name
            for name in layers
            if name in layers[folder] and not any(name in reach[x] for x in layers[folder])
        ]
        arrow = f"{folder:{width}} -> {' '.join(direct)}" if direct else folder
        lines.append(f"    {level[folder]:2}  {arrow}")
    return "\n".join(lines) + "\n"


def check_picture(root: Path, layers: Layers, update: bool) -> list[str]:
    page = root / PAGE
    if not page.is_file():
        return []
    before, begin, rest = page.read_text().partition(BEGIN)
    shown, end, after = rest.partition(END)
    if not begin or not end:
        return [f"{PAGE}: the lines {BEGIN.strip()!r} and {END.strip()!r} are missing"]
    wanted = f"\n{picture(layers)}\n"
    if update:
        page.write_text(before + BEGIN + wanted + END + after)
    elif shown != wanted:
        return [f"{PAGE}: the picture of impl/LAYERS is old: run tools/lint_layers.py --update"]
    return []


def check(root: Path, layers: Layers) -> list[str]:
    impl = root / "impl"
    problems = []
    unused: Layers = defaultdict(set, {folder: set(named) for folder, named in layers.items()})
    for path in sorted(impl.rglob("*")):
        folder = path.relative_to(impl).as_posix()
        if path.is_dir() and folder not in layers and folder != WING:
            problems.append(f"impl/{folder}: not in impl/LAYERS")
    for path in sorted(impl.rglob("*")):
        if path.suffix not in {".h", ".cc", ".c", ".inc"}:
            continue
        here = path.relative_to(root)
        folder = here.relative_to("impl").parent.as_posix()
        if folder in {".", WING}:
            problems.append(f"{here}: sources live in a folder that impl/LAYERS names")
            continue
        allowed = layers.get(folder, set()) | {folder}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            # <memory> is the standard library's header. <memory/arena.h> would be Tenon's.
            parts = target.split("/")
            depth = 2 if parts[0] == WING else 1
            first = "/".join(parts[:depth]) if quote == '"' or "/" in target else ""
            unused[folder].discard(first)
            where = f"{here}:{number}"
            if target == path.relative_to(impl).as_posix():
                problems.append(f"{where}: {target}: the file includes itself")
                continue
            if ".." in target.split("/"):
                problems.append(f"{where}: {target}: includes start at impl/")
            elif first in {"capi", "tenon"} or (root / "capi" / "src" / target).is_file():
                problems.append(f"{where}: {target}: impl does not know its C interface")
            elif first in layers and first not in allowed:
                problems.append(
                    f"{where}: {target}: {folder} may not include {first} (impl/LAYERS)"
                )
            elif quote == '"' and first not in layers:
                problems.append(f"{where}: {target}: names no folder of impl")
            elif quote == "<" and (impl / target).is_file():
                problems.append(f"{where}: {target}: our own headers are included with quotes")
    problems += [
        f"impl/LAYERS: {folder} includes nothing of {name}"
        for folder, named in unused.items()
        for name in sorted(named)
    ]
    return problems


def check_driver(root: Path) -> list[str]:
    problems = []
    for path in sorted(path for folder in SHIPPED for path in (root / folder).rglob("*")):
        here = path.relative_to(root)
        if (
            path.suffix not in SOURCES
            or here.parts[:2] == ("impl", "cuda")
            or not {"tests", "target", "vendor"}.isdisjoint(here.parts)
        ):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := DRIVER.search(line):
                problems.append(
                    f"{here}:{number}: {match.group().strip()}: CUDA's driver is the business of"
                    " impl/cuda, and nothing else is opened"
                )
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true", help="write the picture in the page")
    options = parser.parse_args()
    root = options.root
    problems: list[str] = []
    layers = read_layers(root / "impl" / "LAYERS", problems)
    problems += check(root, layers) + check_driver(root)
    problems += check_picture(root, layers, options.update)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
