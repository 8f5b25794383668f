#!/usr/bin/env python3
"""Writes the archive of every model of the zoo with this PyTorch, and the calls of each model with
their results.

For each model FOLDER gets <name>.pt (torch.jit.save), <name>.calls (torch.save: [(method,
arguments)]) and <name>.expected (torch.save: one output for each call of the archive, loaded
again). index.json gets the model's flags and extra files, or the reason why this PyTorch lacks the
model.

usage: write_archives.py FOLDER [MODEL...]
"""

import base64
import json
import sys
import traceback
import warnings
from pathlib import Path

import torch
import zoo


def write(model: zoo.Model, folder: Path) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(3)
        case = model.build()
        path = folder / f"{model.name}.pt"
        torch.jit.save(case.module, str(path), _extra_files=dict(case.extra_files))
        expected = zoo.run(torch.jit.load(str(path)), case.calls)
    torch.save(
        [(call.method, zoo.plain(call.arguments)) for call in case.calls],
        folder / f"{model.name}.calls",
    )
    torch.save(expected, folder / f"{model.name}.expected")
    contents = {
        name: data if isinstance(data, bytes) else data.encode()
        for name, data in case.extra_files.items()
    }
    extra = {name: base64.b64encode(data).decode() for name, data in contents.items()}
    return {"flags": model.flags, "extra_files": extra}


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set(sys.argv[2:])
    warnings.simplefilter("ignore")
    index: dict[str, dict[str, object]] = {}
    failed = []
    for name, model in zoo.all_models().items():
        if wanted and name not in wanted:
            continue
        if model.without is not None:
            index[name] = {"flags": model.flags, "left_out": model.without}
            continue
        try:
            index[name] = write(model, folder)
        except Exception:
            print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr)
            failed.append(name)
    (folder / "index.json").write_text(
        json.dumps({"torch": torch.__version__, "models": index}, indent=1) + "\n"
    )
    print(
        f"PyTorch {torch.__version__}: {sum('left_out' not in entry for entry in index.values())}"
        f" archives in {folder}"
    )
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
