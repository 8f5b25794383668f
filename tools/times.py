"""Prints how long the steps of tools/test took, and the slowest tests.

usage: times.py STEPS [PRESET JUNIT]...

STEPS has a line for each step: milliseconds, milliseconds of CPU time, name. CTest wrote JUNIT.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree
from pathlib import Path

SLOWEST = 10


def seconds(milliseconds: str) -> str:
    return f"{int(milliseconds) / 1000:9.1f}"


def main() -> None:
    print("   wall s     CPU s  step")
    total = [0, 0]
    for line in Path(sys.argv[1]).read_text().splitlines():
        wall, cpu, name = line.split(maxsplit=2)
        print(f"{seconds(wall)} {seconds(cpu)}  {name}")
        total = [total[0] + int(wall), total[1] + int(cpu)]
    print(f"{seconds(str(total[0]))} {seconds(str(total[1]))}  all")

    tests = []
    for preset, path in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            tests.append((float(case.get("time", "0")), preset, case.get("name", "")))
    if tests:
        print(f"\nThe slowest of {len(tests)} tests:\n wall s  preset  test")
    for time, preset, name in sorted(tests, reverse=True)[:SLOWEST]:
        print(f"{time:7.1f}  {preset:6}  {name}")


if __name__ == "__main__":
    main()
