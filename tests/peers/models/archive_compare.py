#!/usr/bin/env python3
"""Compares two module archives record by record, without PyTorch.

Code, constants and extra files must be equal byte for byte. data.pkl and traced_inputs.pkl are
compared as trees of values: a value that is shared by two places of one must be shared by those
places of the other, and storages must hold the same bytes, whatever their keys are. Version numbers
must be equal. Debug files, byteorder and serialization_id are not compared, because an archive may
lack them.

usage: archive_compare.py ARCHIVE ARCHIVE          prints each difference; 0 if there is none
"""

import pickletools
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any


class Archive:
    """The records of an archive by their names, without the folder that contains them all."""

    def __init__(self, path: Path):
        self.path = path
        self.records: dict[str, bytes] = {}
        data = path.read_bytes()
        with zipfile.ZipFile(path) as container:
            entries = container.infolist()
            prefix = entries[0].filename.split("/")[0] + "/"
            for entry in entries:
                if entry.filename.startswith(prefix):
                    self.records[entry.filename[len(prefix) :]] = record_bytes(data, entry)

    def version(self) -> int:
        return int(
            self.records[".data/version"]
            if ".data/version" in self.records
            else self.records["version"]
        )

    def names(self, folder: str) -> set[str]:
        return {
            name
            for name in self.records
            if name.startswith(folder) and not name.endswith(".debug_pkl")
        }


def record_bytes(data: bytes, entry: zipfile.ZipInfo) -> bytes:
    """Returns the record's bytes.

    A CRC of zero was not computed, and Python's own reader would refuse it.
    """
    name_nbytes, extra_nbytes = struct.unpack_from("<HH", data, entry.header_offset + 26)
    start = entry.header_offset + 30 + name_nbytes + extra_nbytes
    stored = data[start : start + entry.compress_size]
    contents = stored if entry.compress_type == zipfile.ZIP_STORED else zlib.decompress(stored, -15)
    if len(contents) != entry.file_size or (entry.CRC and zlib.crc32(contents) != entry.CRC):
        raise ValueError(f"{entry.filename}: wrong size or CRC")
    return contents


class Node:
    """A value of a pickle that is no atom.

    Places that hold the same value hold the same Node.
    """

    def __init__(self, kind: str, *items: Any):
        self.kind = kind
        self.items: list[Any] = list(items)

    def __repr__(self) -> str:
        return f"{self.kind}({len(self.items)})"


ATOMS = {
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
}
SINGLE = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
MARK = object()


def read_pickle(data: bytes) -> Any:
    """Returns the tree of values of a pickle.

    Nothing is called. A global is a Node with its two names, and a reduce is a Node of function and
    arguments.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def to_mark() -> list[Any]:
        at = len(stack) - 1 - next(i for i, value in enumerate(reversed(stack)) if value is MARK)
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def from_top(count: int) -> list[Any]:
        items = stack[-count:]
        del stack[-count:]
        return items

    for opcode, argument, position in pickletools.genops(data):
        name = opcode.name
        if name in ATOMS:
            stack.append(argument)
        elif name in SINGLE:
            stack.append(SINGLE[name])
        elif name == "MARK":
            stack.append(MARK)
        elif name == "GLOBAL":
            stack.append(Node("global", *argument.split(" ", 1)))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(Node("tuple", *from_top(int(name[-1]))))
        elif name in ("EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT"):
            stack.append(Node(name[6:].lower()))
        elif name in ("TUPLE", "LIST", "DICT"):
            stack.append(Node(name.lower(), *to_mark()))
        elif name in ("APPENDS", "SETITEMS"):
            items = to_mark()
            stack[-1].items += items
        elif name in ("APPEND", "SETITEM"):
            items = from_top(1 if name == "APPEND" else 2)
            stack[-1].items += items
        elif name in ("REDUCE", "NEWOBJ"):
            stack.append(Node("reduce" if name == "REDUCE" else "object", *from_top(2)))
        elif name == "BUILD":
            state = from_top(1)
            stack[-1].items += state
        elif name == "BINPERSID":
            stack.append(Node("storage", *from_top(1)[0].items))
        elif name == "STOP":
            (value,) = stack
            return value
        elif name != "PROTO":
            raise ValueError(f"unknown opcode {name} at {position}")
    raise ValueError("no end")


class Comparison:
    """Walks two trees together. `here` and `there` remember which Nodes correspond."""

    def __init__(self, first: Archive, second: Archive, folder: str):
        self.first, self.second, self.folder = first, second, folder
        self.here: dict[int, Node] = {}
        self.there: dict[int, Node] = {}
        self.keys: set[tuple[str, str]] = set()
        self.differences: list[str] = []

    def differ(self, path: str, message: str) -> None:
        self.differences.append(f"{self.folder}.pkl: {path or 'root'}: {message}")

    def compare(self, a: Any, b: Any, path: str = "") -> None:
        if not isinstance(a, Node) or not isinstance(b, Node):
            if isinstance(a, Node) or isinstance(b, Node) or atom(a) != atom(b):
                self.differ(path, f"{a!r} is {b!r}")
            return
        if a.kind != b.kind or len(a.items) != len(b.items):
            self.differ(path, f"{a} is {b}")
            return
        if a.kind == "global":
            if a.items != b.items:
                self.differ(path, f"{' '.join(a.items)} is {' '.join(b.items)}")
            return
        if a.items and (id(a) in self.here or id(b) in self.there):
            if self.here.get(id(a)) is not b or self.there.get(id(b)) is not a:
                self.differ(path, "shared otherwise")
            return
        self.here[id(a)], self.there[id(b)] = b, a
        if a.kind == "storage":
            self.compare_storages(a, b, path)
        elif a.kind == "dict":
            for index in range(0, len(a.items), 2):
                self.compare(a.items[index], b.items[index], path + ".key")
                self.compare(a.items[index + 1], b.items[index + 1], f"{path}.{a.items[index]}")
        else:
            for index, (left, right) in enumerate(zip(a.items, b.items, strict=True)):
                self.compare(left, right, path + ("" if a.kind == "object" else f"[{index}]"))

    def compare_storages(self, a: Node, b: Node, path: str) -> None:
        for index in range(len(a.items)):
            if index != 2:
                self.compare(a.items[index], b.items[index], path + ".storage")
        key, other = a.items[2], b.items[2]
        if any((key == left) != (other == right) for left, right in self.keys):
            self.differ(path, f"storages {key} and {other} stand for others elsewhere")
        self.keys.add((key, other))
        left, right = (
            self.first.records.get(f"{self.folder}/{key}"),
            self.second.records.get(f"{self.folder}/{other}"),
        )
        if left is None or left != right:
            self.differ(path, f"the bytes of storage {key} differ from those of {other}")


def atom(value: Any) -> tuple[str, Any]:
    """An atom for comparison: 1, 1.0 and True differ, nan equals itself, and -0.0 is not 0.0."""
    return (type(value).__name__, struct.pack(">d", value) if isinstance(value, float) else value)


def compare_pickles(first: Archive, second: Archive, folder: str) -> list[str]:
    comparison = Comparison(first, second, folder)
    comparison.compare(
        read_pickle(first.records[folder + ".pkl"]), read_pickle(second.records[folder + ".pkl"])
    )
    return comparison.differences


def compare_archives(first_path: Path, second_path: Path) -> list[str]:
    """Returns the differences of the second archive. The list is empty if there are none."""
    sys.setrecursionlimit(10000)
    first, second = Archive(first_path), Archive(second_path)
    differences = []
    if first.version() != second.version():
        differences.append(f"version {first.version()} is {second.version()}")
    for folder in ("code/", "constants", "extra/"):
        for name in sorted(first.names(folder) | second.names(folder)):
            if name not in first.records or name not in second.records:
                differences.append(
                    f"{name}: only in the {'first' if name in first.records else 'second'}"
                )
            elif first.records[name] != second.records[name]:
                differences.append(f"{name}: the bytes differ")
    for folder in ("data", "traced_inputs"):
        present = [folder + ".pkl" in archive.records for archive in (first, second)]
        if all(present):
            differences += compare_pickles(first, second, folder)
        elif any(present):
            differences.append(f"{folder}.pkl: only in the {'first' if present[0] else 'second'}")
    return differences


def main() -> int:
    differences = compare_archives(Path(sys.argv[1]), Path(sys.argv[2]))
    for difference in differences:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
