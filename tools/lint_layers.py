#!/usr/bin/env python3
"""Refuses an #include that goes against impl/LAYERS.

A folder of impl may include itself and the folders on the lines above it. Nothing in impl may
include capi/ or the public headers <tenon/...>. capi/src may include anything. CUDA's driver, its
library and its headers, is named in impl/cuda and in tests alone, and no other library is opened at
run time.

usage: lint_layers.py [--root DIR] [--help]
"""

import argparse
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
DRIVER = re.compile(r"libcuda|\b(cuda|cudaTypedefs)\.h\b|\bdlm?open\s*\(")
# The folders whose code reaches a user.
SHIPPED = ("impl", "capi", "manager", "cli", "wrappers", "examples")
SOURCES = {".h", ".cc", ".c", ".inc", ".hpp", ".py", ".pyi", ".rs", ".go"}


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
            # <memory> is the standard library's header. <memory/arena.h> would be Tenon's.
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
    root = parser.parse_args().root
    problems = check(root) + check_driver(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
