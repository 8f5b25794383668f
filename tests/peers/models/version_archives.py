#!/usr/bin/env python3
"""Writes archives at versions 3, 8, 9 and 10 whose meaning depends on the version, with this
PyTorch.

PyTorch writes the lowest version that its operators need. Here the version record is edited
afterwards, as if an older PyTorch had written the code. FOLDER gets <operator>_<version>.pt with
.calls, .expected and index.json in the form of write_archives.py, so check_archives.py runs them
too. MODELS says what each version must return, and PyTorch must agree. An archive that PyTorch
refuses is written too, and index.json lists it as "refused".

usage: version_archives.py FOLDER
"""

import json
import re
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
import zoo
from torch import Tensor, nn

VERSIONS = (3, 8, 9, 10)
REFUSED = "refused"


class Based(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Parameter(torch.zeros(2))


class Div(Based):
    def forward(self, x: Tensor) -> Tensor:
        return torch.div(x, 2)


class DivInPlace(Based):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone().div_(2)


class Full(Based):
    def forward(self, x: Tensor) -> Tensor:
        return torch.full([2], 3)


class Linspace(Based):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linspace(0.0, 1.0, 100)


class Logspace(Based):
    def forward(self, x: Tensor) -> Tensor:
        return torch.logspace(0.0, 1.0, 100)


class Gelu(Based):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x.to(torch.float32), approximate="tanh")


class Neutral(Based):
    """Code that means the same in every version."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) + self.base


class Combined(nn.Module):
    def __init__(self):
        super().__init__()
        self.div = Div()
        self.full = Full()
        self.neutral = Neutral()

    def forward(self, x: Tensor) -> Tensor:
        return self.div(x) + self.full(x) + self.neutral(x)


INPUT = torch.tensor([5, -5])
HALVES, WHOLES = torch.tensor([2.5, -2.5]), torch.tensor([2, -2])
GELU = torch.nn.functional.gelu(INPUT.to(torch.float32), approximate="tanh")
NEUTRAL = torch.tensor([5.0, 0.0])

# name: (module, the edit of its code, the first version with today's meaning, the result before
# that version, the result from that version on)
MODELS: dict[str, tuple[type[nn.Module], tuple[str, str] | None, int, Any, Any]] = {
    "div": (Div, None, 4, WHOLES, HALVES),
    "div_in_place": (DivInPlace, None, 4, WHOLES, REFUSED),
    "full": (Full, None, 5, torch.tensor([3.0, 3.0]), torch.tensor([3, 3])),
    "linspace": (
        Linspace,
        (r"(linspace\([^()]*), 100", r"\1"),
        8,
        torch.linspace(0.0, 1.0, 100),
        REFUSED,
    ),
    "logspace": (
        Logspace,
        (r"(logspace\([^()]*), 100", r"\1"),
        9,
        torch.logspace(0.0, 1.0, 100),
        REFUSED,
    ),
    "linspace_steps": (
        Linspace,
        None,
        8,
        torch.linspace(0.0, 1.0, 100),
        torch.linspace(0.0, 1.0, 100),
    ),
    "gelu": (Gelu, None, 10, REFUSED, GELU),
    "neutral": (Neutral, None, 1, NEUTRAL, NEUTRAL),
    "combined": (Combined, None, 5, WHOLES + 3.0 + NEUTRAL, HALVES + 3 + NEUTRAL),
}


def edit(source: Path, path: Path, version: int, change: tuple[str, str] | None) -> None:
    """Copies the archive with this version number, under the new name's prefix, and with edited
    code.
    """
    changed = 0
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            _, name = entry.split("/", 1)
            data = old.read(entry)
            if name in ("version", ".data/version"):
                name, data = (
                    (".data/version" if version >= 6 else "version"),
                    f"{version}\n".encode(),
                )
            elif name.endswith(".debug_pkl"):
                continue
            elif change is not None and name.endswith(".py"):
                text, count = re.subn(*change, data.decode())
                data, changed = text.encode(), changed + count
            new.writestr(f"{path.stem}/{name}", data)
    assert change is None or changed == 1, f"{source}: the code has {changed} places to change"


def outcome(path: Path) -> Any:
    """Returns the archive's output, or says that PyTorch refuses it when it is loaded or when it
    runs.
    """
    try:
        (output,) = zoo.run(torch.jit.load(str(path)), [zoo.forward(INPUT)])
    except RuntimeError:
        return REFUSED
    return REFUSED if isinstance(output, tuple) else output


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    index: dict[str, dict[str, Any]] = {}
    for model, (kind, change, since, before, after) in MODELS.items():
        source = folder / f"{model}.source"
        torch.jit.save(torch.jit.script(kind().eval()), str(source))
        for version in VERSIONS:
            name = f"{model}_{version}"
            edit(source, folder / f"{name}.pt", version, change)
            expected, found = before if version < since else after, outcome(folder / f"{name}.pt")
            if repr(expected) != repr(found):
                print(f"{name}: returned {found} and not {expected}", file=sys.stderr)
                return 1
            index[name] = {"flags": [model, f"version-{version}"], "extra_files": {}}
            if expected is REFUSED:
                index[name]["left_out"] = REFUSED
            else:
                torch.save([("forward", (INPUT,))], folder / f"{name}.calls")
                torch.save([found], folder / f"{name}.expected")
        source.unlink()
    (folder / "index.json").write_text(
        json.dumps({"torch": torch.__version__, "models": index}, indent=1) + "\n"
    )
    print(f"PyTorch {torch.__version__}: {len(index)} archives in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
