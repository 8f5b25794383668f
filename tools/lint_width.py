"""Checks that no line of code or text has more than 100 columns. A tab counts as four.

usage: lint_width.py [--root FOLDER]

lint_pages.py checks the pages, where rows of tables may be wider. Not checked here either: files
that a program writes (EXEMPT), the pragmas of other tools at the end of a line, and a line of one
word, such as a link.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_COLUMNS = 100
TAB = 4
CHECKED = re.compile(
    r"(?x)\.(c|h|cc|hpp|cpp|inc|in|py|pyi|go|rs|mjs|sh|cmake|pml|txt|toml|yml|fbs)$"
    r" | (^|/)(LAYERS|\.clang-tidy)$"
)
EXEMPT = re.compile(
    r"(?x)^tests/peers/golden/.*\.txt$ | ^tests/peers/fuzz/corpus/ | _generated\.h$"
    r" | /bindings\.rs$ | ^cli/completions/ | \.lock$"
)
PRAGMA = re.compile(r"\s*(# (type: ignore|noqa|fmt: )|// ?(NOLINT|nolint)).*$")


def files(root: Path) -> list[Path]:
    """The files of the repository. Outside of a repository, as in the test, these are all files."""
    if not (root / ".git").exists():
        return [path for path in root.rglob("*") if path.is_file()]
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, check=True).stdout
    paths = [root / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def is_checked(path: Path, name: str) -> bool:
    if EXEMPT.search(name):
        return False
    if CHECKED.search(name):
        return True
    if "." in path.name[1:]:
        return False
    with path.open("rb") as file:  # a program without a suffix, such as tools/bench
        return file.read(2) == b"#!"


def main() -> int:
    arguments = sys.argv[1:]
    root = ROOT
    if arguments[:1] == ["--root"]:
        root, arguments = Path(arguments[1]).resolve(), arguments[2:]
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    n_wide = 0
    for path in sorted(files(root)):
        name = str(path.relative_to(root))
        if not is_checked(path, name):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            columns = len(PRAGMA.sub("", line).expandtabs(TAB))
            if columns > MOST_COLUMNS and " " in line.strip():
                n_wide += 1
                print(f"{name}:{number}: {columns} columns, and {MOST_COLUMNS} are allowed")
    return 1 if n_wide else 0


if __name__ == "__main__":
    sys.exit(main())
