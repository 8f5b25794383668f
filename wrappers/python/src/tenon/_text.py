"""Text to and from the C library. Bytes that are no UTF-8 are kept by surrogates, as in the names
of files.
"""

from __future__ import annotations

import os

from tenon._native import ffi
from tenon.error import InvalidArgument, call, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def encoded(text: str, what: str) -> bytes:
    """Encode text as a C string."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise make(InvalidArgument, f"{what} {text!r} has a NUL in it")
    return data


def encoded_path(path: Path, what: str, room: int | None = None) -> bytes:
    """Encode a path as a C string. With `room`, the string and its NUL must fit into so many
    bytes.
    """
    data = os.fsencode(path)
    problem = ""
    if b"\0" in data:
        problem = "has a NUL in it"
    elif room is not None and len(data) >= room:
        problem = f"has {len(data)} bytes, {room - 1} are the most"
    if problem:
        shown = data.decode("utf-8", "backslashreplace")
        raise make(InvalidArgument, f"{what} {shown!r} {problem}", path=shown)
    return data


def optional_text(text: str | None, what: str) -> Any:
    """Encode text as a C string. NULL for None."""
    return ffi.NULL if text is None else encoded(text, what)


def stored(text: str | None, what: str) -> Any:
    """Memory that holds text as a C string, for Struct.point. None for None."""
    return None if text is None else ffi.new("char[]", encoded(text, what))


def texts(items: Iterable[str], what: str) -> tuple[Any, list[Any]]:
    """An array of C strings, which the list keeps alive."""
    keep = [ffi.new("char[]", encoded(text, what)) for text in items]
    return ffi.new("char *[]", keep), keep


def decoded(pointer: Any, nbytes: int | None = None) -> str:
    raw: bytes = ffi.string(pointer) if nbytes is None else bytes(ffi.buffer(pointer, nbytes))
    return raw.decode("utf-8", "surrogateescape")


def bytes_by(function: Any, *arguments: Any) -> bytes:
    """A copy of the bytes to which a function gives a pointer, and whose number it reports."""
    nbytes = ffi.new("size_t *")
    data = function(*arguments, nbytes)
    return b"" if data == ffi.NULL else bytes(ffi.buffer(data, nbytes[0]))


def sized(function: Any, *arguments: Any) -> str:
    """The text of a function that fills a buffer and reports how many bytes it needs."""
    nbytes = ffi.new("size_t *")
    room = 256
    while True:
        out = ffi.new("char[]", room)
        call(function, *arguments, out, room, nbytes)
        if nbytes[0] < room:
            return decoded(out, nbytes[0])
        room = nbytes[0] + 1
