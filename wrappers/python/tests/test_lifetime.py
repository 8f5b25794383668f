"""Views keep their storage and nothing leaks, with threads and collections at any moment."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import tenon


def test_views_in_random_order_of_death() -> None:
    chooser = random.Random(7)
    for _ in range(60):
        tensor = tenon.from_numpy(np.full(64, 5, np.int32))
        weak = tensor.storage.weak_ref()
        held: list[Any] = [
            tensor,
            tensor.storage,
            tensor[3:],
            tensor.numpy(),
            memoryview(tensor),
            tensor.storage.data,
            np.from_dlpack(tensor),
            tenon.from_dlpack(tensor),
            tensor.__dlpack__(),
            tenon.Message([tensor]),
        ]
        del tensor
        chooser.shuffle(held)
        while held:
            if chooser.random() < 0.05:
                gc.collect()
            assert not weak.expired
            last = held[-1]
            if isinstance(last, np.ndarray):
                assert (last == 5).all()
            elif isinstance(last, memoryview):
                assert last.tobytes()[:4] == b"\5\0\0\0"
            del last
            held.pop()
        assert weak.expired


def test_cycles_are_collected() -> None:
    class Node:
        def __init__(self) -> None:
            self.tensor = tenon.zeros(10)
            self.me = self

    weak = Node().tensor.storage.weak_ref()
    gc.collect()
    assert weak.expired
    tensor = tenon.zeros(1)
    reference = weakref.ref(tensor)
    del tensor
    assert reference() is None


def test_threads_that_make_lend_and_drop() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(150):
                tensor = tenon.from_numpy(np.full(500, seed * 1000 + i))
                with tensor.storage.share_fd() as handle:
                    opened = tenon.open_fd(handle)
                view = tenon.Tensor.over(opened, (500,), "int64").numpy()
                tensor.close()
                del tensor, opened
                assert (view == seed * 1000 + i).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_close_races_with_use() -> None:
    for _ in range(100):
        tensor = tenon.zeros(1000)
        barrier = threading.Barrier(3)

        def use(tensor: tenon.Tensor = tensor, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            for _ in range(20):
                try:
                    bytes(memoryview(tensor))
                    tenon.Message([tensor])
                    tensor.storage.write(b"x")
                except ValueError:
                    return

        threads = [threading.Thread(target=use) for _ in range(2)]
        for thread in threads:
            thread.start()
        barrier.wait()
        tensor.close()
        for thread in threads:
            thread.join()


def test_wrapped_memory_released_by_a_thread_without_python() -> None:
    source = bytearray(64)
    storage = tenon.Storage.wrap(source)
    address = storage._retained()
    storage.close()
    from tenon._native import ffi, lib

    # The last release comes from C without the interpreter's lock, which ctypes releases around the
    # call.
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        int(ffi.cast("uintptr_t", ffi.addressof(lib, "tenon_storage_release")))
    )
    thread = threading.Thread(target=release, args=(address,))
    thread.start()
    thread.join()
    source.append(1)


def test_fork_with_live_views() -> None:
    tensor = tenon.from_numpy(np.arange(100))
    view = tensor.numpy()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            view[0] = 41
            tensor.close()
            del view
            gc.collect()
            fresh = tenon.zeros(10)
            status = 0 if fresh.tolist() == [0] * 10 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert view[0] == 41 and tensor.tolist()[1:] == list(range(1, 100))


def test_fds_do_not_grow() -> None:
    left, right = tenon.pair()
    with left, right:
        counts = []
        for _ in range(3):
            for _ in range(100):
                left.send({"x": tenon.zeros(10)})
                right.recv()
            gc.collect()
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts[2] <= counts[1] + 1


@pytest.mark.parametrize("mode", ["shared", "lender_writes", "frozen"])
def test_lend_and_release_many_times(mode: str) -> None:
    for i in range(2000):
        tensor = tenon.from_numpy(np.full(1000, i, np.int32), mode=mode)  # type: ignore[arg-type]
        with tensor.storage.share_fd():
            pass
    del tensor
    assert tenon.stats().bytes_reserved < 256 << 20


def test_stats() -> None:
    before = tenon.stats()
    tensor = tenon.empty(1000, "uint8")
    now = tenon.stats()
    assert now.storages == before.storages + 1 and now.bytes_live >= before.bytes_live + 1000
    assert "storages=" in repr(now)
    del tensor
    assert tenon.trim() >= 0
