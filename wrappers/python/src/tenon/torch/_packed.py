"""The packed form of many Python objects: items in frozen shared memory that are read one by one.

tenon.torch.SharedList and SharedDict keep their items in a Packed. pack() makes one.

A Packed has a storage of bytes and, unless all items have one size, a storage of uint64 offsets.
Both are written to anonymous files that grow, and are frozen by the kernel afterwards. So packing
never needs the packed bytes twice, and nobody can change them later.

Items of one type are stored without tags: str, bytes, int, float, arrays of one dtype and shape,
and tuples and dicts whose fields have the same types. Other items are stored in a tagged format,
which nests. An object for which the format has no tag is pickled alone.

The first items choose the kind. If a later item does not fit, all items so far are packed again in
a more general kind. That needs their bytes twice for a while, and happens at most once for each
field.
"""

from __future__ import annotations

import functools
import struct
from array import array
from itertools import accumulate, islice

from tenon.torch._packed_format import (
    SURROGATES,
    array_form,
    decode,
    encode,
    numpy_bytes,
    numpy_dtype,
    torch_bytes,
    torch_dtype,
)
from tenon.torch._packed_memory import ALIGNMENT, COW_NBYTES, Growing, Memory, corrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from tenon.storage import Storage

    Get = Callable[[int], Any]
    Kind = tuple[Any, ...]

_FIRST_COUNT = 16
_BATCH_COUNT = 8192
_BATCH_NBYTES = 4 << 20
_MAX_FIELDS = 64


class _Misfit(Exception):
    """A batch has an item that the kind cannot store."""


# ---- kinds
#
# A kind is a tuple that travels with the storages: ("str",), ("bytes",), ("int",), ("float",),
# ("any",), ("array", "numpy" or "torch", dtype, shape), and ("tuple", letters) and ("dict",
# letters, keys). The letters say what the fields are.

ANY: Kind = ("any",)
_SCALAR_KINDS: dict[type, Kind] = {
    str: ("str",),
    bytes: ("bytes",),
    int: ("int",),
    float: ("float",),
}
_FIELD_LETTERS = {str: "s", bytes: "y", int: "q", float: "d", bool: "?"}
_VARIABLE = "syx"  # fields whose size is in the header


def _letter(value: Any) -> str:
    letter = _FIELD_LETTERS.get(type(value), "x")
    return "x" if letter == "q" and not -(1 << 63) <= value < 1 << 63 else letter


def _kind_of(item: Any) -> Kind:
    kind = type(item)
    found = _SCALAR_KINDS.get(kind)
    if found is not None:
        return ANY if kind is int and not -(1 << 63) <= item < 1 << 63 else found
    if kind is tuple and 0 < len(item) <= _MAX_FIELDS:
        return "tuple", "".join(map(_letter, item))
    if kind is dict and 0 < len(item) <= _MAX_FIELDS and set(map(type, item)) == {str}:
        return "dict", "".join(map(_letter, item.values())), tuple(item)
    form = array_form(item)
    return ANY if form is None else ("array", *form)


def _joined(one: Kind, other: Kind) -> Kind:
    """The kind that stores the items of both kinds."""
    if one == other:
        return one
    if (
        one[0] == other[0]
        and one[0] in ("tuple", "dict")
        and len(one[1]) == len(other[1])
        and one[2:] == other[2:]
    ):
        letters = "".join(a if a == b else "x" for a, b in zip(one[1], other[1], strict=True))
        return (one[0], letters, *one[2:])
    return ANY


def _kind_of_all(kind: Kind | None, items: Sequence[Any]) -> Kind:
    for item in items:
        kind = _kind_of(item) if kind is None else _joined(kind, _kind_of(item))
        if kind == ANY:
            break
    return ANY if kind is None else kind


def _header(letters: str) -> struct.Struct:
    return struct.Struct(
        "<" + "".join("I" if letter in _VARIABLE else letter for letter in letters)
    )


def _item_nbytes(kind: Kind) -> int | None:
    """The bytes of every item of the kind. None means that items differ in size and there are
    offsets.
    """
    if kind[0] in ("int", "float"):
        return 8
    if kind[0] != "array":
        return None
    nbytes: int = numpy_dtype(kind[2]).itemsize if kind[1] == "numpy" else torch_dtype(kind[2])[1]
    for size in kind[3]:
        nbytes *= size
    return nbytes + -nbytes % ALIGNMENT if nbytes >= COW_NBYTES else nbytes


# ---- writing


def _write_texts(batch: Sequence[Any], writer: _Writer) -> None:
    if set(map(type, batch)) != {str}:
        raise _Misfit
    writer.append([text.encode("utf-8", SURROGATES) for text in batch])


def _write_bytes(batch: Sequence[Any], writer: _Writer) -> None:
    if set(map(type, batch)) != {bytes}:
        raise _Misfit
    writer.append(batch)


def _write_numbers(batch: Sequence[Any], writer: _Writer) -> None:
    kind, letter = (int, "q") if writer.kind[0] == "int" else (float, "d")
    if set(map(type, batch)) != {kind}:
        raise _Misfit
    try:
        numbers = array(letter, batch)
    except OverflowError:
        raise _Misfit from None
    writer.data.write(numbers)


def _write_arrays(batch: Sequence[Any], writer: _Writer) -> None:
    if any(_kind_of(item) != writer.kind for item in batch):
        raise _Misfit
    to_bytes = numpy_bytes if writer.kind[1] == "numpy" else torch_bytes
    for item in batch:
        data = to_bytes(item)
        writer.data.write(data)
        if len(data) >= COW_NBYTES:
            writer.data.pad(ALIGNMENT)


def _write_any(batch: Sequence[Any], writer: _Writer) -> None:
    out = bytearray()
    ends = []
    for item in batch:
        encode(item, out, writer.data.nbytes)
        ends.append(len(out))
    writer.append_encoded(out, ends)


def _write_records(batch: Sequence[Any], writer: _Writer) -> None:
    name, letters = writer.kind[:2]
    kind: Any = dict if name == "dict" else tuple
    keys = list(writer.kind[2]) if kind is dict else None
    header, base = _header(letters), writer.data.nbytes
    out = bytearray()
    ends = []
    for item in batch:
        if (
            type(item) is not kind
            or len(item) != len(letters)
            or (keys is not None and list(item) != keys)
        ):
            raise _Misfit
        begin = len(out)
        out += bytes(header.size)
        fields: list[Any] = []
        for letter, value in zip(letters, item if keys is None else item.values(), strict=True):
            field_begin = len(out)
            if letter == "x":
                encode(value, out, base)
            elif _letter(value) != letter:
                raise _Misfit
            elif letter == "s":
                out += value.encode("utf-8", SURROGATES)
            elif letter == "y":
                out += value
            else:
                fields.append(value)
                continue
            fields.append(len(out) - field_begin)
        try:
            header.pack_into(out, begin, *fields)
        except struct.error:
            raise _Misfit from None  # a field of more than 4 GiB
        ends.append(len(out))
    writer.append_encoded(out, ends)


_WRITERS: dict[str, Callable[[Sequence[Any], _Writer], None]] = {
    "str": _write_texts,
    "bytes": _write_bytes,
    "int": _write_numbers,
    "float": _write_numbers,
    "array": _write_arrays,
    "tuple": _write_records,
    "dict": _write_records,
    "any": _write_any,
}


class _Writer:
    """The storages of items of one kind while they grow."""

    __slots__ = ("_write", "count", "data", "kind", "offsets")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.count = 0
        self._write = _WRITERS[kind[0]]
        self.data = Growing()
        self.offsets: Growing | None = None
        if _item_nbytes(kind) is None:
            self.offsets = Growing()
            self.offsets.write(bytes(8))

    def add(self, batch: Sequence[Any]) -> None:
        """Append items. If one of them does not fit the kind, none is appended."""
        self._write(batch, self)
        self.count += len(batch)

    def append(self, parts: Sequence[bytes]) -> None:
        self._append_ends(accumulate(map(len, parts), initial=self.data.nbytes))
        self.data.write(b"".join(parts))

    def append_encoded(self, out: bytearray, ends: Sequence[int]) -> None:
        base = self.data.nbytes
        self._append_ends(iter([base, *(base + end for end in ends)]))
        self.data.write(out)

    def _append_ends(self, ends: Iterator[int]) -> None:
        next(ends)  # skips the end of the previous item
        if self.offsets is not None:
            self.offsets.write(array("Q", ends))

    def next_count(self) -> int:
        """How many items the next batch may have. No more than a few MiB should be in memory
        twice.
        """
        if not self.count:
            return _FIRST_COUNT
        return min(max(_BATCH_NBYTES * self.count // (self.data.nbytes + 1), 1), _BATCH_COUNT)

    def freeze(self) -> Packed:
        return Packed(
            self.kind,
            self.count,
            self.data.freeze(),
            None if self.offsets is None else self.offsets.freeze(),
        )

    def close(self) -> None:
        self.data.close()
        if self.offsets is not None:
            self.offsets.close()


def _fill(kind: Kind, items: Iterator[Any], first: list[Any]) -> _Writer:
    writer = _Writer(kind)
    try:
        batch = first or list(islice(items, _FIRST_COUNT))
        while batch:
            try:
                writer.add(batch)
            except _Misfit:
                wider = _kind_of_all(writer.kind, batch)
                if wider == writer.kind:
                    wider = ANY
                former = writer.freeze()
                writer = _fill(wider, map(former.get, range(former.count)), [])
                del former
                continue
            batch = list(islice(items, writer.next_count()))
        return writer
    except BaseException:
        writer.close()
        raise


def pack(items: Iterable[Any]) -> Packed:
    """Pack the items of an iterable, which is read once and needs no length.

    Exceptions of the iterable, of pickle and of a write (OSError) are passed on.
    """
    iterator = iter(items)
    first = list(islice(iterator, _FIRST_COUNT))
    return _fill(_kind_of_all(None, first), iterator, first).freeze()


# ---- reading


def _text_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    view, nbytes = memory.view, memory.view.nbytes

    def get(index: int) -> str:
        begin = offsets[index]
        end = offsets[index + 1]
        if begin <= end <= nbytes:
            return str(view[begin:end], "utf-8", "surrogatepass")
        corrupt(f"item {index} lies at the bytes {begin} to {end} of {nbytes}")

    return get


def _bytes_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    view, nbytes = memory.view, memory.view.nbytes

    def get(index: int) -> bytes:
        begin = offsets[index]
        end = offsets[index + 1]
        if begin <= end <= nbytes:
            return bytes(view[begin:end])
        corrupt(f"item {index} lies at the bytes {begin} to {end} of {nbytes}")

    return get


def _any_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    return lambda index: decode(memory, offsets[index], offsets[index + 1])


def _number_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    return memory.view.cast("q" if kind[0] == "int" else "d").__getitem__


def _record_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    letters = kind[1]
    view, nbytes, header = memory.view, memory.view.nbytes, _header(letters)
    unpack, size = header.unpack_from, header.size
    variable = [
        (position, letter) for position, letter in enumerate(letters) if letter in _VARIABLE
    ]
    keys = kind[2] if kind[0] == "dict" else None

    def get(index: int) -> Any:
        begin = offsets[index]
        end = offsets[index + 1]
        at = begin + size
        if not begin <= at <= end <= nbytes:
            corrupt(f"item {index} lies at the bytes {begin} to {end} of {nbytes}")
        fields = list(unpack(view, begin))
        for position, letter in variable:
            stop = at + fields[position]
            if stop > end:
                corrupt(
                    f"field {position} of item {index} ends at byte {stop}, and the item at {end}"
                )
            if letter == "s":
                fields[position] = str(view[at:stop], "utf-8", "surrogatepass")
            elif letter == "y":
                fields[position] = bytes(view[at:stop])
            else:
                fields[position] = decode(memory, at, stop)
            at = stop
        if at != end:
            corrupt(f"the fields of item {index} end at byte {at}, and the item at {end}")
        return tuple(fields) if keys is None else dict(zip(keys, fields, strict=True))

    return get


def _array_reader(kind: Kind, memory: Memory, offsets: memoryview) -> Get:
    _, family, name, shape = kind
    step = _item_nbytes(kind)
    assert step is not None
    if family == "numpy":
        import numpy

        dtype = numpy_dtype(name)
        if not step:
            return lambda index: numpy.empty(shape, dtype)
        if step < COW_NBYTES:
            whole = numpy.frombuffer(memory.view, dtype).reshape(-1, *shape)
            return (
                (lambda index: whole[index].copy())
                if shape
                else (lambda index: whole[index, ...].copy())
            )
        count = functools.reduce(lambda a, b: a * b, shape, 1)
        return lambda index: numpy.frombuffer(
            memory.writable(index * step, step), dtype, count
        ).reshape(shape)
    import torch

    element_type = torch_dtype(name)[0]
    if not step:
        return lambda index: torch.empty(shape, dtype=element_type)
    number = functools.reduce(lambda a, b: a * b, shape, 1)
    return lambda index: torch.frombuffer(
        memory.writable(index * step, step), dtype=element_type, count=number
    ).view(shape)


_READERS: dict[str, Callable[[Kind, Memory, memoryview], Get]] = {
    "str": _text_reader,
    "bytes": _bytes_reader,
    "int": _number_reader,
    "float": _number_reader,
    "array": _array_reader,
    "tuple": _record_reader,
    "dict": _record_reader,
    "any": _any_reader,
}


class Packed:
    """Items in frozen memory. get(index) reads one of them; the index is from 0 up to count.

    Any thread may read, and so may a forked child. The object keeps the storages alive. Raises
    Corrupt if the storages or an item were not written by pack. An item that was pickled is loaded
    by pickle, so the storages must come from a sender that may run code here.
    """

    __slots__ = ("count", "data", "get", "kind", "offsets")

    def __init__(self, kind: Kind, count: int, data: Storage, offsets: Storage | None) -> None:
        self.kind, self.count, self.data, self.offsets = kind, count, data, offsets
        step = _item_nbytes(kind)
        if step is None and (offsets is None or offsets.nbytes != 8 * (count + 1)):
            corrupt(f"{count} items need {8 * (count + 1)} bytes of offsets")
        if step is not None and data.nbytes != step * count:
            corrupt(f"{count} items of {step} bytes lie in {data.nbytes}")
        numbers = memoryview(b"") if offsets is None else offsets.data
        self.get: Get = _READERS[kind[0]](kind, Memory(data), numbers.cast("Q"))

    @property
    def nbytes(self) -> int:
        """The bytes of both storages."""
        return self.data.nbytes + (0 if self.offsets is None else self.offsets.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (self.kind, self.count, self.data, self.offsets)
