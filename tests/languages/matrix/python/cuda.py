"""Makes the storages that the strategies on CUDA lend, and reads and writes the words of a handle
(tests/languages/matrix/README.md).
"""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any

import server
import tenon

# A neighbour of this size lies before the storage, which must not begin where its arena does.
ARENA_NBYTES, NEIGHBOUR_NBYTES = 1 << 20, 100
DEVICE = 1


def driver_on(storage: tenon.Storage) -> ctypes.CDLL:
    """The driver that Tenon has found and started. The primary context of the storage's device is
    current.
    """
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if driver.cuDevicePrimaryCtxRetain(
        ctypes.byref(context), number_of(storage)
    ) or driver.cuCtxSetCurrent(context):
        raise server.Refused("OTHER", "the driver has no context")
    return driver


def number_of(storage: tenon.Storage) -> int:
    return int(storage.device.removeprefix("cuda:"))


def address_of(storage: tenon.Storage) -> ctypes.c_uint64:
    with tenon.Tensor.over(storage, (storage.nbytes,), "uint8") as whole:
        return ctypes.c_uint64(whole.__cuda_array_interface__["data"][0])


def copy(host: ctypes.Array[ctypes.c_char], storage: tenon.Storage, *, to_device: bool) -> None:
    """Copy len(host) bytes between the host and the start of the storage."""
    if len(host) == 0:
        return
    driver, device, nbytes = driver_on(storage), address_of(storage), ctypes.c_size_t(len(host))
    done = (
        driver.cuMemcpyHtoD_v2(device, host, nbytes)
        if to_device
        else driver.cuMemcpyDtoH_v2(host, device, nbytes)
    )
    if done:
        raise server.Refused("OTHER", f"the driver does not copy: {done}")


def make_storage(strategy: str, data: bytes) -> tenon.Storage:
    """The default stream copies the bytes from a neighbour, so a reader that does not wait for the
    stream finds other bytes.
    """
    transport: Any = "fd" if strategy == "cuda_fd" else "auto"
    with (
        tenon.CudaArena(ARENA_NBYTES, device=DEVICE, transport=transport) as arena,
        arena.allocate(len(data) + NEIGHBOUR_NBYTES) as neighbour,
    ):
        storage = arena.allocate(len(data))
        if data:
            copy(ctypes.create_string_buffer(data, len(data)), neighbour, to_device=True)
            nbytes = ctypes.c_size_t(len(data))
            if driver_on(storage).cuMemcpyDtoDAsync_v2(
                address_of(storage), address_of(neighbour), nbytes, None
            ):
                raise server.Refused("OTHER", "the driver does not copy")
            neighbour.record_stream()
    return storage


def lend(storage: tenon.Storage, sock: socket.socket | None) -> str:
    handle = storage.share_cuda()
    if sock is not None:
        socket.send_fds(sock, [b"*"], handle.fds)
    words = [
        handle.transport,
        handle.device,
        server.hexadecimal(handle.uuid or b""),
        handle.nbytes,
        handle.offset,
    ]
    words += [handle.counter or "-", handle.slot, int(handle.event_required)]
    words += [server.hexadecimal(handle.event), server.hexadecimal(handle.memory), len(handle.fds)]
    return " ".join(map(str, words))


def open_handle(words: tuple[str, ...], sock: socket.socket | None) -> tenon.Storage:
    transport: Any
    transport, device, uuid, nbytes, offset, counter, slot, event_required, event, memory, _ = words
    handle = tenon.CudaHandle(
        transport,
        int(device),
        server.unhexed(uuid) or None,
        int(nbytes),
        int(offset),
        counter.removeprefix("-"),
        int(slot),
        server.unhexed(memory),
        server.unhexed(event),
        event_required == "1",
    )
    fds = [] if sock is None else server.receive_fds(sock)
    try:
        return tenon.open_cuda(handle.with_fds(fds))
    finally:
        for fd in fds:
            os.close(fd)
