"""How tasks of asyncio wait for a message, or for room for one. Each waits for an fd of a queue or
of a subscriber, which becomes readable when there may be one. Their methods get_async, put_async
and recv_async call until_ready.
"""

from __future__ import annotations

import asyncio
import collections
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _Waiters:
    """The tasks of one event loop that wait for one fd, in the order in which they came."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self.loop, self.fd = loop, fd
        self.futures: collections.deque[asyncio.Future[None]] = collections.deque()

    def add(self) -> asyncio.Future[None]:
        if not self.futures:
            self.loop.add_reader(self.fd, self.wake)
        future = self.loop.create_future()
        self.futures.append(future)
        return future

    def wake(self) -> None:
        """Wake one task. The loop calls this while the fd is readable, and the fd stays readable
        until a task has found nothing. So if the woken task is cancelled before it looks, the loop
        calls this again for the next task, and no message is lost.
        """
        while self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(None)
                break
        self.end()

    def remove(self, future: asyncio.Future[None]) -> None:
        if future in self.futures:
            self.futures.remove(future)
            self.end()

    def end(self) -> None:
        if not self.futures:
            self.loop.remove_reader(self.fd)


# The waiters of each loop, by fd. A loop's entry goes with the loop. Only the loop's own thread
# uses the inner dict. An entry without futures stays, and serves the next file that gets the same
# number.
_waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Waiters]]
_waiting = weakref.WeakKeyDictionary()


async def until_ready(fd: int, give_up: Callable[[], object] | None = None) -> None:
    """Wait until the fd is readable. The caller keeps it open, looks again afterwards, and may find
    nothing. give_up is called if the task is cancelled and no other task of this loop waits for the
    fd. A queue then stops to count as waiting (tenon_queue_pause_fds).
    """
    loop = asyncio.get_running_loop()
    waiters = _waiting.setdefault(loop, {}).setdefault(fd, _Waiters(loop, fd))
    future = waiters.add()
    try:
        await future
    except BaseException:
        waiters.remove(future)
        if give_up is not None and not waiters.futures:
            give_up()
        raise
