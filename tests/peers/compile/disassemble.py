#!/usr/bin/env python3
"""Prints the functions of an archive's bytecode, to help a person find a fault in the compiler.

usage: disassemble.py ARCHIVE [FUNCTION]

FUNCTION is a qualified name or its end, such as "forward".
"""

import sys
from pathlib import Path

from tables import OPERANDS, Function, jump_targets, read_functions, shown, within


def operand_text(function: Function, op: str, x: int, n: int, at: int) -> str:
    """Returns the operand X and its meaning. Registers keep their numbers here."""
    kind = OPERANDS.get(op, ("n", "n"))[0]
    if kind == "R*":
        return ", ".join(f"r{x + i}" for i in range(n))
    if kind == "T*":
        return ", ".join(within(function.types, x + i, function, "type") for i in range(n))
    if kind == "R":
        return f"r{x}"
    if kind == "T":
        return f"T{x} {within(function.types, x, function, 'type')}"
    if kind == "C":
        return f"C{x} {shown(within(function.constants, x, function, 'constant'))}"
    if kind == "O":
        name, overload, *count = within(function.operators, x, function, "operator")
        return (
            f"O{x} {name}{'.' + overload if overload else ''} ({count[0] if count else 'all'}"
            " given)"
        )
    return f"-> {at + x}" if kind == "P" else str(x)


def schema_text(function: Function) -> str:
    arguments = [
        f"{name}: {kind}" + ("" if default == ("NoneType", None) else f" = {shown(default)}")
        for name, kind, default in function.arguments
    ]
    return f"({', '.join(arguments)}) -> ({', '.join(kind for _, kind, _ in function.returns)})"


def disassemble(function: Function) -> str:
    targets = jump_targets(function.instructions)
    lines = [f"{function.name}{schema_text(function)}", f"  registers: {function.register_size}"]
    for at, (op, x, n) in enumerate(function.instructions):
        text = f"{op} {operand_text(function, op, x, n, at)}" + (
            f" N={n}" if n and op not in ("STOREN", "ISINSTANCE") else ""
        )
        lines.append(f"  {at:4}{':' if at in targets else ' '} {text}")
    used = {x for op, x, _ in function.instructions if OPERANDS.get(op, "n")[0] == "C"}
    unused = [
        f"C{at} {shown(value)}" for at, value in enumerate(function.constants) if at not in used
    ]
    return "\n".join([*lines, *([f"  unused constants: {', '.join(unused)}"] if unused else [])])


def main() -> int:
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    functions = [
        one
        for one in read_functions(Path(sys.argv[1]))
        if not wanted or one.name == wanted or one.name.endswith("." + wanted)
    ]
    if not functions:
        print(f"{sys.argv[1]}: there is no function {wanted}", file=sys.stderr)
        return 1
    print("\n\n".join(disassemble(function) for function in functions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
