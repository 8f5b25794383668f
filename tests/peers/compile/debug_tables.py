#!/usr/bin/env python3
"""Reads the debug tables of an archive and compares those of two archives, without PyTorch.

An instruction has a handle, a handle has an entry in callstack_debug_map.pkl, and the tags of the
entry have ranges of sources in the records `.debug_pkl`. Handles and tags may be any numbers, so
the entries and ranges that they lead to are compared.

usage: debug_tables.py ARCHIVE            prints the origin of each instruction
       debug_tables.py OURS THEIRS        prints the differences; the exit status is 0 if there are
                                          none
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tables import Archive, plain_tuple, read_functions, read_pickle

TABLES = ("mobile_debug_handles.pkl", "callstack_debug_map.pkl")


@dataclass(frozen=True)
class Place:
    """The beginning of a range in a source. The file is empty if there is no source."""

    file: str
    line: int


@dataclass(frozen=True)
class Call:
    """One of the calls through which an instruction came into its function."""

    place: Place
    module: str  # empty: a function was called
    instance: str
    function: str


@dataclass(frozen=True)
class Origin:
    node: str
    place: Place
    calls: tuple[Call, ...]

    def text(self) -> str:
        calls = "".join(
            f"{call.instance}({call.module})::{call.function} from {call.place.line}, "
            for call in self.calls
        )
        return f"{calls}{self.node} at {self.place.file}:{self.place.line}"


def place_of(entry: Any, texts: list[str]) -> Place:
    """Returns the place of a range (source, start, end). Its source is (numbers of its lines,
    number of its file, its first line).
    """
    source, start, end = plain_tuple(entry, "a range")
    lines, file, first = plain_tuple(source, "a source")
    text = "".join(texts[number] for number in numbers_of(lines))
    # PyTorch writes the range from 0 to 1 for nodes without a source.
    if not 0 <= start <= end <= max(len(text.encode()), 1):
        raise ValueError(f"the range {start} to {end} is outside of its source {texts[file]}")
    return Place(texts[file], first + text.encode()[:start].count(b"\n"))


def numbers_of(value: Any) -> list[int]:
    """Returns the items of a list of int, which is a call of build_intlist."""
    _, arguments = value.items
    (numbers,) = arguments.items
    return numbers.items


def read_places(archive: Archive) -> dict[int, Place]:
    """Returns the places of all code files by their tags."""
    places: dict[int, Place] = {}
    for name, content in archive.records.items():
        if not (name.startswith("code/") and name.endswith(".debug_pkl")):
            continue
        form, texts, entries = plain_tuple(read_pickle(content), name)
        if form != "FORMAT_WITH_STRING_TABLE":
            raise ValueError(f"{name} begins with {form}")
        before = -1
        for entry in plain_tuple(entries, name):
            offset, place, tag = plain_tuple(entry, name)
            if offset < before or place_of(place, texts.items) != places.setdefault(
                tag, place_of(place, texts.items)
            ):
                raise ValueError(f"{name}: the offset {offset} or the tag {tag} is bad")
            before = offset
    return places


def read_origins(path: Path) -> dict[str, list[Origin]]:
    """Returns for each function the origins of its instructions.

    Raises ValueError if an instruction has no handle of its own.
    """
    archive = Archive(path)
    missing = [name for name in TABLES if name not in archive.records]
    if missing:
        raise ValueError(f"{path}: there is no {missing[0]}")
    places = read_places(archive)

    def calls_of(entry: Any) -> tuple[Call, ...]:
        if entry is None:
            return ()
        module, tag, callee, function = plain_tuple(entry, "a call")
        names = plain_tuple(module, "a module") if module is not None else ("", "")
        return (Call(places[tag], names[0], names[1], function), *calls_of(callee))

    entries = {}
    for item in plain_tuple(read_pickle(archive.records[TABLES[1]]), TABLES[1]):
        handle, tag, node, calls = plain_tuple(item, "an entry")
        entries[handle] = Origin(node, places[tag], calls_of(calls))
    version, *functions = plain_tuple(read_pickle(archive.records[TABLES[0]]), TABLES[0])
    handles = {}
    for item in functions:
        name, table = plain_tuple(item, "a function")
        ((key, (numbers,)),) = (
            (entry.items[0], entry.items[1].items) for entry in plain_tuple(table, name)
        )
        if key != "function_debug_handles":
            raise ValueError(f"{name} has no handles but {key}")
        handles[name] = numbers_of(numbers)
    code = read_functions(path)
    if version != 8 or [function.name for function in code] != list(handles):
        raise ValueError(f"the handles are of version {version}, and of {list(handles)}")
    everyone = [handle for numbers in handles.values() for handle in numbers]
    if len(set(everyone)) != len(everyone) or sorted(everyone) != sorted(entries):
        raise ValueError(
            "two instructions have one handle, or the call stacks are of other handles"
        )
    for function in code:
        if len(function.instructions) != len(handles[function.name]):
            raise ValueError(f"{function.name} has {len(handles[function.name])} handles")
    return {name: [entries[handle] for handle in numbers] for name, numbers in handles.items()}


def differs(ours: Origin, theirs: Origin, places: bool) -> bool:
    """Returns whether the node, a call or a place differs.

    PyTorch has no place for instructions that read attributes, drop values, or begin or end a
    block. It forgets calls of nodes that give no value, such as an `if` whose body raises, and of
    the nodes in them. So its calls must be some of ours.
    """
    if ours.node != theirs.node:
        return True
    pairs = [(ours.place, theirs.place)]
    calls = iter(ours.calls)
    for call in theirs.calls:
        same = (
            mine
            for mine in calls
            if (mine.module, mine.instance, mine.function)
            == (call.module, call.instance, call.function)
        )
        found = next(same, None)
        if found is None:
            return True
        pairs.append((found.place, call.place))
    return places and any(mine != their for mine, their in pairs if their.file)


def compare_archives(ours: Path, theirs: Path, places: bool = True) -> list[str]:
    """Returns the differences as text. The list is empty if there are none.

    Without `places`, lines and files are not compared.
    """
    left, right = read_origins(ours), read_origins(theirs)
    if list(left) != list(right):
        return [f"the debug tables are of {list(left)} and of {list(right)}"]
    found = []
    for name in left:
        if len(left[name]) != len(right[name]):
            found.append(f"{name} has {len(left[name])} instructions and {len(right[name])}")
            continue
        for at, (a, b) in enumerate(zip(left[name], right[name], strict=True)):
            if differs(a, b, places):
                found.append(f"{name}, instruction {at}: {a.text()} and {b.text()}")
    return found


def main() -> int:
    if len(sys.argv) == 2:
        for name, origins in read_origins(Path(sys.argv[1])).items():
            print(name, *(f"{at:5} {origin.text()}" for at, origin in enumerate(origins)), sep="\n")
        return 0
    differences = compare_archives(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*differences, sep="\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
