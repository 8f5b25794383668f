#!/usr/bin/env python3
"""Runs the commands of documentation pages and compares what they print with the pages.

usage: snippets_test.py [--root FOLDER] [--with LANGUAGE]... [--every-block] [--timeout S] PAGE...

README.md in this folder has the rules. --root is the top of the repository. --with prepares what
the installation of python, c, rust or go leaves behind (env.sh). --every-block, for quickstarts,
refuses code that names no file and a console block that says neither who runs it nor that it runs.
Exit status 77: a toolchain is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LANGUAGES = ("python", "c", "rust", "go")
SKIP = 77
NOTE = re.compile(r"<!-- (.*) -->")
FENCE = re.compile(r"```(\w*)")
SOURCE = re.compile(r"(?P<kind>file|part of): (?P<path>\S+)(?: as (?P<name>\S+))?")
RUN = re.compile(r"run(?: if: (?P<condition>.+)|: exit (?P<status>\d+))?")
ELSEWHERE = re.compile(r"not run here: (\S+) runs it")
VARIES = re.compile(r"varies: (.+)")
# Languages whose blocks must name a file in a quickstart.
CODE = ("c", "cpp", "python", "rust", "go", "cmake", "toml")
# The script of a page prints MARK around its own words. MARK is a character that no program prints.
MARK = "\x1e"


@dataclass
class Block:
    """A fenced block of a page, and the comments directly before it."""

    where: str
    language: str
    lines: list[str]
    notes: list[str]

    def noted(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next((found for note in self.notes if (found := pattern.fullmatch(note))), None)


@dataclass
class Command:
    """A command of a console block, and the output that the page shows."""

    where: str
    text: str
    shown: list[str]
    status: int
    condition: str | None
    varies: list[str]


@dataclass
class File:
    """A file that the reader has from this block on."""

    name: str
    text: str


@dataclass
class Page:
    path: Path
    steps: list[Command | File] = field(default_factory=list)
    elsewhere: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def blocks_of(path: Path) -> list[Block]:
    blocks: list[Block] = []
    notes: list[str] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        if note := NOTE.fullmatch(lines[at]):
            notes.append(note[1])
        elif fence := FENCE.fullmatch(lines[at]):
            end = lines.index("```", at + 1) if "```" in lines[at + 1 :] else len(lines)
            where = f"{path.name}:{at + 1}"
            blocks.append(Block(where, fence[1], lines[at + 1 : end], notes))
            notes = []
            at = end
        elif lines[at].strip():
            notes = []
        at += 1
    return blocks


def commands_of(block: Block, run: re.Match[str]) -> list[Command]:
    """Split a console block into commands. A command begins with `$ `, and continues in lines with
    `> `.
    """
    commands: list[Command] = []
    varies = [found[1] for note in block.notes if (found := VARIES.fullmatch(note))]
    for line in block.lines:
        if line.startswith("$ "):
            commands.append(Command(block.where, line[2:], [], 0, run["condition"], varies))
        elif not commands:
            break
        elif line.startswith("> ") and not commands[-1].shown:
            commands[-1].text += "\n" + line[2:]
        else:
            commands[-1].shown.append(line)
    if commands and run["status"]:
        commands[-1].status = int(run["status"])
    return commands


def file_of(block: Block, source: re.Match[str], root: Path) -> File | str:
    """Return the file that a block announces, or a problem. lint_pages.py compares the file with
    the block.
    """
    path = root / source["path"]
    if not path.is_file():
        return f"{block.where}: {source['path']} does not exist"
    whole = source["kind"] == "file"
    text = "".join(line + "\n" for line in block.lines) if whole else path.read_text()
    return File(source["name"] or path.name, text)


def read_page(path: Path, root: Path, every_block: bool) -> Page:
    page = Page(path)
    for block in blocks_of(path):
        if source := block.noted(SOURCE):
            file = file_of(block, source, root)
            page.problems += [file] if isinstance(file, str) else []
            page.steps += [file] if isinstance(file, File) else []
        elif every_block and block.language in CODE:
            page.problems.append(f"{block.where}: a block of {block.language} that names no file")
        if block.language != "console":
            continue
        run, elsewhere = block.noted(RUN), block.noted(ELSEWHERE)
        if run:
            commands = commands_of(block, run)
            page.steps += commands
            if not commands:
                page.problems.append(f"{block.where}: the block does not begin with a command")
        elif elsewhere:
            page.elsewhere.append((block.where, elsewhere[1]))
        elif every_block or any(note.startswith(("run", "not run")) for note in block.notes):
            page.problems.append(f"{block.where}: says neither `run` nor `not run here: X runs it`")
    if every_block and not any(isinstance(step, Command) for step in page.steps):
        page.problems.append(f"{path.name}: no command of this page is run")
    return page


def registered_tests() -> set[str]:
    ctest = [os.environ.get("CTEST", "ctest"), "--test-dir", os.environ["TENON_BUILD_DIR"], "-N"]
    listed = subprocess.run(ctest, check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)$", listed, re.MULTILINE))


def prepared(languages: list[str]) -> dict[str, str]:
    """Return the environment that a reader has after the installation."""
    environment = dict(os.environ)
    if languages:
        command = ["bash", str(HERE / "env.sh"), *languages]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(done.returncode)
        pairs = done.stdout.decode().rstrip("\0").split("\0")
        environment = dict(pair.split("=", 1) for pair in pairs)
    environment.update(TENON=str(ROOT), TERM="dumb", NO_COLOR="1", LC_ALL="C.UTF-8")
    return environment


def new_scratch(page: Page, root: Path) -> Path:
    """Return an empty folder, the same in each run, because cargo knows a package by its folder."""
    build = os.environ.get("TENON_BUILD_DIR")
    if build is None:
        return Path(tempfile.mkdtemp(prefix="tenon-docs-"))
    relative = page.path.resolve().relative_to(root.resolve()).with_suffix("")
    folder = Path(build, "docs", "-".join(relative.parts))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def script_of(page: Page) -> str:
    """Return the script that bash runs. It ends at the first command whose exit status differs from
    the page.
    """
    lines: list[str] = []
    for number, step in enumerate(page.steps):
        if isinstance(step, File):
            name, folder = shlex.quote(step.name), shlex.quote(str(Path(step.name).parent))
            lines.append(f"mkdir -p {folder} && printf %s {shlex.quote(step.text)} >{name}")
            continue
        if step.condition:
            lines.append(f"if ({step.condition}) >/dev/null 2>&1; then")
        lines += [
            f"printf '\\036begin {number}\\036'",
            step.text,
            "tenon_status=$?",
            f"printf '\\036end {number} %d\\036' $tenon_status",
            f"[ $tenon_status = {step.status} ] || exit 1",
        ]
        if step.condition:
            lines.append("fi")
    return "\n".join([*lines, ""])


def run_in_terminal(script: Path, folder: Path, env: dict[str, str], timeout: float) -> str:
    """Run the script in a terminal, so that programs print each line at once and in order, as for a
    reader.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc", script],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    printed = b""
    deadline = time.monotonic() + timeout
    with contextlib.suppress(OSError):  # EIO: no process has the other end open any more
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                printed += os.read(ours, 1 << 16)
            elif process.poll() is not None:
                break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(ours)
    return printed.decode(errors="replace").replace("\r\n", "\n")


def with_rule(text: str, varies: list[str]) -> str:
    for pattern in varies:
        text = re.sub(pattern, "(varies)", text)
    return text


def is_as_shown(shown: list[str], printed: str) -> bool:
    """Whether the output fits the page. A line `...` stands for any lines, and `...` inside a line
    for any text.
    """
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"
    return re.fullmatch(pattern, printed) is not None


def cleaned(text: str) -> str:
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    return "".join(line + "\n" for line in lines) if text.strip() else ""


def compare(step: Command, printed: str, status: int) -> str | None:
    """Return what is wrong with a command, or None."""
    where = f"{step.where}: $ {step.text}"
    if status != step.status:
        return f"{where}\nends with {status}, not with {step.status}, and prints:\n{printed}"
    shown = with_rule("\n".join(step.shown), step.varies).split("\n") if step.shown else []
    printed = with_rule(cleaned(printed), step.varies)
    if is_as_shown(shown, printed):
        return None
    lines = printed.splitlines()
    difference = difflib.unified_diff(shown, lines, "the page", "what is printed", lineterm="")
    return "\n".join([f"{where}\nprints something else than the page shows:", *difference])


def check_output(page: Page, output: str) -> list[str]:
    ended: set[int] = set()
    pattern = rf"{MARK}begin (\d+){MARK}(.*?){MARK}end \1 (\d+){MARK}"
    for number, printed, status in re.findall(pattern, output, re.DOTALL):
        ended.add(int(number))
        step = page.steps[int(number)]
        assert isinstance(step, Command)
        if problem := compare(step, printed, int(status)):
            return [problem]
    for number, step in enumerate(page.steps):
        if isinstance(step, File) or number in ended:
            continue
        if f"{MARK}begin {number}{MARK}" in output or step.condition is None:
            said = output.rpartition(MARK)[2]
            return [f"{step.where}: $ {step.text}\ndid not end in time, or not at all:\n{said}"]
        print(f"{step.where}: $ {step.text}\n  is left out: {step.condition} fails here")
    print(f"{page.path.name}: {len(ended)} commands print what the page shows")
    return []


def run_page(page: Page, root: Path, languages: list[str], timeout: float) -> list[str]:
    scratch = new_scratch(page, root)
    env = prepared(languages)
    if "rust" in languages:
        # With the lock file of the wrapper's tests, nothing is fetched or compiled again.
        shutil.copy(root / "wrappers/rust/Cargo.lock", scratch)
        (scratch / "target").symlink_to(env["CARGO_TARGET_DIR"])
    script = scratch.with_name(scratch.name + ".sh")
    script.write_text(script_of(page), encoding="utf-8")
    return check_output(page, run_in_terminal(script, scratch, env, timeout))


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--with", dest="languages", action="append", default=[], choices=LANGUAGES)
    parser.add_argument("--every-block", action="store_true")
    parser.add_argument("--timeout", type=float, default=1500)
    parser.add_argument("pages", nargs="+", type=Path)
    given = parser.parse_args()
    problems: list[str] = []
    for path in given.pages:
        page = read_page(path, given.root, given.every_block)
        found = page.problems
        if not found and page.elsewhere:
            tests = registered_tests()
            found += [f"{w}: there is no test {t}" for w, t in page.elsewhere if t not in tests]
        if not found and any(isinstance(step, Command) for step in page.steps):
            found += run_page(page, given.root, given.languages, given.timeout)
        problems += found
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
