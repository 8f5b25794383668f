"""Queues: many processes put values into one, and each value goes to exactly one of them.

A queue lies in shared memory. A put or a get costs no system call while the other side is awake.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from queue import Empty, Full
from time import monotonic
from typing import NamedTuple

from tenon import _mp_hook
from tenon._managed import Managed
from tenon._native import address_of, lib, new_struct
from tenon._native_ext import fork_count, queue_get, queue_get_many, queue_put, queue_put_many
from tenon._options import flags, names_of, small, words
from tenon._queue_values import corrupt, describe, restore
from tenon.by_filename import Filename, FilenameHandle, open_filename
from tenon.error import (
    Corrupt,
    Incompatible,
    Timeout,
    WouldBlock,
    filled,
    given,
    listed,
    make,
    owned,
)
from tenon.message import Message
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.wait import run, runs_handlers, waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, Self

    from typing_extensions import Buffer

    from tenon.message import Tensors
    from tenon.wait import Cancel

    QueueMemberState = Literal["joining", "here", "left", "dead"]

__all__ = ["Queue", "QueueMember", "QueueStats"]

_STATES: dict[int, Any] = names_of(words("QUEUE_MEMBER", "joining here left dead"))
# The start of a queue's memory (docs/format/queue.md): magic, version, members, capacity,
# slot_nbytes. The entries of the members follow after 4,096 bytes.
_HEADER = struct.Struct("<8s4I")
_HEADER_NBYTES = 4096
_MAGIC = b"TENONQUE"
_NOTHING = object()


class QueueMember(NamedTuple):
    """A member of a queue, or one that has gone and whose place no process has taken since.

    - number: The member's number in the queue.
    - state: "here", "left" (in order), "dead" (its process ended while it was a member), or
      "joining".
    - pid and uid: The process and its effective user, as the member itself said.
    - waiting: The number of its messages that no process has received yet.
    - asleep: Whether it sleeps until there is a message, or room for one.
    - is_self: Whether it is this membership.
    """

    number: int
    state: QueueMemberState
    pid: int
    uid: int
    waiting: int
    asleep: bool
    is_self: bool


class QueueStats(NamedTuple):
    """Figures about a queue. They change while they are read.

    - waiting: The number of messages that no process has received yet.
    - sent and received: The number of messages that this member has sent and received.
    - lost: The number of this member's messages that a process took which died before it had them.
    """

    waiting: int
    sent: int
    received: int
    lost: int


class Queue(Managed):
    """A queue carries values between processes. put and get have the names, defaults and exceptions
    of multiprocessing.Queue.

    A value is None, a bool, a number, str, bytes, bytearray, a tenon.Tensor, a composite, a numpy
    array or scalar, or a list, dict, OrderedDict, set, frozenset, tuple or NamedTuple of values.
    Tensors are lent and not copied. numpy arrays are copied. No code of the sender runs in the
    receiver. If the receiver has not imported the class of a NamedTuple, a class with the same
    fields takes its place. A list that stands in two places of a value arrives as two lists.

    The queue goes to other processes as an argument of a Process (fork, spawn and forkserver), by a
    name (serve and open), or by its storage, which is lent in any way and joined by Queue.join.
    Each process joins at its first use of the queue. A forked child joins too, as a member of its
    own.

    Order: The values of one process are received in the order in which it put them. Values of
    several processes have no order.

    Each process has room for `capacity` values of its own. put waits while they are unreceived, and
    does not write them in another thread as multiprocessing.Queue does. A process that ends by exit
    leaves its unreceived values to a keeper if it belongs to a multiprocessing family
    (tenon.multiprocessing). The values of a process that was killed may be lost: get then raises
    PeerGone once for each of them, unless this process had received from that one before.
    """

    __slots__ = ("_joined", "_later_get", "_later_put", "_pickled", "_report_deaths", "_storage")
    # A membership, its address, and fork_count() of its process. A forked child has its parent's
    # until it joins. It is one tuple, so that no thread sees an old part beside a new one.
    _joined: tuple[Any, int, int] | None
    _storage: Storage | None
    # What the next get or put raises: put_many and get_many had already put or got a value.
    _later_get: list[BaseException]
    _later_put: list[BaseException]

    def __init__(
        self,
        members: int = 32,
        capacity: int = 128,
        slot_nbytes: int = 1024,
        report_deaths: bool = False,
        *,
        pickled: bool = False,
        redeliver: bool = False,
    ) -> None:
        """Make a queue, and join it.

        - members: How many processes can be members at a time, from 1 to 256.
        - capacity: How many messages of one member can wait. It is a power of two from 2 to 65,536.
        - slot_nbytes: The bytes of the description of one message, a multiple of 64 from 64 to
          65,536. A longer description takes a little longer. The queue takes members * capacity *
          slot_nbytes bytes.
        - report_deaths: When a member dies, the next put or get of this process raises PeerGone
          once, and has put or got nothing. Its details name the member and its pid.
        - pickled: put pickles every value with tenon.pickle, so that any picklable object can be
          put, and PyTorch's tensors too. get then runs what the sender's pickle says. So every
          member can run code in this process. All members must agree on this option.
        - redeliver: A message comes again if its receiver dies, or leaves the queue, before it has
          closed the message that recv returned. Message.redelivered tells how often it came before.
          get closes the message before it returns the value. capacity counts the messages that are
          not closed yet.
        """
        self._set(None, report_deaths, pickled)
        geometry = {"members": members, "capacity": capacity, "slot_nbytes": slot_nbytes}
        for name, number in geometry.items():
            if not small(number, name):
                raise ValueError(f"a queue with {name}=0 has no room for a message")
        options = _options(report_deaths, redeliver, **geometry)
        own, _, _ = self._enter(lib.tenon_queue_new, options)
        reference = lib.tenon_storage_retain(lib.tenon_queue_storage(own))
        self._storage = Storage._adopt(address_of(reference))

    def _set(self, storage: Storage | None, report_deaths: bool, pickled: bool) -> None:
        self._cdata = self._joined = None
        self._storage = storage
        self._later_get, self._later_put = [], []
        self._report_deaths, self._pickled = bool(report_deaths), bool(pickled)

    @classmethod
    def _arrived(cls, storage: Storage, report_deaths: bool, pickled: bool) -> Self:
        """A queue that is joined at its first use."""
        self = cls.__new__(cls)
        self._set(storage, report_deaths, pickled)
        return self

    @classmethod
    def join(cls, storage: Storage, *, report_deaths: bool = False, pickled: bool = False) -> Self:
        """Join the queue that lies in a storage, which must be writable. The options are those of
        Queue.
        """
        self = cls._arrived(storage, report_deaths, pickled)
        self._own()
        return self

    @classmethod
    def open(
        cls,
        name: FilenameHandle | str | os.PathLike[str],
        *,
        report_deaths: bool = False,
        pickled: bool = False,
        timeout: float | None = 5.0,
    ) -> Self:
        """Join the queue that another process serves under a name. The argument is the handle that
        serve returned, or the name. timeout is the seconds to wait for the serving process.
        """
        if not isinstance(name, FilenameHandle):
            name = _handle_of(os.fspath(name), timeout)
        storage = open_filename(name, timeout=timeout)
        return cls.join(storage, report_deaths=report_deaths, pickled=pickled)

    def serve(
        self, name: str | os.PathLike[str], *, mode: int = 0, group: int | None = None
    ) -> FilenameHandle:
        """Serve the queue under a name: a path, or a name without a slash, which lies in /dev/shm.
        Other processes join by Queue.open.

        Only this process's user can open it, unless mode and group say otherwise (tenon.Filename).
        The name goes when this process ends or has released the queue.
        """
        directory, leaf = os.path.split(os.fspath(name))
        folder = os.path.abspath(directory) if directory else None
        filename = Filename(leaf, directory=folder, mode=mode, group=group)
        return self.storage.share_filename(filename=filename)

    @property
    def storage(self) -> Storage:
        """The storage in which the queue lies. Nothing else may write to it."""
        storage = self._storage
        if storage is None:
            raise ValueError("this Queue is already closed: use it before close()")
        return storage

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._storage is None

    def close(self) -> None:
        """Leave the queue and release it. Threads that wait in it end with an error. Values that
        were put and not received stay in the queue as long as this process lives.
        """
        joined, self._joined, self._cdata, self._storage = self._joined, None, None, None
        if joined is not None:
            lib.tenon_queue_leave(joined[0])

    def leave(self) -> None:
        """Leave the queue. Threads of this process that wait in it, and later calls, raise
        InvalidArgument. To come back, join the storage again.
        """
        lib.tenon_queue_leave(self._own())

    def _own(self) -> Any:
        return self._membership()[0]

    def _membership(self) -> tuple[Any, int, int]:
        """The membership of this process, and its address. The caller keeps the tuple, so that the
        membership lives until the call has ended.
        """
        joined = self._joined
        if joined is None or joined[2] != fork_count():
            with _lock:
                joined = self._joined
                if joined is None or joined[2] != fork_count():
                    joined = self._enter(
                        lib.tenon_queue_join, self.storage._own(), _options(self._report_deaths)
                    )
        return joined

    def _enter(self, function: Any, *arguments: Any) -> tuple[Any, int, int]:
        """Make a membership of this process by a function of the library."""
        _join_family()
        own = owned("tenon_queue", function, *arguments)
        joined = self._joined = own, address_of(own), fork_count()
        _living.add(self)
        return joined

    def put(self, value: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put a value into the queue. While `capacity` values of this process wait, the call waits
        for room, at most for timeout seconds.

        Raises queue.Full if there is no room in time, or at once without block. Raises TypeError
        for a value that the queue does not carry.
        """
        if self._later_put:
            raise self._later_put.pop(0)
        if self._pickled:
            self._put_pickled(value, block, timeout)
            return
        done = queue_put(self._joined, value, describe, block, timeout, _limits)
        if done is NotImplemented:
            done = queue_put(self._membership(), value, describe, block, timeout, _limits)
        if not done:
            raise Full

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Get a value out of the queue. If there is none the call waits, at most for timeout
        seconds.

        Raises queue.Empty if no value comes in time, or at once without block. Raises Corrupt if
        the next message carries no value (it was sent by send). That message is lost.
        """
        if self._later_get:
            raise self._later_get.pop(0)
        if self._pickled:
            return self._get_pickled(block, timeout)
        how = Tensor, restore, corrupt, block, timeout, _limits, _NOTHING
        try:
            value = queue_get(self._joined, *how)
            if value is NotImplemented:
                value = queue_get(self._membership(), *how)
        except (WouldBlock, Timeout) as error:
            # A message is there, and its sender does not answer. The cause names the sender.
            raise Empty from error
        if value is _NOTHING:
            raise Empty
        return value

    def _put_pickled(self, value: Any, block: bool, timeout: float | None) -> None:
        from tenon.pickle import message_of

        tensors, user_bytes = message_of(value, None)
        try:
            self.send(tensors, None, user_bytes, timeout=_seconds(block, timeout))
        except (WouldBlock, Timeout):
            raise Full from None

    def _get_pickled(self, block: bool, timeout: float | None) -> Any:
        from tenon.pickle import object_of

        try:
            message = self.recv(timeout=_seconds(block, timeout))
        except (WouldBlock, Timeout) as error:
            raise Empty from error
        with message:
            value = object_of(message, None, None)
        if type(value) is dict and value.keys() == {"value", "__tenon_notes__"}:
            raise make(
                Incompatible,
                "the message was put by a process without pickled=True: give all members of the"
                " queue the same option",
                option="pickled",
            )
        return value

    def put_many(
        self, values: Iterable[Any], block: bool = True, timeout: float | None = None
    ) -> int:
        """Put values in their order, in one call. Return how many were put. While there is no room
        the call waits, at most for timeout seconds in all.

        Raises queue.Full if there was no room for the first one. Raises TypeError, and has put
        nothing, if the queue does not carry one of the values. If another exception comes after the
        first value, the next put raises it.
        """
        values = tuple(values)
        if self._later_put:
            raise self._later_put.pop(0)
        if self._pickled:
            return self._put_many_pickled(values, block, timeout)
        joined = self._membership()
        put, error = queue_put_many(joined[1], values, describe, *_limits(block, timeout))
        if error is not None:
            self._keep(self._later_put, error)
        if values and not put:
            raise Full
        return put

    def get_many(self, most: int, block: bool = True, timeout: float | None = None) -> list[Any]:
        """Get up to `most` values in one call: wait for the first one as get does, and then take
        those that are there.

        Raises queue.Empty if no value comes in time. If another exception comes after the first
        value, the next get raises it.
        """
        if most < 1:
            raise ValueError("get_many gets at least one value")
        if self._later_get:
            raise self._later_get.pop(0)
        if self._pickled:
            return self._get_many_pickled(most, block, timeout)
        joined, limits = self._membership(), _limits(block, timeout)
        number = min(most, 1024)
        try:
            values, errors = queue_get_many(joined[1], Tensor, restore, corrupt, *limits, number)
        except (WouldBlock, Timeout) as error:
            raise Empty from error
        if errors and not values:
            self._later_get.extend(errors[1:])
            raise errors[0]
        self._later_get.extend(errors)
        if not values:
            raise Empty
        return values

    def _put_many_pickled(self, values: tuple[Any, ...], block: bool, timeout: float | None) -> int:
        deadline = _Deadline(block, timeout)
        for put, value in enumerate(values):
            try:
                self._put_pickled(value, block, deadline.left())
            except Exception as error:
                if put == 0:
                    raise
                if not isinstance(error, Full):
                    self._later_put.append(error)
                return put
        return len(values)

    def _get_many_pickled(self, most: int, block: bool, timeout: float | None) -> list[Any]:
        values = [self._get_pickled(block, timeout)]
        while len(values) < most:
            try:
                values.append(self._get_pickled(False, None))
            except Empty:
                break
            except Exception as error:
                self._later_get.append(error)
                break
        return values

    @staticmethod
    def _keep(later: list[BaseException], error: BaseException) -> None:
        """Keep an exception for the next call, but not one that ends the program."""
        if not isinstance(error, Exception):
            raise error
        later.append(error)

    def put_nowait(self, value: Any) -> None:
        """As put(value, block=False)."""
        self.put(value, False)

    def get_nowait(self) -> Any:
        """As get(block=False)."""
        return self.get(False)

    async def get_async(self) -> Any:
        """As get, for a task of asyncio. If a value is there, the task does not suspend.

        Any number of tasks may wait, in several event loops too. If the task is cancelled, no value
        is lost, so asyncio.timeout and asyncio.wait_for may end the wait. The loop must have
        add_reader, which Windows' proactor loop and trio lack.
        """
        while True:
            try:
                return self.get(False)
            except Empty:
                pass
            await self._until_ready(lib.tenon_queue_recv_fd)

    async def put_async(self, value: Any) -> None:
        """As put, for a task of asyncio. If there is room, the task does not suspend. If the task
        is cancelled, nothing was put.
        """
        while True:
            try:
                return self.put(value, False)
            except Full:
                pass
            await self._until_ready(lib.tenon_queue_send_fd)

    async def _until_ready(self, fd_of: Any) -> None:
        from tenon._async_wait import until_ready

        own = self._membership()[0]  # while the task has it, the fd stays open
        # A sender may have woken this process for a message that nobody gets here any more.
        await until_ready(given("int", fd_of, own), lambda: lib.tenon_queue_pause_fds(own))

    def fileno(self) -> int:
        """The fd for select or an event loop that is not asyncio's. When it is readable, call
        get(False). The fd stays readable until that has raised Empty, and it may be readable in
        vain.

        From that Empty until the next get this process counts as a sleeping receiver, for which a
        sender may leave a value. So get soon when the fd is readable. The queue owns the fd. Do not
        read from it.
        """
        return int(given("int", lib.tenon_queue_recv_fd, self._own()))

    def room_fileno(self) -> int:
        """The same for put: the fd is readable when there may be room, until put(value, False) has
        raised Full.
        """
        return int(given("int", lib.tenon_queue_send_fd, self._own()))

    def send(
        self,
        tensors: Message | Tensors = (),
        names: Sequence[str | None] | None = None,
        user_bytes: Buffer = b"",
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Send tensors (a list, a single one, or a dict by name), or a Message, as one message. The
        call waits while `capacity` messages of this process wait.

        The timeout is in seconds, and None waits for ever. When the call raises, nothing was sent.
        """
        if isinstance(tensors, Message):
            if names is not None or bytes(user_bytes):
                raise TypeError("a Message has its own names and user bytes")
            message = tensors
        else:
            message = Message(tensors, names, user_bytes)
        own, what = self._own(), message._own()
        run(lambda wait, error: lib.tenon_queue_send(own, what, wait, error), timeout, cancel)

    def recv(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> Message:
        """Receive the next message, whether send or put has sent it.

        The timeout is in seconds, and None waits for ever. When the wait ends early nothing is
        lost. A timeout of 0 waits up to 20 ms for a sender that this process meets for the first
        time.
        """
        request = lib.tenon_queue_recv, self._own()
        return Message._over(waited("tenon_message", *request, timeout=timeout, cancel=cancel))

    def qsize(self) -> int:
        """The number of values that no process has received yet. Other processes change it
        meanwhile, as they do for empty and full.
        """
        return self.stats().waiting

    def empty(self) -> bool:
        """Whether the queue holds no value."""
        return not self.qsize()

    def full(self) -> bool:
        """Whether a put of this process would wait for room."""
        capacity = _geometry_of(self.storage)[1]
        return any(each.is_self and each.waiting >= capacity for each in self.members())

    def members(self) -> list[QueueMember]:
        """The members of the queue, this process included."""
        return [
            QueueMember(
                each.index,
                _STATES[each.state],
                each.pid,
                each.uid,
                each.waiting,
                bool(each.asleep),
                bool(each.self),
            )
            for each in listed("tenon_queue_member", lib.tenon_queue_members, self._own())
        ]

    def discard(self) -> int:
        """Take back the values of this process that no process has got. Return how many they were.
        Each value is either got or taken back.
        """
        return int(given("size_t", lib.tenon_queue_discard, self._own()))

    def stats(self) -> QueueStats:
        """Figures about the queue and this member."""
        out = filled("tenon_queue_stats", lib.tenon_queue_stats_get, self._own())
        return QueueStats(out.waiting, out.sent, out.received, out.lost)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Only multiprocessing's pickler can lend the storage.
        if not _mp_hook.pickling.depth:
            raise TypeError(
                "a Queue has no pickled form of its own: give it to a multiprocessing Process, or"
                " join its storage (Queue.join) or its name (Queue.open) in the other process"
            )
        return Queue._arrived, (self.storage, self._report_deaths, self._pickled)

    def _shown(self) -> str:
        members, capacity, _ = _geometry_of(self.storage)
        return f" of {members} members, {capacity} messages each"


def _options(report_deaths: bool, redeliver: bool = False, **geometry: int) -> Any:
    chosen = flags("QUEUE", ignore_deaths=not report_deaths, redeliver=redeliver)
    return new_struct("tenon_queue_options", flags=chosen, **geometry)


class _Deadline:
    """The time that is left of a timeout for several calls."""

    def __init__(self, block: bool, timeout: float | None) -> None:
        self._end = None if not block or timeout is None else monotonic() + timeout

    def left(self) -> float | None:
        return None if self._end is None else self._end - monotonic()


def _seconds(block: bool, timeout: float | None) -> float | None:
    """The timeout of a put or a get, as send and recv take it. As in multiprocessing, a negative
    one is 0.
    """
    if block and timeout is None:
        return None
    return max(timeout, 0) if block and timeout is not None else 0


def _limits(block: bool, timeout: float | None) -> tuple[int, bool]:
    """The same, as the C extension takes it: the nanoseconds, of which -1 waits for ever, and
    whether signals end the wait. The extension calls it only for a put or a get that may wait.
    """
    seconds = _seconds(block, timeout)
    nanoseconds = -1 if seconds is None or seconds > 4e9 else int(seconds * 1e9)
    return nanoseconds, runs_handlers()


def _geometry_of(storage: Storage) -> tuple[int, int, int]:
    """The members, the capacity and the bytes of a slot of the queue that lies in a storage."""
    with memoryview(storage) as view:
        magic, version, members, capacity, slot_nbytes = _HEADER.unpack_from(view)
    if magic != _MAGIC:
        raise make(Corrupt, "the storage holds no queue", field="queue")
    if version != 1:
        raise make(Incompatible, f"the queue is of version {version}, and this Tenon knows 1")
    return members, capacity, slot_nbytes


def _handle_of(path: str, timeout: float | None) -> FilenameHandle:
    """Ask the queue behind a name for its size."""
    name = os.path.abspath(path) if "/" in path else f"/{path}"
    with open_filename(name, _HEADER_NBYTES, timeout=timeout) as head:
        members, capacity, slot_nbytes = _geometry_of(head)
    geometry = {"members": members, "capacity": capacity, "slot_nbytes": slot_nbytes}
    options = new_struct("tenon_queue_options", **geometry)
    return FilenameHandle(name, given("uint64_t", lib.tenon_queue_nbytes, options))


# ---- fork and exit

_lock = threading.RLock()  # held while a process joins
_living: weakref.WeakSet[Queue] = weakref.WeakSet()
_planned_pid = 0  # the process that leaves its queues at its end


def _join_family() -> None:
    """Have a process of a multiprocessing family leave its queues in order, and its unreceived
    values to a keeper.

    A child that multiprocessing forked ends with _exit, which does not notify the library.
    """
    global _planned_pid
    if "multiprocessing.util" not in sys.modules or _planned_pid == os.getpid():
        return
    from importlib import import_module
    from multiprocessing import util

    import_module("tenon.multiprocessing")  # its exit hook starts the keeper
    # After the feeder threads of multiprocessing's queues (-5) and the keeper (-50).
    util.Finalize(None, _leave_all, exitpriority=-60)
    _planned_pid = os.getpid()


def _leave_all() -> None:
    for queue in list(_living):
        joined = queue._joined
        if joined is not None and joined[2] == fork_count():
            lib.tenon_queue_leave(joined[0])


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
