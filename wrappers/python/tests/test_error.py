from __future__ import annotations

import errno
import os
import pickle
import resource

import pytest
import tenon
from tenon import error as errors
from tenon._native import lib


@pytest.mark.parametrize(
    ("kind", "builtin", "code"),
    [
        (tenon.InvalidArgument, ValueError, "INVALID_ARGUMENT"),
        (tenon.PermissionDenied, PermissionError, "PERMISSION"),
        (tenon.NotFound, FileNotFoundError, "NOT_FOUND"),
        (tenon.Corrupt, ValueError, "CORRUPT"),
        (tenon.Incompatible, ValueError, "INCOMPATIBLE"),
        (tenon.ResourceExhausted, OSError, "RESOURCE_EXHAUSTED"),
        (tenon.Unsupported, NotImplementedError, "UNSUPPORTED"),
        (tenon.PeerGone, ConnectionError, "PEER_GONE"),
        (tenon.WouldBlock, BlockingIOError, "WOULD_BLOCK"),
        (tenon.Timeout, TimeoutError, "TIMEOUT"),
        (tenon.Interrupted, InterruptedError, "INTERRUPTED"),
        (tenon.Cancelled, tenon.TenonError, "CANCELLED"),
        (tenon.Io, OSError, "IO"),
        (tenon.Internal, RuntimeError, "INTERNAL"),
    ],
)
def test_every_code_is_a_built_in_kind(
    kind: type[tenon.TenonError], builtin: type[BaseException], code: str
) -> None:
    status = getattr(lib, f"TENON_{code}")
    error = errors.from_status(status)
    assert isinstance(error, kind) and isinstance(error, builtin)
    assert (error.code, error.status) == (code, status)
    if isinstance(error, OSError):
        assert error.errno
    assert error.details == {}


def test_every_code_is_mapped() -> None:
    codes = {
        getattr(lib, name)
        for name in dir(lib)
        if lib.tenon_status_name(0) and name.startswith("TENON_") and name[6:] in names()
    }
    assert codes == set(errors._KINDS)


def names() -> set[str]:
    from tenon._native import ffi

    return {ffi.string(lib.tenon_status_name(status)).decode() for status in range(1, 200)} - {
        "UNKNOWN"
    }


def test_unknown_codes_are_internal() -> None:
    assert isinstance(errors.from_status(999), tenon.Internal)
    with pytest.raises(TypeError):
        errors.make(tenon.TenonError, "x")


def test_memory_limits_are_memory_errors() -> None:
    with pytest.raises(MemoryError) as caught:
        tenon.empty(1 << 45)
    error = caught.value
    assert (
        isinstance(error, tenon.OutOfMemory)
        and isinstance(error, OSError)
        and error.errno == errno.ENOMEM
    )
    assert error.details["limit"] and int(error.details["wanted"]) == 4 << 45


def test_fd_limit_is_an_os_error() -> None:
    storage = tenon.Storage.new(8)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    fillers: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many"):
            while True:
                fillers.append(os.dup(0))
        with pytest.raises(tenon.ResourceExhausted) as caught:
            storage.share_fd()
    finally:
        for fd in fillers:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert caught.value.errno == errno.EMFILE and not isinstance(caught.value, MemoryError)
    assert caught.value.details["limit"] == "RLIMIT_NOFILE"


def test_message_and_errno() -> None:
    with pytest.raises(tenon.TenonError) as caught:
        tenon.open_fd(1 << 20, 8)
    assert str(1 << 20) in str(caught.value) + str(caught.value.details)
    assert "\n" not in str(caught.value)


def test_cause_is_chained() -> None:
    read, write = os.pipe()
    try:
        with (
            tenon.Descriptor(tenon.zeros(3)) as descriptor,
            pytest.raises(tenon.TenonError) as caught,
        ):
            tenon.open_descriptor(descriptor.bytes, [read])
    finally:
        os.close(read)
        os.close(write)
    cause = caught.value.__cause__
    assert cause is None or isinstance(cause, tenon.TenonError)


def test_errors_can_be_pickled() -> None:
    for kind in (tenon.InvalidArgument, tenon.PeerGone):
        with pytest.raises(tenon.TenonError) as caught:
            raise errors.make(kind, "why", option="x")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (
            type(copy) is kind
            and copy.args == caught.value.args
            and copy.details == {"option": "x"}
            and copy.code == caught.value.code
        )
