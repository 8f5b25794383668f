"""Compares docs/guides/errors.md with the library, by making every error of the page.

usage: errors_test.py            every error of the page, through the Python package
       errors_test.py PROGRAM    those that PROGRAM prints, a show_errors of cpp, rust or go

A line `<!-- error: ID -->` announces a block of the page. A message is one line, and a block may
wrap it. A number in a block stands for any number, and `...` stands for any text.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/guides/errors.md"
SECONDS = 60

ENTRY = re.compile(
    r"<!-- error: (?P<id>\w+)"
    r" -->\n+`(?P<code>\w+)`[^\n]*\n+```text\n(?P<text>.+?)\n```\n(?P<rest>.*?)(?=\n#|\n<!--"
    r" error:|\Z)",
    re.DOTALL,
)
ROW = re.compile(
    r"^\| `(\w+)` \| (\d+) \| `(\w+)` \| `(\w+)`[^|]*\| `ErrorKind::(\w+)` \| `(\w+)` \|",
    re.MULTILINE,
)


@dataclass
class Entry:
    """Holds what the page says of an error: its code, or Python's class, and its text."""

    code: str
    text: str
    advice: str


def read_page() -> dict[str, Entry]:
    page = PAGE.read_text()
    entries = {
        each["id"]: Entry(each["code"], each["text"].replace("\n", " "), each["rest"])
        for each in ENTRY.finditer(page)
    }
    announced = re.findall(r"<!-- error: (\w+)", page)
    if announced != list(entries):
        sys.exit(f"{PAGE}: not in the form of an entry: {sorted(set(announced) - set(entries))}")
    for name, entry in entries.items():
        if "**Do:**" not in entry.advice:
            sys.exit(f"{PAGE}: {name} does not say what to do")
    return entries


def matches(pattern: str, text: str) -> bool:
    parts = re.split(r"(\.\.\.|\d+)", pattern)
    regex = ""
    for part in parts:
        if part == "...":
            regex += ".+?"
        elif part.isdecimal():
            regex += r"\d+"
        else:
            regex += re.escape(part)
    return re.fullmatch(regex, text) is not None


def compare(name: str, entry: Entry, code: str, text: str) -> list[str]:
    """Returns what is wrong, as lines."""
    wrong = []
    if code != entry.code:
        wrong.append(f"{name}: the page says {entry.code}, and it is {code}")
    if not matches(entry.text, text):
        wrong.append(f"{name}: the page has\n  {entry.text}\nand the library says\n  {text}")
    # This tests the comparison itself: if a word is left out, the texts must differ.
    words = entry.text.split(" ")
    for missing in (0, len(words) // 2, len(words) - 1):
        if matches(" ".join(words[:missing] + words[missing + 1 :]), text):
            wrong.append(f"{name}: it makes no difference whether the page says {words[missing]!r}")
    return wrong


def report(call: Callable[[], object]) -> NoReturn:
    """Prints the error of a call as JSON, and ends this process."""
    import mistakes

    try:
        call()
        found = {}
    except mistakes.CannotBeMade as error:
        found = {"cannot": str(error)}
    except Exception as error:
        # Python's own OSError shows its number first.
        text = re.sub(r"^\[Errno \d+\] ", "", str(error))
        found = {"code": getattr(error, "code", type(error).__name__), "text": text}
    os.write(1, json.dumps(found).encode())
    os._exit(0)


def make(name: str) -> dict[str, str]:
    """Makes a mistake in a child. Returns its error, or why it cannot be made."""
    import mistakes

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.dup2(write, 1)
        os.close(write)
        os.close(read)
        report(mistakes.MISTAKES[name])
    os.close(write)
    with os.fdopen(read, "rb") as output:
        data = output.read()
    status = os.waitpid(child, 0)[1]
    if status != 0 or not data:
        sys.exit(f"{name}: its process ended with status {status} and said {data!r}")
    found: dict[str, str] = json.loads(data)
    if not found:
        sys.exit(f"{name}: there was no error")
    return found


def check_table() -> list[str]:
    """Compares the page's table of codes with the names in each language."""
    import tenon.error
    from tenon._native import ffi, lib

    rows = ROW.findall(PAGE.read_text())
    codes = {ffi.string(lib.tenon_status_name(status)).decode(): status for status in range(1, 100)}
    codes.pop("UNKNOWN")
    wrong = (
        []
        if [row[0] for row in rows] == list(codes)
        else [f"the table has {[row[0] for row in rows]}"]
    )
    cpp = (ROOT / "wrappers/cpp/include/tenon/cpp/error.hpp").read_text()
    rust = (ROOT / "wrappers/rust/libtenon/src/error.rs").read_text()
    go = (ROOT / "wrappers/go/error.go").read_text()
    for code, number, cpp_name, python_name, rust_name, go_name in rows:
        if int(number) != codes.get(code):
            wrong.append(f"{code} is {codes.get(code)} and not {number}")
        if tenon.error._KINDS[int(number)][0].__name__ != python_name:
            wrong.append(f"{code} is no {python_name} in Python")
        if re.search(rf"\bcase Code::\w+: throw {cpp_name}\(", cpp) is None:
            wrong.append(f"C++ throws no {cpp_name}")
        if re.search(rf"\b{rust_name} = TENON_{code}\b", rust) is None:
            wrong.append(f"{code} is no {rust_name} in Rust")
        if re.search(rf"\b{go_name} +Code = C.TENON_{code}\b", go) is None:
            wrong.append(f"{code} is no {go_name} in Go")
    return wrong


def check_python() -> list[str]:
    import mistakes

    entries = read_page()
    if set(entries) != set(mistakes.MISTAKES):
        sys.exit(
            "only one of the page and mistakes.py has"
            f" {sorted(set(entries) ^ set(mistakes.MISTAKES))}"
        )
    wrong = check_table()
    for name, entry in entries.items():
        found = make(name)
        if "cannot" in found:
            print(f"{name}: not made: {found['cannot']}")
            continue
        wrong += compare(name, entry, found["code"], found["text"])
    print(f"{len(entries)} errors")
    return wrong


def check_program(program: str) -> list[str]:
    entries = read_page()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.pt")
        file.write_bytes(b"this is text\n" * 100)
        output = subprocess.run(
            [program, file], stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=True
        ).stdout
    wrong = []
    lines = output.splitlines()
    for line in lines:
        name, code, text = line.split("\t")
        wrong += compare(name, entries[name], code, text.removeprefix("tenon: "))
    if len(lines) < 5:
        wrong.append(f"{program} shows {len(lines)} errors:\n{output}")
    print(f"{len(lines)} errors as {program} has them")
    return wrong


def main() -> int:
    wrong = check_program(sys.argv[1]) if len(sys.argv) == 2 else check_python()
    for each in wrong:
        print(each)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
