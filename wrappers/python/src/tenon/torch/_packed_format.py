"""The tagged format of packed items, which nests. _packed uses it. Items follow one another, and
each can be read without the others.

An item is a tag and its contents. A size or count follows as a byte, or as a uint64 after the tag's
long form. Numbers are little-endian. An object for which the format has no tag is pickled alone.
"""

from __future__ import annotations

import functools
import pickle
import struct
import sys
from array import array

from tenon import _torch_rules
from tenon.torch._packed_memory import ALIGNMENT, COW_NBYTES, Memory, corrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Count = Callable[[memoryview, int], tuple[int, int]]

SURROGATES = "surrogatepass"
"""The error handler that encodes text as UTF-8. A str may contain half of a surrogate pair, as file
names from os.listdir do.
"""

_MAX_DEPTH = 32

_NONE, _TRUE, _FALSE = b"N", b"T", b"F"
_INT8, _INT32, _INT64, _BIG_INT, _FLOAT = b"b", b"i", b"q", b"I", b"d"
_STR, _LONG_STR, _BYTES, _LONG_BYTES = b"s", b"S", b"y", b"Y"
_TUPLE, _LONG_TUPLE, _LIST, _LONG_LIST, _DICT, _LONG_DICT = b"t", b"U", b"l", b"L", b"m", b"M"
_NUMBERS, _ARRAY, _SCALAR, _TENSOR, _PICKLE = b"j", b"a", b"g", b"x", b"p"

_U64 = struct.Struct("<Q")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_ARRAY_KINDS = frozenset("biufcmMSU")  # numpy's letters for elements that are plain bytes


class _TooDeep(Exception):
    """An item nests deeper than the format allows, or contains itself."""


def encode(item: Any, out: bytearray, base: int) -> None:
    """Append an item in the tagged format.

    `base` is the offset in its storage at which `out` will begin. The alignment of large arrays
    depends on it.
    """
    begin = len(out)
    try:
        _encode(item, out, base, _MAX_DEPTH)
    except _TooDeep:
        del out[begin:]
        _encode_pickle(item, out)


def decode(memory: Memory, begin: int, end: int) -> Any:
    """Decode the item in the tagged format that fills these bytes."""
    if not begin <= end <= memory.view.nbytes:
        corrupt(f"an item at the bytes {begin} to {end} of {memory.view.nbytes}")
    try:
        item, at = _decode(memory.view[begin:end], 0, memory)
    except (IndexError, struct.error, RecursionError, pickle.UnpicklingError, EOFError) as error:
        corrupt(f"an item ends early ({error})")
    if at != end - begin:
        corrupt(f"an item of {at} bytes fills {end - begin}")
    return item


def _put_count(out: bytearray, short: bytes, long: bytes, count: int) -> None:
    if count < 256:
        out += short
        out.append(count)
    else:
        out += long
        out += _U64.pack(count)


def _encode(item: Any, out: bytearray, base: int, depth: int) -> None:
    kind = type(item)
    if kind is str:
        text = item.encode("utf-8", SURROGATES)
        _put_count(out, _STR, _LONG_STR, len(text))
        out += text
    elif kind is int:
        _encode_int(item, out)
    elif kind is float:
        out += _FLOAT
        out += _F64.pack(item)
    elif item is None:
        out += _NONE
    elif kind is bool:
        out += _TRUE if item else _FALSE
    elif kind is bytes:
        _put_count(out, _BYTES, _LONG_BYTES, len(item))
        out += item
    elif kind is tuple or kind is list:
        if not _encode_numbers(item, out):
            if not depth:
                raise _TooDeep
            if kind is tuple:
                _put_count(out, _TUPLE, _LONG_TUPLE, len(item))
            else:
                _put_count(out, _LIST, _LONG_LIST, len(item))
            for part in item:
                _encode(part, out, base, depth - 1)
    elif kind is dict:
        if not depth:
            raise _TooDeep
        _put_count(out, _DICT, _LONG_DICT, len(item))
        for key, part in item.items():
            _encode(key, out, base, depth - 1)
            _encode(part, out, base, depth - 1)
    elif not (_encode_numpy(item, out, base) or _encode_torch(item, out, base)):
        _encode_pickle(item, out)


def _encode_int(item: int, out: bytearray) -> None:
    if -128 <= item < 128:
        out += _INT8
        out.append(item & 255)
    elif -(1 << 31) <= item < 1 << 31:
        out += _INT32
        out += _I32.pack(item)
    elif -(1 << 63) <= item < 1 << 63:
        out += _INT64
        out += _I64.pack(item)
    else:
        raw = item.to_bytes(item.bit_length() // 8 + 1, "little", signed=True)
        out += _BIG_INT
        out += _U64.pack(len(raw))
        out += raw


def _encode_pickle(item: Any, out: bytearray) -> None:
    raw = pickle.dumps(item, 5)
    out += _PICKLE
    out += _U64.pack(len(raw))
    out += raw


_INT_LETTERS = (("b", 7), ("h", 15), ("i", 31), ("q", 63))


def _encode_numbers(item: Sequence[Any], out: bytearray) -> bool:
    """Encode a tuple or list of ints or of floats, such as token ids, without a tag for each
    number. Returns False for other items.
    """
    if len(item) < 4:
        return False
    kinds = set(map(type, item))
    if kinds == {float}:
        letter = "d"
    elif kinds == {int}:
        low, high = min(item), max(item)
        letters = [
            letter for letter, bits in _INT_LETTERS if -(1 << bits) <= low and high < 1 << bits
        ]
        if not letters:
            return False
        letter = letters[0]
    else:
        return False
    out += _NUMBERS
    out += (_TUPLE if type(item) is tuple else _LIST) + letter.encode()
    out += _U64.pack(len(item))
    out += array(letter, item).tobytes()
    return True


def _numpy_name(dtype: Any) -> str | None:
    """The text from which numpy makes the dtype again, or None if there is none."""
    if dtype.kind not in _ARRAY_KINDS or dtype.names is not None or dtype.subdtype is not None:
        return None
    name: str = dtype.str
    return name if numpy_dtype(name) == dtype else None


@functools.lru_cache(256)
def numpy_dtype(name: str) -> Any:
    import numpy

    try:
        dtype = numpy.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        corrupt(f"numpy has no dtype {name!r}")
    if dtype.hasobject:
        corrupt(f"dtype {name!r} holds Python objects")
    return dtype


@functools.lru_cache(256)
def torch_dtype(name: str) -> tuple[Any, int]:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        corrupt(f"torch has no dtype {name!r}")
    return dtype, torch.empty(0, dtype=dtype).element_size()


def numpy_bytes(item: Any) -> memoryview:
    """The elements of a numpy array, packed."""
    import numpy

    if not item.nbytes:
        return memoryview(b"")
    flat: Any = numpy.ascontiguousarray(item).reshape(-1).view(numpy.uint8)
    return memoryview(flat)


def torch_bytes(item: Any) -> memoryview:
    """The elements of a torch tensor of the CPU, packed."""
    import torch

    if not item.numel():
        return memoryview(b"")
    return memoryview(
        item.detach()
        .resolve_conj()
        .resolve_neg()
        .contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .numpy()
    )


def array_form(item: Any) -> tuple[str, str, tuple[int, ...]] | None:
    """The library of an array ("numpy" or "torch"), its dtype's name and its shape. None means that
    the item is no array that can be stored by its elements.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(item) is numpy.ndarray:
        name = _numpy_name(item.dtype)
        return None if name is None else ("numpy", name, item.shape)
    torch = sys.modules.get("torch")
    if torch is not None and type(item) is torch.Tensor:
        if not _torch_rules.is_strided_on_cpu(item) or item.requires_grad:
            return None
        return "torch", str(item.dtype).removeprefix("torch."), tuple(item.shape)
    return None


def _encode_numpy(item: Any, out: bytearray, base: int) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    if type(item) is numpy.ndarray:
        form = array_form(item)
        if form is None:
            return False
        _put_array(out, base, _ARRAY, form[1], item.shape, numpy_bytes(item))
        return True
    if isinstance(item, numpy.generic) and type(item).__module__ == "numpy":
        name = _numpy_name(item.dtype)
        if name is None:
            return False
        out += _SCALAR
        out.append(len(name))
        out += name.encode()
        out += item.tobytes()
        return True
    return False


def _encode_torch(item: Any, out: bytearray, base: int) -> bool:
    form = array_form(item)
    if form is None or form[0] != "torch":
        return False
    _put_array(out, base, _TENSOR, form[1], form[2], torch_bytes(item))
    return True


def _put_array(
    out: bytearray, base: int, tag: bytes, name: str, shape: tuple[int, ...], data: memoryview
) -> None:
    out += tag
    out.append(len(name))
    out += name.encode()
    out.append(len(shape))
    for size in shape:
        out += _U64.pack(size)
    if len(data) >= COW_NBYTES:
        # A copy-on-write view needs to know where in the storage the elements begin, and vector
        # instructions need them aligned.
        begin = base + len(out) + 9
        padding = -begin % ALIGNMENT
        out.append(padding + 1)
        out += _U64.pack(begin + padding)
        out += bytes(padding)
    else:
        out.append(0)
    out += data


def _decode(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    decoder = _DECODERS.get(view[at])
    if decoder is None:
        corrupt(f"there is no tag {view[at]}")
    return decoder(view, at + 1, memory)


def _take(view: memoryview, at: int, nbytes: int) -> tuple[memoryview, int]:
    end = at + nbytes
    if end > len(view):
        corrupt(f"{nbytes} bytes at byte {at} of an item of {len(view)}")
    return view[at:end], end


def _u8(view: memoryview, at: int) -> tuple[int, int]:
    return view[at], at + 1


def _u64(view: memoryview, at: int) -> tuple[int, int]:
    return _U64.unpack_from(view, at)[0], at + 8


def _decode_str(count: Count) -> Any:
    def decode_str(view: memoryview, at: int, memory: Memory) -> tuple[str, int]:
        nbytes, at = count(view, at)
        raw, at = _take(view, at, nbytes)
        return str(raw, "utf-8", SURROGATES), at

    return decode_str


def _decode_bytes(count: Count) -> Any:
    def decode_bytes(view: memoryview, at: int, memory: Memory) -> tuple[bytes, int]:
        nbytes, at = count(view, at)
        raw, at = _take(view, at, nbytes)
        return bytes(raw), at

    return decode_bytes


def _decode_sequence(kind: Any, count: Count) -> Any:
    def decode_sequence(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
        number, at = count(view, at)
        items = []
        for _ in range(number):
            item, at = _decode(view, at, memory)
            items.append(item)
        return (items if kind is list else tuple(items)), at

    return decode_sequence


def _decode_dict(count: Count) -> Any:
    def decode_dict(view: memoryview, at: int, memory: Memory) -> tuple[dict[Any, Any], int]:
        number, at = count(view, at)
        items = {}
        for _ in range(number):
            key, at = _decode(view, at, memory)
            value, at = _decode(view, at, memory)
            try:
                items[key] = value
            except TypeError:
                corrupt(f"a {type(key).__name__} as a key")
        return items, at

    return decode_dict


def _decode_big_int(view: memoryview, at: int, memory: Memory) -> tuple[int, int]:
    nbytes, at = _u64(view, at)
    raw, at = _take(view, at, nbytes)
    return int.from_bytes(raw, "little", signed=True), at


def _decode_pickle(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    nbytes, at = _u64(view, at)
    raw, at = _take(view, at, nbytes)
    return pickle.loads(raw), at


def _decode_numbers(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    kind, letter = view[at : at + 1], chr(view[at + 1])
    if letter not in "bhiqd" or kind not in (_TUPLE, _LIST):
        corrupt(f"numbers of the type {letter!r}")
    count, at = _u64(view, at + 2)
    raw, at = _take(view, at, count * struct.calcsize(letter))
    numbers = raw.cast(letter).tolist()  # type: ignore[call-overload]
    return (tuple(numbers) if kind == _TUPLE else numbers), at


def _decode_scalar(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    import numpy

    name, at = _take(view, at + 1, view[at])
    dtype = numpy_dtype(str(name, "ascii"))
    raw, at = _take(view, at, dtype.itemsize)
    return (numpy.frombuffer(raw, dtype)[0] if dtype.itemsize else numpy.zeros(1, dtype)[0]), at


def _array_header(view: memoryview, at: int) -> tuple[str, tuple[int, ...], int]:
    name, at = _take(view, at + 1, view[at])
    ndim = view[at]
    shape = struct.unpack_from(f"<{ndim}Q", view, at + 1)
    return str(name, "ascii"), shape, at + 1 + 8 * ndim


def _elements(
    view: memoryview, at: int, memory: Memory, itemsize: int, shape: tuple[int, ...]
) -> tuple[Any, int]:
    """A writable buffer with the elements of an array, or None if it has no elements."""
    nbytes = itemsize
    for size in shape:
        nbytes *= size
    mark, at = view[at], at + 1
    if not mark:
        raw, at = _take(view, at, nbytes)
        return (bytearray(raw) if nbytes else None), at
    begin, at = _u64(view, at)
    _, at = _take(view, at, mark - 1 + nbytes)
    if nbytes < COW_NBYTES or begin + nbytes > memory.view.nbytes:
        corrupt(f"an array of {nbytes} bytes at byte {begin} of {memory.view.nbytes}")
    return memory.writable(begin, nbytes), at


def _decode_array(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    import numpy

    name, shape, at = _array_header(view, at)
    dtype = numpy_dtype(name)
    data, at = _elements(view, at, memory, dtype.itemsize, shape)
    try:
        return (
            numpy.empty(shape, dtype)
            if data is None
            else numpy.frombuffer(data, dtype).reshape(shape)
        ), at
    except MemoryError:
        corrupt(f"an empty array of the shape {shape}")


def _decode_tensor(view: memoryview, at: int, memory: Memory) -> tuple[Any, int]:
    import torch

    name, shape, at = _array_header(view, at)
    dtype, itemsize = torch_dtype(name)
    data, at = _elements(view, at, memory, itemsize, shape)
    try:
        return (
            torch.empty(shape, dtype=dtype)
            if data is None
            else torch.frombuffer(data, dtype=dtype).view(shape)
        ), at
    except (RuntimeError, OverflowError, TypeError) as error:
        corrupt(f"a tensor of the shape {shape} ({error})")


_DECODERS: dict[int, Callable[[memoryview, int, Memory], tuple[Any, int]]] = {
    _NONE[0]: lambda view, at, memory: (None, at),
    _TRUE[0]: lambda view, at, memory: (True, at),
    _FALSE[0]: lambda view, at, memory: (False, at),
    _INT8[0]: lambda view, at, memory: ((view[at] ^ 128) - 128, at + 1),
    _INT32[0]: lambda view, at, memory: (_I32.unpack_from(view, at)[0], at + 4),
    _INT64[0]: lambda view, at, memory: (_I64.unpack_from(view, at)[0], at + 8),
    _BIG_INT[0]: _decode_big_int,
    _FLOAT[0]: lambda view, at, memory: (_F64.unpack_from(view, at)[0], at + 8),
    _STR[0]: _decode_str(_u8),
    _LONG_STR[0]: _decode_str(_u64),
    _BYTES[0]: _decode_bytes(_u8),
    _LONG_BYTES[0]: _decode_bytes(_u64),
    _TUPLE[0]: _decode_sequence(tuple, _u8),
    _LONG_TUPLE[0]: _decode_sequence(tuple, _u64),
    _LIST[0]: _decode_sequence(list, _u8),
    _LONG_LIST[0]: _decode_sequence(list, _u64),
    _DICT[0]: _decode_dict(_u8),
    _LONG_DICT[0]: _decode_dict(_u64),
    _NUMBERS[0]: _decode_numbers,
    _ARRAY[0]: _decode_array,
    _SCALAR[0]: _decode_scalar,
    _TENSOR[0]: _decode_tensor,
    _PICKLE[0]: _decode_pickle,
}
