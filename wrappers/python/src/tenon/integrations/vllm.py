"""A message queue for inference workers, with the surface of vLLM's MessageQueue (version 0.33.0,
commit 4ba787ec9, vllm/distributed/device_communicators/shm_broadcast.py). vLLM itself is not
imported. PyTorch is used if the program has imported it.

One process, the writer, sends objects, and each reader receives all of them. The readers are known
when the queue is made. The writer keeps a tenon.Publisher, and each reader a tenon.Subscriber.

An object travels as a pickle, so the writer can run any code in the readers.
A short pickle lies in the ring of each reader. A longer one lies in a block of an arena, with the
buffers of arrays and tensors behind it, and only the block's description goes into the rings. A
block that does not fit into the arena becomes a storage of its own. So every object crosses in
shared memory, however large it is.

_vllm_rendezvous.py brings the readers and the writer together.
"""

from __future__ import annotations

import copyreg
import errno
import io
import logging
import os
import pickle
import struct
import sys
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field

from tenon import _dtype
from tenon.arena import Arena
from tenon.error import (
    Cancelled,
    Corrupt,
    PeerGone,
    ResourceExhausted,
    TenonError,
    Timeout,
    WouldBlock,
    make,
)
from tenon.integrations._vllm_rendezvous import (
    Door,
    Group,
    await_welcome,
    connect,
    machine,
    no_remote_readers,
)
from tenon.message import Message
from tenon.publish import Publisher, Subscriber
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.wait import Cancel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, ClassVar

__all__ = ["Handle", "MessageQueue"]

logger = logging.getLogger(__name__)

VLLM_RINGBUFFER_WARNING_INTERVAL: float = int(
    os.environ.get("VLLM_RINGBUFFER_WARNING_INTERVAL", "60")
)
"""After how many seconds of waiting a line goes to the log. vLLM's variable sets it."""

# The log begins with vLLM's words, because operators look for them.
_LONG_WAIT = "No available shared memory broadcast block found in %d seconds: %s"
# How often a writer that waits for one reader looks whether another one has ended.
_LOOK_SECONDS = 1.0
_UINT8 = _dtype.number_of("uint8")
_SLOT_NBYTES = 4096
_INLINE_NBYTES = 3584  # what fits into a slot beside the description of a message
_OUT_OF_BAND_NBYTES = 4096  # a shorter buffer is copied into the pickle
_WRITE_NBYTES = 1 << 20  # from here on a copy lets other threads run
_ALIGNMENT = 64
# The first byte of the user bytes. After _INLINE follows the pickle. _BLOCK is followed by the
# number of out-of-band buffers and by the pickle's size. The block has the sizes of the buffers,
# then the pickle, then the buffers. Each part is aligned.
_INLINE, _BLOCK = b"\0", b"\1"
_BLOCK_HEAD = struct.Struct("<cxxxIQ")


@dataclass
class Handle:
    """What a reader needs to join a queue. It can be pickled and sent in any way. Every process of
    the writer's user, or of root, that has it can join.

    - local_reader_ranks: The ranks of the readers.
    - path and nonce: The writer's socket, and a secret.
    - machine: Where the writer runs.
    - pid: The writer's process.
    """

    local_reader_ranks: list[int] = field(default_factory=list)
    path: str = ""
    nonce: bytes = field(default=b"", repr=False)
    machine: str = ""
    pid: int = 0
    # vLLM's executor asks for this address to find readers on other machines.
    remote_subscribe_addr: ClassVar[str | None] = None


class MessageQueue:
    """Sends objects from one writer to a fixed set of readers on one machine, with the members of
    vLLM's class of this name.

    The constructor makes the writer, and create_from_handle makes a reader. Each object goes to
    every reader, in order. While max_chunks objects wait for a reader, enqueue waits.

    When a reader's process ends, one call of enqueue raises PeerGone. Its details name the pid and
    the ranks, and nothing was sent. The next call sends to the readers that are left. When the
    writer ends, dequeue raises PeerGone after the last object.
    """

    shutting_down: bool
    handle: Handle
    local_reader_rank: int
    # The reader's. The subscriber gets the socket when all readers have come.
    _copies: bool
    _socket: _socket.socket
    _subscriber: Subscriber | None

    def __init__(
        self,
        n_reader: int,
        n_local_reader: int,
        local_reader_ranks: list[int] | None = None,
        max_chunk_bytes: int = 1024 * 1024 * 24,
        max_chunks: int = 10,
        connect_ip: str | None = None,
        enable_shm_tensor_arena: bool = False,
    ) -> None:
        """Make the writer of a queue.

        - n_reader and n_local_reader: How many readers there are. All must be on this machine, so
          the two must be equal. Otherwise the call raises Unsupported.
        - local_reader_ranks: The readers' ranks. The default counts from 0.
        - max_chunk_bytes and max_chunks: Their product is the size of the arena. max_chunks is
          rounded up to a power of two. An object can be larger than the arena: it then has memory
          of its own.
        - connect_ip and enable_shm_tensor_arena: They are ignored. Tensors always go into the
          arena.
        """
        if local_reader_ranks is None:
            local_reader_ranks = list(range(n_local_reader))
        if (
            len(local_reader_ranks) != n_local_reader
            or len({*local_reader_ranks}) != n_local_reader
        ):
            raise ValueError(
                f"local_reader_ranks {local_reader_ranks} are not {n_local_reader} different ranks"
            )
        if n_reader != n_local_reader:
            raise no_remote_readers(f"{n_reader - n_local_reader} of {n_reader} readers are remote")
        if max_chunks < 1 or max_chunk_bytes < 1:
            raise ValueError("a message queue needs at least one chunk, of at least one byte")
        self.n_local_reader, self.n_remote_reader = n_local_reader, 0
        self._begin(is_writer=True)
        capacity = 1 << (max_chunks - 1).bit_length()
        self._publisher = Publisher(
            capacity, _SLOT_NBYTES, max(n_local_reader, 1), same_user=True, keep_latest=False
        )
        # Only the writer can write to the blocks.
        self._arena = Arena(max(max_chunk_bytes * max_chunks, 1 << 20), mode="lender_writes")
        self._lock = threading.RLock()
        self._ranks: dict[int, int] = {}  # the rank of each reader that has come, and its pid
        self._gone: set[int] = set()  # the ranks whose end was reported
        self._door = Door(local_reader_ranks)
        self.handle = Handle(
            list(local_reader_ranks), self._door.path, self._door.nonce, machine(), os.getpid()
        )
        logger.debug("message queue at %s for the ranks %s", self.handle.path, local_reader_ranks)

    def _begin(self, *, is_writer: bool) -> None:
        self.shutting_down = False
        self._is_writer = is_writer
        self._is_local_reader = not is_writer
        self._is_remote_reader = False
        self.local_reader_rank = -1
        self._cancel = Cancel()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._wake).atexit = False

    def export_handle(self) -> Handle:
        """The handle with which readers join."""
        return self.handle

    @staticmethod
    def create_from_handle(handle: Handle, rank: int, *, copy: bool = True) -> MessageQueue:
        """Make the reader of this rank. The call does not wait for the writer.

        With copy, each array and tensor has memory of its own, which this process can write.
        Without it, large arrays and tensors lie in the writer's memory, and keep it. They are
        read-only. PyTorch cannot know that, so a write to such a tensor ends the process by
        SIGSEGV.

        Raises Unsupported for a rank that is not in the handle, and on another machine. Raises
        NotFound if the writer has ended or has all its readers.
        """
        if rank not in handle.local_reader_ranks:
            raise no_remote_readers(
                f"rank {rank} is not one of the local readers {handle.local_reader_ranks}"
            )
        if handle.machine != machine():
            raise no_remote_readers(f"process {handle.pid} made the queue in another place")
        self = MessageQueue.__new__(MessageQueue)
        self._begin(is_writer=False)
        self.handle = handle
        self.local_reader_rank = handle.local_reader_ranks.index(rank)
        self._copies = copy
        self._lock = threading.RLock()
        self._subscriber = None
        self._socket = connect(handle, rank)
        # The subscriber has the socket later, and then this closes nothing.
        weakref.finalize(self, self._socket.close).atexit = False
        return self

    def wait_until_ready(self) -> None:
        """Wait until all readers have come. The writer and every reader call it. Raises
        RuntimeError if shutdown is called meanwhile.
        """
        if self._is_writer:
            with self._lock:
                self._admit(None)
        else:
            self._join(None, False)

    def shutdown(self) -> None:
        """End the calls of this queue that wait, in any thread, with RuntimeError. Objects that
        were sent can still be received, and enqueue still sends while there is room.
        """
        self.shutting_down = True
        self._cancel.trigger()
        os.eventfd_write(self._wake, 1)

    @contextmanager
    def _turn(self, waits: _Waits) -> Iterator[None]:
        """The lock of this end, which another thread may hold while it waits."""
        left = waits.left()
        if not self._lock.acquire(timeout=-1 if left is None else left):
            raise TimeoutError(errno.ETIMEDOUT, "the time is over: another thread is waiting")
        try:
            yield
        finally:
            self._lock.release()

    # ---- the writer

    def enqueue(self, obj: Any, timeout: float | None = None) -> None:
        """Send an object to every reader. The first call waits until all readers have come.

        The timeout is in seconds, and None waits for ever. Raises TimeoutError, which names the
        reader that has no room, PeerGone, if a reader has ended or left, or RuntimeError, if
        shutdown was called and there is no room. Nothing was sent then.
        """
        if not self._is_writer:
            raise RuntimeError("only the writer of a message queue can enqueue")
        waits = _Waits(time.monotonic(), timeout, True)
        message = self._message_of(obj)
        with self._turn(waits):
            self._admit(waits.deadline)
            self._report_gone()
            while not self._publish(message, waits):
                # Another reader than the one without room may have ended meanwhile.
                self._report_gone()

    def _publish(self, message: Message, waits: _Waits) -> bool:
        """Send a message. False: call this again, because a slice of the time is over or shutdown
        was called.
        """
        try:
            if self.shutting_down:
                self._publisher.send(message, timeout=0)
            else:
                left = waits.slice()
                seconds = _LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)
                self._publisher.send(message, timeout=seconds, cancel=self._cancel)
        except PeerGone as error:
            if "pid" not in error.details:
                raise
            raise self._reader_gone(int(error.details["pid"]), error) from error
        except Cancelled:
            return False
        except (Timeout, WouldBlock) as error:
            if self.shutting_down:
                raise RuntimeError("cancelled") from error
            waits.judge(self._slow(error), error)
            return False
        return True

    def _slow(self, error: TenonError) -> str:
        """Who keeps the writer waiting, for an error or a line of the log."""
        pid = int(error.details.get("pid", 0))
        if not pid:
            return "another thread is sending"
        ranks = self._ranks_of(pid)
        return f"the reader of rank {ranks}, process {pid}, has not taken its messages"

    def _ranks_of(self, pid: int) -> str:
        return ", ".join(str(rank) for rank, each in sorted(self._ranks.items()) if each == pid)

    def _report_gone(self) -> None:
        """Raise PeerGone for a reader that has left, or that ended before it had read anything. The
        publisher removes such readers without a report.
        """
        expected = len(self._ranks) - len(self._gone)
        if self._publisher.stats().subscribers >= expected:
            return
        here = [each.pid for each in self._publisher.subscribers()]
        for rank, pid in sorted(self._ranks.items()):
            if rank in self._gone:
                continue
            if pid in here:
                here.remove(pid)
                continue
            raise self._reader_gone(pid, None)

    def _reader_gone(self, pid: int, cause: TenonError | None) -> TenonError:
        """Note which ranks of this process are gone, and make the error that names them."""
        living = [rank for rank, each in self._ranks.items() if each == pid]
        ranks = sorted(set(living) - self._gone)
        # A process with several readers loses one at a time.
        if cause is None or len(ranks) > 1:
            here = sum(each.pid == pid for each in self._publisher.subscribers())
            ranks = ranks[: max(len(ranks) - here, 1)]
        self._gone.update(ranks)
        shown = ", ".join(map(str, ranks)) or "unknown"
        return make(
            PeerGone,
            f"the reader of rank {shown}, process {pid}, has ended or left the message queue:"
            " nothing was sent, and the next enqueue sends to the other readers",
            pid=str(pid),
            rank=shown,
        )

    def _admit(self, deadline: float | None) -> None:
        """Wait until all readers have come. The caller has the lock."""
        door = self._door
        if door.is_open:
            waits = _Waits(time.monotonic(), None, True, deadline)
            door.admit(self, waits)

    def _message_of(self, obj: Any) -> Message:
        """The message of an object: its pickle alone, or a block of pickle and buffers."""
        buffers: list[memoryview] = []

        def out_of_band(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < _OUT_OF_BAND_NBYTES:
                return True
            buffers.append(raw)
            return False

        with io.BytesIO() as stream:
            stream.write(_INLINE)
            pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL, buffer_callback=out_of_band)
            pickler.dispatch_table = _reducers()
            pickler.dump(obj)
            with stream.getbuffer() as pickled:
                if not buffers and pickled.nbytes <= _INLINE_NBYTES:
                    return Message((), None, pickled)
                with pickled[1:] as body:
                    return self._block_of(body, buffers)

    def _block_of(self, body: memoryview, buffers: list[memoryview]) -> Message:
        sizes = [buffer.nbytes for buffer in buffers]
        begins, end = _places(len(body), sizes)
        storage = self._new_storage(end)
        with memoryview(storage) as block:
            struct.pack_into(f"<{len(sizes)}Q", block, 0, *sizes)
        for begin, part in zip(begins, [body, *buffers], strict=True):
            _copy(storage, begin, part)
        tensor = Tensor._new(storage, _UINT8, (end,), None, 0, 0)
        return Message([tensor], None, _BLOCK_HEAD.pack(_BLOCK, len(sizes), len(body)))

    def _new_storage(self, nbytes: int) -> Storage:
        try:
            return self._arena.storage(nbytes, will_fill=True)
        except (ResourceExhausted, WouldBlock, Timeout):
            # The object is larger than the arena, or readers hold too much of it.
            return Storage.new(nbytes, mode="lender_writes", will_fill=True)

    # ---- a reader

    def dequeue(
        self, timeout: float | None = None, indefinite: bool = False, *, copy: bool | None = None
    ) -> Any:
        """Receive the next object.

        The timeout is in seconds, and None waits for ever. Raises TimeoutError when it is over,
        RuntimeError after shutdown, and PeerGone if the writer has ended, each if no object is
        there. Raises PermissionDenied if the writer refuses this reader. With `indefinite` a long
        wait is not logged. copy is as in create_from_handle, which sets the default.
        """
        if self._is_writer:
            raise RuntimeError("only a reader of a message queue can dequeue")
        message = self._recv(_Waits(time.monotonic(), timeout, not indefinite))
        return _object_of(message, self._copies if copy is None else copy)

    def _recv(self, waits: _Waits) -> Message:
        subscriber = self._subscriber
        if subscriber is None:
            subscriber = self._join(waits.deadline, waits.warns)
        while True:
            try:
                if self.shutting_down:
                    return subscriber.recv(timeout=0)
                return subscriber.recv(timeout=waits.slice(), cancel=self._cancel)
            except Cancelled:
                continue
            except (Timeout, WouldBlock) as error:
                if self.shutting_down:
                    raise RuntimeError("cancelled") from error
                waits.judge(f"the writer, process {self.handle.pid}, has sent nothing", error)

    def _join(self, deadline: float | None, warns: bool) -> Subscriber:
        """Wait for the writer's answer, which comes when all readers have come."""
        waits = _Waits(time.monotonic(), None, warns, deadline)
        with self._turn(waits):
            if self._subscriber is None:
                await_welcome(self, waits)
                self._subscriber = Subscriber(self._socket, access="read_only", same_user=True)
            return self._subscriber

    def broadcast_object(self, obj: Any = None) -> Any:
        """Send an object and return it, or receive it in a reader."""
        if self._is_writer:
            self.enqueue(obj)
            return obj
        return self.dequeue()

    # ---- process groups

    @staticmethod
    def create_from_process_group_single_reader(
        pg: Any,
        max_chunk_bytes: int,
        max_chunks: int,
        reader_rank: int = 0,
        blocking: bool = False,
    ) -> tuple[MessageQueue, list[Handle]]:
        """Make a queue in each process of a torch.distributed group, with one reader, whose global
        rank is reader_rank. All processes of the group call it. Returns this process's queue, and
        on the reader the handles of all queues.

        With blocking it waits until the reader has joined. Raises Unsupported in all processes if
        they are not on one machine.
        """
        import torch.distributed as dist

        group = Group(pg)
        group.refuse_other_machines()
        queue = MessageQueue(1, 1, None, max_chunk_bytes, max_chunks)
        is_reader = dist.get_rank() == reader_rank
        handles: list[Any] | None = [None] * group.size if is_reader else None
        dist.gather_object(queue.handle, handles, dst=reader_rank, group=pg)
        if blocking:
            queue.wait_until_ready()
        return queue, handles or []

    @staticmethod
    def create_from_process_group(
        pg: Any,
        max_chunk_bytes: int,
        max_chunks: int,
        writer_rank: int = 0,
        external_writer_handle: Handle | None = None,
        blocking: bool = True,
    ) -> MessageQueue:
        """Make a queue for a group of processes: a torch.distributed.ProcessGroup, or an object
        with the members rank, world_size, broadcast_obj and all_gather_obj, as vLLM's
        StatelessProcessGroup has. All processes of the group call it.

        The process with writer_rank, counted in the group, writes, and all others read. With
        external_writer_handle the writer is outside the group, and all processes read. With
        blocking it waits until all readers have joined. Raises Unsupported in all processes if they
        are not on one machine.
        """
        group = Group(pg)
        group.refuse_other_machines()
        if group.rank != writer_rank:
            handle = group.broadcast(None, writer_rank)
            queue = MessageQueue.create_from_handle(handle, group.rank)
        else:
            if external_writer_handle is not None:
                queue = MessageQueue.create_from_handle(external_writer_handle, group.rank)
            else:
                ranks = [rank for rank in range(group.size) if rank != writer_rank]
                queue = MessageQueue(len(ranks), len(ranks), ranks, max_chunk_bytes, max_chunks)
            group.broadcast(queue.handle, writer_rank)
        if blocking:
            queue.wait_until_ready()
        return queue


class _Waits:
    """The time of one wait: its end, and when a line goes to the log. A wait consists of calls that
    end early for each line (slice), and of judge after each.
    """

    def __init__(
        self, begun: float, timeout: float | None, warns: bool, deadline: float | None = None
    ) -> None:
        # lines: which line is the next one to be written
        self.begun, self.warns, self.lines = begun, warns, 1
        self.deadline = deadline if timeout is None else begun + timeout
        self.is_now = timeout is not None and timeout <= 0

    def left(self) -> float | None:
        """How long the call may still wait in all."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)

    def slice(self) -> float | None:
        """How long the next call may wait: until the end, or until the next line is due."""
        if self.is_now:
            return 0
        ends = [] if self.deadline is None else [self.deadline]
        if self.warns:
            ends.append(self.begun + VLLM_RINGBUFFER_WARNING_INTERVAL * self.lines)
        # A timeout of 0 would not wait at all.
        return max(min(ends) - time.monotonic(), 1e-6) if ends else None

    def milliseconds(self) -> float | None:
        seconds = self.slice()
        return None if seconds is None else seconds * 1000

    def judge(self, why: str, error: BaseException | None) -> None:
        """After a call that waited in vain: raise TimeoutError, write the line that is due, or do
        nothing, if neither is due yet.
        """
        now = time.monotonic()
        if self.is_now or (self.deadline is not None and now >= self.deadline):
            raise TimeoutError(errno.ETIMEDOUT, f"the time is over: {why}") from error
        if self.warns and now >= self.begun + VLLM_RINGBUFFER_WARNING_INTERVAL * self.lines:
            self.lines += 1
            logger.info(_LONG_WAIT, VLLM_RINGBUFFER_WARNING_INTERVAL, why)


# ---- pickles


def _aligned(nbytes: int) -> int:
    return (nbytes + _ALIGNMENT - 1) & -_ALIGNMENT


def _places(body: int, sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where the pickle and the buffers begin in a block, and the block's size."""
    begins, end = [], 8 * len(sizes)
    for nbytes in (body, *sizes):
        begin = _aligned(end)
        begins.append(begin)
        end = begin + nbytes
    return begins, max(end, 1)


def _copy(storage: Storage, begin: int, part: memoryview) -> None:
    if part.nbytes >= _WRITE_NBYTES:
        storage.write(part, begin)
        return
    with memoryview(storage) as block:
        block[begin : begin + part.nbytes] = part


def _object_of(message: Message, copies: bool) -> Any:
    with message:
        user_bytes = message.user_bytes
        if user_bytes[:1] == _INLINE:
            return pickle.loads(memoryview(user_bytes)[1:])
        if len(user_bytes) != _BLOCK_HEAD.size or user_bytes[:1] != _BLOCK or len(message) != 1:
            raise _corrupt("its head is not one of a message queue")
        _, count, body = _BLOCK_HEAD.unpack(user_bytes)
        with memoryview(message[0]) as block:
            if block.nbytes < 8 * count:
                raise _corrupt(f"a block of {block.nbytes} bytes has no {count} buffers")
            sizes = struct.unpack_from(f"<{count}Q", block)
            begins, end = _places(body, sizes)
            if end > block.nbytes:
                raise _corrupt(f"its {end} bytes are not in a block of {block.nbytes} bytes")
            parts = [
                block[begin : begin + size]
                for begin, size in zip(begins, (body, *sizes), strict=True)
            ]
            pickled, *views = parts
            buffers: list[Any] = [bytearray(view) for view in views] if copies else views
            try:
                return pickle.loads(pickled, buffers=buffers)
            finally:
                # The block goes back to the writer when no view of it is left.
                for view in parts if copies else parts[:1]:
                    view.release()


def _corrupt(why: str) -> TenonError:
    return make(Corrupt, f"a message of the message queue cannot be read: {why}")


def _reducers() -> dict[type, Callable[[Any], Any]]:
    # The table of a pickler hides copyreg's.
    reducers = dict(copyreg.dispatch_table)
    torch = sys.modules.get("torch")
    if torch is not None:
        reducers[torch.Tensor] = _reduce_tensor
    return reducers


def _reduce_tensor(tensor: Any) -> Any:
    """Reduce a tensor of PyTorch to its bytes, as a buffer that need not be copied into the pickle.
    Tensors that have no such bytes travel as PyTorch pickles them.
    """
    import torch

    if (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.requires_grad
        and not tensor.is_conj()
        and not tensor.is_neg()
    ):
        # The elements become bytes first, because numpy does not have all of PyTorch's types.
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        name = str(tensor.dtype).removeprefix("torch.")
        return _rebuild_tensor, (pickle.PickleBuffer(raw), tuple(tensor.shape), name)
    return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _rebuild_tensor(buffer: Any, shape: tuple[int, ...], dtype_name: str) -> Any:
    """Make the tensor that _reduce_tensor has reduced, over the buffer."""
    import torch

    dtype = getattr(torch, dtype_name)
    if not isinstance(dtype, torch.dtype):
        raise _corrupt(f"{dtype_name!r} is no type of elements")
    # bytes, which pickle makes of a small buffer that was read-only, would make a tensor that must
    # not be written.
    raw = bytearray(buffer) if isinstance(buffer, bytes) else buffer
    if not len(raw):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).view(shape)
