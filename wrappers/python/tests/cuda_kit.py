"""Shared by the programs of cuda_*programs.py and tests/process/gpu: device memory, and a second
process.

The driver is the fake driver, or a real one, which does not count its live objects.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import tenon
from dlpack_kit import DLTensor  # type: ignore[import-not-found]

cuda = ctypes.CDLL("libcuda.so.1")
ON_THE_FAKE = hasattr(cuda, "fake_cuda_live")
if ON_THE_FAKE:
    cuda.fake_cuda_live.restype = cuda.fake_cuda_faults.restype = cuda.fake_cuda_calls.restype = (
        ctypes.c_uint64
    )
ALLOCATION, IPC_OPEN, EVENT, EVENT_IMPORT = 2, 3, 11, 12
# A factor for all timeouts: compute-sanitizer makes programs slow.
PATIENCE = max(int(os.environ.get("TENON_TEST_PATIENCE", "1")), 1)


def live(kind: int, pid: int = 0) -> int:
    """The number of live objects of a kind, in one process or (0) in all. A real driver does not
    count them, so the number is 0 there.
    """
    return int(cuda.fake_cuda_live(kind, pid)) if ON_THE_FAKE else 0


def is_live(expected: int, kind: int, pid: int = 0) -> bool:
    """Whether `expected` objects are live. On a real driver, which does not count them, the answer
    is yes.
    """
    return not ON_THE_FAKE or live(kind, pid) == expected


def check(result: int) -> None:
    assert result == 0, f"CUDA error {result}"


def use_device() -> None:
    context = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))


def new_stream() -> int:
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    assert stream.value
    return stream.value


code_is_loaded = False


def load_code() -> None:
    """Do the first fill and the first copy.

    A real driver loads the code of each with the first call of its kind. That call can wait for all
    work under way, and would wait for ever if that work waits for this process.
    """
    global code_is_loaded
    if code_is_loaded:
        return
    room = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(room), ctypes.c_size_t(8192)))
    for offset, nbytes in ((0, 4000), (1, 1)):
        check(
            cuda.cuMemsetD8_v2(
                ctypes.c_uint64(room.value + offset), ctypes.c_ubyte(0), ctypes.c_size_t(nbytes)
            )
        )
    check(cuda.cuMemcpy(ctypes.c_uint64(room.value + 4096), room, ctypes.c_size_t(4000)))
    check(cuda.cuMemFree_v2(room))
    code_is_loaded = True


HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Gate:
    """Work of a stream that ends when open() is called, so that no test depends on durations."""

    def __init__(self, stream: int) -> None:
        load_code()
        self._opened = threading.Event()
        self._stay = HostFunction(self._wait)
        check(cuda.cuLaunchHostFunc(ctypes.c_void_p(stream), self._stay, None))

    def _wait(self, _: object) -> None:
        self._opened.wait()

    def open(self) -> None:
        self._opened.set()


def take_time(stream: int = 0, us: int = 200_000) -> None:
    """Delay all later work of the stream by `us` microseconds. This holds on every driver, because
    the stream waits for a host function that sleeps.
    """
    load_code()
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    check(cuda.cuLaunchHostFunc(ctypes.c_void_p(stream), usleep, ctypes.c_void_p(us)))


def new_host_room(nbytes: int) -> ctypes.Array[ctypes.c_char]:
    """Zeroed host memory that the driver knows, kept until the process ends.

    A copy from a device into any other host memory ends before the call returns. A program whose
    copies wait for work that the program itself still has to let go would then wait for ever.
    """
    room = ctypes.c_void_p()
    check(cuda.cuMemHostAlloc(ctypes.byref(room), ctypes.c_size_t(nbytes), 0))
    assert room.value
    ctypes.memset(room, 0, nbytes)
    return (ctypes.c_char * nbytes).from_address(room.value)


def bytes_at(pointer: int, nbytes: int) -> bytes:
    room = ctypes.create_string_buffer(nbytes)
    check(cuda.cuMemcpyDtoH_v2(room, ctypes.c_uint64(pointer), ctypes.c_size_t(nbytes)))
    return room.raw


def read(tensor: tenon.Tensor) -> bytes:
    return bytes_at(tensor.__cuda_array_interface__["data"][0], tensor.nbytes)


def over(storage: tenon.Storage) -> tenon.Tensor:
    return tenon.Tensor.over(storage, storage.nbytes, "uint8")


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = (
    ctypes.py_object,
    [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
)


# Keeps alive what a capsule points to, and its deleter, because consumers may hold them longer than
# the Array.
handed_out: list[Any] = []


class Array:
    """Bytes on the device, like an array of another framework. They are freed when the last
    consumer has let go.
    """

    def __init__(self, data: bytes, *, read_only: bool = False, device_type: int = 2) -> None:
        self.nbytes, self.read_only, self.device_type = len(data), read_only, device_type
        self.streams: list[Any] = []
        self.freed = 0
        pointer = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 1))))
        self.pointer = pointer.value
        if data:
            check(cuda.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(len(data))))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None) -> Any:
        assert max_version is not None and max_version >= (1, 0)
        self.streams.append(stream)
        handed_out.append(self)
        self.shape = (ctypes.c_int64 * 1)(self.nbytes)
        tensor = DLTensor(self.pointer, self.device_type, 0, 1, 1, 8, 1, self.shape, None, 0)
        self.deleter = Deleter(self.free)
        self.managed = Managed(1, 0, None, self.deleter, int(self.read_only), tensor)
        return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def free(self, _: object = None) -> None:
        self.freed += 1
        check(cuda.cuMemFree_v2(ctypes.c_uint64(self.pointer)))


DATA = bytes(range(200)) * 20


class Receiver:
    """The other process, which runs one of the functions that the calling program defines."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", sys.argv[0], name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def send(self, value: object) -> None:
        assert self.process.stdin is not None
        pickle.dump(value, self.process.stdin)
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


def take() -> Any:
    return pickle.load(sys.stdin.buffer)


def give(value: object) -> None:
    pickle.dump(value, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def collected() -> bool:
    """Whether all device memory is collected: waits up to 5 seconds, times PATIENCE, for streams
    and receivers.
    """
    for _ in range(5000 * PATIENCE):
        if tenon.cuda_collect() == 0:
            return True
        time.sleep(0.001)
    return False


def nothing_left() -> None:
    gc.collect()
    assert collected()
    if not ON_THE_FAKE:
        return
    for kind in (ALLOCATION, IPC_OPEN, EVENT_IMPORT):
        assert cuda.fake_cuda_live(kind, 0) == 0, kind
    assert cuda.fake_cuda_faults(0) == 0
