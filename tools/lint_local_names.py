#!/usr/bin/env python3
"""Refuses a name that is local to two files of one folder of the library or of the tests.

The files of a folder are compiled together (TENON_UNITY), so their unnamed namespaces are one.
The compiler refuses two definitions with the same signature. It accepts two overloads silently, and
may then call the other file's function.

A test's local name may not stand in a header of its folder either. It would hide the header's name
in the files that follow.

usage: lint_local_names.py [--root DIR] [--help]
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("impl/*", "impl/modules/*", "capi/src", "capi/src/modules", "manager", "cli")
TEST_FOLDERS = (
    "tests/api/arena",
    "tests/api/cache",
    "tests/languages/cpp",
    "tests/process/cuda",
    "tests/process/cuda/storm",
    "tests/support/fake_cuda",
    "tests/process/fault",
    "tests/process/fault/storm",
    "tests/process/filename",
    "tests/process/lease",
    "tests/process/manager",
    "tests/process/namespaces",
    "tests/process/queue",
    "tests/process/publish",
    "tests/process/shared_weights",
    "tests/process/storm",
    "tests/support/storm",
    "tests/unit/*",
    "tests/languages/vectors/cpp",
)
# clang-format does not indent the contents of a namespace.
OPENS = re.compile(r"^namespace \{")
CLOSES = re.compile(r"^\}  // namespace$")
GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP]|_SUITE)?\(|^INSTANTIATE_")
FUNCTION = re.compile(
    r"^(?!.*\w::\w+\(.*\{$|using |namespace |static_assert|template |return |struct |class |enum"
    r" |//|#|\})[\w\[].*?\b(\w+)\("
)
VARIABLE = re.compile(
    r"^(?:inline |static |thread_local |const |constexpr )+[\w:<>,*& ]+?\b(\w+)(?:\[\w*\])?(?:"
    r" =|\{|;)"
)
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union|using) (?:\[\[\w+\]\] )?(\w+)\b(?!.*;$)")


def local_names(path: Path) -> Iterator[tuple[str, int]]:
    """Each name at the first column, with its line: in the unnamed namespaces of a source, or
    anywhere in a header.
    """
    inside = path.suffix == ".h"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if OPENS.match(line):
            inside = True
        elif CLOSES.match(line):
            inside = path.suffix == ".h"
        elif inside and not GTEST.match(line):
            for pattern in (TYPE, VARIABLE, FUNCTION):
                if found := pattern.match(line):
                    yield found[1], number
                    break


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root: Path = parser.parse_args().root
    failures = 0
    seen_names = 0
    for pattern in FOLDERS + TEST_FOLDERS:
        for folder in sorted(root.glob(pattern)):
            places: dict[str, dict[Path, int]] = defaultdict(dict)
            headers = sorted(folder.glob("*.h")) if pattern in TEST_FOLDERS else []
            for path in sorted(folder.glob("*.cc")) + headers:
                for name, number in local_names(path):
                    places[name].setdefault(path, number)
                    seen_names += 1
            for name, where in sorted(places.items()):
                if len(where) > 1 and any(path.suffix == ".cc" for path in where):
                    failures += 1
                    at = ", ".join(
                        f"{path.relative_to(root)}:{number}" for path, number in where.items()
                    )
                    print(
                        f"{at}: the name {name} is local to each of these files, which are compiled"
                        " together: rename all but one"
                    )
    if seen_names == 0:
        print("no local name was found: the pattern no longer fits the sources")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
