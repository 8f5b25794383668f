"""How the readers of a vllm.MessageQueue find its writer.

The writer has a Door: a socket in a folder that only this user can enter. A reader connects, and
sends the queue's nonce and its rank. When all readers have come, the writer answers each with one
byte, gives the sockets to the publisher and removes the folder. The processes of a group pass the
handle to each other by a Group. vllm.py is the only caller.
"""

from __future__ import annotations

import hmac
import os
import select
import shutil
import socket as _socket
import struct
import tempfile
import weakref

from tenon.error import NotFound, PeerGone, PermissionDenied, TenonError, Unsupported, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.integrations.vllm import Handle, MessageQueue, _Waits

# What a reader says first: magic and version, nonce, rank. The writer answers with one byte, and
# with a reason if it refuses.
_HELLO = struct.Struct("<8s32sq")
_MAGIC = b"TNVLLM\0\1"
_WELCOME, _REFUSED = b"\1", b"\0"


class Door:
    """The socket at which the readers of a queue arrive. It is open until all have come. The
    writer's lock guards it.
    """

    def __init__(self, ranks: list[int]) -> None:
        self.waiting = set(ranks)
        self.is_open = bool(ranks)
        self.nonce, self.path = os.urandom(32), ""
        self._arrived: dict[int, tuple[_socket.socket, int]] = {}
        self._strangers: dict[int, _socket.socket] = {}  # they have not said who they are
        if ranks:
            folder = tempfile.mkdtemp(prefix="tenon-vllm-")
            self.path = os.path.join(folder, "socket")
            self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            self.close = weakref.finalize(
                self, _close_door, folder, os.getpid(), self._socket, self._arrived, self._strangers
            )
            self._socket.bind(self.path)
            self._socket.listen(max(2 * len(ranks), 128))
            self._socket.setblocking(False)

    def admit(self, queue: MessageQueue, waits: _Waits) -> None:
        """Wait for the readers that have not come, and give all of them to the publisher."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(queue._wake, select.POLLIN)
        for reader, _ in self._arrived.values():
            poll.register(reader, select.POLLIN)
        for stranger in self._strangers.values():
            poll.register(stranger, select.POLLIN)
        while self.waiting:
            ready = dict(poll.poll(waits.milliseconds()))
            self._look(ready, poll)
            if len(self._arrived) == len(self.waiting):
                self._welcome(queue, poll)
                continue
            if queue.shutting_down:
                raise RuntimeError("cancelled")
            lacking = sorted(self.waiting - self._arrived.keys())
            waits.judge(f"the readers of the ranks {lacking} have not come", None)
        self.is_open = False
        self.close()

    def _look(self, ready: dict[int, int], poll: select.poll) -> None:
        """Serve the sockets that are ready: readers that have ended, and processes that connect."""
        # The lists come before a socket is closed or accepted, because a new socket may get the
        # number of a closed one.
        ended = [rank for rank, (reader, _) in self._arrived.items() if reader.fileno() in ready]
        speaking = [stranger for fd, stranger in self._strangers.items() if fd in ready]
        for rank in ended:
            # A reader says nothing before it is welcome. So this is its end, and another process
            # may take its rank.
            reader, _ = self._arrived.pop(rank)
            poll.unregister(reader)
            reader.close()
        for stranger in speaking:
            del self._strangers[stranger.fileno()]
            rank, pid, refusal = self._identify(stranger)
            if not refusal:
                self._arrived[rank] = stranger, pid
                continue
            poll.unregister(stranger)
            _send(stranger, _REFUSED + refusal.encode())
            stranger.close()
        if self._socket.fileno() in ready:
            try:
                stranger, _ = self._socket.accept()
            except OSError:  # it has gone again
                return
            stranger.setblocking(False)
            self._strangers[stranger.fileno()] = stranger
            poll.register(stranger, select.POLLIN)

    def _identify(self, stranger: _socket.socket) -> tuple[int, int, str]:
        """The rank and the pid of a process that has connected, and why it cannot join."""
        pid, uid, _ = struct.unpack(
            "3i", stranger.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        )
        hello = _packet(stranger, _HELLO.size + 1)
        if uid not in (os.geteuid(), 0):
            return -1, pid, f"user {uid} is not the writer's"
        if len(hello) != _HELLO.size:
            return -1, pid, "it does not say who it is"
        magic, nonce, rank = _HELLO.unpack(hello)
        if magic != _MAGIC or not hmac.compare_digest(nonce, self.nonce):
            return rank, pid, "its handle belongs to another queue"
        if rank in self._arrived:
            other = self._arrived[rank][1]
            return rank, pid, f"process {other} has joined as the reader of rank {rank}"
        if rank not in self.waiting:
            return rank, pid, f"no reader of rank {rank} is expected"
        return rank, pid, ""

    def _welcome(self, queue: MessageQueue, poll: select.poll) -> None:
        """Give the readers that have come to the publisher. One that has ended is awaited again."""
        for rank, (reader, pid) in list(self._arrived.items()):
            del self._arrived[rank]
            poll.unregister(reader)
            if not _send(reader, _WELCOME):
                reader.close()
                continue
            reader.setblocking(True)
            queue._publisher.add(reader)
            queue._ranks[rank] = pid
            self.waiting.discard(rank)


def _close_door(
    folder: str,
    pid: int,
    listener: _socket.socket,
    arrived: dict[int, tuple[_socket.socket, int]],
    strangers: dict[int, _socket.socket],
) -> None:
    for socket in (listener, *(reader for reader, _ in arrived.values()), *strangers.values()):
        socket.close()
    # A forked child has a copy of the writer.
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def connect(handle: Handle, rank: int) -> _socket.socket:
    """Connect a reader to the writer's Door, and say who it is."""
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        socket.connect(handle.path)
        socket.sendall(_HELLO.pack(_MAGIC, handle.nonce, rank))
    except (FileNotFoundError, ConnectionError, BrokenPipeError) as error:
        socket.close()
        raise make(
            NotFound,
            f"the writer, process {handle.pid}, takes no readers: it has ended, or all its readers"
            " have come",
            path=handle.path,
            pid=str(handle.pid),
        ) from error
    except BaseException:
        socket.close()
        raise
    return socket


def await_welcome(queue: MessageQueue, waits: _Waits) -> None:
    """Wait, in a reader, for the writer's answer, which comes when all readers have come."""
    poll = select.poll()
    poll.register(queue._socket, select.POLLIN)
    poll.register(queue._wake, select.POLLIN)
    pid = queue.handle.pid
    while True:
        ready = dict(poll.poll(waits.milliseconds()))
        if queue._socket.fileno() in ready:
            answer = _packet(queue._socket, 1024)
            if answer[:1] == _WELCOME:
                return
            if not answer:
                text = f"the writer, process {pid}, ended before all readers had come"
                raise make(PeerGone, text, pid=str(pid))
            raise make(
                PermissionDenied,
                "the writer of the message queue refused this reader: "
                + answer[1:].decode("utf-8", "replace"),
            )
        if queue.shutting_down:
            raise RuntimeError("cancelled")
        waits.judge(f"not all readers of process {pid} have come", None)


def _packet(socket: _socket.socket, nbytes: int) -> bytes:
    """The next packet, or nothing if the other end is closed."""
    try:
        return socket.recv(nbytes)
    except ConnectionError:
        return b""


def _send(socket: _socket.socket, packet: bytes) -> bool:
    try:
        socket.send(packet, _socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


class Group:
    """A torch.distributed.ProcessGroup, or an object with the members of vLLM's
    StatelessProcessGroup.
    """

    def __init__(self, pg: Any) -> None:
        import torch.distributed as dist

        self._pg = pg
        self._is_torch = isinstance(pg, dist.ProcessGroup)
        self.rank: int = dist.get_rank(pg) if self._is_torch else pg.rank
        self.size: int = dist.get_world_size(pg) if self._is_torch else pg.world_size

    def broadcast(self, obj: Any, source: int) -> Any:
        if not self._is_torch:
            return self._pg.broadcast_obj(obj, source)
        import torch.distributed as dist

        objects = [obj]
        source = dist.get_process_group_ranks(self._pg)[source]
        dist.broadcast_object_list(objects, src=source, group=self._pg)
        return objects[0]

    def refuse_other_machines(self) -> None:
        """Raise Unsupported, in every process, unless all are on one machine."""
        here = machine()
        if self._is_torch:
            import torch.distributed as dist

            machines: list[Any] = [None] * self.size
            dist.all_gather_object(machines, here, group=self._pg)
        else:
            machines = self._pg.all_gather_obj(here)
        if len({*machines}) > 1:
            other = [rank for rank, each in enumerate(machines) if each != machines[0]]
            raise no_remote_readers(f"the ranks {other} of the group are not where rank 0 is")


def no_remote_readers(why: str) -> TenonError:
    return make(
        Unsupported,
        f"{why}, and a message queue of Tenon serves readers on one machine that see the writer's"
        " temporary folder: share that folder (TMPDIR) between the containers, or use vLLM's own"
        " MessageQueue for other machines",
    )


def machine() -> str:
    """What processes have in common that can reach each other's temporary folder."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:
        boot = _socket.gethostname()
    folder = os.stat(tempfile.gettempdir())
    return f"{boot} {folder.st_dev} {folder.st_ino}"
