"""Tasks of asyncio that wait for a queue. Each waits for an fd of the queue, which becomes readable
when there may be a message, or room for one.
"""

from __future__ import annotations

import asyncio
import collections
import weakref

from tenon._native import lib
from tenon.error import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        """Wake one task. The fd stays readable until a task has found nothing. So if this task is
        cancelled before it looks, the loop calls this again for the next one.
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


# A loop's entry goes with the loop. Only the loop's own thread uses the inner dict.
_waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Waiters]]
_waiting = weakref.WeakKeyDictionary()


async def until_ready(own: Any, fd_of: Any) -> None:
    """Wait until the fd of a queue is readable. fd_of is the function of the library that gives it.
    The caller keeps the membership `own`, or the fd would be closed.
    """
    loop = asyncio.get_running_loop()
    fd = given("int", fd_of, own)
    waiters = _waiting.setdefault(loop, {}).setdefault(fd, _Waiters(loop, fd))
    future = waiters.add()
    try:
        await future
    except BaseException:
        waiters.remove(future)
        # A sender may have woken this process for a message that nobody gets here any more.
        if not waiters.futures:
            lib.tenon_queue_pause_fds(own)
        raise
