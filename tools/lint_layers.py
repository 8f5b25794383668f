#!/usr/bin/env python3
"""Refuses an #include that goes against impl/LAYERS.

A folder of impl may include itself and the folders on the lines above it. Nothing in impl may include capi/ or the public
headers <tenon/...>. capi/src may include anything.

usage: lint_layers.py [--root DIR] [--help]
"""

import argparse
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def read_layers(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def check(root: Path) -> list[str]:
    impl = root / "impl"
    layers = read_layers(impl / "LAYERS")
    problems = []
    if len(set(layers)) != len(layers):
        problems.append("impl/LAYERS: a folder is named twice")
    for path in sorted(impl.iterdir()):
        if path.is_dir() and path.name not in layers:
            problems.append(f"impl/{path.name}: not in impl/LAYERS")
    for path in sorted(impl.rglob("*")):
        if path.suffix not in {".h", ".cc", ".c", ".inc"}:
            continue
        here = path.relative_to(root)
        if len(here.parts) < 3:
            problems.append(f"{here}: sources live in a folder of impl")
            continue
        folder = here.parts[1]
        allowed = layers[: layers.index(folder) + 1] if folder in layers else []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            # <memory> is the standard library's, <memory/arena.h> would be ours.
            first = target.split("/")[0] if quote == '"' or "/" in target else ""
            where = f"{here}:{number}"
            if ".." in target.split("/"):
                problems.append(f"{where}: {target}: includes start at impl/")
            elif first in {"capi", "tenon"} or (root / "capi" / "src" / target).is_file():
                problems.append(f"{where}: {target}: impl does not know its C interface")
            elif first in layers and first not in allowed:
                problems.append(f"{where}: {target}: {folder} stands below {first}")
            elif quote == '"' and first not in layers:
                problems.append(f"{where}: {target}: names no folder of impl")
            elif quote == "<" and (impl / target).is_file():
                problems.append(f"{where}: {target}: our own headers are included with quotes")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    problems = check(parser.parse_args().root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
