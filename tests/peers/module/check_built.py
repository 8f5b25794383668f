#!/usr/bin/env python3
"""Runs modules that were built by hand in this PyTorch, and compares them with the same models
computed by PyTorch.

Each archive must have the expected parameters, buffers and extra files, with the same sharing and
strides, and return the expected results. With --broken, FOLDER has archives <model>@<anything>.pt
instead, each with a fault. Those of models that this PyTorch has are judged, and the ones in which
no fault is found are printed as JSON.

usage: check_built.py FOLDER [--json FILE] [--broken]
"""

import argparse
import json
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import check_archives
import expected_layers  # noqa: F401
import expected_values  # noqa: F401
import torch
import zoo
from expected import EXPECTED, LEFT_OUT, Expected


def differences(path: Path, wanted: Expected) -> Iterator[str]:
    module, extra_files = check_archives.load(path, list(wanted.extra_files))
    if extra_files != wanted.extra_files:
        yield f"extra files {extra_files}"
    # PyTorch treats an empty extra file like a missing one.
    with zipfile.ZipFile(path) as archive:
        names = [name.split("/extra/")[1] for name in archive.namelist() if "/extra/" in name]
    if names != list(wanted.extra_files):
        yield f"extra files named {names}"
    if not module.training or module.eval().training:
        yield "training cannot be switched"
    for name in wanted.none:
        if getattr(module, name) is not None:
            yield f"{name} is not None"
    for name in wanted.absent:
        if hasattr(module, name):
            yield f"it has {name}"
    tensors = {
        name.replace(" .", " "): tensor
        for name, tensor in check_archives.tensors_of(module).items()
    }
    if list(tensors) != [*wanted.tensors, *wanted.raw]:
        yield f"parameters and buffers {list(tensors)}"
        return
    raw = {name: tensors.pop(name) for name in wanted.raw}
    for name, (dtype, sizes, data) in wanted.raw.items():
        if (raw[name].dtype, list(raw[name].shape), bytes(raw[name].untyped_storage())) != (
            dtype,
            sizes,
            data,
        ):
            yield f"{name} differs"
    for name, tensor in wanted.tensors.items():
        if not check_archives.same_tensor(tensor, tensors[name], True):
            yield f"{name} is {tensors[name]}"
    if check_archives.sharing(wanted.tensors) != check_archives.sharing(tensors):
        yield "parameters and buffers are shared otherwise"
    for arguments, output in wanted.calls:
        # forward itself would leave out the hooks.
        (returned,) = zoo.run(module, [zoo.Call("__call__", arguments)])
        if not check_archives.same(zoo.plain(output), returned, wanted.exact):
            yield f"called with {arguments} it returned {returned} and not {output}"


def wrong_with(path: Path, name: str) -> list[str]:
    try:
        with torch.no_grad():
            wanted = EXPECTED[name]()
            return list(differences(path, wanted))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def check_broken(folder: Path) -> int:
    broken = [(path, path.stem.split("@")[0]) for path in sorted(folder.glob("*.pt"))]
    judged = [(path, name) for path, name in broken if name in EXPECTED]
    print(
        json.dumps(
            {
                "judged": len(judged),
                "unnoticed": [path.stem for path, name in judged if not wrong_with(path, name)],
            }
        )
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--broken", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if arguments.broken:
        return check_broken(arguments.folder)
    results = {}
    for name in (path.stem for path in sorted(arguments.folder.glob("*.pt"))):
        wrong = [] if name in LEFT_OUT else wrong_with(arguments.folder / f"{name}.pt", name)
        result = "failed" if wrong else "left out" if name in LEFT_OUT else "ok"
        results[name] = {"result": result, "why": wrong or [LEFT_OUT.get(name, "")]}
        if wrong:
            print(f"{name}: {'; '.join(wrong)}")
    missing = [name for name in (*EXPECTED, *LEFT_OUT) if name not in results]
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"torch": torch.__version__, "models": results}, indent=1) + "\n"
        )
    counts = [
        sum(result["result"] == kind for result in results.values())
        for kind in ("ok", "left out", "failed")
    ]
    print(
        f"PyTorch {torch.__version__}, modules built by hand: {counts[0]} ok, {counts[1]} left out,"
        f" {counts[2]} failed{missing or ''}"
    )
    return 1 if counts[2] or missing or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main())
