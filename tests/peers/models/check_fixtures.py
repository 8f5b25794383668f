#!/usr/bin/env python3
"""Loads the archives of old PyTorch versions in this PyTorch, and compares values and calls with
their expected.txt.

With --renamed FOLDER it reads FOLDER/<version>.pt, which our library exported, instead of
GOLDEN/<version>/net.pt.

usage: check_fixtures.py GOLDEN [--renamed FOLDER] [--json FILE]
"""

import argparse
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import zoo

NAMES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.int64: "Long",
    torch.bool: "Bool",
}
ARGUMENTS = {
    "ones 3, 0": (torch.ones(3), 0),
    "ones 3, 3": (torch.ones(3), 3),
    "5, -5": (torch.tensor([5, -5]),),
    "": (),
}


class Printer:
    """Prints a value as write_fixture.cc does."""

    def __init__(self) -> None:
        self.storages: dict[int, int] = {}

    def of(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self.of_tensor(value)
        if isinstance(value, float):
            text = f"{value:.17g}"
            return text if re.search(r"[.en]", text) else text + ".0"
        if isinstance(value, str):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        if isinstance(value, list):
            return "[" + "".join(self.of(item) + ", " for item in value) + "]"
        if isinstance(value, tuple):
            return "(" + "".join(self.of(item) + ", " for item in value) + ")"
        if isinstance(value, dict):
            return (
                "{"
                + "".join(f"{self.of(key)}: {self.of(item)}, " for key, item in value.items())
                + "}"
            )
        return repr(value)

    def of_tensor(self, tensor: torch.Tensor) -> str:
        storage = tensor.storage() if zoo.TORCH < (2, 0) else tensor.untyped_storage()
        number = self.storages.setdefault(storage._cdata, len(self.storages))
        shape = (
            f"sizes {self.of(list(tensor.size()))} strides {self.of(list(tensor.stride()))} offset"
            f" {tensor.storage_offset()}"
        )
        values = self.of([float(value) for value in tensor.detach().reshape(-1).tolist()])
        gradient = " requires_grad" if tensor.requires_grad else ""
        return f"tensor {NAMES[tensor.dtype]} {shape} storage {number} values {values}{gradient}"


def wrong_lines(module: torch.jit.ScriptModule, lines: list[str]) -> list[str]:
    """Returns the differences between the module and the lines.

    The types and objects in the lines are not compared. The archive loaded, so they were known.
    """
    printer, wrong = Printer(), []
    for line in lines[1:]:
        left, value = line.split(" = ", 1)
        if left.startswith("call "):
            method, arguments = left[5:-1].split("(")
            output = getattr(module, method)(*ARGUMENTS[arguments])
            found = Printer().of(output)
        elif value.startswith("object "):
            continue
        else:
            # The C++ module is used, because an attribute may have the name of a method of the
            # Python class.
            part: Any = module._c
            for name in left.split(" : ")[0].split("."):
                part = part.getattr(name)
            found = printer.of(part)
        if found != value:
            wrong.append(f"{left} = {found}, not {value}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("golden", type=Path)
    parser.add_argument("--renamed", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = {}
    for folder in sorted(path for path in arguments.golden.iterdir() if path.is_dir()):
        lines = (folder / "expected.txt").read_text().splitlines()
        if lines[0].startswith("refused"):
            continue
        archive = (
            arguments.renamed / f"{folder.name}.pt" if arguments.renamed else folder / "net.pt"
        )
        try:
            wrong = wrong_lines(torch.jit.load(str(archive)), lines)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        results[folder.name] = {"result": "failed" if wrong else "ok", "why": wrong}
        for line in wrong:
            print(f"{folder.name}: {line}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"torch": torch.__version__, "models": results}, indent=1) + "\n"
        )
    failed = sum(result["result"] == "failed" for result in results.values())
    good = len(results) - failed
    print(f"PyTorch {torch.__version__}, archives of old versions: {good} ok, {failed} failed")
    return 1 if failed or not good else 0


if __name__ == "__main__":
    sys.exit(main())
