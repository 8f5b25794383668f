"""Objects as the driver's words describe them (tests/languages/matrix/README.md, "Objects")."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterator
from typing import Any

import server
import tenon
from words import dtype_word

CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "t": tuple,
    "l": list,
    "S": set,
    "d": lambda both: dict(zip(both[::2], both[1::2], strict=True)),
}
# Only Python can send this value.
DATE = datetime.date(2026, 1, 31)


def real(digits: str) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(digits))
    return float(number)


def real_word(number: float) -> str:
    return struct.pack(">d", number).hex()


def read(nodes: Iterator[str], find: Callable[[str], Any]) -> Any:
    """Make the value of the next node. find(key) gives the held tensor or composite."""
    node = next(nodes)
    letter, word = node[0], node[1:]
    if letter in CONTAINERS:
        count = int(word) * (2 if letter == "d" else 1)
        return CONTAINERS[letter]([read(nodes, find) for _ in range(count)])
    if letter in "xk":
        return find(word)
    if letter in "sb":
        data = server.unhexed(word)
        return data if letter == "b" else data.decode()
    if letter == "i":
        return int(word)
    if letter == "f":
        return real(word)
    if letter == "c":
        return complex(*map(real, word.split(",")))
    return {"N": None, "T": True, "F": False, "D": DATE}[letter]


def nodes_of(
    value: Any, hold: Callable[[Any], str], content: Callable[[tenon.Tensor], bytes]
) -> Iterator[str]:
    """The nodes of a value and everything inside it. hold(part) keeps a part and gives its key."""
    if value is None or isinstance(value, bool):
        yield {None: "N", True: "T", False: "F"}[value]
    elif isinstance(value, int):
        yield f"i{value}"
    elif isinstance(value, float):
        yield f"f{real_word(value)}"
    elif isinstance(value, complex):
        yield f"c{real_word(value.real)},{real_word(value.imag)}"
    elif isinstance(value, str):
        yield f"s{server.hexadecimal(value.encode())}"
    elif isinstance(value, bytes):
        yield f"b{server.hexadecimal(value)}"
    elif isinstance(value, tenon.Composite):
        yield f"k{hold(value)}"
    elif isinstance(value, tenon.Tensor):
        shape, strides = server.word_of(value.shape), server.word_of(value.strides)
        layout = f"{dtype_word(value.dtype)}/{shape}/{strides}/{value.offset}"
        yield f"x{hold(value)}/{value.storage.id}/{layout}/{server.hexadecimal(content(value))}"
    else:
        letter = {tuple: "t", list: "l", set: "S", dict: "d"}[type(value)]
        yield f"{letter}{len(value)}"
        for part in (
            (each for entry in value.items() for each in entry)
            if isinstance(value, dict)
            else value
        ):
            yield from nodes_of(part, hold, content)
