"""Publishers and subscribers: one process publishes messages or values, and each of them reaches
every subscriber.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tenon._managed import Managed
from tenon._native import address_of, ffi, lib, new_struct
from tenon._native_ext import message_of, message_value
from tenon._options import ACCESSES, LENDER_GONE, flags, names_of, number_of, small, words
from tenon._queue_values import corrupt, describe, restore
from tenon.error import PeerGone, WouldBlock, call, filled, listed, owned
from tenon.message import Message
from tenon.tensor import Tensor
from tenon.wait import run, waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from collections.abc import AsyncIterator, Iterator, Sequence
    from typing import Any, Literal, Self

    from typing_extensions import Buffer

    from tenon._options import Access, LenderGone
    from tenon.message import Tensors
    from tenon.wait import Cancel

    Policy = Literal["block", "drop_oldest", "error"]
    SubscriberState = Literal["joining", "here", "left", "gone"]

__all__ = ["Publisher", "PublisherStats", "Subscriber", "SubscriberInfo", "SubscriberStats"]

_POLICIES = words("PUBLISH", "block drop_oldest error")
_STATES: dict[int, Any] = names_of(words("SUBSCRIBER", "joining here left gone"))


class SubscriberInfo(NamedTuple):
    """A subscriber, as its publisher sees it.

    - state: "joining" (it has not read anything yet), "here", "left" (in order), or "gone" (its
      process ended, or it broke the protocol). The next message removes one that left or is gone.
    - pid and uid: The process and its effective user, as the kernel told them last.
    - asleep: Whether it sleeps until there is a message.
    - waiting: The number of messages that it has not taken.
    - published: The number of messages that were published since it came.
    - dropped: How many of these it did not get (policy "drop_oldest").
    """

    state: SubscriberState
    pid: int
    uid: int
    asleep: bool
    waiting: int
    published: int
    dropped: int


class PublisherStats(NamedTuple):
    """Figures about a publisher. They change while they are read.

    - published: The number of messages that were published.
    - dropped: The number of messages that subscribers did not get, of all together.
    - subscribers: The number of subscribers now.
    - gone: The number of subscribers that went without leaving, and were removed.
    """

    published: int
    dropped: int
    subscribers: int
    gone: int


class SubscriberStats(NamedTuple):
    """Figures about a subscriber. They change while they are read.

    - received: The number of messages that it has received.
    - dropped: The number of messages that the publisher withdrew before this subscriber took them.
    - pid and uid: The publisher's process and its effective user.
    """

    received: int
    dropped: int
    pid: int
    uid: int


class Publisher(Managed):
    """Sends each message to all its subscribers, which connect to a path (listen) or have the other
    end of a socket (add).

    Tensors are lent and not copied. Each subscriber has them under leases of its own, and receives
    the messages in the order in which they were published.
    """

    __slots__ = ()

    def __init__(
        self,
        capacity: int = 64,
        slot_nbytes: int = 1024,
        max_subscribers: int = 256,
        policy: Policy = "block",
        *,
        same_user: bool = False,
        group: int | None = None,
        report_deaths: bool = True,
        keep_latest: bool = True,
    ) -> None:
        """Make a publisher.

        - capacity: How many messages can wait for one subscriber, a power of two up to 65,536.
        - slot_nbytes: The bytes of the description of one message, a multiple of 64 from 64 to
          65,536. A longer description crosses on the socket, which takes longer.
        - max_subscribers: The most subscribers at a time.
        - policy: What a send does when a subscriber has no room. "block" waits, "drop_oldest" drops
          the oldest message that the subscriber has not taken, and "error" raises
          ResourceExhausted.
        - same_user: Refuse a subscriber that runs neither as this process's user nor as root.
        - group: As same_user, but also accept members of this gid.
        - report_deaths: A send raises PeerGone once for each subscriber whose process ended without
          leaving. Its details name the pid, and nothing was sent.
        - keep_latest: A new subscriber gets the latest message first. The publisher keeps its
          memory.
        """
        self._cdata = None
        numbers = {
            "capacity": capacity,
            "slot_nbytes": slot_nbytes,
            "max_subscribers": max_subscribers,
        }
        for name, number in numbers.items():
            if not small(number, name):
                raise ValueError(f"a publisher with {name}=0 has no room for a message")
        options = new_struct(
            "tenon_publisher_options",
            policy=number_of(_POLICIES, policy, "policy"),
            group=0 if group is None else small(group, "group"),
            **numbers,
        )
        options.flags = flags(
            "PUBLISHER",
            same_user=same_user,
            group=group is not None,
            ignore_deaths=not report_deaths,
            forget_latest=not keep_latest,
        )
        self._cdata = owned("tenon_publisher", lib.tenon_publisher_new, options)

    def listen(self, path: str | os.PathLike[str], *, mode: int = 0) -> None:
        """Make a socket at a path, to which subscribers connect (Subscriber.connect). close removes
        it.

        mode has the permission bits of the socket: a subscriber must be able to write to it. 0
        admits this process's user, and with the publisher's group also the group.
        """
        call(lib.tenon_publisher_listen, self._own(), os.fsencode(path), small(mode, "mode"))

    def add(self, socket: int | _socket.socket) -> None:
        """Take the process at the other end of a connected AF_UNIX socket as a subscriber. That
        process makes a Subscriber on its end. The publisher owns the socket afterwards.
        """
        fd = socket if isinstance(socket, int) else socket.fileno()
        call(lib.tenon_publisher_add, self._own(), fd)
        if not isinstance(socket, int):
            socket.detach()

    def send(
        self,
        tensors: Message | Tensors = (),
        names: Sequence[str | None] | None = None,
        user_bytes: Buffer = b"",
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        """Send tensors (a list, a single one, or a dict by name), or a Message, to every
        subscriber.

        The timeout is in seconds, and None waits for ever. When the call raises, no subscriber got
        the message. An error that concerns one subscriber has its pid in details["pid"].
        """
        if isinstance(tensors, Message):
            if names is not None or bytes(user_bytes):
                raise TypeError("a Message has its own names and user bytes")
            message = tensors
        else:
            message = Message(tensors, names, user_bytes)
        own, what = self._own(), message._own()
        run(lambda wait, error: lib.tenon_publish(own, what, wait, error), timeout, cancel)

    def publish(
        self, value: Any, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> None:
        """Send a value to every subscriber. tenon.Queue says what a value can be.

        The timeout is in seconds, and None waits for ever. When the call raises, no subscriber got
        the value.
        """
        pointer = ffi.cast("tenon_message *", message_of(value, describe))
        message = Message._over(ffi.gc(pointer, lib.tenon_message_release))
        self.send(message, timeout=timeout, cancel=cancel)

    def remove(self, pid: int) -> None:
        """Remove the subscribers of a process, for example one that Timeout has named as slow. They
        receive what waits for them, and then PeerGone. A publish that waits for one of them goes
        on.

        Raises NotFound if no subscriber is of this process.
        """
        call(lib.tenon_publisher_remove, self._own(), pid)

    def subscribers(self) -> list[SubscriberInfo]:
        """The subscribers. In a forked child there are none."""
        return [
            SubscriberInfo(
                _STATES[each.state],
                each.pid,
                each.uid,
                bool(each.asleep),
                each.waiting,
                each.published,
                each.dropped,
            )
            for each in listed(
                "tenon_publisher_subscriber", lib.tenon_publisher_subscribers, self._own()
            )
        ]

    def stats(self) -> PublisherStats:
        """Figures about the publisher."""
        out = filled("tenon_publisher_stats", lib.tenon_publisher_stats_get, self._own())
        return PublisherStats(out.published, out.dropped, out.subscribers, out.gone)

    def _shown(self) -> str:
        return f" with {self.stats().subscribers} subscribers"


class Subscriber(Managed):
    """Receives what one publisher sends."""

    __slots__ = ()

    def __init__(
        self,
        socket: int | _socket.socket,
        *,
        access: Access = "auto",
        same_user: bool = False,
        group: int | None = None,
        on_lender_gone: LenderGone = "keep",
    ) -> None:
        """Make a subscriber on one end of a connected AF_UNIX socket, whose other end the publisher
        takes (Publisher.add). The subscriber owns the socket afterwards. Subscriber.connect
        connects to a path instead.

        - access: How to open received memory.
        - same_user and group: Raise PermissionDenied if the publisher runs neither as this
          process's user nor as root, nor as a member of this gid.
        - on_lender_gone: As for a Connection.
        """
        self._cdata = None
        fd = socket if isinstance(socket, int) else socket.fileno()
        options = _options(access, same_user, group, on_lender_gone)
        self._cdata = owned("tenon_subscriber", lib.tenon_subscriber_new, fd, options)
        if not isinstance(socket, int):
            socket.detach()

    @classmethod
    def connect(
        cls,
        path: str | os.PathLike[str],
        *,
        access: Access = "auto",
        same_user: bool = False,
        group: int | None = None,
        on_lender_gone: LenderGone = "keep",
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> Self:
        """Connect to the path at which a publisher listens, and wait until the publisher has taken
        this subscriber. The latest message before comes first.
        """
        options = _options(access, same_user, group, on_lender_gone)
        request = lib.tenon_subscriber_connect, os.fsencode(path), options
        own = waited("tenon_subscriber", *request, timeout=timeout, cancel=cancel, whole=True)
        self = cls.__new__(cls)
        self._cdata = own
        return self

    def recv(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> Message:
        """Receive the next message.

        The timeout is in seconds, and None waits for ever. When the wait ends early nothing is
        lost. Raises PeerGone when the publisher is gone and all that it published is received.
        """
        request = lib.tenon_subscriber_recv, self._own()
        return Message._over(waited("tenon_message", *request, timeout=timeout, cancel=cancel))

    def get(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> Any:
        """Receive the next value, which Publisher.publish sent.

        The timeout and the exceptions are those of recv. Raises Corrupt if the message carries no
        value. That message is lost.
        """
        with self.recv(timeout=timeout, cancel=cancel) as message:
            return message_value(address_of(message._own()), Tensor, restore, corrupt)

    async def recv_async(self) -> Message:
        """As recv, for a task of asyncio. If a message is there, the task does not suspend. If the
        task is cancelled, no message is lost.
        """
        while True:
            try:
                return self.recv(timeout=0)
            except WouldBlock:
                pass
            await self._until_ready()

    async def get_async(self) -> Any:
        """As get, for a task of asyncio."""
        while True:
            try:
                return self.get(timeout=0)
            except WouldBlock:
                pass
            await self._until_ready()

    def __iter__(self) -> Iterator[Message]:
        """Receive messages until the publisher is gone and all that it published is received."""
        while True:
            try:
                message = self.recv()
            except PeerGone:
                return
            yield message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """As iter, for a task of asyncio."""
        while True:
            try:
                message = await self.recv_async()
            except PeerGone:
                return
            yield message

    async def _until_ready(self) -> None:
        from tenon._async_wait import until_ready

        own = self._own()  # while the task has it, the socket stays open
        await until_ready(int(lib.tenon_subscriber_fd(own)))

    def fileno(self) -> int:
        """The fd to poll. When it is readable, call recv(timeout=0) until it raises WouldBlock. Do
        so before the first poll too.
        """
        return int(lib.tenon_subscriber_fd(self._own()))

    def stats(self) -> SubscriberStats:
        """Figures about the subscriber."""
        out = filled("tenon_subscriber_stats", lib.tenon_subscriber_stats_get, self._own())
        return SubscriberStats(out.received, out.dropped, out.pid, out.uid)

    def _shown(self) -> str:
        return f" of process {self.stats().pid}"


def _options(access: Access, same_user: bool, group: int | None, on_lender_gone: LenderGone) -> Any:
    options = new_struct(
        "tenon_connection_options",
        open_access=number_of(ACCESSES, access, "access"),
        group=0 if group is None else small(group, "group"),
        on_lender_gone=number_of(LENDER_GONE, on_lender_gone, "on_lender_gone"),
    )
    options.flags = flags(
        "CONNECTION",
        adopt_socket=True,
        named_files=True,
        same_user=same_user,
        group=group is not None,
    )
    return options
