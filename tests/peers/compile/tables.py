#!/usr/bin/env python3
"""Compares the bytecode tables of two archives, without PyTorch.

Tenon and PyTorch number registers, constants, operators and types in their own order. So the tables
are compared after normalise(): each number is replaced by the place of its first use in the
function, and constants that no instruction uses are dropped. A run of DROPR is a set. The number of
a WARN may differ, because PyTorch counts warnings for the whole process.

usage: tables.py OURS THEIRS          prints the differences; the exit status is 0 if there are none
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from archive_compare import Archive, Node, read_pickle

# The kinds of an instruction's operands X and N: a register, a constant, an operator, a type, a
# jump, or a plain number. "R*" and "T*" are N registers or types in a row. "free" is not compared.
# Other instructions have plain numbers.
OPERANDS = {
    "OP": ("O", "n"),
    "OPN": ("O", "n"),
    "LOAD": ("R", "n"),
    "MOVE": ("R", "n"),
    "STORE": ("R", "n"),
    "DROPR": ("R", "n"),
    "STOREN": ("R*", "n"),
    "LOADC": ("C", "n"),
    "INTERFACE_CALL": ("C", "n"),
    "JF": ("P", "n"),
    "JMP": ("P", "n"),
    "LOOP": ("P", "n"),
    "LIST_CONSTRUCT": ("T", "n"),
    "DICT_CONSTRUCT": ("T", "n"),
    "NAMED_TUPLE_CONSTRUCT": ("T", "n"),
    "CREATE_OBJECT": ("T", "n"),
    "ISINSTANCE": ("T*", "n"),
    "WARN": ("free", "n"),
}


@dataclass
class Function:
    """One method as bytecode.pkl holds it.

    Constants and default values are keys, which compare as the values do.
    """

    name: str
    instructions: list[tuple[str, int, int]]
    operators: list[tuple[Any, ...]]
    constants: list[Any]
    types: list[str]
    register_size: int
    arguments: tuple[Any, ...]
    returns: tuple[Any, ...]


@dataclass
class Normal:
    """A function whose numbers are in the order of first use.

    `plain` has the contents in place of numbers, for a reader.
    """

    function: Function
    instructions: list[tuple[Any, ...]] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    origins: list[int] = field(
        default_factory=list
    )  # the index that the instruction had before runs of DROPR were sorted
    used: dict[str, list[Any]] = field(
        default_factory=dict
    )  # the contents by first use: of operators, constants, types


def key(value: Any, archive: Archive) -> tuple[Any, ...]:
    """Turns a value of a pickle into a tuple that is equal only for equal values: 1, 1.0 and True
    differ, and nan equals itself.
    """
    if not isinstance(value, Node):
        return (
            type(value).__name__,
            struct.pack(">d", value) if isinstance(value, float) else value,
        )
    if value.kind == "global":
        return ("global", ".".join(value.items))
    if value.kind == "storage":
        return storage_key(value, archive)
    items = tuple(key(item, archive) for item in value.items)
    if value.kind == "reduce" and items[0] == ("global", "torch._utils._rebuild_tensor_v2"):
        storage, offset, sizes, strides = items[1][1][:4]
        return ("tensor", *storage[1:], offset, sizes, strides)
    return (value.kind, items)


def storage_key(node: Node, archive: Archive) -> tuple[Any, ...]:
    """The key of a storage: its element type and its bytes. Its name in the archive may be any."""
    _, kind, name, device, _ = node.items
    # If there is a record below bytecode/, PyTorch looks for tensors of bytecode only there.
    folder = (
        "bytecode/"
        if any(record.startswith("bytecode/") for record in archive.records)
        else "constants/"
    )
    if folder + name not in archive.records:
        raise ValueError(
            f"{archive.path}: bytecode.pkl names the storage {name}, which is not in {folder}"
        )
    return ("storage", ".".join(kind.items), device, archive.records[folder + name])


def shown(content: Any) -> str:
    """Returns a key as text for a reader."""
    kind = content[0]
    if kind == "float":
        return repr(struct.unpack(">d", content[1])[0])
    if kind == "tensor":
        sizes = [item[1] for item in content[5][1]]
        return f"{content[1].removeprefix('torch.').removesuffix('Storage')}Tensor{sizes}"
    if kind in ("tuple", "list", "dict", "object", "reduce"):
        return f"{kind}({', '.join(shown(item) for item in content[1])})"
    return content[1] if kind == "global" else repr(content[1])


def plain_tuple(value: Any, what: str) -> list[Any]:
    if not isinstance(value, Node) or value.kind != "tuple":
        raise ValueError(f"bytecode.pkl: {what} is no tuple")
    return value.items


def named_fields(value: Any, names: tuple[str, ...], what: str) -> list[Any]:
    """Returns the values of a tuple of (name, value), whose names must be these, in this order."""
    fields = [plain_tuple(item, what) for item in plain_tuple(value, what)]
    found = tuple(name for name, _ in fields)
    if found != names:
        raise ValueError(f"bytecode.pkl: {what} has the fields {found} and should have {names}")
    return [content for _, content in fields]


def read_function(entry: Node, archive: Archive) -> Function:
    name, code, schema = plain_tuple(entry, "a function")
    tables = named_fields(
        code, ("instructions", "operators", "constants", "types", "register_size"), name
    )
    instructions, operators, constants, types = (plain_tuple(table, name) for table in tables[:4])
    schemas = [
        tuple(
            (argument, kind, key(default, archive))
            for argument, kind, default in (
                named_fields(item, ("name", "type", "default_value"), f"{name}'s schema")
                for item in plain_tuple(side, name)
            )
        )
        for side in named_fields(schema, ("arguments", "returns"), f"{name}'s schema")
    ]
    return Function(
        name,
        [tuple(plain_tuple(item, name)) for item in instructions],
        [tuple(plain_tuple(item, name)) for item in operators],
        [key(item, archive) for item in constants],
        list(types),
        tables[4],
        schemas[0],
        schemas[1],
    )


def read_functions(path: Path, expected_version: int = 8) -> list[Function]:
    """Returns the functions of an archive in their order."""
    archive = Archive(path)
    if "bytecode.pkl" not in archive.records:
        raise ValueError(f"{path}: the archive has no bytecode.pkl")
    version, *functions = plain_tuple(read_pickle(archive.records["bytecode.pkl"]), "the record")
    if version != expected_version:
        raise ValueError(f"{path}: bytecode.pkl has version {version} and not {expected_version}")
    return [read_function(function, archive) for function in functions]


def jump_targets(instructions: list[tuple[str, int, int]]) -> set[int]:
    return {at + x for at, (op, x, _) in enumerate(instructions) if OPERANDS.get(op, "n")[0] == "P"}


def runs(instructions: list[tuple[str, int, int]]) -> Iterator[list[int]]:
    """Yields the indices of the instructions. Those of a run of DROPR come together.

    No jump leads into the middle of a run.
    """
    targets = jump_targets(instructions)
    run: list[int] = []
    for at, (op, _, _) in enumerate(instructions):
        if run and (op != "DROPR" or at in targets or instructions[run[-1]][0] != "DROPR"):
            yield run
            run = []
        run.append(at)
    if run:
        yield run


class Numbering:
    """Numbers the entries of one table by first use."""

    def __init__(self, content: Callable[[int], Any] = lambda number: number):
        self.content = content
        self.numbers: dict[int, int] = {}

    def __call__(self, number: int) -> int:
        if number not in self.numbers:
            self.content(number)  # raises IndexError if the table has no such number
            self.numbers[number] = len(self.numbers)
        return self.numbers[number]

    def contents(self) -> list[Any]:
        return [self.content(number) for number in self.numbers]


def normalise_function(function: Function) -> Normal:
    number = {
        "R": Numbering(),
        "O": Numbering(lambda at: within(function.operators, at, function, "operator")),
        "C": Numbering(lambda at: within(function.constants, at, function, "constant")),
        "T": Numbering(lambda at: within(function.types, at, function, "type")),
    }
    normal = Normal(function)
    for run in runs(function.instructions):
        lines = []
        for at in run:
            op, x, n = function.instructions[at]
            kind = OPERANDS.get(op, ("n", "n"))[0]
            if kind == "free":
                operands: tuple[int, ...] = ()
            elif kind.endswith("*"):
                operands = tuple(number[kind[0]](x + i) for i in range(n))
            elif kind in number:
                operands = (number[kind](x),)
            else:
                operands = (x,)
            lines.append(((op, n, *operands), plain_line(function, at, kind, operands), at))
        for line, text, at in (
            sorted(lines, key=lambda entry: entry[0][2:]) if len(lines) > 1 else lines
        ):
            normal.instructions.append(line)
            normal.plain.append(text)
            normal.origins.append(at)
    normal.used = {kind: number[kind].contents() for kind in "OCT"}
    return normal


def within(table: list[Any], at: int, function: Function, what: str) -> Any:
    if not 0 <= at < len(table):
        raise ValueError(
            f"{function.name}: an instruction uses {what} {at}, and there are {len(table)}"
        )
    return table[at]


def plain_line(function: Function, at: int, kind: str, operands: tuple[int, ...]) -> str:
    """Returns an instruction for a reader: registers by first use as r0, r1, …, and jumps by the
    index to which they lead.
    """
    op, x, n = function.instructions[at]
    letter = kind[0]
    if letter == "R":
        words = [f"r{operand}" for operand in operands]
    elif letter == "O":
        name, overload, *count = function.operators[x]
        words = [
            name + (f".{overload}" if overload else ""),
            *(f"({some} given)" for some in count),
        ]
    elif letter == "C":
        words = [shown(function.constants[x])]
    elif letter == "T":
        words = function.types[x : x + len(operands)]
    elif letter == "P":
        words = [f"-> {at + x}"]
    else:
        words = [str(operand) for operand in operands]
    counted = n and op not in ("STOREN", "ISINSTANCE")
    return " ".join([op, *words, *([f"N={n}"] if counted else [])])


def normalise(functions: list[Function]) -> dict[str, Normal]:
    """Returns the functions by name.

    Two archives have the same tables if compare() finds no difference.
    """
    normals = {}
    for function in functions:
        if function.name in normals:
            raise ValueError(f"bytecode.pkl has two functions {function.name}")
        normals[function.name] = normalise_function(function)
    return normals


def first_difference(ours: list[Any], theirs: list[Any]) -> int | None:
    """Returns the index of the first difference. That is the length of the shorter list if one
    continues the other.
    """
    pairs = itertools.zip_longest(ours, theirs, fillvalue=None)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), None)


def side_by_side(ours: Normal, theirs: Normal, at: int, before: int = 8, after: int = 10) -> str:
    """Returns the instructions around `at`, ours left and theirs right, with "|" where they
    differ.
    """

    def column(normal: Normal, index: int) -> str:
        return (
            f"{normal.origins[index]:4} {normal.plain[index]}" if index < len(normal.plain) else ""
        )

    last = min(max(len(ours.plain), len(theirs.plain)), at + after)
    rows = [
        (column(ours, index), column(theirs, index)) for index in range(max(0, at - before), last)
    ]
    width = min(60, max((len(left) for left, _ in rows), default=0))
    return "\n".join(
        f"    {left[:width]:{width}} {' ' if left == right else '|'} {right}".rstrip()
        for left, right in rows
    )


def compare_function(ours: Normal, theirs: Normal) -> list[str]:
    name = ours.function.name
    differences = []
    at = first_difference(ours.plain, theirs.plain)
    if at is not None:
        counts = f"{len(ours.plain)} instructions and {len(theirs.plain)}"
        differences.append(
            f"{name}: instruction {at} differs ({counts}; ours"
            f" left)\n{side_by_side(ours, theirs, at)}"
        )
    else:
        shared = first_difference(ours.instructions, theirs.instructions)
        if shared is not None:
            what = f"{ours.instructions[shared]} and {theirs.instructions[shared]} by first use"
            differences.append(
                f"{name}: instruction {shared} uses an entry of a table that stands there once on"
                f" one side and twice on the other: {what}\n" + side_by_side(ours, theirs, shared)
            )
        for kind, what in (("O", "operators"), ("C", "constants"), ("T", "types")):
            entry = first_difference(ours.used[kind], theirs.used[kind])
            if entry is not None and shared is None:
                pair = [
                    str(side.used[kind][entry])[:200] if entry < len(side.used[kind]) else "nothing"
                    for side in (ours, theirs)
                ]
                differences.append(
                    f"{name}: {what} {entry} by first use is {pair[0]} and {pair[1]}"
                )
    for what in ("register_size", "arguments", "returns"):
        left, right = getattr(ours.function, what), getattr(theirs.function, what)
        if left != right:
            differences.append(f"{name}: {what} is {left} and {right}")
    return differences


def compare(ours: list[Function], theirs: list[Function]) -> list[str]:
    """Returns each difference between the tables as text for a reader. The list is empty if they
    are equal.
    """
    return compare_normals(normalise(ours), normalise(theirs))


def compare_normals(left: dict[str, Normal], right: dict[str, Normal]) -> list[str]:
    """Like compare(), for functions that are normalised already, ours left."""
    differences = [f"{name}: the function is only in ours" for name in left if name not in right]
    differences += [f"{name}: the function is only in theirs" for name in right if name not in left]
    for name in left:
        if name in right:
            differences += compare_function(left[name], right[name])
    if not differences and list(left) != list(right):
        differences.append(f"the functions stand in another order: {list(left)} and {list(right)}")
    return differences


def read_normals(path: Path) -> dict[str, Normal]:
    """Returns the normalised functions of an archive."""
    return normalise(read_functions(path))


def compare_archives(ours: Path, theirs: Path) -> list[str]:
    return compare(read_functions(ours), read_functions(theirs))


def main() -> int:
    differences = compare_archives(Path(sys.argv[1]), Path(sys.argv[2]))
    for difference in differences:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
