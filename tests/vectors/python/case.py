"""One case: why it is not ok, and comparing with what it expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenon

Case = dict[str, Any]


class Wrong(Exception):
    """The case does not come out as it should."""


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
    """What act returns, or None if it failed as it should."""
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
    except ValueError as caught:
        # InvalidArgument is one too: what the package refuses before it asks the library.
        same(f"status ({caught})", "INVALID_ARGUMENT", expect["status"])
        return None
    same("status", "OK", expect["status"])
    return result


def missing(case: Case) -> str:
    """Why the case cannot be run here, "" if it can."""
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
