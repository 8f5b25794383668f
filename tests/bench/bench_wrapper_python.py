"""What the Python wrapper adds to its C calls; 300 x 4 KiB tensors received and viewed in Python.

The C calls go through cffi.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

NBYTES = 4096
COUNT = 300
CALLS = 20 if SMOKE else 1000  # short calls in one round


def many(call: Callable[[], object]) -> Callable[[], Callable[[], object]]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return lambda: run


def main() -> None:
    tenon = load_tenon()
    from tenon._native import ffi, lib

    rounds = 2 if SMOKE else 40
    storage = tenon.Storage.new(NBYTES)
    tensor = tenon.zeros((NBYTES // 4,), "float32")
    raw = ffi.new("tenon_storage **")

    def c_new() -> None:
        if lib.tenon_storage_new(ffi.NULL, NBYTES, raw, ffi.NULL) != lib.TENON_OK:
            raise MemoryError
        lib.tenon_storage_release(raw[0])

    handle = storage.share_fd()
    known = tenon.open_fd(handle.fd, handle.nbytes, offset=handle.offset)
    c_handle = ffi.new(
        "tenon_fd_handle *",
        {
            "struct_size": ffi.sizeof("tenon_fd_handle"),
            "fd": handle.fd,
            "offset": handle.offset,
            "nbytes": NBYTES,
        },
    )
    c_shared = ffi.new("tenon_fd_handle *", {"struct_size": ffi.sizeof("tenon_fd_handle")})
    c_storage = ffi.cast("tenon_storage *", known._own())

    def c_open() -> None:
        if lib.tenon_open_fd(c_handle, ffi.NULL, raw, ffi.NULL) != lib.TENON_OK:
            raise OSError
        lib.tenon_storage_release(raw[0])

    def c_share() -> None:
        if lib.tenon_share_fd(c_storage, ffi.NULL, c_shared, ffi.NULL) != lib.TENON_OK:
            raise OSError
        lib.tenon_fd_handle_close(c_shared)

    rows: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("new and release of a storage of 4 KiB", lambda: tenon.Storage.new(NBYTES).close(), c_new),
        ("share by fd, and close", lambda: known.share_fd().close(), c_share),
        (
            "open by fd of what is known, and release",
            lambda: tenon.open_fd(handle.fd, NBYTES, offset=handle.offset).close(),
            c_open,
        ),
    ]
    for measure, ours, theirs in rows:
        samples = interleave(rounds, many(ours), many(theirs))
        print_row(
            f"{measure}, Python",
            "ns",
            "the C calls through cffi",
            None,
            *([s / CALLS * 1e9 for s in side] for side in samples),
        )
    views = interleave(rounds, many(tensor.numpy), many(lambda: memoryview(tensor)))
    print_row(
        "view, numpy, Python",
        "ns",
        "its memoryview",
        None,
        *([s / CALLS * 1e9 for s in side] for side in views),
    )

    left, right = (tenon.Connection(end) for end in socket.socketpair())
    tensors = [tenon.zeros((NBYTES // 4,), "float32") for _ in range(COUNT)]

    def received() -> Callable[[], Any]:
        left.send(tenon.Message(tensors))
        return lambda: [each.numpy() for each in right.recv()]

    def one_way() -> None:
        left.send(tenon.Message([tensor]))
        right.recv()

    pair = interleave(rounds, many(one_way), lambda: lambda: None)[0]
    print_row(
        "send and receive of a tensor, Python", "ns", "", None, [s / CALLS * 1e9 for s in pair], []
    )
    samples = interleave(10 * rounds, received, lambda: lambda: None)[0]
    print_row(
        "300 x 4 KiB received and viewed, Python",
        "ms",
        "",
        {"of": "ours", "at_most": 0.5},
        [s * 1e3 for s in samples],
        [],
    )


if __name__ == "__main__":
    main()
