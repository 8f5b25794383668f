"""The Go reference of the site: the output of `go doc -all` as Markdown."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

PARTS = ("CONSTANTS", "VARIABLES", "FUNCTIONS", "TYPES")
NAME = re.compile(r"^(type|func) (?:\(\w* ?\*?(\w+)(?:\[[^\]]*\])?\) )?(\w+)")


def escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]#|~])", r"\\\1", text)


def as_markdown(lines: list[str]) -> str:
    """A Go comment as Markdown: paragraphs, headings with `# `, and indented code."""
    made: list[str] = []
    for line in lines:
        if line.startswith("    "):
            made.append(line)
        elif line.startswith("# "):
            made.append("### " + escaped(line[2:]))
        elif re.match(r" *- ", line):
            made.append("- " + escaped(line.strip()[2:]))
        else:
            made.append(escaped(line.strip()))
    return "\n".join(made).strip() + "\n"


def heading_of(declaration: str) -> str:
    """The heading of a declaration. A function's heading is one level below a type's. Constants get
    none.
    """
    found = NAME.match(declaration)
    if found is None:
        return ""
    kind, receiver, name = found.groups()
    if kind == "type":
        return f"### type {name}\n\n"
    return f"#### {receiver + '.' if receiver else ''}{name}\n\n"


def entries(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Each declaration with its comment. The comment's lines have no indent any more."""
    found: list[tuple[str, list[str]]] = []
    at = 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        declaration = [lines[at]]
        at += 1
        if declaration[0].endswith(("(", "{")):
            closing = ")" if declaration[0].endswith("(") else "}"
            while at < len(lines) and not declaration[-1].startswith(closing):
                declaration.append(lines[at])
                at += 1
        while at < len(lines) and lines[at] and not lines[at].startswith("    "):
            declaration.append(lines[at])
            at += 1
        comment: list[str] = []
        while at < len(lines) and (not lines[at] or lines[at].startswith("    ")):
            comment.append(lines[at][4:])
            at += 1
        found.append(("\n".join(declaration), comment))
    return found


def markdown_of(text: str) -> str:
    lines = text.splitlines()
    places = [at for at, line in enumerate(lines) if line in PARTS]
    first = places[0] if places else len(lines)
    pieces = ["## Overview\n", as_markdown(lines[1:first])]
    for place, end in zip(places, [*places[1:], len(lines)], strict=True):
        pieces.append(f"## {lines[place].capitalize()}\n")
        for declaration, comment in entries(lines[place + 1 : end]):
            pieces.append(heading_of(declaration) + f"```go\n{declaration}\n```\n")
            pieces.append(as_markdown(comment))
    return "\n".join(pieces)


def page(folder: Path) -> str:
    if not shutil.which("go"):
        return "This machine has no `go`, so the page could not be built.\n"
    command = ["go", "-C", str(folder), "doc", "-all", "."]
    return markdown_of(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
