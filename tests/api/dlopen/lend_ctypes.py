"""Uses libtenon.so by ctypes, with structs written by hand from the header's text and no wrapper.

usage: lend_ctypes.py [FD]

With FD, one end of a socket, this program is the borrower that it starts itself.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import Any

ABI_VERSION = 1
OK, INVALID_ARGUMENT, PERMISSION, CORRUPT, UNSUPPORTED, PEER_GONE, WOULD_BLOCK = 0, 1, 2, 4, 7, 8, 9
MODE_LENDER_WRITES = 1
DTYPE_FLOAT = 2
DEVICE_CPU = 1
COUNT = 300
PATIENCE_NS = 60 * 10**9


class Dtype(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class StorageOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_uint32),
        ("flags", c_uint32),
        ("alignment", c_uint64),
        ("arena", c_void_p),
        ("wait", c_void_p),
    ]


class TensorSpec(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", Dtype),
        ("ndim", c_int32),
        ("sizes", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class TensorView(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("tensor", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("data_mut", c_void_p),
        ("sizes", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
        ("numel", c_uint64),
        ("nbytes", c_uint64),
        ("dtype", Dtype),
        ("ndim", c_int32),
        ("flags", c_uint32),
        ("is_contiguous", c_int32),
        ("device", Device),
    ]


class Wait(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("timeout_ns", c_int64),
        ("cancel", c_void_p),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class Stats(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_uint64) for name in ("bytes_copied", "storages", "segments", "segment_fds")),
        *(
            (name, c_uint64)
            for name in ("bytes_reserved", "bytes_live", "bytes_retired", "bytes_opened")
        ),
    ]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
OUT = POINTER(c_void_p)
lib = ctypes.CDLL(os.path.join(os.environ["TENON_BUILD_DIR"], "libtenon.so"))


def declare(name: str, result: Any, *arguments: Any) -> None:
    function = getattr(lib, f"tenon_{name}")
    function.restype, function.argtypes = result, arguments


# Functions that can fail return a status, and take the error as their last parameter.
for each, *parameters in (
    ("storage_new", POINTER(StorageOptions), c_uint64, OUT),
    ("storage_wrap", c_void_p, c_uint64, RELEASE, c_void_p, POINTER(StorageOptions), OUT),
    ("tensor_new", c_void_p, POINTER(TensorSpec), OUT),
    ("tensor_get_spec", c_void_p, POINTER(TensorSpec)),
    ("tensor_data_mut", c_void_p, OUT),
    ("message_new", OUT),
    ("message_add", c_void_p, OUT, POINTER(c_char_p), c_size_t, c_void_p),
    ("message_set_user_bytes", c_void_p, c_char_p, c_size_t),
    ("message_get_views", c_void_p, POINTER(TensorView), c_size_t),
    ("connection_new", c_int, c_void_p, OUT),
    ("send", c_void_p, c_void_p, POINTER(Wait)),
    ("recv", c_void_p, POINTER(Wait), OUT),
    ("descriptor_open", c_char_p, c_size_t, POINTER(c_int32), c_size_t, c_void_p, OUT),
    ("stats_get", POINTER(Stats)),
):
    declare(each, c_int32, *parameters, OUT)
declare("abi_version", c_uint32)
declare("status_name", c_char_p, c_int32)
declare("error_code", c_int32, c_void_p)
declare("error_message", c_char_p, c_void_p)
declare("error_detail", c_char_p, c_void_p, c_char_p)
declare("error_detail_key", c_char_p, c_void_p, c_size_t)
declare("error_release", None, c_void_p)
declare("storage_trim", c_uint64)
declare("message_count", c_size_t, c_void_p)
declare("message_user_bytes", c_void_p, c_void_p, POINTER(c_size_t))
for each in ("storage", "tensor", "message", "connection"):
    declare(f"{each}_release", None, c_void_p)


class TenonError(Exception):
    def __init__(self, status: int, error: c_void_p) -> None:
        super().__init__(lib.tenon_error_message(error).decode())
        self.status, self.code = status, lib.tenon_error_code(error)
        self.details: dict[str, str] = {}
        index = 0
        while (key := lib.tenon_error_detail_key(error, index)) is not None:
            self.details[key.decode()] = lib.tenon_error_detail(error, key).decode()
            index += 1
        lib.tenon_error_release(error)


def call(name: str, *arguments: Any) -> None:
    error = c_void_p()
    status = getattr(lib, f"tenon_{name}")(*arguments, byref(error))
    if status != OK:
        raise TenonError(status, error)


def make(name: str, *arguments: Any) -> c_void_p:
    out = c_void_p()
    call(name, *arguments, byref(out))
    return out


def sized(kind: Any, **fields: Any) -> Any:
    return kind(struct_size=sizeof(kind), **fields)


def check(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"FAIL: {what}")


def fails(status: int, name: str, *arguments: Any) -> TenonError:
    try:
        call(name, *arguments)
    except TenonError as error:
        check(
            error.status == error.code == status,
            f"{name}: {lib.tenon_status_name(error.status)} {error}",
        )
        text = str(error)
        check(bool(text) and "\n" not in text, f"{name} has no message of one line: {text!r}")
        return error
    raise SystemExit(f"FAIL: {name} succeeded")


def floats(address: int, count: int) -> Any:
    return (ctypes.c_float * count).from_address(address)


def a_while() -> Any:
    return byref(sized(Wait, timeout_ns=PATIENCE_NS))


def errors() -> None:
    out = c_void_p(77)
    fails(
        INVALID_ARGUMENT, "storage_new", byref(sized(StorageOptions, alignment=3)), 64, byref(out)
    )
    check(out.value == 77, "an output is untouched on failure")
    fails(INVALID_ARGUMENT, "storage_new", None, 64, None)
    error = fails(CORRUPT, "descriptor_open", b"no descriptor" * 20, 260, None, 0, None, byref(out))
    check(error.details.get("field") == "magic", f"the detail 'field' is {error.details}")

    class Newer(ctypes.Structure):
        _fields_ = [("known", StorageOptions), ("more", c_uint64)]

    newer = Newer(known=StorageOptions(struct_size=sizeof(Newer)))
    pointer = ctypes.cast(byref(newer), POINTER(StorageOptions))
    storage = make("storage_new", pointer, 64)
    lib.tenon_storage_release(storage)
    newer.more = 1
    fails(UNSUPPORTED, "storage_new", pointer, 64, byref(out))


def callback() -> None:
    called: list[int | None] = []
    release = RELEASE(called.append)
    room = ctypes.create_string_buffer(64)
    storage = make("storage_wrap", room, 64, release, c_void_p(4711), None)
    check(called == [], "the callback waits for the last release")
    lib.tenon_storage_release(storage)
    check(called == [4711], f"the callback was called with {called}")


def open_fds() -> int:
    """Count this process's fds, without those of the library's thread, which stay while a lender
    lives.
    """
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += not os.readlink(f"/proc/self/fd/{fd}").startswith("anon_inode:")
        except FileNotFoundError:  # the fd of listdir itself
            count += 1
    return count


def borrow(fd: int) -> None:
    connection = make("connection_new", fd, None)
    message = make("recv", connection, a_while())
    count = lib.tenon_message_count(message)
    views = (TensorView * count)()
    views[0].struct_size = sizeof(TensorView)
    call("message_get_views", message, views, count)
    for index, view in enumerate(views):
        check(view.name == b"tensor %d" % index, f"name {view.name}")
        check(
            (view.dtype.code, view.dtype.bits, view.dtype.lanes) == (DTYPE_FLOAT, 32, 1),
            "the dtype comes back",
        )
        check(
            view.ndim == 2 and view.sizes[0] == 2 and view.sizes[1] == 3 and view.strides[0] == 3,
            "the shape comes back",
        )
        check(
            view.numel == 6 and view.nbytes == 24 and view.is_contiguous == 1, "the sizes come back"
        )
        check((view.device.type, view.device.id) == (DEVICE_CPU, 0), "memory of the host")
        if index == COUNT - 1:
            check(view.data_mut is None, "the last one is read-only")
            fails(PERMISSION, "tensor_data_mut", view.tensor, byref(c_void_p()))
            check(floats(view.data, 6)[5] == 2.5, "it can be read")
        else:
            floats(view.data_mut, 6)[5] = index
    nbytes = c_size_t()
    user = lib.tenon_message_user_bytes(message, byref(nbytes))
    answer = make("message_new")
    call("message_set_user_bytes", answer, ctypes.string_at(user, nbytes.value)[::-1], nbytes.value)
    call("send", connection, answer, a_while())
    for kind, one in (("message", answer), ("message", message), ("connection", connection)):
        getattr(lib, f"tenon_{kind}_release")(one)
    nothing_left()


def nothing_left() -> None:
    lib.tenon_storage_trim()
    stats = sized(Stats)
    call("stats_get", byref(stats))
    check(
        (stats.storages, stats.segments, stats.segment_fds) == (0, 0, 0),
        f"{stats.storages} storages, {stats.segments} segments are left",
    )


def tensor_over(storage: c_void_p, offset: int) -> c_void_p:
    spec = sized(
        TensorSpec,
        dtype=Dtype(DTYPE_FLOAT, 32, 1),
        ndim=2,
        sizes=(c_int64 * 2)(2, 3),
        offset=offset,
    )
    tensor = make("tensor_new", storage, byref(spec))
    got = sized(TensorSpec)
    call("tensor_get_spec", tensor, byref(got))
    check(
        got.strides[0] == 3 and got.strides[1] == 1 and got.offset == offset,
        "the library fills in strides",
    )
    return tensor


def lend() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        fd = str(theirs.fileno())
        borrower = subprocess.Popen(
            [sys.executable, __file__, fd], pass_fds=(theirs.fileno(),), env=environment
        )
    storage = make("storage_new", None, COUNT * 24)
    read_only = make("storage_new", byref(sized(StorageOptions, mode=MODE_LENDER_WRITES)), 24)
    tensors = [tensor_over(storage, 6 * index) for index in range(COUNT - 1)] + [
        tensor_over(read_only, 0)
    ]
    floats(make("tensor_data_mut", tensors[-1]).value or 0, 6)[5] = 2.5

    message = make("message_new")
    array = (c_void_p * COUNT)(*(tensor.value for tensor in tensors))
    names = (c_char_p * COUNT)(*(b"tensor %d" % index for index in range(COUNT)))
    call("message_add", message, array, names, COUNT, None)
    call("message_set_user_bytes", message, b"stressed", 8)
    connection = make("connection_new", ours.fileno(), None)
    fails(WOULD_BLOCK, "recv", connection, byref(sized(Wait)), byref(c_void_p()))
    call("send", connection, message, a_while())
    answer = make("recv", connection, a_while())
    check(
        ctypes.string_at(lib.tenon_message_user_bytes(answer, None), 8) == b"desserts",
        "the answer is right",
    )
    check(borrower.wait(60) == 0, "the borrower ends in order")
    fails(PEER_GONE, "recv", connection, a_while(), byref(c_void_p()))
    for index, tensor in enumerate(tensors[:-1]):
        check(
            floats(make("tensor_data_mut", tensor).value or 0, 6)[5] == index,
            f"the write to tensor {index} is seen here",
        )
    for tensor in tensors:
        lib.tenon_tensor_release(tensor)
    for kind, one in (
        ("message", answer),
        ("message", message),
        ("connection", connection),
        ("storage", storage),
        ("storage", read_only),
    ):
        getattr(lib, f"tenon_{kind}_release")(one)
    ours.close()


def main() -> None:
    check(lib.tenon_abi_version() == ABI_VERSION, "the library has this ABI")
    if len(sys.argv) == 2:
        borrow(int(sys.argv[1]))
        return
    fds = open_fds()
    errors()
    callback()
    lend()
    nothing_left()
    check(open_fds() == fds, "no fd is left")
    print(f"lent {COUNT} tensors by ctypes, written in place by another process")


if __name__ == "__main__":
    main()
