"""Hands out the fds that device handles need, each message once, to processes of the same user that
have the message's key. tenon.multiprocessing starts it.

It runs as a thread of the lender. When the lender exits, it runs as a keeper process, which
inherits the listener and the fds. The keeper is this file run as a program, with only the standard
library: so it starts fast and holds no memory of the lender's.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The protocol: one request, then answers of up to MAX_FDS fds each until `total` fds have come,
# then one ACK. SOCK_SEQPACKET keeps the packets apart.
REQUEST = struct.Struct("<4s16s")
ANSWER = struct.Struct("<4sIII")  # magic, status, total or errno, how many fds this packet carries
MAGIC = b"TnF1"
ACK = b"A"
MAX_FDS = 250  # the kernel takes 253 in one message

OK, UNKNOWN, FOREIGN, LIMIT = range(4)

KEY_NBYTES = 16
_LISTENER = "lender-"  # the prefix of the paths of listeners
_UNFINISHED = "unfinished-"  # the prefix of a path whose socket does not listen yet
_UNFINISHED_SECONDS = 60.0
_CONNECTION_SECONDS = 20.0
_REQUEST_SECONDS = 5.0  # the time in which a client must send its request
_MAX_CONNECTIONS = 512
_LIMITS = (errno.ETOOMANYREFS, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Fd:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Any = os.close) -> None:
        close(self.number)


class Segment:
    """An fd that messages need, such as one that leads to device memory. It is closed with the last
    message that needs it.
    """

    # The fd is an object of its own. A weak reference still gives a Segment while the Segment's
    # __del__ runs, so another thread could get a Segment whose fd is being closed.
    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = _Fd(fd)

    @property
    def fd(self) -> int:
        return self._fd.number


class Parcel:
    """The segments that one message needs, in the order of their numbers in the message."""

    __slots__ = ("segments",)

    def __init__(self) -> None:
        self.segments: list[Segment] = []


def listen(folder: str) -> tuple[socket.socket, str]:
    """Make a listener in a directory of this user alone. Returns the listener and its path.

    The listener has a path and no abstract name, because each network namespace has abstract names
    of its own. The caller owns both, and calls remove_listener in the end. Raises OSError, and
    leaves nothing then.
    """
    remove_dead_listeners(folder)
    name = os.urandom(8).hex()
    hidden, path = f"{folder}/{_UNFINISHED}{name}", f"{folder}/{_LISTENER}{name}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(hidden)
        try:
            listener.listen(4096)
            os.rename(hidden, path)
        except BaseException:
            os.unlink(hidden)
            raise
    except BaseException:
        listener.close()
        raise
    return listener, path


def remove_listener(path: str) -> None:
    """Remove the path of a listener that is closed or about to be closed, and then its directory if
    that is empty. Raises nothing.
    """
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))


def remove_dead_listeners(folder: str) -> None:
    """Remove the paths of listeners whose process was killed.

    Raises OSError if the directory cannot be read.
    """
    for entry in os.scandir(folder):
        # Another lender may rename or remove the path at any moment.
        with contextlib.suppress(OSError):
            if entry.name.startswith(_LISTENER):
                is_dead = not _is_listening(entry.path)
            elif entry.name.startswith(_UNFINISHED):
                made = entry.stat(follow_symlinks=False).st_mtime
                is_dead = time.time() - made > _UNFINISHED_SECONDS
            else:
                continue
            if is_dead:
                os.unlink(entry.path)


def _is_listening(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.setblocking(False)
        try:
            caller.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            pass  # for example because the listener's queue of callers is full
    return True


def peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("iII", credentials)[1])


def max_connections() -> int:
    """The most clients at once. Each client has an fd here, so it is an eighth of the limit of open
    files, within fixed bounds.
    """
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        _MAX_CONNECTIONS
        if soft == resource.RLIM_INFINITY
        else max(min(soft // 8, _MAX_CONNECTIONS), 8)
    )


def has_family(path: str) -> bool:
    """Whether a living process has a lock on its family's file (_mp_family.py)."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


class _Client:
    __slots__ = ("deadline", "key", "parcel", "sent", "socket")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.deadline = time.monotonic() + _REQUEST_SECONDS
        self.key = b""
        self.parcel: Parcel | None = None
        self.sent = 0


class Server:
    """Serves one listener on one thread, which alone calls run and step. Owns the listener.

    `lock` guards the parcels and the clients against other threads. A thread that forks holds it.
    A forked child calls close and nothing else.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.lock = threading.RLock()
        self.parcels: dict[bytes, Parcel] = {}
        self._clients: dict[int, _Client] = {}
        self._taken: set[bytes] = set()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._uid = os.geteuid()
        self._is_stopping = False
        self._poll = select.poll()
        self._poll.register(listener.fileno(), select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        listener.setblocking(False)

    def watch(self, fd: int) -> None:
        """Make step return when this fd is readable."""
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        self._poll.unregister(fd)

    def run(self) -> None:
        """The body of the thread: serves until stop.

        After stop it finishes the clients that are being served at that moment, for a second at
        most.
        """
        while not self._is_stopping:
            self.step(None)
        deadline = time.monotonic() + 1
        while self._taken and time.monotonic() < deadline:
            self.step(0.05)

    def stop(self) -> None:
        self._is_stopping = True
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Close every fd in this process. A forked child may call this: the parent's server stays
        as it is.
        """
        self.listener.close()
        for client in self._clients.values():
            client.socket.close()
        self._clients.clear()
        self.parcels.clear()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def step(self, seconds: float | None) -> list[int]:
        """Wait for events and handle them. Returns the watched fds that are readable."""
        now = time.monotonic()
        for client in self._clients.values():
            left = max(client.deadline - now, 0)
            seconds = left if seconds is None else min(seconds, left)
        told = []
        for fd, events in self._poll.poll(None if seconds is None else seconds * 1000 + 1):
            with self.lock:
                if fd == self._wake:
                    os.eventfd_read(fd)
                elif fd == self.listener.fileno():
                    self._accept()
                elif fd in self._clients:
                    self._serve(self._clients[fd], events)
                else:
                    told.append(fd)
        now = time.monotonic()
        expired = [client for client in self._clients.values() if client.deadline <= now]
        if expired:
            with self.lock:
                for client in expired:
                    self._drop(client)
        return told

    def _accept(self) -> None:
        try:
            connection = self.listener.accept()[0]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _LIMITS:
                # The caller stays in the listener's queue until fds are free again.
                time.sleep(0.01)
            return
        connection.setblocking(False)
        if len(self._clients) >= max_connections():
            self._drop_silent()
        if peer_uid(connection) != self._uid or len(self._clients) >= max_connections():
            # A refused client may have hung up already. That must not end the thread that serves
            # the other clients.
            with connection, contextlib.suppress(OSError):
                self._answer(
                    connection,
                    FOREIGN if peer_uid(connection) != self._uid else LIMIT,
                    errno.EUSERS,
                )
            return
        client = _Client(connection)
        self._clients[connection.fileno()] = client
        self._poll.register(connection.fileno(), select.POLLIN)

    def _drop_silent(self) -> None:
        """Make room for a client: drop the one that has been silent for longest."""
        silent = [client for client in self._clients.values() if client.parcel is None]
        if silent:
            self._drop(min(silent, key=lambda client: client.deadline))

    def _answer(
        self, connection: socket.socket, status: int, number: int, fds: list[int] | None = None
    ) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        packet = ANSWER.pack(MAGIC, status, number, len(fds or ()))
        connection.sendmsg([packet], rights, socket.MSG_NOSIGNAL)

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if client.parcel is None:
                self._take_request(client)
            elif events & select.POLLOUT:
                self._send(client)
            elif client.socket.recv(8) == ACK:
                self.parcels.pop(client.key, None)
                self._drop(client)
            else:
                self._drop(client)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)

    def _take_request(self, client: _Client) -> None:
        request = client.socket.recv(REQUEST.size + 1)
        parcel = None
        if len(request) == REQUEST.size:
            magic, key = REQUEST.unpack(request)
            if magic == MAGIC and key not in self._taken:
                parcel = self.parcels.get(key)
        if parcel is None:
            if request:
                self._answer(client.socket, UNKNOWN, 0)
            self._drop(client)
            return
        client.key, client.parcel = key, parcel
        client.deadline = time.monotonic() + _CONNECTION_SECONDS
        self._taken.add(key)
        self._send(client)

    def _send(self, client: _Client) -> None:
        assert client.parcel is not None
        segments = client.parcel.segments
        try:
            while client.sent < len(segments):
                part = segments[client.sent : client.sent + MAX_FDS]
                self._answer(client.socket, OK, len(segments), [segment.fd for segment in part])
                client.sent += len(part)
        except BlockingIOError:
            self._poll.modify(client.socket.fileno(), select.POLLIN | select.POLLOUT)
            return
        except OSError as error:
            if error.errno in _LIMITS:
                self._answer(client.socket, LIMIT, error.errno)
            self._drop(client)
            return
        self._poll.modify(client.socket.fileno(), select.POLLIN)

    def _drop(self, client: _Client) -> None:
        fd = client.socket.fileno()
        self._poll.unregister(fd)
        del self._clients[fd]
        # Without an ACK the message can be fetched again.
        self._taken.discard(client.key)
        client.socket.close()


def keep(plan: dict[str, Any]) -> None:
    """The body of the keeper: serves the remaining messages until all are fetched, the family is
    gone, or the time is over. Owns all fds of the plan. The process ends afterwards.
    """
    try:
        _serve_what_is_left(plan)
    finally:
        remove_listener(plan["path"])


def _serve_what_is_left(plan: dict[str, Any]) -> None:
    server = Server(socket.socket(fileno=plan["listener"]))
    # One Segment for each fd, because a Segment closes its fd.
    segments = {fd: Segment(fd) for fd in {fd for fds in plan["parcels"].values() for fd in fds}}
    for key, fds in plan["parcels"].items():
        server.parcels[key] = parcel = Parcel()
        parcel.segments = [segments[fd] for fd in fds]
    segments.clear()
    relatives = set(plan["relatives"])
    for fd in relatives:
        server.watch(fd)
    deadline = time.monotonic() + plan["seconds"]
    while server.parcels and (left := deadline - time.monotonic()) > 0:
        # A relative's pidfd wakes the loop. The other members of the family are found only by the
        # lock on its file.
        for fd in server.step(left if relatives else min(left, 0.3)):
            server.unwatch(fd)
            os.close(fd)
            relatives.remove(fd)
        if not relatives and not has_family(plan["family"]):
            return


def _main() -> None:
    import marshal

    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    with open("/proc/self/comm", "w") as name:
        name.write("tenon-keeper")
    with open(int(sys.argv[1]), "rb") as source:
        plan = marshal.load(source)
    keep(plan)


if __name__ == "__main__":
    _main()
