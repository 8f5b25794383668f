"""Checks the opcodes of a foreign pickle before Python's unpickler runs it.

The unpickler calls nothing that tenon.pickle's allow-list does not have. But it makes a memo as
large as one opcode says, and Python's hash of a tuple recurses without a limit. A bytearray that
crosses the end of its frame breaks the unpickler: CPython 3.11 raises MemoryError and destroys a
bytearray that a buffer still needs. So this module allows the opcodes that protocol 4 and 5 write,
which number the memo by themselves. It bounds how deep values are nested, and it refuses an opcode
that does not end within its frame.
"""

from __future__ import annotations

import pickletools

from tenon.error import Corrupt, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

MOST_NESTED = 200

_MARK = -1
_FRAME_NBYTES = 9  # the size of the opcode FRAME with its length
_LEAVES = frozenset(
    [
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "BINFLOAT",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
        "EMPTY_LIST",
        "EMPTY_TUPLE",
        "EMPTY_DICT",
        "EMPTY_SET",
    ]
)
_NOTHING = frozenset({"PROTO", "FRAME"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# How many values an opcode takes from the stack. For _INTO the value below them stays, as the
# container.
_CALLS = {"STACK_GLOBAL": 2, "REDUCE": 2, "NEWOBJ": 2, "NEWOBJ_EX": 3}
_INTO = {"APPEND": 1, "SETITEM": 2, "BUILD": 1}
_MANY_INTO = frozenset({"APPENDS", "SETITEMS", "ADDITEMS"})


class _Stack:
    """The nesting depth of each value on the unpickler's stack."""

    def __init__(self, refuse: Callable[[str], NoReturn]) -> None:
        self._values: list[int] = []
        self._refuse = refuse

    def push(self, depth: int) -> None:
        if depth > MOST_NESTED:
            self._refuse(f"values are nested deeper than {MOST_NESTED}")
        self._values.append(depth)

    def mark(self) -> None:
        self._values.append(_MARK)

    def pop(self, count: int) -> int:
        """Remove the last `count` values, and give the depth of the deepest one."""
        taken = self._values[-count:] if count else []
        if len(taken) < count or _MARK in taken:
            self._refuse("a value is missing on the stack")
        del self._values[len(self._values) - count :]
        return max(taken, default=0)

    def pop_to_mark(self) -> int:
        for position in range(len(self._values) - 1, -1, -1):
            if self._values[position] == _MARK:
                taken = self._values[position + 1 :]
                del self._values[position:]
                return max(taken, default=-1) + 1
        self._refuse("a mark is missing on the stack")

    def top(self) -> int:
        if not self._values or self._values[-1] == _MARK:
            self._refuse("a value is missing on the stack")
        return self._values[-1]


def check(data: bytes) -> None:
    """Raise Corrupt, with the offset, if the pickle has an opcode that protocols 4 and 5 do not
    write, or is nested too deep.
    """
    position = 0

    def refuse(why: str) -> NoReturn:
        raise make(
            Corrupt,
            f"the object's pickle cannot be read at byte {position}: {why}",
            offset=str(position),
        )

    stack = _Stack(refuse)
    memo: list[int] = []
    frame_end = 0  # 0: the opcode is in no frame
    try:
        for opcode, argument, at in pickletools.genops(data):
            position = at or 0
            if frame_end and position >= frame_end:
                if position > frame_end:
                    refuse("the value before it crosses the end of its frame")
                frame_end = 0
            if opcode.name == "FRAME":
                if frame_end:
                    refuse("a frame begins within another one")
                frame_end = position + _FRAME_NBYTES + _length(argument)
            _step(opcode.name, argument, stack, memo, refuse)
    except Corrupt:
        raise
    except (ValueError, IndexError, OverflowError) as error:
        refuse(str(error))


def _length(argument: object) -> int:
    return argument if isinstance(argument, int) else 0


def _step(
    name: str, argument: object, stack: _Stack, memo: list[int], refuse: Callable[[str], NoReturn]
) -> None:
    if name in _LEAVES:
        stack.push(0)
    elif name == "MEMOIZE":
        memo.append(stack.top())
    elif name in ("BINGET", "LONG_BINGET"):
        if not isinstance(argument, int) or argument >= len(memo):
            refuse("a value that is not there yet is used again")
        stack.push(memo[argument])
    elif name == "MARK":
        stack.mark()
    elif name in _TUPLES:
        stack.push(stack.pop(_TUPLES[name]) + 1)
    elif name in ("TUPLE", "FROZENSET"):
        stack.push(stack.pop_to_mark())
    elif name in _CALLS:
        stack.push(stack.pop(_CALLS[name]) + 1)
    elif name in _MANY_INTO:
        depth = stack.pop_to_mark()
        stack.push(max(depth, stack.pop(1)))
    elif name in _INTO:
        depth = stack.pop(_INTO[name]) + 1
        stack.push(max(depth, stack.pop(1)))
    elif name in ("POP", "STOP"):
        stack.pop(1)
    elif name == "POP_MARK":
        stack.pop_to_mark()
    elif name not in _NOTHING:
        refuse(f"opcode {name} is none that protocols 4 and 5 write")
