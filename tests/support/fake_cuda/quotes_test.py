#!/usr/bin/env python3
"""Checks that cuda.h contains what the comments of this folder quote: quotes_test.py CUDA_H
[FILE...]

A quotation is a text of four or more words between double quotes in a comment. "[...]" stands for
an omitted part. The stars and marks of Doxygen in the header do not count. Exit status 1: the
header lacks a quotation. 77: the header is of another major version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FEWEST_WORDS = 4
GAP = "[...]"
QUOTED_MAJOR = 13


def plain(text: str) -> str:
    """Returns the text without marks, on one line."""
    text = re.sub(r"\\(?:p|ref|b|e|c|a)\s+|::|\(\)|\\[{}]|[#%]", " ", text)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" (?=[.,;:)])", "", text).strip()


def of_header(text: str) -> str:
    return plain(re.sub(r"(?m)^\s*/?\*+/?<?|/\*\*<?|\*/", " ", text))


def comments(text: str) -> list[tuple[int, str]]:
    """Returns the line and the text of each block of comment lines, and of each comment behind
    code.
    """
    found: list[tuple[int, str]] = []
    number_before = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'(?P<code>(?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*)//(?P<comment>.*)', line)
        if match is None:
            continue
        if match["code"].strip() == "" and number == number_before + 1 and found:
            found[-1] = found[-1][0], found[-1][1] + " " + match["comment"].strip()
        else:
            found.append((number, match["comment"].strip()))
        number_before = number
    return found


def quotations(text: str) -> list[tuple[int, str]]:
    found = (
        (line, quoted)
        for line, comment in comments(text)
        for quoted in re.findall(r'"([^"]+)"', comment)
    )
    return [(line, quoted) for line, quoted in found if len(quoted.split()) >= FEWEST_WORDS]


def is_said(quoted: str, header: str) -> bool:
    parts = (re.escape(plain(part).rstrip(".,;: ")) for part in quoted.split(GAP))
    # An omitted part is at most a sentence or two long.
    return re.search(".{0,400}?".join(parts), header) is not None


def missing(text: str, header: str) -> list[tuple[int, str]]:
    return [(line, quoted) for line, quoted in quotations(text) if not is_said(quoted, header)]


def main() -> int:
    text = Path(sys.argv[1]).read_text()
    if re.search(rf"#define CUDA_VERSION {QUOTED_MAJOR}\d\d\d\b", text) is None:
        print(f"skipped: the quotations are of CUDA {QUOTED_MAJOR}")
        return 77
    header = of_header(text)
    count = 0
    wrong: list[str] = []
    for name in sys.argv[2:]:
        text = Path(name).read_text()
        count += len(quotations(text))
        wrong += [
            f'{name}:{line}: cuda.h does not say "{quoted}"'
            for line, quoted in missing(text, header)
        ]
    # Checks that the test can fail: a true quotation, and the same one with a wrong word.
    planted = (
        'int x;  // of one line\n// "cuMemMap can only create mappings on VA range reservations\n//'
        ' that are not currently %s."\n'
    )
    if missing(planted % "mapped", header) or missing(planted % "reserved", header) == []:
        wrong.append("a planted quotation was not told from a true one")
    print(*wrong, f"{count} quotations, {len(wrong)} that cuda.h does not have", sep="\n")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
