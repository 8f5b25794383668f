"""Deposits: messages for receivers that are not known yet, such as the readers of a queue.

A lender deposits a message and gets a ticket, which is bytes. The first process that fetches the
ticket receives the message, under leases. Lender and receiver are processes of one user that see
the same /dev/shm. docs/format/deposit.md describes the bytes.
"""

from __future__ import annotations

import os

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import ACCESSES, number_of
from tenon._storage_of import storage_of
from tenon._text import bytes_by
from tenon.error import call, filled, given, owned
from tenon.message import Message
from tenon.storage import Storage
from tenon.wait import Cancel, waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

    from tenon._options import Access
    from tenon.tensor import Tensor


def deposit(message: Message | Iterable[Tensor]) -> bytes:
    """Deposit a message and give its ticket. The message and its tensors may be released
    afterwards.

    This process keeps the message until it is fetched or withdrawn.
    """
    what = message if isinstance(message, Message) else Message(message)
    ticket = owned("tenon_ticket", lib.tenon_message_deposit, what._own())
    return bytes_by(lib.tenon_ticket_bytes, ticket)


def withdraw(ticket: Buffer) -> bool:
    """Withdraw a message of this process that nobody has fetched.

    Returns False if it was fetched or withdrawn before.
    """
    with memoryview(ticket) as view, ffi.from_buffer(view) as source:
        return bool(given("int", lib.tenon_ticket_withdraw, source, view.nbytes))


def watch(ticket: Buffer, fd: int, *, seconds: float = 0.0) -> None:
    """Withdraw a message of this process `seconds` after fd has hung up, if nobody has fetched it
    by then.

    The fd is the end of a pipe whose other end travels with the ticket. So it hangs up when the
    message is read, and when its carrier goes with the message unread. Tenon owns the fd once the
    call has returned.
    """
    with memoryview(ticket) as view, ffi.from_buffer(view) as source:
        call(lib.tenon_ticket_watch, source, view.nbytes, fd, int(seconds * 1e9))


def fetch(
    ticket: Buffer,
    *,
    access: Access = "auto",
    allow_unsealed: bool | None = None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
) -> Message:
    """Fetch the message of a ticket.

    timeout is the seconds to wait for a lender that does not answer. None waits for ever. A wait
    that ends early leaves the message at the lender. NotFound means that the message was fetched
    before, or withdrawn. PeerGone means that the lender is gone, and that this process had not met
    it.
    """
    from tenon.by_fd import open_options

    options = open_options(access, allow_unsealed)
    with memoryview(ticket) as view, ffi.from_buffer(view) as source:
        request = lib.tenon_message_fetch, source, view.nbytes, options
        # The wait is whole, because each slice of a wait would ask the lender again.
        own = waited("tenon_message", *request, timeout=timeout, cancel=cancel, whole=True)
        return Message._over(own)


class DepositStats(Frozen):
    """The deposits of this process that wait to be fetched, all of one moment.

    - messages: The number of messages that nobody has fetched, or that a receiver is still opening.
    - segments: The number of segments for which receivers may ask. It is 0 if there is no message.
    - expired: The number of messages, since the start, that were withdrawn by a limit or because
      their carrier was gone.
    """

    messages: int
    segments: int
    expired: int
    __slots__ = tuple(__annotations__)


def stats() -> DepositStats:
    """The figures of this process's deposits."""
    return DepositStats._of(filled("tenon_deposit_stats", lib.tenon_deposit_stats_get))


def set_limits(
    *,
    max_unfetched_segments: int = 0,
    max_unfetched_nbytes: int = 0,
    max_unfetched_seconds: float = 0.0,
) -> None:
    """Set the limits for messages that wait to be fetched, in this process and in those that it
    forks from now on.

    - max_unfetched_segments: For how many segments receivers may ask. One more raises
      ResourceExhausted. 0 means half of the limit of open files.
    - max_unfetched_nbytes and max_unfetched_seconds: Messages above these limits are withdrawn, the
      oldest first, and their receivers get NotFound. 0 means no limit. The limits hold for messages
      that are deposited from now on.
    """
    limits = new_struct(
        "tenon_deposit_limits",
        max_unfetched_segments=max_unfetched_segments,
        max_unfetched_nbytes=max_unfetched_nbytes,
        max_unfetched_ns=int(max_unfetched_seconds * 1e9),
    )
    call(lib.tenon_deposit_limits_set, limits)


def hand_over(
    *, seconds: float = 60.0, pidfds: Sequence[int] = (), family: str | None = None
) -> int:
    """Hand the messages that nobody has fetched to a keeper process, before this process ends.
    Returns the number of these messages.

    The keeper stays for `seconds` at most, and only while one of the processes of the pidfds lives,
    or some process has a shared lock (flock) on the file named family. With neither option the
    keeper stays for the whole time.
    """
    numbers = ffi.new("int32_t[]", list(pidfds))
    path = ffi.NULL if family is None else ffi.new("char[]", os.fsencode(family))
    options = new_struct("tenon_keep_options", pidfds=numbers, n_pidfds=len(pidfds), family=path)
    options.timeout_ns = max(int(seconds * 1e9), 1)
    return int(given("size_t", lib.tenon_deposit_hand_over, options))


class Deposit(Managed):
    """A message that is deposited in pieces. close() withdraws nothing."""

    __slots__ = ("_record", "_record_nbytes", "head")

    def __init__(self) -> None:
        self._cdata = None
        self._cdata = owned("tenon_deposit", lib.tenon_deposit_new)
        self._record = ffi.new("uint8_t[]", lib.TENON_DEPOSIT_RECORD_NBYTES)
        self._record_nbytes = ffi.new("size_t *")
        # A receiver begins with the head. The head must not be sent before all storages are added.
        self.head = bytes_by(lib.tenon_deposit_head, self._cdata)

    def add(self, storage: Storage, access: Access = "auto") -> bytes:
        """Add a storage, which the message keeps.

        Returns its record, by which the receiver opens it. Only one thread may call this at a time.
        """
        if not isinstance(storage, Storage):
            raise TypeError(f"storage is {type(storage).__name__}, not Storage")
        number, out = number_of(ACCESSES, access, "access"), (self._record, self._record_nbytes)
        call(lib.tenon_deposit_add, self._own(), storage._own(), number, *out)
        return bytes(ffi.buffer(self._record, self._record_nbytes[0]))

    def withdraw(self) -> bool:
        """Withdraw the message if nobody has fetched it.

        Returns False if it was fetched or withdrawn before.
        """
        return bool(lib.tenon_deposit_withdraw(self._own()))


class Fetched(Managed):
    """A message that is fetched in pieces.

    close() gives back the storages that were not opened. Opened storages stay valid.
    """

    __slots__ = ("_timeout",)

    def __init__(
        self,
        head: Buffer,
        *,
        access: Access = "auto",
        allow_unsealed: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        from tenon.by_fd import open_options

        self._cdata = None
        self._timeout = timeout
        options = open_options(access, allow_unsealed)
        with memoryview(head) as view, ffi.from_buffer(view) as source:
            request = lib.tenon_fetched_new, source, view.nbytes, options
            self._cdata = waited(
                "tenon_fetched", *request, timeout=timeout, cancel=None, whole=True
            )

    def storage(self, record: Buffer) -> Storage:
        """Open a storage of the message, under its lease. Only one thread may call this at a
        time.
        """
        own = self._own()
        with memoryview(record) as view, ffi.from_buffer(view) as source:
            request = lib.tenon_fetched_storage, own, source, view.nbytes
            limit = self._timeout
            got = waited("tenon_storage", *request, timeout=limit, cancel=None, whole=True)
            return storage_of(got)
