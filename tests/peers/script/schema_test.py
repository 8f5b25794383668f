#!/usr/bin/env python3
"""The typed table against PyTorch: each schema of PyTorch 1.13 and of the newest PyTorch, with its
types, its defaults, and the order of overloads.

A PyTorch of another version is left out, because the table is made from these two. The library
holds the table deflated, and the test fails if it takes more than 64 KB there.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch.
"""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_torches

HERE = Path(__file__).resolve().parent
ENDS = {"1.13": "oldest", "2.15": "newest"}
SHOWN = 20
DATA = HERE.parents[2] / "impl" / "modules" / "script" / "schema_table_data.cc"
MAX_DEFLATED_NBYTES = 64_000


def tables() -> dict[str, list[str]]:
    agent = subprocess.run(
        [os.environ["TENON_SCRIPT_SCHEMA_AGENT"]], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {}
    for line in agent.stdout.rstrip("\n").split("\n"):
        if line in ENDS.values():
            found[line] = []
        else:
            found[list(found)[-1]].append(line)
    return found


def deflated_nbytes() -> int:
    found = re.search(r"kSchemaTableDeflatedNbytes = (\d+);", DATA.read_text(encoding="utf-8"))
    assert found, f"{DATA} does not say how long the deflated table is"
    return int(found[1])


def main() -> int:
    nbytes = deflated_nbytes()
    print(f"the deflated table has {nbytes} bytes of at most {MAX_DEFLATED_NBYTES}")
    assert nbytes <= MAX_DEFLATED_NBYTES, (
        "the table has grown: tools/make_schema_table.py must leave something out"
    )
    torches = find_torches()
    if not torches:
        print("skipped: neither TENON_TORCH_DEBIAN nor TENON_TORCH_NEWEST has a PyTorch")
        return 77
    ours = tables()
    failed = False
    compared = 0
    for name, python in torches.items():
        peer = subprocess.run(
            [python, "-B", str(HERE / "schema_peer.py")], capture_output=True, text=True, check=True
        )
        version, *theirs = peer.stdout.rstrip("\n").split("\n")
        end = ENDS.get(".".join(version.split(".")[:2]))
        if end is None:
            print(f"{name}: PyTorch {version} is not one of {', '.join(ENDS)}, and is left out")
            continue
        compared += 1
        changes = [
            line
            for line in difflib.unified_diff(theirs, ours[end], lineterm="", n=0)
            if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        print(f"{name}: PyTorch {version} has {len(theirs)} schemas; {len(changes)} lines differ")
        print("\n".join(changes[:SHOWN]))
        failed = failed or bool(changes) or len(theirs) < 3000
    return 1 if failed else 0 if compared else 77


if __name__ == "__main__":
    sys.exit(main())
