"""Errors of the C library as exceptions. Most of them are also the built-in exception of their
kind.

from_status is the one function that maps status codes to exceptions.
"""

from __future__ import annotations

import errno as _errno
import os as _os

from tenon import _native_ext
from tenon._native import ffi, lib, new_struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class TenonError(Exception):
    """The base class of all errors of this package. An error that is also an OSError has errno
    set.
    """

    code: str = "INTERNAL"
    """The name of the status code, such as "RESOURCE_EXHAUSTED"."""
    status: int = lib.TENON_INTERNAL
    """The number of the status code."""
    details: dict[str, str]
    """Facts about the error beside the text, each with a name. Each error has only the facts that
    apply to it.

    Any error may have "errno", "limit", "limit_value", "wanted", "path", "fd", "pid", "uid",
    "field" or "option". A full arena adds "live", "lent", "retired" and "free" bytes, and
    "holders". A lack of memory, fds or mappings adds "left", and the "live", "lent", "retired" and
    "kept" bytes of this process. A value that does not fit its type adds "where", "wanted" and
    "found". An error in code adds "file", "line", "column" and "excerpt". The excerpt is the line
    with carets below it, and str() shows it too. An error in an archive adds "record" and "offset".
    An error in a composite's part adds "part" and "index". An error of CUDA's driver adds
    "cuda_error", "cuda_error_name" and "driver_version".
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TenonError:
        self: TenonError = super().__new__(cls, *args, **kwargs)
        self.details = {}
        return self

    def __str__(self) -> str:
        excerpt = self.details.get("excerpt")
        return f"{super().__str__()}\n{excerpt}" if excerpt else super().__str__()


class InvalidArgument(TenonError, ValueError):
    """The call is wrong, whatever the state of the machine."""


class PermissionDenied(TenonError, PermissionError):
    """The object does not allow the operation. Ask for other access, or choose another mode at
    birth.
    """


class NotFound(TenonError, FileNotFoundError):
    """The object does not exist, or no longer exists."""


class Corrupt(TenonError, ValueError):
    """Bytes or an fd from outside are not what they claim to be."""


class Incompatible(TenonError, ValueError):
    """The data was made by a version that this one does not read."""


class ResourceExhausted(TenonError, OSError):
    """A limit was reached. details["limit"] names it."""


class OutOfMemory(ResourceExhausted, MemoryError):
    """A limit of memory was reached."""


class Unsupported(TenonError, NotImplementedError):
    """This build, kernel or object does not support the operation."""


class UnsupportedBuffer(Unsupported, BufferError):
    """The tensor cannot be exported by DLPack or as a buffer. The error is a BufferError too,
    because consumers of DLPack and of buffers expect one.
    """


class PeerGone(TenonError, ConnectionError):
    """The other process closed its end or died."""


class WouldBlock(TenonError, BlockingIOError):
    """A call with timeout 0 would have had to wait."""


class Timeout(TenonError, TimeoutError):
    """The time is over. Call again to continue."""


class Interrupted(TenonError, InterruptedError):
    """A signal ended a wait.

    Tenon's own waits resume by themselves. Only a program that calls the C library directly sees
    this error.
    """


class Cancelled(TenonError):
    """Cancel.trigger ended the wait. Call again to continue."""


class Io(TenonError, OSError):
    """The system refused the operation for a reason that fits no other kind."""


class Internal(TenonError, RuntimeError):
    """Tenon has a defect. Please report it."""


_KINDS: dict[int, tuple[type[TenonError], int]] = {
    lib.TENON_INVALID_ARGUMENT: (InvalidArgument, 0),
    lib.TENON_PERMISSION: (PermissionDenied, _errno.EPERM),
    lib.TENON_NOT_FOUND: (NotFound, _errno.ENOENT),
    lib.TENON_CORRUPT: (Corrupt, 0),
    lib.TENON_INCOMPATIBLE: (Incompatible, 0),
    lib.TENON_RESOURCE_EXHAUSTED: (ResourceExhausted, _errno.ENOSPC),
    lib.TENON_UNSUPPORTED: (Unsupported, 0),
    lib.TENON_PEER_GONE: (PeerGone, _errno.ECONNRESET),
    lib.TENON_WOULD_BLOCK: (WouldBlock, _errno.EAGAIN),
    lib.TENON_TIMEOUT: (Timeout, _errno.ETIMEDOUT),
    lib.TENON_INTERRUPTED: (Interrupted, _errno.EINTR),
    lib.TENON_CANCELLED: (Cancelled, 0),
    lib.TENON_IO: (Io, _errno.EIO),
    lib.TENON_INTERNAL: (Internal, 0),
}

_MEMORY_LIMITS = frozenset(
    {"memory", "MemAvailable", "RLIMIT_AS", "RLIMIT_DATA", "address space", "device memory"}
)


def _is_of_memory(details: dict[str, str]) -> bool:
    limit = details.get("limit")
    if limit is None:
        return details.get("errno") in (None, str(_errno.ENOMEM))
    return limit in _MEMORY_LIMITS or limit.startswith("memory cgroup")


def _make(status: int, message: str, details: dict[str, str]) -> TenonError:
    kind, number = _KINDS.get(status, (Internal, 0))
    if kind is ResourceExhausted and _is_of_memory(details):
        kind, number = OutOfMemory, _errno.ENOMEM
    if issubclass(kind, OSError):
        found = details.get("errno", "")
        error: TenonError = kind(int(found) if found.isdecimal() else number, message)
    else:
        error = kind(message)
    error.status = status
    error.code = ffi.string(lib.tenon_status_name(status)).decode()
    error.details = details
    return error


def _text(pointer: Any) -> str:
    raw: bytes = ffi.string(pointer)
    return raw.decode("utf-8", "replace")


def _read(error: Any, status: int) -> TenonError:
    details: dict[str, str] = {}
    index = 0
    while (key := lib.tenon_error_detail_key(error, index)) != ffi.NULL:
        details[_text(key)] = _text(lib.tenon_error_detail(error, key))
        index += 1
    exception = _make(status, _text(lib.tenon_error_message(error)), details)
    cause = lib.tenon_error_cause(error)
    if cause != ffi.NULL:
        exception.__cause__ = _read(cause, lib.tenon_error_code(cause))
    return exception


def from_status(status: int, address: int = 0) -> TenonError:
    """Make the exception for a status and the address of its tenon_error, which is released."""
    if not address:
        exhausted = status == lib.TENON_RESOURCE_EXHAUSTED
        why = _os.strerror(_errno.ENOMEM) if exhausted else "no reason was given"
        return _make(status, why, {})
    error = ffi.cast("tenon_error *", address)
    try:
        return _read(error, status)
    finally:
        lib.tenon_error_release(error)


def make(kind: type[TenonError], message: str, **details: str) -> TenonError:
    """Make an error that the Python wrapper itself has found."""
    for status, (known, _) in _KINDS.items():
        if known is kind:
            return _make(status, message, details)
    if kind is UnsupportedBuffer:
        error = kind(message)
        error.status, error.code, error.details = lib.TENON_UNSUPPORTED, "UNSUPPORTED", details
        return error
    raise TypeError(kind)


def call(function: Any, *arguments: Any) -> None:
    """Call a function of the library that can fail. Its last parameter is the error."""
    error = ffi.new("tenon_error **")
    status = function(*arguments, error)
    if status:
        raise from_status(status, int(ffi.cast("uintptr_t", error[0])))


def given(kind: str, function: Any, *arguments: Any) -> Any:
    """Call a function whose last two parameters are a pointer to the result, which is of this C
    type, and the error. Returns the result.
    """
    out = ffi.new(f"{kind} *")
    call(function, *arguments, out)
    return out[0]


def filled(kind: str, function: Any, *arguments: Any) -> Any:
    """As given(), for a struct whose first field says its size."""
    out = new_struct(kind)
    call(function, *arguments, out)
    return out


def listed(kind: str, function: Any, *arguments: Any) -> Iterator[Any]:
    """As given(), for the structs that a function lists. It takes an array, the length of the array
    and a pointer to the number of structs that there are. Yields each of them. They lie in memory
    of this generator.
    """
    total = given("size_t", function, *arguments, ffi.NULL, 0)
    while True:
        # There may be one more by the second call.
        room = total + 1
        out = ffi.new(f"{kind}[]", room)
        out[0].struct_size = ffi.sizeof(kind)
        total = given("size_t", function, *arguments, out, room)
        if total <= room:
            yield from out[0:total]
            return


def owned(kind: str, function: Any, *arguments: Any) -> Any:
    """As given(), for an object of the library of this kind. It is released when nothing refers to
    it any more.
    """
    out = ffi.new(f"{kind} **")
    call(function, *arguments, out)
    return ffi.gc(out[0], getattr(lib, f"{kind}_release"))


class key_errors:
    """Raises NotFound as the KeyError of a mapping."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, NotFound):
            raise KeyError(error.strerror) from error


_native_ext.set_error_factory(from_status)
