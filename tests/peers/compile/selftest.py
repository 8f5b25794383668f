#!/usr/bin/env python3
"""Proves that tables.py finds differences: a mutated table differs from the original, and a
renumbered table does not.

It runs without PyTorch on the lite archives that write_models.py wrote.

usage: selftest.py OUTDIR...
"""

import copy
import os
import random
import sys
from pathlib import Path

from tables import OPERANDS, Function, compare, normalise, read_functions, runs


def renumbered(function: Function, chance: random.Random) -> Function:
    """Returns the same function with registers, constants, operators and types in another order, an
    unused constant, and shuffled DROPRs.
    """

    def shuffled(count: int) -> list[int]:
        places = list(range(count))
        chance.shuffle(places)
        return places

    def moved(table: list, places: list[int]) -> list:
        after = [None] * len(table)
        for at, place in enumerate(places):
            after[place] = table[at]
        return after

    # STOREN and ISINSTANCE name a row of numbers, so the numbers of a row stay together: the
    # registers move by one permutation of rows.
    rows = [(x, n) for op, x, n in function.instructions if op == "STOREN"]
    inside = {x + i for x, n in rows for i in range(n)}
    free = [number for number in range(1, function.register_size + 1) if number not in inside]
    blocks = list(dict.fromkeys(rows)) + [(number, 1) for number in free]
    chance.shuffle(blocks)
    registers, following = {}, 1
    for x, n in blocks:
        for i in range(n):
            registers[x + i] = following
            following += 1
    kept_types = any(op == "ISINSTANCE" and n > 1 for op, _, n in function.instructions)
    place = {
        "R": registers,
        "O": shuffled(len(function.operators)),
        "C": shuffled(len(function.constants)),
        "T": list(range(len(function.types))) if kept_types else shuffled(len(function.types)),
    }
    instructions = []
    for run in runs(function.instructions):
        group = [function.instructions[at] for at in run]
        chance.shuffle(group)
        for op, x, n in group:
            kind = OPERANDS.get(op, ("n", "n"))[0]
            instructions.append(
                (
                    op,
                    (
                        chance.randrange(99)
                        if kind == "free"
                        else place[kind[0]][x]
                        if kind[0] in place
                        else x
                    ),
                    n,
                )
            )
    return Function(
        function.name,
        instructions,
        moved(function.operators, place["O"]),
        [*moved(function.constants, place["C"]), ("str", "unused")],
        moved(function.types, place["T"]),
        function.register_size,
        function.arguments,
        function.returns,
    )


def mutations(function: Function, chance: random.Random) -> list[tuple[str, Function]]:
    """Returns functions that differ from this one in one place each."""
    found = []

    def add(what: str) -> Function:
        other = copy.copy(function)
        for table in ("instructions", "operators", "constants", "types"):
            setattr(other, table, list(getattr(function, table)))
        found.append((what, other))
        return other

    at = chance.randrange(len(function.instructions))
    op, x, n = function.instructions[at]
    add(f"no instruction {at}").instructions.pop(at)
    add(f"instruction {at} twice").instructions.insert(at, (op, x, n))
    add(f"another opcode at {at}").instructions[at] = ("DROP" if op != "DROP" else "RET", x, n)
    add("another register_size").register_size += 1
    add("another argument").arguments = (("z", "int", ("NoneType", None)), *function.arguments[1:])
    used = {
        kind: [
            i
            for i, (op, _, _) in enumerate(function.instructions)
            if OPERANDS.get(op, "n")[0] == kind
        ]
        for kind in "ROCTP"
    }
    if used["P"]:
        at = chance.choice(used["P"])
        op, x, n = function.instructions[at]
        add(f"another jump at {at}").instructions[at] = (op, x + 1, n)
    loads = [i for i in used["R"] if function.instructions[i][0] in ("LOAD", "MOVE")]
    if loads:
        at = chance.choice(loads)
        op, x, n = function.instructions[at]
        other = next(
            (
                r
                for r in range(1, function.register_size + 1)
                if r != x and (op, r, n) != function.instructions[at]
            ),
            None,
        )
        if other and any(i < at for i in used["R"]):
            add(f"another register at {at}").instructions[at] = (op, other, n)
        add(f"LOAD for MOVE at {at}").instructions[at] = ("LOAD" if op == "MOVE" else "MOVE", x, n)
    for kind, table in (("O", "operators"), ("C", "constants"), ("T", "types")):
        if used[kind]:
            at = function.instructions[chance.choice(used[kind])][1]
            add(f"another entry {at} of {table}").__dict__[table][at] = (
                ("x", "", 1) if kind == "O" else ("int", -77) if kind == "C" else "X"
            )
    twice = [
        x
        for x in {function.instructions[i][1] for i in used["C"]}
        if sum(function.instructions[i][1] == x for i in used["C"]) > 1
    ]
    if twice:
        at = max(i for i in used["C"] if function.instructions[i][1] == twice[0])
        other = add(f"a second copy of constant {twice[0]}")
        other.constants.append(other.constants[twice[0]])
        other.instructions[at] = (
            other.instructions[at][0],
            len(other.constants) - 1,
            other.instructions[at][2],
        )
    return found


def check(path: Path, chance: random.Random) -> tuple[int, int]:
    functions = read_functions(path)
    assert compare(functions, read_functions(path)) == [], path
    same = [renumbered(function, chance) for function in functions]
    assert compare(same, functions) == [], f"{path}: renumbered: {compare(same, functions)[0]}"
    assert compare(functions[1:], functions) and compare(functions, functions[1:]), path
    count = 0
    for function in functions:
        for what, mutated in mutations(function, chance):
            assert compare([mutated], [function]), f"{path}: {function.name}: {what} was not found"
            assert compare([function], [mutated]), (
                f"{path}: {function.name}: {what} was not found from the other side"
            )
            count += 1
    assert normalise(functions).keys() == {function.name for function in functions}
    return len(functions), count


def main() -> int:
    chance = random.Random(int(os.environ.get("TENON_TEST_SEED", "3")))
    totals = [
        check(path, chance)
        for folder in sys.argv[1:]
        for path in sorted(Path(folder).glob("*.lite.ptl"))
    ]
    print(
        f"{len(totals)} archives, {sum(one for one, _ in totals)} functions,"
        f" {sum(two for _, two in totals)} mutations found"
    )
    return 0 if totals else 1


if __name__ == "__main__":
    sys.exit(main())
