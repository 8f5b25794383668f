#!/usr/bin/env python3
"""Tests that Tenon and PyTorch lend device memory to each other, both ways. Without PyTorch it
tests Tenon with Tenon.

    torch_suite.py [--raw] [--quick] [--list] [CASE ...]

Each case runs for each pair of lender and borrower, in a process of its own with a time limit. The
borrower is another process. --raw takes memory from the driver itself, for a machine without
PyTorch, or for the driver of tests/support/fake_cuda. --quick sends 2,000 tensors instead of
100,000. It prints one line for each case: passed, FAILED or skipped, and why. Exit status 1:
something failed. 77: nothing could run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

SKIPPED = 77
# A run under compute-sanitizer is slow.
LIMIT_S = 240 * max(int(os.environ.get("TENON_TEST_PATIENCE", "1")), 1)
MANY, QUICK = 100_000, 2_000
PAIRS = (("tenon", "tenon"), ("torch", "tenon"), ("tenon", "torch"))


def torch_lacks() -> str:
    """Returns why PyTorch cannot be used here, or "" if it can."""
    try:
        import torch
    except ImportError as error:
        return f"{sys.executable} has no PyTorch ({error})"
    if torch.cuda.is_available():
        return ""
    return f"PyTorch {torch.__version__} has no CUDA here (torch.cuda.is_available() is false)"


def run_one(name: str, lend: str, borrow: str, memory: str, count: int) -> int:
    """Runs a case in this process and returns the exit status."""
    from cases import CASES, Case, nothing_left
    from sides import Borrower, Skip, new_side

    case = Case(new_side(lend, memory), lambda: Borrower(borrow, memory), memory, borrow, count)
    try:
        CASES[name](case)
        nothing_left(case)
    except Skip as skip:
        print(f"skipped: {skip}")
        return SKIPPED
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no word"


def run_apart(name: str, lend: str, borrow: str, memory: str, quick: bool) -> tuple[str, str]:
    """Runs a case in a process of its own and returns its outcome with the reason."""
    command = [
        sys.executable,
        "-B",
        str(Path(__file__)),
        "--one",
        name,
        lend,
        borrow,
        memory,
        *(["--quick"] if quick else []),
    ]
    # The case has a process group of its own, so that everything it started can be killed with it.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=LIMIT_S * (1 if quick else 5))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return (
            "FAILED",
            f"not over after {LIMIT_S * (1 if quick else 5)} s; its last word: {last_line(output)}",
        )
    # A borrower may be left if its lender failed.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == 0:
        return "passed", ""
    if process.returncode == SKIPPED:
        return "skipped", last_line(output).removeprefix("skipped: ")
    print("".join(f"    {line}\n" for line in output.splitlines()[-30:]), end="")
    return "FAILED", f"exit status {process.returncode}: {last_line(output)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--list", action="store_true", help="the names of the cases, which need no driver"
    )
    parser.add_argument(
        "--one", nargs=4, metavar=("CASE", "LENDER", "BORROWER", "MEMORY"), help=argparse.SUPPRESS
    )
    parser.add_argument("names", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    if arguments.one:
        return run_one(*arguments.one, QUICK if arguments.quick else MANY)
    if not arguments.raw and not arguments.list:
        if lacks := torch_lacks():
            print(f"skipped: {lacks}")
            return SKIPPED
    from cases import CASES

    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if arguments.list:
        print(*CASES, sep="\n")
        return 0
    from sides import ON_THE_FAKE

    memory = "raw" if arguments.raw else "torch"
    where = "FAKE driver" if ON_THE_FAKE else "real driver"
    counts = dict.fromkeys(("passed", "FAILED", "skipped"), 0)
    for name in arguments.names or CASES:
        for lend, borrow in PAIRS[:1] if arguments.raw else PAIRS:
            before = time.monotonic()
            outcome, why = run_apart(name, lend, borrow, memory, arguments.quick)
            counts[outcome] += 1
            took = f"{time.monotonic() - before:.1f} s"
            print(
                f"{outcome} {name} [{lend} -> {borrow}, {memory} memory, {where}]"
                f" {took}{why and ': ' + why}",
                flush=True,
            )
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["FAILED"] else 0 if counts["passed"] else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
