"""One case: the reason why it is not ok, and the comparison with its expectation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenon
from tenon import _dtype

Case = dict[str, Any]


class Wrong(Exception):
    """The result of the case is not the expected one."""


class Skip(Exception):
    """The case cannot be expressed in Python."""


def same(what: str, got: Any, wanted: Any) -> None:
    if got != wanted:
        raise Wrong(f"{what} is {got!r:.200}, not {wanted!r:.200}")


def known(expect: Case, *keys: str) -> None:
    unknown = set(expect) - set(keys)
    if unknown:
        raise Wrong(f"unknown expectation {sorted(unknown)}")


def outcome(expect: Case, act: Callable[[], Any]) -> Any:
    """Returns the result of `act`, or None if it failed as it should."""
    try:
        result = act()
    except tenon.TenonError as caught:
        same("status", caught.code, expect["status"])
        text = str(caught)
        if not text or "\n" in text:
            raise Wrong(f"no message of one line: {text!r}") from None
        for key, value in expect.get("details", {}).items():
            same(f"detail {key}", caught.details.get(key), value)
        return None
    except (ValueError, IndexError) as caught:
        # The package itself refuses some arguments before it calls the library, also with
        # InvalidArgument.
        same(f"status ({caught})", "INVALID_ARGUMENT", expect["status"])
        return None
    same("status", "OK", expect["status"])
    return result


def missing(case: Case) -> str:
    """Returns why the case cannot run here, or ""."""
    required = case.get("requires")
    if required is None:
        return ""
    if required != "cuda":
        raise Wrong(f"unknown requirement {required}")
    try:
        tenon.require_cuda()
    except tenon.Unsupported as why:
        return f"requires cuda: {why}"
    return ""


def masked(data: bytes, mask: list[list[int]]) -> bytes:
    copy = bytearray(data)
    for begin, end in mask:
        copy[begin:end] = bytes(len(copy[begin:end]))
    return bytes(copy)


def same_bytes(got: bytes, expect: Case) -> None:
    wanted = bytes.fromhex(expect["bytes"])
    same("length", len(got), len(wanted))
    mask = expect.get("mask", [])
    left, right = masked(got, mask), masked(wanted, mask)
    for offset, (have, want) in enumerate(zip(left, right, strict=True)):
        if have != want:
            raise Wrong(f"byte {offset} is {have:#04x}, not {want:#04x}")


def dtype_number(dtype: list[int]) -> int:
    return _dtype.pack(*dtype)


def tensor_of(storage: tenon.Storage, case: Case) -> tenon.Tensor:
    """Uses the dtype's numbers, because a dtype that is to be refused has no name."""
    strides = case["strides"]
    return tenon.Tensor._new(
        storage,
        dtype_number(case["dtype"]),
        tuple(case["sizes"]),
        None if strides is None else tuple(strides),
        case.get("offset", 0),
        case.get("flags", 0),
    )


def text_of(name: str | None, repeat: int = 1) -> str | None:
    try:
        return None if name is None else bytes.fromhex(name * repeat).decode()
    except UnicodeDecodeError:
        raise Skip("a str of Python's cannot hold invalid UTF-8 that is to be sent") from None
