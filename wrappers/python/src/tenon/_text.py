"""Text to and from the C library. Bytes that are no UTF-8 are kept by surrogates, as in the names
of files.
"""

from __future__ import annotations

from tenon._native import ffi
from tenon.error import InvalidArgument, call, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def encoded(text: str, what: str) -> bytes:
    """Encode text as a C string."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise make(InvalidArgument, f"{what} {text!r} has a NUL in it")
    return data


def decoded(pointer: Any, nbytes: int | None = None) -> str:
    raw: bytes = ffi.string(pointer) if nbytes is None else bytes(ffi.buffer(pointer, nbytes))
    return raw.decode("utf-8", "surrogateescape")


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
