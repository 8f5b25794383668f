"""Tasks of asyncio, and other event loops, that wait for a queue. queue_program.py has the scenario
of several processes.
"""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Coroutine
from queue import Empty, Full
from typing import Any

import pytest
import tenon


@pytest.fixture(scope="module", autouse=True)
def the_depot(the_librarys_thread: None, watched: str) -> None:
    """Make what stays from the first message on."""

    async def main() -> None:
        with tenon.Queue(capacity=2) as q:
            task = asyncio.create_task(q.get_async())
            await asyncio.sleep(0.01)
            await q.put_async(tenon.zeros(3))
            await task

    run(main())


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def later(function: Any, *args: Any) -> None:
    threading.Timer(0.05, function, args).start()


def is_readable(fd: Any, timeout: float = 0) -> bool:
    return bool(select.select([fd], [], [], timeout)[0])


def test_get_waits_for_a_value() -> None:
    async def main() -> None:
        with tenon.Queue() as q:
            q.put(1)
            assert await q.get_async() == 1
            for value in range(3):
                later(q.put, value)
                assert await q.get_async() == value
            task = asyncio.create_task(q.get_async())
            await asyncio.sleep(0.05)
            assert not task.done()
            await q.put_async("of the same task")
            assert await task == "of the same task"

    run(main())


def test_no_suspension_if_it_is_not_needed() -> None:
    with tenon.Queue() as q:
        with pytest.raises(StopIteration):
            q.put_async(1).send(None)
        with pytest.raises(StopIteration) as ended:
            q.get_async().send(None)
        assert ended.value.value == 1


def test_put_waits_for_room() -> None:
    async def main() -> None:
        with tenon.Queue(capacity=2) as q:
            for value in range(2):
                await q.put_async(value)
            task = asyncio.create_task(q.put_async(2))
            await asyncio.sleep(0.05)
            assert not task.done()
            assert await q.get_async() == 0
            await task
            later(q.get)
            await q.put_async(3)
            with pytest.raises(TypeError):
                await q.put_async(object())
            assert [await q.get_async() for _ in range(2)] == [2, 3]

    run(main())


@pytest.mark.parametrize("pickled", [False, True])
def test_many_tasks_wait(pickled: bool) -> None:
    async def main() -> None:
        with tenon.Queue(capacity=4, pickled=pickled) as q:
            got: list[Any] = []

            async def receive() -> None:
                while (value := await q.get_async()) is not None:
                    got.append(value)

            receivers = [asyncio.create_task(receive()) for _ in range(5)]
            senders = [
                asyncio.create_task(q.put_async(first * 100 + i))
                for first in range(10)
                for i in range(20)
            ]
            await asyncio.gather(*senders)
            for _ in receivers:
                await q.put_async(None)
            await asyncio.gather(*receivers)
            assert sorted(got) == [first * 100 + i for first in range(10) for i in range(20)]

    run(main())


def test_a_cancel_loses_nothing() -> None:
    async def main() -> None:
        with tenon.Queue(capacity=2) as q:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(q.get_async(), 0.02)
            # The first task is cancelled after the loop woke it, and before it has looked or after.
            for value in range(60):
                tasks = [asyncio.create_task(q.get_async()) for _ in range(2)]
                await asyncio.sleep(0.001)
                q.put(value)
                assert is_readable(q, 10)
                for _ in range(value % 3):
                    await asyncio.sleep(0)
                tasks[0].cancel()
                done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if all(task.cancelled() for task in done):
                    done, waiting = await asyncio.wait(waiting)
                assert [each.result() for each in done if not each.cancelled()] == [value]
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
            assert q.empty()
            q.put(1)
            q.put(2)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(q.put_async(3), 0.02)
            assert [q.get(), q.get()] == [1, 2] and q.empty()

    run(main())


def test_a_cancelled_receiver_is_passed_over() -> None:
    """A sender does not wake a process whose last task has stopped to wait."""

    async def main() -> None:
        with tenon.Queue() as q, tenon.Queue.join(q.storage) as other:
            task = asyncio.create_task(q.get_async())
            await asyncio.sleep(0.05)
            assert [each.asleep for each in q.members()] == [True, False]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert [each.asleep for each in q.members()] == [False, False]
            q.put(1)
            assert other.get(timeout=60) == 1
            later(q.put, 2)
            assert await q.get_async() == 2

    run(main())


@pytest.mark.parametrize("end", ["close", "leave"])
def test_closing_ends_the_waits_of_tasks(end: str) -> None:
    async def main() -> None:
        q = tenon.Queue(capacity=2)
        tasks = [asyncio.create_task(q.get_async()) for _ in range(3)]
        await asyncio.sleep(0.05)
        getattr(q, end)()
        raised = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, ValueError) for error in raised), raised
        q.close()
        # The number of the fd is free, and the loop does not confuse it with that of another queue.
        with tenon.Queue() as q2:
            later(q2.put, 1)
            assert await q2.get_async() == 1

    run(main())


def test_loops_of_two_threads() -> None:
    got: list[int] = []

    async def receive(q: tenon.Queue) -> None:
        while (value := await asyncio.wait_for(q.get_async(), 60)) is not None:
            got.append(value)

    with tenon.Queue(capacity=8) as q:
        threads = [threading.Thread(target=lambda: asyncio.run(receive(q))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for value in range(2000):
            q.put(value)
            if value % 400 == 0:
                time.sleep(0.02)
        for _ in threads:
            q.put(None)
        for thread in threads:
            thread.join(60)
        assert sorted(got) == list(range(2000))


def test_fds() -> None:
    with tenon.Queue(capacity=2) as q:
        assert is_readable(q)
        with pytest.raises(Empty):
            q.get(False)
        assert not is_readable(q)
        q.put(1)
        assert is_readable(q, 10) and q.get(False) == 1
        room = q.room_fileno()
        assert room != q.fileno() and is_readable(room)
        q.put(1)
        q.put(2)
        with pytest.raises(Full):
            q.put(3, False)
        assert not is_readable(room)
        assert q.get() == 1 and is_readable(room, 10)
        fd = q.fileno()
        q.leave()
        assert is_readable(fd) and is_readable(room)
        with pytest.raises(tenon.InvalidArgument):
            q.fileno()
