"""Objects: they are read from the user bytes of a case, and described value by value."""

from __future__ import annotations

import struct
from typing import Any

import tenon
from case import Case, Skip, known, outcome, same
from tenon.composite import LAYOUT_NAMES
from tenon.pickle import names_of, object_of


def real(number: float) -> str:
    return struct.pack(">d", number).hex()


def numbers(values: Any) -> str:
    return ",".join(map(str, values)) or "-"


def words(value: Any, storages: list[tenon.Storage]) -> list[str]:
    """Returns the words of a value, and of everything inside it."""
    if value is None or isinstance(value, bool):
        return [{None: "N", True: "T", False: "F"}[value]]
    if isinstance(value, int):
        return [f"i{value}"]
    if isinstance(value, float):
        return ["f" + real(value)]
    if isinstance(value, complex):
        return [f"c{real(value.real)},{real(value.imag)}"]
    if isinstance(value, str):
        return ["s" + value.encode().hex()]
    if isinstance(value, (bytes, bytearray)):
        return ["b" + value.hex()]
    if isinstance(value, tenon.Storage):
        # Other languages have the tensor over all bytes in objects, and not the storage.
        value = tenon.Tensor.over(value, (value.nbytes,), "uint8")
    if isinstance(value, tenon.Tensor):
        number = value._dtype_number
        dtype = f"{number & 0xFF}:{number >> 8 & 0xFF}:{number >> 16}"
        where = storages.index(value.storage)
        return [
            f"x{where}:{dtype}:{numbers(value.shape)}:{numbers(value.strides)}"
            f":{value.offset}:{value._flags}"
        ]
    if isinstance(value, tenon.Composite):
        return [f"k{next(number for number, name in LAYOUT_NAMES.items() if name == value.layout)}"]
    kind = next(
        letter
        for letter, kinds in (("t", tuple), ("l", list), ("S", (set, frozenset)), ("d", dict))
        if isinstance(value, kinds)
    )
    inside = (
        [part for entry in value.items() for part in entry] if isinstance(value, dict) else value
    )
    return [f"{kind}{len(value)}", *(word for part in inside for word in words(part, storages))]


def read(user: bytes, storages: list[tenon.Storage]) -> str:
    tensors = [tenon.Tensor.over(storage, (storage.nbytes,), "uint8") for storage in storages]
    with tenon.Message(tensors, None, user) as message:
        return " ".join(words(object_of(message, names_of([]), None), storages))


def run_object(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "text", "user", "details")
    if expect["status"] == "UNSUPPORTED":
        raise Skip("Python has what other languages lack, or refuses it in its own words")
    if "_torch_" in bytes.fromhex(case["user"]).decode("latin-1"):
        raise Skip("Python makes torch tensors of it")
    storages = [tenon.Storage.new_from(bytes.fromhex(data)) for data in case["storages"]]
    found = outcome(expect, lambda: read(bytes.fromhex(case["user"]), storages))
    if found is None:
        return
    same("text", found, expect["text"])
    # Python writes other bytes. It reads the bytes that the other languages write.
    user = bytes.fromhex(expect["user"])
    (count,) = struct.unpack_from("<I", user, 12)
    same("text of what is written", read(user, storages[:count]), expect["text"])
