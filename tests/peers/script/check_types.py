"""Random calls of operators with operands of many types, for check_test.py: right calls, and calls
with one operand of a wrong type.

The operators and their arguments are those of the PyTorch under test. schema_peer.py prints them.
"""

import random
import re
import sys
from pathlib import Path

import check_cases

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import run_torch

HERE = Path(__file__).resolve().parent

# Parameters of every method: `v3` has the type TYPES[3].
TYPES = [
    "Tensor",
    "int",
    "float",
    "bool",
    "complex",
    "number",
    "str",
    "Device",
    "NoneType",
    "Stream",
    "List[int]",
    "List[float]",
    "List[bool]",
    "List[str]",
    "List[Tensor]",
    "List[Optional[Tensor]]",
    "List[List[int]]",
    "Tuple[int, int]",
    "Tuple[int, float]",
    "Tuple[Tensor, Tensor]",
    "Tuple[Tensor, NoneType]",
    "Optional[int]",
    "Optional[float]",
    "Optional[Tensor]",
    "Optional[List[int]]",
    "Dict[str, int]",
    "Dict[str, Tensor]",
    "Any",
    "Union[int, str]",
    "Future[Tensor]",
    "__torch__.A",
    "__torch__.P",
    "__torch__.E",
]
# Right operands, by the type that PyTorch prints.
RIGHT = {
    "Tensor": ["v0"],
    "int": ["v1", "3", "-1", "v3"],
    "float": ["v2", "0.5", "inf"],
    "bool": ["v3", "True"],
    "complex": ["v4", "1j"],
    "number": ["v1", "v2", "v5", "1", "2.5"],
    "str": ["v6", '"a"'],
    "Device": ["v7", '"cpu"'],
    "List[int]": ["v10", "[1, 2]", "(1, 2)", "v17", "[]"],
    "List[float]": ["v11", "[0.5]", "(1., 2.)"],
    "List[bool]": ["v12", "[True]"],
    "List[str]": ["v13", '["a"]'],
    "List[Tensor]": ["v14", "[v0, v0]", "v19"],
    "List[Optional[Tensor]]": ["v15", "[v0, None]"],
    "List[t]": ["v10", "v14", "[1]"],
    "List[List[int]]": ["v16"],
    "Dict[str, t]": ["v25", '{"a": 1}'],
    "t": ["v1", "v0", "2"],
}
EXTRA = [
    "None",
    "{}",
    "[]",
    "()",
    "(1, 2.5)",
    "[1, 2.5]",
    "-v1",
    "v1 + 1",
    "v0 * 2",
    "not v3",
    "torch.relu(v0)",
    "torch.size(v0)",
    "v0.shape",
    "[v1, v1]",
]
NAME = re.compile(r"(?P<name>\w+::\w+)(\.\w+)?\((?P<arguments>.*)\) -> \(.*\)")


def split(text: str) -> list[str]:
    words, word, depth, quote = [], "", 0, False
    for char in text:
        quote = quote != (char == '"')
        depth += 0 if quote else (char in "[(") - (char in "])")
        if char == "," and depth == 0 and not quote:
            words.append(word.strip())
            word = ""
        else:
            word += char
    return [*words, word.strip()] if word.strip() else words


def schemas(python: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """Returns the release ("1.13") and its operators, each with its argument types."""
    peer = run_torch(python, HERE / "schema_peer.py")
    peer.check_returncode()
    found = []
    for line in peer.stdout.split("\n")[1:]:
        match = NAME.fullmatch(line)
        if (
            match
            and match["name"].startswith(("aten::", "prim::"))
            and "..." not in line
            and "__torch__" not in line
        ):
            found.append((match["name"], split(match["arguments"])))
    release = ".".join(peer.stdout.split("\n")[0].split(".")[:2])
    return release, found


def operand(kind: str, rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice([*(f"v{i}" for i in range(len(TYPES))), *EXTRA])
    if kind.startswith("Optional[") and rng.random() < 0.3:
        return "None"
    return rng.choice(
        RIGHT.get(
            (
                kind.removeprefix("Optional[").removesuffix("]")
                if kind.startswith("Optional[")
                else kind
            ),
            ["v0"],
        )
    )


def call(name: str, arguments: list[str], rng: random.Random) -> str:
    space, short = name.split("::")
    positional, keywords, receiver = [], [], None
    by_keyword = False
    # Arguments with a default are given up to a random one, and left out from there.
    given = rng.randrange(len(arguments) + 1)
    for number, word in enumerate(arguments):
        if word == "*":
            by_keyword = True
            continue
        head, _, default = word.partition("=")
        kind, argument = head.rstrip("!").rsplit(" ", 1)
        kind = re.sub(r":\d+$", "", kind)
        if default and (number >= given or rng.random() < 0.3):
            by_keyword = True
            continue
        value = operand(kind, rng)
        if (
            argument == "self"
            and not receiver
            and not positional
            and space == "aten"
            and value.startswith("v")
            and rng.random() < 0.4
        ):
            receiver = value
        elif by_keyword or rng.random() < 0.1:
            by_keyword = True
            keywords.append(f"{argument}={value}")
        else:
            positional.append(value)
    callee = (
        f"{receiver}.{short}"
        if receiver
        else f"torch.{short}"
        if space == "aten"
        else f"ops.{space}.{short}"
    )
    return f"{callee}({', '.join(positional + keywords)})"


def methods(listed: list[tuple[str, list[str]]], count: int, rng: random.Random) -> list[str]:
    parameters = ", ".join(f"v{i}: {kind}" for i, kind in enumerate(TYPES))
    made = []
    for _ in range(count):
        name, arguments = rng.choice(listed)
        text = f"y = {call(name, arguments, rng)}"
        if rng.random() < 0.3:
            # The result goes into another operator.
            other, more = rng.choice(listed)
            text += f"\n    z = {call(other, more, rng).replace('v0', 'y')}"
        made.append(
            f"{check_cases.CLASSES}class M(Module):\n  def forward(self, {parameters}):\n   "
            f" {text}\n    return 0\n"
        )
    return made
