"""Programs of hand-written TorchScript: what a program is, and how its archive is written.

PyTorch writes none of these archives. Their code is the text of a program as a person would write
it. So Tenon compiles statements that PyTorch's printer never writes: a `for` over a dict, `break`,
an early return, and the refinement of an Optional.

handwritten_flow.py, handwritten_data.py and handwritten_forks.py register programs, and
handwritten_random.py makes more.
"""

from __future__ import annotations

import json
import pickle
import sys
import textwrap
import types
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The attributes that PyTorch prints for each module.
OF_EACH_MODULE = {
    "training": ("bool", False),
    "_is_full_backward_hook": ("Optional[bool]", None),
}
# run_handwritten.py has the arguments.
SIGNATURE = "self, x: Tensor, n: int, f: float, b: bool, s: str, l: List[int]"
SIGNATURE += ", d: Dict[str, int], o: Optional[int]"


@dataclass
class Object:
    """An object in an archive: the name of its class and its attributes.

    It needs at least two attributes, because PyTorch 1.13 does not read pickle's opcode for one.
    """

    class_name: str
    attributes: dict[str, Any]

    def pickled(self) -> Any:
        """Returns an object that pickle writes as PyTorch does: of a class in the module
        __torch__.
        """
        known = sys.modules["__torch__"]
        members = {"__module__": "__torch__", "__getstate__": lambda made: made.__dict__}
        kind = type(self.class_name, (), members)
        kind = known.__dict__.setdefault(self.class_name, kind)
        made = kind()
        for name, value in self.attributes.items():
            setattr(made, name, value.pickled() if isinstance(value, Object) else value)
        return made


@dataclass
class Program:
    """A method `forward` with this body.

    `methods` are further methods of the class M, and `before` has functions and classes before it.
    `attributes` has the type and value of each attribute of M.
    """

    name: str
    returns: str
    body: str
    methods: str = ""
    before: str = ""
    attributes: dict[str, tuple[str, Any]] = field(default_factory=dict)
    version: int = 10  # of the archive
    refused: str = ""  # why Tenon refuses a program that PyTorch's own exporter takes
    unlike: str = ""  # why PyTorch's results differ from Python's and Tenon's
    not_old: str = ""  # why PyTorch 1.13 refuses the program
    switch: str = ""  # an option of Tenon's export, such as "forks_at_once"

    def members(self) -> dict[str, tuple[str, Any]]:
        """Returns the type and value of each attribute."""
        return {**OF_EACH_MODULE, **self.attributes}

    def code(self) -> str:
        attributes = "".join(f"{name} : {kind}\n" for name, (kind, _) in self.members().items())
        methods = (
            f"__parameters__ = []\n__buffers__ = []\n{attributes}{unindented(self.methods)}"
            f"def forward({SIGNATURE}) -> {self.returns}:\n"
            f"{textwrap.indent(unindented(self.body), '  ')}"
        )
        return f"{unindented(self.before)}class M(Module):\n{textwrap.indent(methods, '  ')}"

    def write(self, folder: Path) -> None:
        """Writes NAME.pt."""
        state = {name: value for name, (_, value) in self.members().items()}
        sys.modules["__torch__"] = types.ModuleType("__torch__")  # pickle looks for classes here
        record = pickle.dumps(Object("M", state).pickled(), protocol=2)
        del sys.modules["__torch__"]
        with zipfile.ZipFile(folder / f"{self.name}.pt", "w") as archive:
            archive.writestr("program/data.pkl", record)
            archive.writestr("program/code/__torch__.py", self.code())
            archive.writestr("program/constants.pkl", pickle.dumps((), protocol=2))
            archive.writestr("program/.data/version", f"{self.version}\n")


def unindented(text: str) -> str:
    text = textwrap.dedent(text).strip("\n")
    return text + "\n" if text else ""


PROGRAMS: dict[str, Program] = {}


def program(name: str, returns: str, body: str, **more: Any) -> None:
    """Registers a program."""
    assert name not in PROGRAMS, name
    PROGRAMS[name] = Program(name, returns, body, **more)


def read_answers(path: Path) -> dict[str, dict[str, str]]:
    answers: dict[str, dict[str, str]] = json.loads(path.read_text())
    return answers
