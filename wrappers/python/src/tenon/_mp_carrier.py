"""Wraps the sending of a multiprocessing connection, so that a message with tensors is taken back
when nobody will read it.

Over a stream socket of AF_UNIX, such as a Pipe's, the message has a marker with it: the write end
of a pipe. The kernel closes it when the message is read, and when the socket goes with the message
unread. A queue is a pipe of one direction and carries no fds. A duplicate of its write end tells
when no process has its read end any more. A message that is still not fetched some time after
either event is taken back (tenon.deposit.watch).

Over other sockets, such as those of a Client over TCP, and for messages over 2 GiB, nothing is
watched. Then only the depot's limits (tenon.deposit) take a message back. The same holds if the
kernel has no room for a marker or no fd is left.

A Pipe of one direction tells nothing. A duplicate of its write end would keep its reader from the
end of file, for which readers of a Pipe wait. Readers of a queue do not wait for it, because they
have the queue's write end too.
"""

from __future__ import annotations

import os
import socket
import stat
import struct

from tenon._mp_hook import pickling
from tenon._native_ext import send_with_marker, watch_queue
from tenon.deposit import watch, withdraw
from tenon.error import TenonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST_NBYTES = 0x7FFFFFFF  # CPython writes another header for larger messages


def _carries_fds(connection: Any) -> bool:
    known: bool | None = vars(connection).get("_tenon_carries_fds")
    if known is None:
        known = False
        if stat.S_ISSOCK(os.fstat(connection._handle).st_mode):
            with socket.socket(fileno=os.dup(connection._handle)) as copy:
                known = copy.family == socket.AF_UNIX and copy.type == socket.SOCK_STREAM
        connection._tenon_carries_fds = known
    return known


def _watch(ticket: bytes, end: int, seconds: float) -> None:
    # Owns `end` from now on.
    try:
        watch(ticket, end, seconds=seconds)
    except TenonError:
        # For example, too many messages wait. The message has left, so only the depot's limits
        # (tenon.deposit) take it back.
        os.close(end)


def _send_with_marker(connection: Any, message: memoryview, ticket: bytes, seconds: float) -> bool:
    """Send a message as Connection._send_bytes does, with a marker.

    Returns False if the kernel has no room for a marker. Nothing was sent then. Raises the OSError
    of a send that fails, after which a part may have left.
    """
    header = struct.pack("!i", len(message))
    begun = send_with_marker(connection._handle, header, message)
    if begun is None:
        return False
    sent, end = begun
    try:
        if sent < len(header):
            connection._send(header[sent:])
        if sent < len(header) + len(message):
            connection._send(message[max(sent - len(header), 0) :])
    except BaseException:
        os.close(end)
        raise
    _watch(ticket, end, seconds)
    return True


def sending(
    plain: Callable[[Any, memoryview], None], seconds: Callable[[], float]
) -> Callable[[Any, memoryview], None]:
    """Wrap Connection._send_bytes. The wrapper gives a message with tensors its marker, and takes
    the tensors back if an OSError keeps the message from leaving.

    Only the thread that pickled a message knows its ticket (_mp_hook.pickling). If another thread
    sends the bytes, nothing is watched. `seconds` is asked for each message.
    """

    def _send_bytes(self: Any, buf: memoryview) -> None:
        made, pickling.made = pickling.made, None
        if made is None or made[0] is not buf.obj:
            plain(self, buf)
            return
        try:
            if "_tenon_is_of_a_queue" in vars(self):
                plain(self, buf)
                watch_queue(self._handle, made[1], int(seconds() * 1e9))
            elif (
                len(buf) > _MOST_NBYTES
                or not _carries_fds(self)
                or not _send_with_marker(self, buf, made[1], seconds())
            ):
                plain(self, buf)
        except OSError:
            # A part of the message has not left, so no process can fetch it.
            withdraw(made[1])
            raise

    _send_bytes.__doc__ = plain.__doc__
    return _send_bytes
