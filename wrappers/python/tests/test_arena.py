from __future__ import annotations

import fcntl
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tenon

MIB = 1 << 20


def test_a_fresh_one() -> None:
    with tenon.Arena(4 * MIB) as arena:
        now = arena.stats()
        assert now.bytes_capacity == 4 * MIB
        assert (
            now.bytes_live,
            now.bytes_lent,
            now.blocks_live,
            now.blocks_lent,
            now.bytes_peak,
            now.bytes_retired,
        ) == (0, 0, 0, 0, 0, 0)
        assert now.pages in ("small", "thp") and now.page_nbytes >= 4096
        assert now.numa_node is None and not now.locked
        assert now == arena.stats() and hash(now) == hash(arena.stats())
        with pytest.raises(AttributeError):
            now.bytes_live = 1
    assert arena.closed and "closed" in repr(arena)


def test_the_default_is_large_and_costs_nothing() -> None:
    with tenon.Arena() as arena:
        now = arena.stats()
        assert now.bytes_capacity > 1 << 30 and now.bytes_reserved < 16 * MIB


def test_all_its_storages_share_one_fd_and_one_mapping() -> None:
    before = tenon.stats()
    with tenon.Arena(16 * MIB) as arena:
        tensors = [arena.empty(100) for _ in range(1000)]
        now = tenon.stats()
        assert (
            now.storages - before.storages,
            now.segments - before.segments,
            now.segment_fds - before.segment_fds,
        ) == (1000, 1, 1)
        assert arena.stats().blocks_live == 1000
        with tensors[0].storage.share_fd() as first, tensors[999].storage.share_fd() as last:
            assert first.segment_nbytes == last.segment_nbytes == 16 * MIB
            assert os.path.sameopenfile(first.fd, last.fd) and first.offset != last.offset


def test_makers() -> None:
    with tenon.Arena(4 * MIB) as arena:
        assert arena.empty((2, 3), "bfloat16").shape == (2, 3)
        assert arena.zeros((2, 2), "int16").tolist() == [[0, 0], [0, 0]]
        assert arena.full((2, 2), 7, "int16", requires_grad=True).tolist() == [[7, 7], [7, 7]]
        array = np.arange(6, dtype=np.float64).reshape(2, 3)
        assert arena.tensor(array.T).tolist() == array.T.tolist()
        assert arena.storage(5, zeroed=True).read() == bytes(5)
        blocks = [
            tenon.empty(10, arena=arena),
            tenon.zeros(10, arena=arena),
            tenon.from_numpy(array, arena=arena),
            tenon.zeros(10).clone(arena=arena),
            tenon.Storage.new(10, arena=arena),
            tenon.Storage.new_from(b"0123456789", arena=arena),
        ]
        assert arena.stats().blocks_live == 6
        assert blocks[-1].read() == b"0123456789"  # type: ignore[union-attr]
        view = blocks[0].numpy()  # type: ignore[union-attr]
        del blocks
        view[...] = 4
        assert arena.stats().blocks_live == 1 and view.tolist() == [4.0] * 10


def test_the_mode_is_the_arenas() -> None:
    with tenon.Arena(MIB, mode="lender_writes") as arena:
        assert arena.empty(4).storage.mode == "lender_writes"
        with pytest.raises(tenon.InvalidArgument):
            tenon.Storage.new(4, mode="frozen", arena=arena)


def test_alignment() -> None:
    with tenon.Arena(MIB, alignment=1024) as arena:
        assert all(arena.empty(3, "uint8").numpy().ctypes.data % 1024 == 0 for _ in range(5))
        assert arena.empty(3, "uint8", alignment=4096).numpy().ctypes.data % 4096 == 0


def test_a_freed_block_is_used_again() -> None:
    with tenon.Arena(MIB) as arena:
        places = set()
        for _ in range(100):
            places.add(arena.empty(1000).numpy().ctypes.data)
        assert len(places) == 1


def test_a_full_one_says_so() -> None:
    with tenon.Arena(MIB) as arena:
        keep = arena.empty(MIB, "uint8")
        with pytest.raises(tenon.ResourceExhausted) as caught:
            arena.empty(1000)
        details = caught.value.details
        assert {
            key: details[key] for key in ("limit", "limit_value", "live", "lent", "holders")
        } == {
            "limit": "arena",
            "limit_value": str(MIB),
            "live": str(MIB),
            "lent": "0",
            "holders": "nobody",
        }
        assert not isinstance(caught.value, MemoryError)
        for timeout in (0, 5, None):
            with pytest.raises(tenon.ResourceExhausted) as caught:
                arena.empty(MIB + 1, "uint8", timeout=timeout)  # no wait helps
            assert "holders" not in caught.value.details
        del keep
        arena.empty(1000)


def test_a_wait_times_out() -> None:
    with tenon.Arena(MIB) as arena:
        keep = arena.empty(MIB, "uint8")
        for timeout in (0.01, 0.2):
            start = time.monotonic()
            with pytest.raises(tenon.Timeout) as caught:
                arena.tensor(np.zeros(10), timeout=timeout)
            assert timeout <= time.monotonic() - start < timeout + 30
            assert caught.value.details["holders"] == "nobody" and caught.value.details[
                "live"
            ] == str(MIB)
        del keep
        with pytest.raises(ValueError, match="negative"):
            arena.empty(1, timeout=-1)


def test_a_wait_ends_when_another_thread_frees() -> None:
    with tenon.Arena(MIB) as arena:
        keep = [arena.full(MIB, 3, "uint8")]
        timer = threading.Timer(0.1, keep.clear)  # runs only if the wait lets go of the interpreter
        timer.start()
        tensor = arena.zeros(MIB, "uint8", timeout=60)
        timer.join()
        assert not keep and tensor.numpy().sum() == 0


def test_a_wait_is_cancelled() -> None:
    with tenon.Arena(MIB) as arena, tenon.Cancel() as cancel:
        keep = arena.empty(MIB, "uint8")
        timer = threading.Timer(0.1, cancel.trigger)
        timer.start()
        with pytest.raises(tenon.Cancelled):
            arena.empty(1000, timeout=None, cancel=cancel)
        timer.join()
        del keep


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "frozen"}, tenon.Unsupported),
        ({"mode": "open"}, ValueError),
        ({"alignment": 3}, tenon.InvalidArgument),
        ({"alignment": 32}, tenon.InvalidArgument),
        ({"alignment": 8192}, tenon.InvalidArgument),
        ({"pages": "large"}, ValueError),
        ({"capacity_nbytes": -1}, ValueError),
        ({"capacity_nbytes": (1 << 64) - 1}, tenon.InvalidArgument),
        ({"capacity_nbytes": 1 << 60}, tenon.ResourceExhausted),
        ({"numa_node": -1}, ValueError),
        ({"numa_node": 1 << 31}, ValueError),
        ({"prefault_nbytes": -1}, ValueError),
        ({"numa_node": 4000, "exact": True, "capacity_nbytes": MIB}, tenon.TenonError),
    ],
)
def test_options_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tenon.Arena(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"private": True},
        {"isolated": True},
        {"mode": "frozen"},
        {"mode": "lender_writes"},
        {"filename": tenon.Filename()},
    ],
)
def test_what_no_storage_in_an_arena_is(options: dict[str, Any]) -> None:
    with tenon.Arena(MIB) as arena:
        with pytest.raises(ValueError):
            tenon.empty(4, arena=arena, **options)
        assert arena.stats().blocks_live == 0


@pytest.fixture
def the_pool() -> Iterator[None]:
    """Lock the machine's pool of huge pages against other tests: see Setting in
    tests/unit/memory/backing_kit.h.
    """
    with open("/proc/sys/vm/nr_hugepages") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_pages_that_cannot_be_had(the_pool: None) -> None:
    try:
        arena = tenon.Arena(4 * MIB, pages="hugetlb", exact=True)
    except (tenon.ResourceExhausted, tenon.Unsupported):
        with tenon.Arena(4 * MIB, pages="hugetlb") as arena:
            assert arena.stats().pages != "hugetlb"
            assert arena.full(4, 2).tolist() == [2.0] * 4
    else:
        with arena:
            assert arena.stats().pages == "hugetlb" and arena.stats().page_nbytes >= 2 * MIB


def test_reserve_and_prefault() -> None:
    with tenon.Arena(8 * MIB) as arena:
        arena.reserve(3 * MIB)
        assert arena.stats().bytes_reserved >= 3 * MIB
        arena.reserve(1 << 60)
        now = arena.stats()
        assert (
            now.bytes_reserved == 8 * MIB == now.bytes_free == now.bytes_largest_free
            and now.fragmentation == 0
        )
    with tenon.Arena(8 * MIB, prefault_nbytes=4 * MIB) as arena:
        while arena.stats().bytes_reserved < 4 * MIB:
            time.sleep(0.001)


def test_storages_outlive_the_arena() -> None:
    before = tenon.stats()
    arena = tenon.Arena(MIB)
    tensor = arena.full(8, 3, "uint8")
    arena.close()
    arena.close()
    assert tensor.tolist() == [3] * 8
    for use in (
        lambda: arena.empty(1),
        arena.stats,
        lambda: arena.reserve(1),
        lambda: tenon.Storage.new(1, arena=arena),
    ):
        with pytest.raises(ValueError, match="already closed"):
            use()
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert view.tolist() == [3] * 8
    assert tenon.stats().segments == before.segments + 1
    del view
    assert tenon.stats().segments == before.segments


def test_under_the_other_strategy(child: Any) -> None:
    program = """
import tenon, tenon.multiprocessing
tenon.multiprocessing.set_sharing_strategy("file_system")
arena = tenon.Arena(1 << 20)
keep = arena.tensor([1, 2, 3]), arena.empty(4), tenon.empty(4)
print(arena.stats().blocks_live)
"""
    out, _ = child(program).communicate(timeout=60)
    assert out == b"2\n"


def test_a_child_of_fork_does_not_allocate_in_it() -> None:
    with tenon.Arena(MIB) as arena:
        tensor = arena.full(4, 1, "uint8")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                tensor.numpy()[0] = 9
                arena.empty(4)
            except tenon.Unsupported:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert tensor.tolist() == [9, 1, 1, 1]


def test_threads_that_share_one() -> None:
    errors: list[BaseException] = []
    with tenon.Arena(MIB) as arena:

        def work(number: int) -> None:
            try:
                for i in range(200):
                    tensor = arena.full(20_000, number, "uint8", timeout=60)
                    assert (tensor.numpy() == number).all(), i
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == [] and arena.stats().blocks_live == 0


def test_repr() -> None:
    with tenon.Arena(MIB) as arena:
        assert repr(arena) == f"<tenon.Arena of {MIB} bytes: 0 live, 0 lent>"
        assert "bytes_capacity=" in repr(arena.stats())


class NotAnArena:
    def _own(self) -> int:
        return 1


def test_another_object_is_no_arena() -> None:
    """An object that is no arena must be refused, or its address would be used as an arena's."""
    others: list[Any] = [
        object(),
        1,
        "arena",
        tenon.Cancel(),
        tenon.Storage.new(8),
        tenon.zeros(1),
        NotAnArena(),
    ]
    makers: list[Callable[..., object]] = [
        lambda **more: tenon.empty(16, **more),
        lambda **more: tenon.zeros(16, **more),
        lambda **more: tenon.from_numpy(np.zeros(3), **more),
        lambda **more: tenon.zeros(3).clone(**more),
        lambda **more: tenon.Storage.new(16, **more),
        lambda **more: tenon.Storage.new_from(b"abc", **more),
    ]
    for other in others:
        for make in makers:
            for timeout in (0, 1):
                with pytest.raises(TypeError, match=r"arena is a tenon\.Arena, not "):
                    make(arena=other, timeout=timeout)
        with pytest.raises(TypeError, match=r"arena is a tenon\.Arena"):
            tenon.import_module(b"", arena=other)
    with tenon.Arena(1 << 20) as arena:
        for other in (object(), 1, arena):
            with pytest.raises(TypeError, match=r"cancel is a tenon\.Cancel, not "):
                tenon.empty(16, arena=arena, timeout=1, cancel=other)
    with pytest.raises(ValueError, match="Arena is already closed"):
        tenon.empty(16, arena=arena)
