"""Sends the weights of a model to another process in buckets, with the names and the wire of verl's
BucketedWeightSender and BucketedWeightReceiver (version 0.9.1,
verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py) for use_shm=True. Each of them works
against verl's own at the other end. verl itself is not imported. PyTorch and pyzmq are.

Both processes map one file in /dev/shm. The file has a name only while the receiver opens it. The
sender fills one bucket while the receiver reads another one. Both ends notice the other one's
death. If both are Tenon's, they keep the file for the next sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import pickle
import time
import uuid
from multiprocessing import resource_tracker

import torch
import zmq
import zmq.utils.monitor

from tenon.error import (
    Corrupt,
    InvalidArgument,
    PeerGone,
    ResourceExhausted,
    Timeout,
    Unsupported,
    make,
)
from tenon.integrations._torch_unpickler import TorchUnpickler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any, Self

__all__ = ["BucketedWeightReceiver", "BucketedWeightSender"]

_SHM = "/dev/shm"
_ALIGNMENT = 64
_RESERVE_NBYTES = 2 << 20
# Small buckets stay in the CPU's cache, and the next one fits beside them in the buffer. But each
# bucket costs the receiver a call of its function.
_PARTS = 32
_BUCKET_NBYTES = 16 << 20
_CLOSED = zmq.EVENT_CLOSED | zmq.EVENT_CLOSE_FAILED
_CLOSE_MS = 1000
# How often a receiver looks for the file of a sender's socket. It connects when the file is new. It
# tries an old file again at intervals that grow to the second number.
_RETRY_S, _MOST_RETRY_S = 0.001, 0.05


def _aligned(offset: int, to: int = _ALIGNMENT) -> int:
    return -(-offset // to) * to


class _Peer:
    """A ZMQ socket to one other process, whose death ends the waits. One thread uses it."""

    def __init__(self, kind: int, handle: str, other: str, timeout: float | None) -> None:
        self._kind, self._handle, self._other, self._timeout = kind, handle, other, timeout
        self._talks = False
        self._delay = _RETRY_S
        self._open()

    def _file(self) -> tuple[int, int] | None:
        """What tells one sender's socket file from the next one's. None without a file."""
        try:
            status = os.stat(self._handle.removeprefix("ipc://"))
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    def _open(self) -> None:
        self._tried = self._file()
        self._socket = zmq.Context.instance().socket(self._kind)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | _CLOSED)
        # ZMQ would connect again after the sync, and take the first message of the next one.
        self._socket.reconnect_ivl = -1
        try:
            (self._socket.bind if self._kind == zmq.REQ else self._socket.connect)(self._handle)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._kind == zmq.REQ:
            # ZMQ removes the socket's file later, in a thread of its own. It must not remove the
            # file of the next sender.
            self._socket.unbind(self._handle)
            while self._monitor.poll(_CLOSE_MS):
                if zmq.utils.monitor.recv_monitor_message(self._monitor)["event"] & _CLOSED:
                    break
        elif error is None:
            # The sender closes when it has the last answer, which a process that ends now would
            # not send.
            self._monitor.poll(_CLOSE_MS)
        self._close()

    def is_ready(self, event: int) -> bool:
        """Whether a message can be sent or received. Raises PeerGone if the peer has ended."""
        if self._socket.poll(0, event):
            return True
        if not self._monitor.poll(0):
            return False
        if self._socket.poll(0, event):  # the peer sent a message, and then ended
            return True
        if not self._talks:
            self._monitor.recv_multipart()
            if self._kind == zmq.REP:  # the sender does not listen yet, or it was the last one
                self._close()
                end = time.monotonic() + self._delay
                while time.monotonic() < end and self._file() in (None, self._tried):
                    time.sleep(_RETRY_S)
                self._delay = min(2 * self._delay, _MOST_RETRY_S)
                self._open()
            return False
        raise make(
            PeerGone,
            f"the {self._other} at {self._handle} has ended before all weights were there: its log"
            " says why. Start the sync again at both ends",
        )

    def _late(self) -> Timeout:
        error = make(
            Timeout,
            f"the {self._other} at {self._handle} has not answered for {self._timeout} seconds:"
            " check that it runs and has the same handle, or give a longer timeout",
        )
        assert isinstance(error, Timeout)
        return error

    def wait(self, event: int) -> None:
        begin = time.monotonic()
        while not self.is_ready(event):
            left = -1
            if self._timeout is not None:
                left = int(max(0, begin + self._timeout - time.monotonic()) * 1000)
            both = [(self._socket, event), (self._monitor, zmq.POLLIN)]
            if not zmq.zmq_poll(both, left) or not left:
                raise self._late()

    async def async_wait(self, event: int) -> None:
        loop = asyncio.get_running_loop()
        fds = self._socket.FD, self._monitor.FD
        while not self.is_ready(event):
            woken = asyncio.Event()
            for fd in fds:
                loop.add_reader(fd, woken.set)
            try:
                await asyncio.wait_for(woken.wait(), self._timeout)
            except TimeoutError:
                raise self._late() from None
            finally:
                for fd in fds:
                    loop.remove_reader(fd)

    def send(self, data: bytes) -> None:
        self._socket.send(data)
        self._talks = True

    def receive(self) -> bytes:
        data = self._socket.recv()
        assert isinstance(data, bytes)
        self._talks = True
        return data


class _Buffer:
    """A file in /dev/shm, because verl's receiver opens no other memory. Its memory is reserved as
    it is needed, so that a full /dev/shm is an error and no SIGBUS.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._reserved = 0
        self.fd = os.open(_SHM, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.ftruncate(self.fd, nbytes)
        self.bytes = torch.frombuffer(mmap.mmap(self.fd, nbytes), dtype=torch.uint8)

    def __del__(self) -> None:
        os.close(self.fd)

    def reserve(self, end: int) -> None:
        if end <= self._reserved:
            return
        end = min(_aligned(end, _RESERVE_NBYTES), self.nbytes)
        try:
            os.posix_fallocate(self.fd, self._reserved, end - self._reserved)
        except OSError as error:
            raise make(
                ResourceExhausted,
                f"{_SHM} has no room for {end} bytes of a bucket: enlarge it (docker run"
                " --shm-size), or lower bucket_size_mb",
                errno=str(error.errno),
                path=_SHM,
            ) from error
        self._reserved = end


# The sender's last buffer, and the receiver's mapping of it with the file's identity. The next sync
# uses them again: new pages would take far longer than the copies.
_kept: list[_Buffer] = []
_mapped: list[tuple[tuple[int, int], Any]] = []
os.register_at_fork(after_in_child=_kept.clear)
_NEW, _KEPT = b"new", b"kept"  # what Tenon's receiver answers to the first message


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


class _Buckets:
    """The bucket that the sender fills, beside the one that the receiver reads."""

    def __init__(self, peer: _Peer, nbytes: int) -> None:
        self._peer = peer
        self._nbytes = nbytes
        self._part = max(nbytes // _PARTS, min(nbytes // 4, _BUCKET_NBYTES))
        self._meta: dict[str, dict[str, Any]] = {}
        self._begin = self._end = self._limit = 0  # of the bucket that is filled
        self._busy = 0, 0  # the bytes that the receiver reads
        self._waits = False
        self._buffer = _Buffer(nbytes)
        self._is_kept = False

    async def introduce(self) -> None:
        """Let the receiver open the file, which has a name until the receiver answers.

        Python's tracker removes the name if this process is killed meanwhile, and no memory is
        reserved yet. The tracker also learns the name from verl's receiver, which never takes it
        back.
        """
        await self._peer.async_wait(zmq.POLLOUT)
        name = f"verl_weights_{uuid.uuid4().hex}"
        message: dict[str, Any] = {"name": name, "size": self._nbytes}
        last = _kept.pop() if _kept else None
        if last is not None and last.nbytes == self._nbytes:
            message["kept"] = _identity(last.fd)
        fd, path = self._buffer.fd, f"{_SHM}/{name}"
        resource_tracker.register(f"/{name}", "shared_memory")
        # With a directory fd, Python passes the flag by which the kernel follows the link.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)
        try:
            await self._ask(message)
            answer = await self._answer()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            resource_tracker.unregister(f"/{name}", "shared_memory")
        self._is_kept = answer in (_NEW, _KEPT)
        if answer == _KEPT and last is not None:
            self._buffer = last

    async def _ask(self, message: dict[str, Any]) -> None:
        await self._peer.async_wait(zmq.POLLOUT)
        self._peer.send(pickle.dumps(message))
        self._waits = True

    async def _answer(self) -> bytes:
        answer = b""
        if self._waits:
            await self._peer.async_wait(zmq.POLLIN)
            answer = self._peer.receive()
            self._waits = False
        self._busy = 0, 0
        return answer

    async def put(self, name: str, weight: Any) -> None:
        nbytes = weight.numel() * weight.element_size()
        if nbytes > self._nbytes:
            raise make(
                InvalidArgument,
                f"the weight {name} has {nbytes} bytes, and the buffer {self._nbytes}: raise"
                " bucket_size_mb (verl's rollout.update_weights_bucket_megabytes), or send the"
                " weight in parts",
            )
        offset = _aligned(self._end)
        if self._meta and offset + nbytes > min(self._limit, self._begin + self._part):
            await self.flush(is_last=False)
        if not self._meta:
            offset = await self._new_bucket(nbytes)
        self._buffer.reserve(offset + nbytes)
        place = self._buffer.bytes[offset : offset + nbytes]
        place.view(weight.dtype).view(weight.shape).copy_(weight)
        self._end = offset + nbytes
        form = {"shape": weight.shape, "dtype": weight.dtype, "offset": offset}
        self._meta[name] = {"name": name, **form, "handle": None}

    async def _new_bucket(self, nbytes: int) -> int:
        """Begin a bucket beside the bytes that the receiver reads. Lower bytes are preferred,
        because their memory is warm.
        """
        begin, end = self._busy
        if begin < nbytes and _aligned(end) + nbytes > self._nbytes:
            await self._answer()
            begin = end = 0
        is_low = 0 < nbytes <= begin
        self._begin = self._end = 0 if is_low else _aligned(end)
        self._limit = begin if is_low else self._nbytes
        return self._begin

    async def flush(self, *, is_last: bool) -> None:
        await self._answer()
        await self._ask({"bucket_meta": self._meta, "is_last": is_last})
        self._busy = self._begin, self._end
        self._meta = {}
        if is_last:
            await self._answer()
            if self._is_kept:
                _kept[:] = [self._buffer]


class BucketedWeightSender:
    """Sends weights to one BucketedWeightReceiver, of Tenon or of verl.

    - zmq_handle: The address of the socket, such as "ipc:///tmp/weights.sock".
    - bucket_size_mb: The size of the buffer in MiB. Each weight must fit into it.
    - use_shm: Must be true.
    - timeout: Seconds to wait for the receiver in each step. None waits until it ends.
    """

    def __init__(
        self,
        zmq_handle: str,
        bucket_size_mb: int = 512,
        use_shm: bool = False,
        *,
        timeout: float | None = None,
    ) -> None:
        _require_shm(use_shm)
        self.zmq_handle = zmq_handle
        self.bucket_size_mb = bucket_size_mb
        self.bucket_size = int(bucket_size_mb) << 20
        self.use_shm = use_shm
        self.timeout = timeout

    async def async_send_weights(self, weights: Any) -> None:
        """Send the (name, tensor) pairs of an iterator or an async iterator.

        Raises PeerGone if the receiver ends, ResourceExhausted if /dev/shm is full, and
        InvalidArgument for a weight that is larger than the buffer.
        """
        with (
            self._path_is_free(),
            _Peer(zmq.REQ, self.zmq_handle, "receiver", self.timeout) as peer,
        ):
            buckets = _Buckets(peer, self.bucket_size)
            await buckets.introduce()
            async for name, weight in _each(weights):
                await buckets.put(name, weight)
            await buckets.flush(is_last=True)

    @contextlib.contextmanager
    def _path_is_free(self) -> Iterator[None]:
        """Remove the socket's file before and after the sync, as verl does."""
        scheme, _, path = self.zmq_handle.partition("://")

        def remove() -> None:
            if scheme == "ipc":
                with contextlib.suppress(OSError):
                    os.remove(path)

        remove()
        try:
            yield
        finally:
            remove()


class BucketedWeightReceiver:
    """Receives weights from one BucketedWeightSender, of Tenon or of verl. The arguments are those
    of the sender, and the device to which the tensors go.
    """

    def __init__(
        self,
        zmq_handle: str,
        device: Any,
        use_shm: bool = False,
        *,
        timeout: float | None = None,
    ) -> None:
        _require_shm(use_shm)
        self.zmq_handle = zmq_handle
        self.device = device
        self.use_shm = use_shm
        self.timeout = timeout

    def receive_weights(
        self, on_bucket_received: Callable[[list[tuple[str, Any]], bool], object]
    ) -> None:
        """Call on_bucket_received(weights, is_last) for each bucket, with (name, tensor) pairs.

        On the CPU the tensors are views of the buffer, so the function copies what it keeps. Raises
        PeerGone if the sender ends, and Corrupt for a message that is not verl's.
        """
        with _Peer(zmq.REP, self.zmq_handle, "sender", self.timeout) as peer:
            peer.wait(zmq.POLLIN)
            path, answer, mapped = _open(TorchUnpickler.loads(peer.receive()))
            is_last = False
            try:
                while not is_last:
                    peer.send(answer)
                    answer = b""
                    peer.wait(zmq.POLLIN)
                    message = TorchUnpickler.loads(peer.receive())
                    weights, is_last = _views(message, mapped[1], self.device)
                    on_bucket_received(weights, is_last)
                    del weights
            except PeerGone:
                _remove_left(path)
                raise
            _mapped[:] = [mapped]
            peer.send(b"")


def _require_shm(use_shm: bool) -> None:
    if not use_shm:
        raise make(
            Unsupported,
            "Tenon has verl's transfer by shared memory only: set use_shm=True, or use verl's own"
            " classes for CUDA's",
            option="use_shm",
        )


async def _each(weights: Any) -> AsyncIterator[tuple[str, Any]]:
    if hasattr(weights, "__aiter__"):
        async for each in weights:
            yield each
    else:
        for each in weights:
            yield each


def _corrupt(what: str) -> Exception:
    return make(Corrupt, f"{what}: check that both ends are of the same version of verl or Tenon")


def _open(message: Any) -> tuple[str, bytes, tuple[tuple[int, int], Any]]:
    """Open the sender's buffer. Returns its path, the answer to the message, and the buffer's
    identity and bytes.
    """
    try:
        name, nbytes = message["name"].removeprefix("/"), int(message["size"])
        kept = message.get("kept")
    except (KeyError, TypeError, AttributeError) as error:
        raise _corrupt(
            "the sender's first message has no name and size of shared memory (a sender with"
            " use_shm=False sends a handle of CUDA's)"
        ) from error
    path = f"{_SHM}/{name}"
    if "/" in name:
        raise _corrupt(f"the sender's shared memory has the name {name!r}, which has a slash")
    last = _mapped.pop() if _mapped else None
    if last is not None and last[0] == kept:
        return path, _KEPT, last
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not 0 < nbytes <= os.fstat(fd).st_size:
            raise _corrupt(f"{path} has {os.fstat(fd).st_size} bytes, and not {nbytes}")
        mapped = torch.frombuffer(mmap.mmap(fd, nbytes), dtype=torch.uint8)
        return path, _NEW, (_identity(fd), mapped)
    finally:
        os.close(fd)


def _views(message: Any, buffer: Any, device: Any) -> tuple[list[tuple[str, Any]], bool]:
    weights = []
    try:
        for name, meta in message["bucket_meta"].items():
            shape, dtype, begin = torch.Size(meta["shape"]), meta["dtype"], meta["offset"]
            if meta["handle"] is not None:
                raise _corrupt(f"the weight {name} comes by a handle of CUDA's")
            end = begin + shape.numel() * torch._utils._element_size(dtype)
            if min((begin, *shape)) < 0 or end > len(buffer):
                raise _corrupt(
                    f"the weight {name} lies at the bytes {begin} to {end} of a buffer of"
                    f" {len(buffer)} bytes"
                )
            weights.append((name, buffer[begin:end].view(dtype).view(shape).to(device)))
        return weights, bool(message["is_last"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise _corrupt(f"the sender's message is no bucket ({error!r})") from error


def _remove_left(path: str) -> None:
    """Remove the name that a killed sender of verl's leaves. A sender that lives removes the name
    itself, just after it has closed its socket.
    """
    for _ in range(50):
        if not os.path.exists(path):
            return
        time.sleep(0.02)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
