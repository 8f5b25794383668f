"""Runs tenon.integrations.spdl.Arena in the real SPDL, in real subprocesses: python spdl_arena.py
[NAME…].

The Python must have tenon, numpy and PyPI's spdl_core. The program prints one line for each check.
The exit status is 1 if a check failed, and 77 if spdl_core is not installed.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests" / "support"))

from own_shm import take_own_shm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

SECONDS = 60  # for one check
KIB = 1 << 10
MIB = 1 << 20
METHODS = ("spawn", "fork", "forkserver")


def iterate(
    fn: Callable[[], Iterable[Any]],
    capacity: int,
    *,
    method: str = "fork",
    buffer_size: int = 3,
    **options: Any,
) -> Any:
    from spdl.pipeline import iterate_in_subprocess
    from tenon.integrations.spdl import Arena

    return iterate_in_subprocess(
        fn, mp_context=method, buffer_size=buffer_size, arena=Arena(capacity, **options)
    )


def pid_of(iterable: Any) -> int:
    pid = iterable._interface.process.pid
    assert isinstance(pid, int)
    return pid


def wait_until_gone(pid: int, seconds: float) -> bool:
    """Whether the process ends in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def array(number: int, nbytes: int) -> Any:
    import numpy as np

    return np.full(nbytes // 4, number, "int32")


def is_array(what: Any, number: int, nbytes: int) -> bool:
    return bool(what.dtype == "int32" and what.nbytes == nbytes and (what == number).all())


class Arrays:
    """Gives arrays, each filled with its number, as often as it is iterated."""

    def __init__(self, count: int, nbytes: int) -> None:
        self.count = count
        self.nbytes = nbytes

    def __iter__(self) -> Iterator[Any]:
        return (array(number, self.nbytes) for number in range(self.count))


class Endless(Arrays):
    def __iter__(self) -> Iterator[Any]:
        number = 0
        while True:
            yield array(number, self.nbytes)
            number += 1


# ---- what travels


def nested_items(count: int) -> Iterator[Any]:
    import numpy as np

    for number in range(count):
        yield {
            "image": np.arange(number, number + 30_000, dtype="float64").reshape(3, 100, 100),
            "list": [bytes([number % 256]) * 5000, {"deep": (array(number, 8 * KIB), "text")}],
            "bytearray": bytearray(number.to_bytes(4, "big") * 2000),
            "view": memoryview(array(number, 12 * KIB)),
            "strided": np.arange(40_000, dtype="int16")[::2],
            "small": b"inline",
            "empty": np.empty((0, 4)),
            "number": number,
        }
        yield number  # a unit without binaries


def check_nested(method: str) -> None:
    import numpy as np

    count = 60  # each of 320 KiB, in an arena of 1 MiB
    items = iter(iterate(partial(nested_items, count), MIB, method=method))
    for number in range(count):
        item = next(items)
        assert (
            item["image"]
            == np.arange(number, number + 30_000, dtype="float64").reshape(3, 100, 100)
        ).all()
        assert item["image"].flags.writeable and item["image"].ctypes.data % 64 == 0
        assert item["list"][0] == bytes([number % 256]) * 5000
        assert (
            is_array(item["list"][1]["deep"][0], number, 8 * KIB)
            and item["list"][1]["deep"][1] == "text"
        )
        assert item["bytearray"] == number.to_bytes(4, "big") * 2000
        assert item["view"] == memoryview(array(number, 12 * KIB)).cast("B")
        assert (item["strided"] == np.arange(40_000, dtype="int16")[::2]).all()
        assert (
            item["small"] == b"inline"
            and item["empty"].shape == (0, 4)
            and item["number"] == number
        )
        assert next(items) == number
    assert next(items, None) is None


def check_many_more_than_fit() -> None:
    for buffer_size in (1, 3, 50):
        # The consumer keeps no view: 3000 units of 100 KiB pass through 1 MiB.
        numbers = [
            int(item[0])
            for item in iterate(partial(Arrays, 1000, 100 * KIB), MIB, buffer_size=buffer_size)
        ]
        assert numbers == list(range(1000))


def check_many_small_units() -> None:
    # The units outnumber the places in the header, and the consumer is slower than the worker.
    total = 0
    for number, item in enumerate(
        iterate(partial(Arrays, 5000, 4 * KIB), 64 * KIB, buffer_size=20)
    ):
        assert is_array(item, number, 4 * KIB)
        total += 1
        if number % 500 == 0:
            time.sleep(0.02)
    assert total == 5000


def copied_items() -> Iterator[Any]:
    for number in range(40):
        yield [bytes([number]) * 9000, bytearray([number]) * 9000, array(number, 200 * KIB)]


def check_copies() -> None:
    kept = list(iterate(copied_items, 512 * KIB, zero_copy=False))
    assert len(kept) == 40
    for number, (data, room, numbers) in enumerate(kept):
        assert type(data) is bytes and data == bytes([number]) * 9000
        assert type(room) is bytearray and room == data
        assert is_array(numbers, number, 200 * KIB)


def check_copies_after_abandoned_iterations() -> None:
    iterable = iterate(partial(Arrays, 50, 100 * KIB), 512 * KIB, zero_copy=False)
    for stop in (1, 7, 3, 50, 2, 50):
        for number, item in enumerate(iterable):
            assert is_array(item, number, 100 * KIB)
            if number + 1 == stop:
                time.sleep(0.2 if stop == 3 else 0)  # so that the worker waits for room
                break


# ---- large units


def large_items(capacity: int) -> Iterator[Any]:
    part = capacity // 10 & -64
    for number in range(20):
        yield array(number, 3 * part)  # the next unit finds a hole that is too small for it
        yield [array(number, 6 * part), array(number + 1, capacity - 6 * part)]
        yield array(number, capacity)


def check_units_as_large_as_the_arena() -> None:
    capacity = 4 * MIB
    part = capacity // 10 & -64
    items = iter(iterate(partial(large_items, capacity), capacity))
    for number in range(20):
        assert is_array(next(items), number, 3 * part)
        first, second = next(items)
        assert is_array(first, number, 6 * part) and is_array(
            second, number + 1, capacity - 6 * part
        )
        del first, second
        assert is_array(next(items), number, capacity)
    assert next(items, None) is None


def check_unit_larger_than_the_arena() -> None:
    try:
        next(iter(iterate(partial(Arrays, 1, 2 * MIB), MIB)))
    except RuntimeError as error:
        assert (
            f"a unit of {2 * MIB} bytes or more does not fit into an SPDL arena of {MIB} bytes"
            in str(error)
        ), error
    else:
        raise AssertionError("it fitted")


# ---- what the consumer keeps


def check_held_item_keeps_its_bytes() -> None:
    held = {}
    for number, item in enumerate(iterate(partial(Arrays, 500, 100 * KIB), MIB)):
        if number in (0, 100, 101):
            held[number] = item
    assert sorted(held) == [0, 100, 101]
    for number, item in held.items():
        assert is_array(item, number, 100 * KIB), number


def bytes_items() -> Iterator[Any]:
    for number in range(300):
        yield bytes([number % 251]) * 100_000


def check_held_slice_keeps_its_bytes() -> None:
    """A slice of a memoryview does not keep the memoryview object, and an array over it does not
    either.
    """
    import numpy as np

    held = []
    for number, item in enumerate(iterate(bytes_items, MIB)):
        if number == 0:
            held.append(item[1000:2000])
        elif number == 1:
            held.append(np.frombuffer(item, "uint8")[50_000:].reshape(2, -1)[1])
    assert bytes(held[0]) == b"\0" * 1000
    assert (held[1] == 1).all() and held[1].nbytes == 25_000


def check_views_outlive_the_iterable() -> None:
    iterable = iterate(partial(Arrays, 4, 100 * KIB), MIB)
    held = list(iterable)
    worker = pid_of(iterable)
    iterable._shutdown()
    assert wait_until_gone(worker, 10)
    del iterable
    gc.collect()
    for number, item in enumerate(held):
        assert is_array(item, number, 100 * KIB)
        item += 1
        assert is_array(item, number + 1, 100 * KIB)


def check_views_outlive_an_iteration() -> None:
    iterable = iterate(partial(Arrays, 30, 100 * KIB), MIB)
    held = []
    for _ in range(4):
        for number, item in enumerate(iterable):
            assert is_array(item, number, 100 * KIB)
            if number == 7:
                held.append(item)
                break
    for item in held:
        assert is_array(item, 7, 100 * KIB)


def check_views_go_in_other_threads_and_orders() -> None:
    waiting: list[Any] = []
    lock = threading.Lock()
    is_done = threading.Event()
    failures: list[int] = []

    def let_go(seed: int) -> None:
        chance = random.Random(seed)
        while not (is_done.is_set() and not waiting):
            with lock:
                picked = waiting.pop(chance.randrange(len(waiting))) if waiting else None
            if picked is None:
                time.sleep(0.0005)
            elif not is_array(picked[1], picked[0], 50 * KIB):
                failures.append(picked[0])

    threads = [threading.Thread(target=let_go, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for number, item in enumerate(iterate(partial(Arrays, 3000, 50 * KIB), MIB, buffer_size=6)):
        with lock:
            waiting.append((number, item))
    is_done.set()
    for thread in threads:
        thread.join()
    assert not failures, failures


def check_a_forked_child_releases_nothing() -> None:
    items = iter(iterate(partial(Arrays, 200, 100 * KIB), MIB))
    held = [next(items), next(items)]
    child = os.fork()
    if not child:
        held.clear()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert sum(1 for _ in items) == 198
    assert is_array(held[0], 0, 100 * KIB) and is_array(held[1], 1, 100 * KIB)


def check_consumer_that_keeps_all() -> None:
    begin = time.monotonic()
    held = []
    try:
        for item in iterate(partial(Arrays, 50, 100 * KIB), MIB, acquire_timeout=1):
            held.append(item)
    except RuntimeError as error:
        assert f"the SPDL arena of {MIB} bytes is full" in str(error) and "larger capacity" in str(
            error
        ), error
    else:
        raise AssertionError("it found room")
    assert len(held) == 10 and 0.9 < time.monotonic() - begin < 10
    assert all(is_array(item, number, 100 * KIB) for number, item in enumerate(held))


# ---- ends and deaths


def raising_items() -> Iterator[Any]:
    yield array(0, 100 * KIB)
    yield [array(1, 100 * KIB), array(2, 100 * KIB), lambda: None]  # cannot be pickled


def raising_source() -> Iterator[Any]:
    yield array(0, 100 * KIB)
    raise KeyError("no more of them")


def check_producer_raises() -> None:
    for source, text in ((raising_items, "pickle"), (raising_source, "no more of them")):
        items = iter(iterate(source, MIB))
        first = next(items)
        try:
            next(items)
        except RuntimeError as error:
            assert text in str(error), error
        else:
            raise AssertionError("it raised nothing")
        assert is_array(first, 0, 100 * KIB)


def killed_items() -> Iterator[Any]:
    for number in range(5):
        yield array(number, 100 * KIB)
    time.sleep(0.2)  # SPDL's queue writes in a thread
    os.kill(os.getpid(), signal.SIGKILL)


def check_producer_killed(method: str) -> None:
    held = []
    try:
        for item in iterate(killed_items, MIB, method=method):
            held.append(item)
    except RuntimeError as error:
        assert "exited unexpectedly" in str(error), error
    else:
        raise AssertionError("nobody was killed")
    assert len(held) == 5 and all(
        is_array(item, number, 100 * KIB) for number, item in enumerate(held)
    )


def check_producer_killed_at_any_moment() -> None:
    chance = random.Random(1)
    for _ in range(6):
        iterable = iterate(partial(Endless, 0, 60 * KIB), 256 * KIB)
        timer = threading.Timer(chance.random() * 0.1, os.kill, (pid_of(iterable), signal.SIGKILL))
        timer.start()
        begin = time.monotonic()
        try:
            for number, item in enumerate(iterable):
                assert is_array(item, number, 60 * KIB)
        except RuntimeError as error:
            assert "exited unexpectedly" in str(error), error
        assert time.monotonic() - begin < 10
        timer.join()


def check_producer_killed_while_it_waits_for_room() -> None:
    iterable = iterate(partial(Endless, 0, 100 * KIB), 256 * KIB)
    items = iter(iterable)
    held = [next(items), next(items)]
    time.sleep(0.3)
    os.kill(pid_of(iterable), signal.SIGKILL)
    held.clear()  # rings a bell that nobody hears
    try:
        list(items)
    except RuntimeError as error:
        assert "exited unexpectedly" in str(error), error
    else:
        raise AssertionError("nobody was killed")


def check_consumer_stops_early() -> None:
    iterable = iterate(partial(Endless, 0, 100 * KIB), MIB)
    for stop in (1, 5, 40, 2):
        items = iter(iterable)
        for number in range(stop):
            assert is_array(next(items), number, 100 * KIB)
        items.close()
    worker = pid_of(iterable)
    begin = time.monotonic()
    iterable._shutdown()
    assert wait_until_gone(worker, 0) and time.monotonic() - begin < 30


def check_end_while_the_worker_waits_for_room() -> None:
    iterable = iterate(partial(Endless, 0, 100 * KIB), 256 * KIB)
    items = iter(iterable)
    held = [next(items), next(items)]
    time.sleep(0.3)
    worker = pid_of(iterable)
    begin = time.monotonic()
    iterable._shutdown()
    assert wait_until_gone(worker, 0) and time.monotonic() - begin < 2
    assert is_array(held[0], 0, 100 * KIB) and is_array(held[1], 1, 100 * KIB)


def hold_for_ever(method: str) -> None:
    """The parent process that check_consumer_killed kills. The worker of this process waits for
    room.
    """
    iterable = iterate(partial(Endless, 0, 100 * KIB), 256 * KIB, method=method)
    items = iter(iterable)
    held = [next(items), next(items)]
    print(pid_of(iterable), flush=True)
    time.sleep(SECONDS)
    del held


def check_consumer_killed(method: str) -> None:
    command = [sys.executable, str(Path(__file__).resolve()), "--hold", method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
        assert wait_until_gone(worker, 10), f"the worker {worker} is still there"


# ---- resources


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def check_nothing_is_left() -> None:
    def use() -> None:
        for number, item in enumerate(iterate(partial(Arrays, 20, 100 * KIB), MIB)):
            assert is_array(item, number, 100 * KIB)
        gc.collect()

    use()
    before, maps = fds(), Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:")
    for _ in range(5):
        use()
    # A thread of CPython's queue closes its pipe a moment after the iteration.
    end = time.monotonic() + 10
    while fds() > before and time.monotonic() < end:
        time.sleep(0.001)
    assert fds() <= before, (before, fds())
    now = Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:")
    assert now <= maps, (maps, now)


def check_errors_of_use() -> None:
    from tenon.integrations.spdl import Arena

    for capacity, seconds in ((0, 1.0), (1, -1.0)):
        try:
            Arena(capacity, acquire_timeout=seconds)
        except ValueError:
            pass
        else:
            raise AssertionError((capacity, seconds))
    arena = Arena(64 * KIB, acquire_timeout=0)
    writer, reader = arena.open_writer(), arena.open_reader()
    for again in (arena.open_writer, arena.open_reader):
        try:
            again()
        except ValueError as error:
            assert "an Arena of its own" in str(error)
        else:
            raise AssertionError(again)
    try:
        writer.write_binary(b"outside a unit")
    except ValueError as error:
        assert "begin_unit" in str(error)
    else:
        raise AssertionError("it was written")
    begin = time.monotonic()
    writer.begin_unit()
    writer.write_binary(bytes(40 * KIB))
    writer.commit_unit()
    writer.begin_unit()
    try:
        writer.write_binary(bytes(40 * KIB))
    except BufferError as error:
        assert str(64 * KIB) in str(error)
    else:
        raise AssertionError("it found room")
    assert time.monotonic() - begin < 0.5
    del writer, reader
    arena.close()
    arena.close()
    arena.unlink()
    arena.shutdown_arena()
    try:
        arena.open_reader()
    except ValueError as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("it is closed")


class Opaque:
    """An anchor that knows an address and holds no buffer."""

    def __init__(self, address: int) -> None:
        self.address = address


def check_pinned_objects_of_others() -> None:
    from tenon.integrations.spdl import Arena

    arena = Arena(64 * KIB, acquire_timeout=0)
    writer, reader = arena.open_writer(), arena.open_reader()

    def write() -> tuple[int, int, int]:
        writer.begin_unit()
        try:
            offset, nbytes = writer.write_binary(bytes(40 * KIB))
        except BufferError:
            writer.abort_unit()
            raise
        return offset, nbytes, writer.commit_unit()

    offset, nbytes, span = write()
    reader.read_binary(offset, nbytes)
    anchor: Opaque | None = Opaque(1)
    reader.end_unit(span, [anchor])
    try:
        write()
    except BufferError:
        pass
    else:
        raise AssertionError("the anchor is alive")
    anchor = None
    write()
    arena.close()


def check_random_units() -> None:
    """The writer and the reader run in one process and are compared with two invariants: held bytes
    do not change, and a unit that fits into the free room is written.
    """
    from tenon.integrations.spdl import Arena

    for seed in range(6):
        chance = random.Random(seed)
        capacity = 256 * KIB
        arena = Arena(capacity, acquire_timeout=0)
        writer, reader = arena.open_writer(), arena.open_reader()
        sent: list[tuple[int, list[tuple[int, int]], int]] = []
        held: list[tuple[int, list[memoryview]]] = []
        refused = written = 0
        for number in range(4000):
            writer.begin_unit()
            largest = chance.choice((100, 5000, 60_000, capacity // 2))
            sizes = [chance.randrange(largest) for _ in range(chance.randrange(4))]
            try:
                places = [writer.write_binary(bytes([number % 256]) * size) for size in sizes]
            except BufferError:
                writer.abort_unit()
                refused += 1
                assert sent or held or sum(size + 63 & -64 for size in sizes) > capacity, sizes
            else:
                if chance.random() < 0.1:
                    writer.abort_unit()
                else:
                    sent.append((number % 256, places, writer.commit_unit()))
                    written += 1
            for _ in range(chance.randrange(3)):
                if sent:
                    value, places, span = sent.pop(0)
                    if chance.random() < 0.9:
                        held.append((value, [reader.read_binary(*place) for place in places]))
                    reader.end_unit(span, [])
            while len(held) > chance.choice((0, 3, 10)):
                value, views = held.pop(chance.randrange(len(held)))
                assert all(bytes(view) == bytes([value]) * len(view) for view in views)
                del views
        held.clear()
        for _, _, span in sent:
            reader.end_unit(span, [])
        assert refused and written > 1000, (refused, written)
        writer.begin_unit()
        writer.write_binary(bytes(capacity))
        writer.abort_unit()
        arena.close()


_has_own_shm = False


def named_files() -> set[str]:
    if not _has_own_shm:
        return set()  # other programs have files there too
    # Tenon's lock of the family is no file of the arena. Without the lock nobody could tell that
    # the family is gone.
    return {name for name in os.listdir("/dev/shm") if not name.startswith("tenon-family-")}


CHECKS: dict[str, Callable[[], None]] = {
    **{f"nested items arrive, {method}": partial(check_nested, method) for method in METHODS},
    "many more units than fit": check_many_more_than_fit,
    "many small units": check_many_small_units,
    "copies have the type that was sent": check_copies,
    "copies after abandoned iterations": check_copies_after_abandoned_iterations,
    "units as large as the arena": check_units_as_large_as_the_arena,
    "a unit larger than the arena is refused": check_unit_larger_than_the_arena,
    "a held item keeps its bytes": check_held_item_keeps_its_bytes,
    "a held slice keeps its bytes": check_held_slice_keeps_its_bytes,
    "views outlive the iterable": check_views_outlive_the_iterable,
    "views outlive an iteration": check_views_outlive_an_iteration,
    "views go in other threads and orders": check_views_go_in_other_threads_and_orders,
    "a forked child releases nothing": check_a_forked_child_releases_nothing,
    "a consumer that keeps all gets an error": check_consumer_that_keeps_all,
    "the producer raises": check_producer_raises,
    **{
        f"the producer is killed, {method}": partial(check_producer_killed, method)
        for method in METHODS
    },
    "the producer is killed at any moment": check_producer_killed_at_any_moment,
    "the producer is killed while it waits for room": check_producer_killed_while_it_waits_for_room,
    "the consumer stops early": check_consumer_stops_early,
    "the iterable ends while the worker waits for room": check_end_while_the_worker_waits_for_room,
    **{
        f"the consumer is killed, {method}": partial(check_consumer_killed, method)
        for method in METHODS
    },
    "no fd and no mapping is left": check_nothing_is_left,
    "errors of use": check_errors_of_use,
    "pinned objects of other libraries": check_pinned_objects_of_others,
    "random units": check_random_units,
}


def run(name: str, check: Callable[[], None]) -> bool:
    before = named_files()
    begin = time.monotonic()
    signal.alarm(SECONDS)
    try:
        check()
        gc.collect()
        # multiprocessing's resource tracker removes the semaphores of a killed parent, and needs a
        # moment for that.
        left = named_files() - before
        while left and time.monotonic() < begin + SECONDS / 2:
            time.sleep(0.05)
            left = named_files() - before
        assert not left, f"left in /dev/shm: {sorted(left)}"
    except Exception:
        print(f"FAILED {name}", flush=True)
        traceback.print_exc()
        return False
    finally:
        signal.alarm(0)
    print(f"ok     {name} ({time.monotonic() - begin:.2f} s)", flush=True)
    return True


def late(number: int, frame: object) -> None:
    raise TimeoutError(f"the check took longer than {SECONDS} s")


def main() -> int:
    if importlib.util.find_spec("spdl") is None:
        print("skipped: spdl_core is not installed")
        return 77
    if sys.argv[1:2] == ["--hold"]:
        hold_for_ever(sys.argv[2])
        return 0
    global _has_own_shm
    _has_own_shm = take_own_shm()
    signal.signal(signal.SIGALRM, late)
    names = sys.argv[1:] or list(CHECKS)
    failed = [name for name in names if not run(name, CHECKS[name])]
    print(f"{len(names) - len(failed)} of {len(names)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
