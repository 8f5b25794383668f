"""Every code block of a Markdown page that says where it comes from is that file, word for word, or lines of it.

usage: lint_readme.py [--root FOLDER] PAGE... [--some PAGE...]

A block is announced by a line `<!-- file: PATH -->` or, if it is some lines of that file one after the other, indented less perhaps,
`<!-- part of: PATH -->`; PATH from the top of the repository. Every block of C, Python and so on must be announced: the files are examples
and tests, which are run, so no page shows code that was never run. The pages after --some may have others, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("c", "cpp", "python", "rust", "go")
WHOLE, PART = "<!-- file: ", "<!-- part of: "


def is_part(block: list[str], lines: list[str]) -> bool:
    for at in range(len(lines) - len(block) + 1 if block else 0):
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        if [indent + each if each else "" for each in block] == lines[at : at + len(block)]:
            return True
    return False


def problems_of(page: Path, root: Path, all_announced: bool) -> list[str]:
    problems: list[str] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    source: str | None = None
    announced = WHOLE
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith((WHOLE, PART)) and line.endswith(" -->"):
            announced = WHOLE if line.startswith(WHOLE) else PART
            source = line[len(announced) : -len(" -->")]
        elif line.startswith("```") and len(line) > 3:
            end = lines.index("```", at + 1) if "```" in lines[at + 1 :] else len(lines)
            where = f"{page.name}:{at + 1}"
            if source is not None:
                file = root / source
                if not file.is_file():
                    problems.append(f"{where}: {source} does not exist")
                else:
                    block, whole = lines[at + 1 : end], file.read_text(encoding="utf-8").splitlines()
                    if announced == PART and not is_part(block, whole):
                        problems.append(f"{where}: the block is no part of {source}")
                    elif announced == WHOLE and block != whole:
                        problems.append(f"{where}: the block differs from {source}")
            elif all_announced and line[3:] in CHECKED:
                problems.append(f"{where}: a block of {line[3:]} that does not say which file it is")
            source = None
            at = end
        elif line.strip():
            source = None
        at += 1
    return problems


def main() -> int:
    pages = sys.argv[1:]
    root = ROOT
    if pages[:1] == ["--root"]:
        root, pages = Path(pages[1]), pages[2:]
    some = pages.index("--some") if "--some" in pages else len(pages)
    problems = [
        problem for at, page in enumerate(pages) if page != "--some" for problem in problems_of(Path(page), root, all_announced=at < some)
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
