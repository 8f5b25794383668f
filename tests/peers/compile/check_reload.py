#!/usr/bin/env python3
"""Proves that the comparison is fair: PyTorch's own bytecode has the same tables after each further
save and load of the module.

It runs under the Python of the PyTorch that wrote the models. A reload may change the order of
constants and the numbers of warnings, but tables.py must find no difference.

usage: check_reload.py OUTDIR [NAME...]
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from models_kit import NEWEST, in_child, set_up
from tables import compare_archives, read_functions


def differences(archive: Path, lite: Path, folder: Path) -> list[str]:
    """Returns the differences after another save and load, and after two of them. "moved" is added
    if the raw tables changed.
    """
    found = []
    for turn in range(2):
        again, lite_again = folder / f"again{turn}.pt", folder / f"again{turn}.ptl"
        torch.jit.save(torch.jit.load(str(archive)), str(again))
        torch.jit.load(str(again))._save_for_lite_interpreter(str(lite_again))
        found += compare_archives(lite_again, lite)
        archive = again
    return found or (["moved"] if read_functions(lite_again) != read_functions(lite) else [])


def main() -> int:
    set_up()
    if not NEWEST:
        torch._C._enable_mobile_interface_call_export()
    folder = Path(sys.argv[1])
    index = json.loads((folder / "models.json").read_text())
    names = sys.argv[2:] or [name for name, state in index.items() if state == "ok"]
    counts = {"equal": 0, "moved": 0, "differs": 0}
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            found = in_child(
                lambda name=name, scratch=scratch: differences(
                    folder / f"{name}.pt", folder / f"{name}.lite.ptl", Path(scratch)
                )
            )
        word = "equal" if not found else "moved" if found == ["moved"] else "differs"
        counts[word] += 1
        if word == "differs":
            print(f"{name}: differs\n" + "\n".join(found))
    print(
        f"{torch.__version__}: {counts['equal']} tables are the same, {counts['moved']} only after"
        f" normalise(), {counts['differs']} differ"
    )
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
