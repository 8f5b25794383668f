"""The receiving side of _mp_serve: gets the fds of one message's device handles from its sender.
tenon.multiprocessing calls it.
"""

from __future__ import annotations

import errno
import os
import socket
import time

from tenon import _mp_serve
from tenon._mp_serve import ANSWER, MAGIC, REQUEST, Parcel, Segment
from tenon.error import (
    Corrupt,
    Io,
    NotFound,
    PeerGone,
    PermissionDenied,
    ResourceExhausted,
    TenonError,
    Timeout,
    make,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from tenon._mp_serve import Server


def take(server: Server, key: bytes, pid: int) -> Parcel:
    """Take a message that this process itself has sent.

    Raises NotFound if it was fetched before.
    """
    with server.lock:
        parcel = server.parcels.pop(key, None)
    if parcel is None:
        _refuse(_mp_serve.UNKNOWN, 0, pid)
    return parcel


def fetch(path: str, key: bytes, pid: int, seconds: float) -> Parcel:
    """Fetch a message from the process that serves the path, or from the keeper that it left.

    `pid` is the sender's, for errors. The call waits `seconds` for a sender that does not answer.

    Raises NotFound if the message was fetched before, PeerGone if nobody listens at the path,
    Timeout, PermissionDenied for another user's sender, ResourceExhausted if this process or the
    sender has no room for the fds, and Corrupt or Io for an answer that is wrong. After Timeout and
    ResourceExhausted the message can be fetched again. The parcel owns its fds.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise _full("a socket to the sender of the message") from error
        with connection:
            try:
                return _ask(connection, path, key, pid, deadline)
            except TenonError:
                # Some of Tenon's errors are of the kinds below too. The sender itself has answered.
                raise
            except PermissionError as error:
                # Only the user of a sender may connect to its socket.
                raise _foreign(pid) from error
            except ConnectionRefusedError as error:
                raise _gone(pid) from error
            except FileNotFoundError as error:
                raise _unreachable(pid, path) from error
            except (ConnectionResetError, BrokenPipeError, EOFError):
                # The sender went away during the exchange. If a keeper has taken over, it listens
                # at the same path.
                pass
            except BlockingIOError:
                # The sender's queue of callers is full.
                pass
            except TimeoutError as error:
                raise _silent(pid) from error
        if time.monotonic() >= deadline:
            raise _silent(pid)
        time.sleep(0.005)


def _ask(connection: socket.socket, path: str, key: bytes, pid: int, deadline: float) -> Parcel:
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    connection.connect(path)
    if _mp_serve.peer_uid(connection) != os.geteuid():
        # After the sender's death another process may take the path.
        _refuse(_mp_serve.FOREIGN, 0, pid)
    connection.send(REQUEST.pack(MAGIC, key), socket.MSG_NOSIGNAL)
    parcel = Parcel()
    total = 1
    while len(parcel.segments) < total:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        packet, rights, flags, _ = connection.recvmsg(
            ANSWER.size, socket.CMSG_SPACE(_mp_serve.MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
        )
        if not packet:
            raise EOFError
        before = len(parcel.segments)
        for level, kind, data in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = memoryview(data[: len(data) // 4 * 4]).cast("i")
                parcel.segments.extend(Segment(fd) for fd in numbers)
        if flags & socket.MSG_CTRUNC:
            raise _full("the fds of the message's segments")
        if len(packet) != ANSWER.size:
            raise make(
                Corrupt,
                f"an answer of {len(packet)} bytes from the sender of the message",
                pid=str(pid),
            )
        magic, status, number, count = ANSWER.unpack(packet)
        if magic != MAGIC or (
            status == _mp_serve.OK and (count != len(parcel.segments) - before or not count)
        ):
            raise make(
                Corrupt,
                "an answer from the sender of the message that is not of this protocol",
                pid=str(pid),
            )
        if status != _mp_serve.OK:
            _refuse(status, number, pid)
        total = number
    try:
        connection.send(_mp_serve.ACK, socket.MSG_NOSIGNAL)
    except OSError:
        # The sender may be gone by now, which does not matter.
        pass
    return parcel


def _full(what: str) -> TenonError:
    import resource

    return make(
        ResourceExhausted,
        f"no room for {what}: raise the limit of open files (ulimit -n), or keep fewer open",
        limit="RLIMIT_NOFILE",
        limit_value=str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )


def _foreign(pid: int) -> TenonError:
    return make(
        PermissionDenied,
        f"process {pid} belongs to another user: tensors are lent within one user's processes",
        pid=str(pid),
    )


def _refuse(status: int, number: int, pid: int) -> NoReturn:
    if status == _mp_serve.UNKNOWN:
        raise make(
            NotFound,
            f"the tensors of this message from process {pid} were fetched before: a message can be"
            " loaded once; send one to each receiver",
            pid=str(pid),
        )
    if status == _mp_serve.FOREIGN:
        raise _foreign(pid)
    if status == _mp_serve.LIMIT:
        limit = "RLIMIT_NOFILE" if number in (errno.EMFILE, errno.ETOOMANYREFS) else "fds in flight"
        raise make(
            ResourceExhausted,
            f"process {pid} cannot send the fds of the message's segments: {os.strerror(number)}",
            limit=limit,
            errno=str(number),
            pid=str(pid),
        )
    raise make(Io, f"process {pid} answered with status {status}", pid=str(pid))


def _gone(pid: int) -> PeerGone:
    error = make(
        PeerGone,
        f"process {pid}, which sent these tensors, is gone: it was killed, or it exited and its"
        " keeper's time was over; let it live until its messages are read, or raise keep_seconds"
        " (tenon.multiprocessing.configure)",
        pid=str(pid),
    )
    assert isinstance(error, PeerGone)
    return error


def _unreachable(pid: int, path: str) -> PeerGone:
    error = make(
        PeerGone,
        f"process {pid}, which sent these tensors, is gone or cannot be reached from here: there is"
        f" no socket {path}; if it lives, let both processes see the same /dev/shm",
        pid=str(pid),
        path=path,
    )
    assert isinstance(error, PeerGone)
    return error


def _silent(pid: int) -> Timeout:
    error = make(
        Timeout,
        f"process {pid}, which sent these tensors, does not answer: let it go on if it is stopped,"
        " or raise fetch_seconds (tenon.multiprocessing.configure)",
        pid=str(pid),
    )
    assert isinstance(error, Timeout)
    return error
