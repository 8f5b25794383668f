"""Prints how long the steps of tools/test took, and the slowest tests.

usage: times.py STEPS [PRESET JUNIT CPU]...

STEPS has a line for each step: milliseconds, milliseconds of CPU time, name. CTest wrote JUNIT.
CPU has a line for each test: milliseconds of CPU time, name.
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
        wall_ms, cpu_ms, step = line.split(maxsplit=2)
        print(f"{seconds(wall_ms)} {seconds(cpu_ms)}  {step}")
        total = [total[0] + int(wall_ms), total[1] + int(cpu_ms)]
    print(f"{seconds(str(total[0]))} {seconds(str(total[1]))}  all")

    tests: list[tuple[float, float, str, str]] = []
    for preset, junit, cpu_file in zip(sys.argv[2::3], sys.argv[3::3], sys.argv[4::3], strict=True):
        cpu_of: dict[str, float] = {}
        for line in Path(cpu_file).read_text().splitlines():
            taken, test = line.split(maxsplit=1)
            cpu_of[test] = int(taken) / 1000
        for case in xml.etree.ElementTree.parse(junit).iter("testcase"):
            name = case.get("name", "")
            tests.append((float(case.get("time", "0")), cpu_of.get(name, 0), preset, name))
    if tests:
        print(f"\nThe slowest of {len(tests)} tests:\n   wall s     CPU s  preset  test")
    for wall, used, preset, name in sorted(tests, reverse=True)[:SLOWEST]:
        print(f"{wall:9.1f} {used:9.1f}  {preset:6}  {name}")


if __name__ == "__main__":
    main()
