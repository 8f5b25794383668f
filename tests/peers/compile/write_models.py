#!/usr/bin/env python3
"""Writes the archives of the compiler's proof. It runs under the Python of one PyTorch.

For each model: NAME.pt (the scripted module by torch.jit.save), NAME.lite.ptl (PyTorch's own
bytecode of NAME.pt, loaded again), NAME.expected.pt (the calls and eager PyTorch's results), and
NAME.opnames.json (the operators that PyTorch finds in the loaded NAME.pt). models.json says of
every model "ok", or why this PyTorch cannot do the model itself. Such a model has those of the
files that PyTorch could write.

usage: write_models.py OUTDIR [NAME...]
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from models import MODELS
from models_kit import (
    NEWEST,
    Call,
    Model,
    Result,
    build,
    in_child,
    plain,
    result_difference,
    run_calls,
    set_up,
)
from torch.jit.mobile import _load_for_lite_interpreter


def scripted(module: torch.nn.Module) -> torch.jit.ScriptModule:
    return module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)


def run_scripted(module: Any, calls: list[Call]) -> list[Result]:
    return run_calls(lambda method, arguments: getattr(module, method)(*arguments), calls)


def run_lite(path: Path, calls: list[Call]) -> list[Result]:
    module = _load_for_lite_interpreter(str(path))
    return run_calls(lambda method, arguments: module.run_method(method, *arguments), calls)


def keep(entry: Model, calls: list[Call], results: list[Result], folder: Path) -> None:
    kept = {
        "calls": [(call.method, plain(call.arguments)) for call in calls],
        "results": [one.__dict__ for one in results],
    }
    torch.save(kept | {"tolerance": entry.tolerance}, str(folder / f"{entry.name}.expected.pt"))


def write_model(entry: Model, folder: Path) -> str:
    """Writes the four files.

    Returns an empty text if PyTorch's own bytecode equals eager PyTorch, and otherwise the
    difference.
    """
    archive, lite = folder / f"{entry.name}.pt", folder / f"{entry.name}.lite.ptl"
    module, calls = build(entry)
    eager = run_scripted(module, calls)
    module, calls = build(entry)
    torch.jit.save(scripted(module), str(archive))
    from_script = run_scripted(torch.jit.load(str(archive)), calls)
    for expected, actual in zip(eager, from_script, strict=True):
        # C++ prints tensors in another form than Python, and works on a copy of a list or dict.
        expected.printed, expected.arguments, actual.warned = actual.printed, actual.arguments, []
    keep(entry, calls, eager, folder)
    again = torch.jit.load(str(archive))
    again._save_for_lite_interpreter(str(lite), _save_mobile_debug_info=True)
    (folder / f"{entry.name}.opnames.json").write_text(json.dumps(torch.jit.export_opnames(again)))
    found = first_difference(eager, from_script, entry.tolerance, "torch.jit.load")
    from_lite = run_lite(lite, calls)
    for expected, actual in zip(eager, from_lite, strict=True):
        expected.warned = actual.warned
    keep(entry, calls, eager, folder)
    return found or first_difference(eager, from_lite, entry.tolerance, "the lite interpreter")


def first_difference(
    expected: list[Result], actual: list[Result], tolerance: float, runner: str
) -> str:
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        found = result_difference(left, right, tolerance)
        if found:
            return f"{runner}, call {index}: {found}"
    return ""


def write_apart(entry: Model, folder: Path) -> str:
    """Runs write_model() in a child process. Returns "ok", or the error."""

    def work() -> str:
        try:
            return write_model(entry, folder) or "ok"
        except Exception as error:
            return f"{type(error).__name__}: {str(error).strip()[:1500]}"

    try:
        return in_child(work)
    except RuntimeError as error:
        return str(error)


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    set_up()
    names = sys.argv[2:] or list(MODELS)
    if not NEWEST:
        torch._C._enable_mobile_interface_call_export()
    index_path = folder / "models.json"
    index = json.loads(index_path.read_text()) if sys.argv[2:] and index_path.exists() else {}
    failed = 0
    for name in names:
        entry = MODELS[name]
        index[name] = write_apart(entry, folder)
        if entry.without:
            index[name] = f"left out, {entry.without}: {index[name]}"
        failed += not entry.without and index[name] != "ok"
        if index[name] != "ok":
            print(f"{name}: {index[name]}")
    index_path.write_text(json.dumps(index, indent=1) + "\n")
    print(
        f"{torch.__version__}: {sum(state == 'ok' for state in index.values())} models are written,"
        f" {failed} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
