#!/usr/bin/env python3
"""Models whose calls fail, for debug_test.py. It runs under the Python of one PyTorch.

debug_models.py write FOLDER       writes for each model NAME.pt, the scripted module; NAME.bare.pt,
                                   the same without the tables of its source; NAME.ptl and
                                   NAME.bare.ptl, PyTorch's own bytecode of the two with debug
                                   tables
debug_models.py run ARCHIVE...     runs each archive in the lite interpreter and prints the errors
                                   as a JSON object. The model is the file's name up to the first
                                   dot
debug_models.py load ARCHIVE...    the same by torch.jit.load
"""

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models_kit import NEWEST, in_child, set_up
from torch.jit.mobile import _load_for_lite_interpreter


class Leaf(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)

    def helper(self, x):
        return torch.relu(self.fc(x))

    def forward(self, x):
        y = x + 1
        return self.helper(y)


class Middle(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = Leaf()
        self.other = torch.nn.ReLU()

    def forward(self, x):
        for _ in range(2):
            x = self.other(x)
        return self.leaf(x)


class Nested(torch.nn.Module):
    """A wrong shape in a submodule of a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.middle = Middle()

    def forward(self, x):
        return self.middle(x) * 2


class Listed(torch.nn.Module):
    """A Sequential, whose children have numbers for names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.Sequential(torch.nn.ReLU(), Leaf(), torch.nn.Tanh())

    def forward(self, x):
        return self.parts(x)


def scaled(x, y):
    z = x * 2
    return torch.matmul(
        z,
        y,
    )


class Calling(torch.nn.Module):
    """A function fails that is called over several lines."""

    def forward(self, x):
        y = x - 1
        return scaled(
            x,
            y,
        )


class Choosing(torch.nn.Module):
    def forward(self, x, index: int):
        items = [x, x + 1]
        total = x
        for i in range(3):
            if i > 0:
                total = total + items[index + i]
        return total


class Raising(torch.nn.Module):
    """A module raises an exception in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Choosing()

    def check(self, n: int) -> int:
        if n > 3:
            raise ValueError("n is too large")
        return n

    def forward(self, x, n: int):
        return self.inner(x, self.check(n))


@torch.jit.interface
class Step(torch.nn.Module):
    def run(self, x: torch.Tensor) -> torch.Tensor:
        pass


class MatrixStep(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 4))

    def run(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return torch.matmul(y, self.weight)


class Interface(torch.nn.Module):
    """The failing function has a module of its own, and is called through an interface."""

    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = MatrixStep()

    def forward(self, x):
        return self.step.run(x)


class Checked(torch.nn.Module):
    def check(self, x, y):
        if x.numel() > 3:
            y.mul_(x)

    def forward(self, x):
        y = x.sum(0)
        self.check(x, y)
        return y


class WithoutResult(torch.nn.Module):
    """PyTorch's own tables forget the calls around an `if` that gives no value."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Checked()

    def forward(self, x):
        return self.inner(x)


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[Any, ...]]] = {
    "nested": (Nested, (torch.ones(2, 5),)),
    "listed": (Listed, (torch.ones(2, 5),)),
    "calling": (Calling, (torch.ones(2, 5),)),
    "choosing": (Choosing, (torch.ones(2), 1)),
    "choosing_inside": (Raising, (torch.ones(2), 2)),
    "raising": (Raising, (torch.ones(2), 4)),
    "interface": (Interface, (torch.ones(2, 5),)),
    "without_result": (WithoutResult, (torch.ones(2, 5),)),
}


def without_tables(archive: Path, bare: Path) -> None:
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(bare, "w") as new:
        for name in old.namelist():
            if not name.endswith(".debug_pkl"):
                new.writestr(name, old.read(name))


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not NEWEST:
        torch._C._enable_mobile_interface_call_export()
    for name, (build, _) in MODELS.items():
        archive, bare = folder / f"{name}.pt", folder / f"{name}.bare.pt"
        module = torch.jit.script(build().eval())
        module.save(str(archive))
        module._save_for_lite_interpreter(str(folder / f"{name}.ptl"), _save_mobile_debug_info=True)
        without_tables(archive, bare)
        torch.jit.load(str(bare))._save_for_lite_interpreter(
            str(folder / f"{name}.bare.ptl"), _save_mobile_debug_info=True
        )


def error_of(load: Callable[[str], Any], archive: Path) -> str:
    _, arguments = MODELS[archive.name.split(".")[0]]
    module = load(str(archive))
    try:
        module(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing failed"


def main() -> None:
    set_up()
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
        return
    load = _load_for_lite_interpreter if sys.argv[1] == "run" else torch.jit.load
    archives = [Path(word) for word in sys.argv[2:]]
    print(
        json.dumps(
            {
                str(archive): in_child(lambda archive=archive: error_of(load, archive))
                for archive in archives
            }
        )
    )


if __name__ == "__main__":
    main()
