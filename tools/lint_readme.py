"""Every code block of a Markdown page that says where it comes from is that file, word for word.

usage: lint_readme.py [--root FOLDER] PAGE...

A block is announced by a line `<!-- file: PATH -->`, PATH from the top of the repository. Every block of C or Python must be announced:
the files are examples, which are run as tests, so no page shows code that was never run.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("c", "cpp", "python", "rust", "go")


def problems_of(page: Path, root: Path) -> list[str]:
    problems: list[str] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    source: str | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("<!-- file: ") and line.endswith(" -->"):
            source = line[len("<!-- file: ") : -len(" -->")]
        elif line.startswith("```") and len(line) > 3:
            end = lines.index("```", at + 1) if "```" in lines[at + 1 :] else len(lines)
            where = f"{page.name}:{at + 1}"
            if source is not None:
                file = root / source
                if not file.is_file():
                    problems.append(f"{where}: {source} does not exist")
                elif file.read_text(encoding="utf-8").splitlines() != lines[at + 1 : end]:
                    problems.append(f"{where}: the block differs from {source}")
            elif line[3:] in CHECKED:
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
    problems = [problem for page in pages for problem in problems_of(Path(page), root)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
