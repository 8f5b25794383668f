"""Checks the pages: their code blocks, their width, and the length of README.md.

usage: lint_pages.py [--root FOLDER]

1. A block of C, C++, Python, Rust or Go in a page stands in a file too, which an example or a test
   runs. So no page shows code that never ran. `<!-- file: PATH -->` above the block says that the
   block is the whole file, and `<!-- part of: PATH -->` that it is some consecutive lines of the
   file, perhaps with less indentation. PATH starts at the top of the repository. Pages in EXCERPTS
   may have blocks without such a line, because they show signatures or fragments.
2. A line of a page has at most 100 columns. Rows of tables, lines without a space (links), and
   blocks that are copied from a file are exempt. lint_width.py checks everything else.
3. README.md has at most 150 lines.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("c", "cpp", "python", "rust", "go")
WHOLE, PART = "<!-- file: ", "<!-- part of: "
PAGES = (
    "*.md",
    "docs/**/*.md",
    "wrappers/*/README.md",
    "wrappers/rust/*/README.md",
    "tests/**/README.md",
)
EXCERPTS = (
    "docs/format/",
    "docs/internals/",
    "tests/",
    "wrappers/go/",
    "wrappers/python/",
    "wrappers/rust/",
)
MOST_COLUMNS = 100
MOST_LINES = {"README.md": 150}


def is_part(block: list[str], lines: list[str]) -> bool:
    for at in range(len(lines) - len(block) + 1 if block else 0):
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        if [indent + each if each else "" for each in block] == lines[at : at + len(block)]:
            return True
    return False


def wrong_copy(block: list[str], announced: str, source: str, root: Path) -> str | None:
    file = root / source
    if not file.is_file():
        return f"{source} does not exist"
    whole = file.read_text(encoding="utf-8").splitlines()
    if announced == PART and not is_part(block, whole):
        return f"the block is no part of {source}"
    if announced == WHOLE and block != whole:
        return f"the block differs from {source}"
    return None


def too_wide(line: str) -> bool:
    return (
        len(line) > MOST_COLUMNS
        and not line.lstrip().startswith("|")
        and " " in line.strip().lstrip("-*> ")
    )


def width_problem(file: str, number: int, line: str) -> str:
    return f"{file}:{number}: {len(line)} columns, and {MOST_COLUMNS} are allowed"


def problems_of(page: str, root: Path) -> list[str]:
    problems: list[str] = []
    lines = (root / page).read_text(encoding="utf-8").splitlines()
    if len(lines) > MOST_LINES.get(page, len(lines)):
        problems.append(
            f"{page}: {len(lines)} lines, and {MOST_LINES[page]} are allowed: move details to a"
            " page of docs"
        )
    announced, source = WHOLE, ""
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at
        if line.startswith((WHOLE, PART)) and line.endswith(" -->"):
            announced = WHOLE if line.startswith(WHOLE) else PART
            source = line[len(announced) : -len(" -->")].split(" ")[0]
        elif line.startswith("```"):
            end = lines.index("```", at + 1) if "```" in lines[at + 1 :] else len(lines)
            if source:
                wrong = wrong_copy(lines[at + 1 : end], announced, source, root)
            else:
                unannounced = line[3:] in CHECKED and not page.startswith(EXCERPTS)
                wrong = (
                    f"a block of {line[3:]} that does not say which file it is"
                    if unannounced
                    else None
                )
            if wrong:
                problems.append(f"{page}:{at + 1}: {wrong}")
        elif line.strip():
            source = ""
        if not source:
            problems += [
                width_problem(page, number + 1, lines[number])
                for number in range(at, min(end + 1, len(lines)))
                if too_wide(lines[number])
            ]
        if end > at:
            source = ""
        at = end + 1
    return problems


def main() -> int:
    arguments = sys.argv[1:]
    root = ROOT
    if arguments[:1] == ["--root"]:
        root, arguments = Path(arguments[1]), arguments[2:]
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    pages = sorted(
        {str(page.relative_to(root)) for pattern in PAGES for page in root.glob(pattern)}
    )
    problems = [problem for page in pages for problem in problems_of(page, root)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
