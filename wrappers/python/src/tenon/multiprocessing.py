"""Tensors and storages in multiprocessing: Queue, SimpleQueue, Pipe, Pool and Process arguments,
with fork, spawn and forkserver.

Nothing has to be imported or called. Put a tensor on a queue, and the tensor that comes out lies
over the same memory.

A queue is a pipe and carries bytes only. So the sender deposits the storages of a message
(tenon.deposit), and the first process that loads the message fetches them, under leases. A storage
that the receiver lets go is the sender's again. If the receiver dies, all its storages are. Two
processes that have met ask each other for new segments only.

A sender may exit normally while some of its messages are not fetched yet. It then leaves them to a
keeper, a process that ends when all are fetched, when no process of the multiprocessing family is
left, or after keep_seconds. If a sender was killed, a receiver that met it lately may still fetch.
Any other receiver gets PeerGone at once. A message that nobody fetches stays lent, with two
exceptions. configure may set a limit. And a message's carrier may tell that nobody will fetch: a
message that was read from a Pipe and not fetched within fetch_seconds is taken back, and so is a
message in a Pipe or a queue that no process has any more.

A message is fetched once. Loading the same bytes again, in any process, raises NotFound. Only
processes of the same user can fetch.

All this describes the strategy "file_descriptor". Under "file_system" (set_sharing_strategy)
messages hold names, and no process has to be asked for fds.

A CudaEvent that is interprocess travels by its handle, as PyTorch's does. It can be received any
number of times.

Tensors on a CUDA device travel by handles (Storage.share_cuda). Each storage of a message has one
handle, which is made when the pickler reaches the storage. Some handles need fds, for which the
receiver asks the sender or its keeper. Work that was given to the device's default stream until
then is done before the receiver's work begins. A Queue pickles in a thread of its own, so wait for
other streams before put. As with every handle, the receiver can write the memory, and must let go
before the sender ends. A message that nobody loads keeps the memory until then. A forked child of a
process that used CUDA cannot open the memory, so start receivers by spawn or forkserver.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import weakref
from multiprocessing import connection, process, spawn, util

from tenon import _dtype, _mp_carrier, _mp_family, _mp_fetch, _mp_hook, _mp_serve, _strategy
from tenon._mp_serve import Parcel, Segment, Server
from tenon._native import lib
from tenon._native_ext import deposit_tensors, fetch_tensors
from tenon._options import CUDA
from tenon.by_cuda import CudaHandle, open_cuda, release_cuda_counter
from tenon.by_filename import FilenameHandle, open_filename
from tenon.cuda_event import CudaEvent
from tenon.deposit import Deposit, Fetched, deposit, fetch, set_limits
from tenon.deposit import hand_over as hand_over_deposits
from tenon.deposit import stats as deposit_stats
from tenon.error import (
    Corrupt,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    TenonError,
    Unsupported,
    make,
)
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.wait import runs_handlers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Buffer

    from tenon._options import Mode
    from tenon.by_filename import Filename

__all__ = [
    "configure",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "unfetched",
]

_UINT8 = _dtype.number_of("uint8")

_keep_seconds = 60.0
_fetch_seconds = 30.0
_limits: dict[str, Any] = {}  # the limits that configure was given


def configure(
    *,
    keep_seconds: float | None = None,
    fetch_seconds: float | None = None,
    max_unfetched_segments: int | None = None,
    max_unfetched_nbytes: int | None = None,
    max_unfetched_seconds: float | None = None,
    filename: Filename | None = None,
) -> None:
    """Set limits of this process, and of the children that it forks from now on. An option that is
    None leaves its limit unchanged.

    - keep_seconds: In seconds, how long a keeper stays behind (60).
    - fetch_seconds: The seconds that a receiver waits for a sender that does not answer (30). It is
      also, but at least 1 second, the time that a message may wait to be fetched after it was read
      from a Pipe, or after its Pipe or queue has gone.
    - max_unfetched_segments: For how many segments receivers may ask (half of this process's limit
      of open files). One more raises ResourceExhausted.
    - max_unfetched_nbytes and max_unfetched_seconds: How many bytes of storages may wait for a
      receiver, and for how long (0, no limit). Messages beyond that are withdrawn, the oldest
      first, and a process that loads one later gets NotFound. The limits hold for messages that are
      sent from now on.
    - filename: How the strategy "file_system" makes names, such as tenon.Filename(prefix="train-").
      It must not have a whole name.
    """
    global _keep_seconds, _fetch_seconds
    seconds = {
        "keep_seconds": keep_seconds,
        "fetch_seconds": fetch_seconds,
        "max_unfetched_seconds": max_unfetched_seconds,
    }
    for name, value in seconds.items():
        if value is not None and not 0 <= value < 1e9:
            raise ValueError(f"{name} {value} is not a number of seconds")
    if max_unfetched_segments is not None and max_unfetched_segments < 1:
        raise ValueError(f"max_unfetched_segments {max_unfetched_segments} is less than 1")
    if max_unfetched_nbytes is not None and max_unfetched_nbytes < 0:
        raise ValueError(f"max_unfetched_nbytes {max_unfetched_nbytes} is negative")
    if filename is not None:
        if filename.name is not None:
            raise ValueError(f"every tensor under the same name, {filename.name!r}: give a prefix")
        _strategy.filename = filename
    _keep_seconds = _keep_seconds if keep_seconds is None else keep_seconds
    _fetch_seconds = _fetch_seconds if fetch_seconds is None else fetch_seconds
    limits = {
        "max_unfetched_segments": max_unfetched_segments,
        "max_unfetched_nbytes": max_unfetched_nbytes,
        "max_unfetched_seconds": max_unfetched_seconds,
    }
    _limits.update({name: value for name, value in limits.items() if value is not None})
    set_limits(**_limits)


def unfetched() -> tuple[int, int]:
    """The number of this process's messages that nobody has fetched yet, or that a receiver is
    still opening, and the number of segments for which their receivers may ask.
    """
    lender = _lender
    deposits = deposit_stats()
    if lender is None:
        return deposits.messages, deposits.segments
    return deposits.messages + len(lender.server.parcels), deposits.segments + len(lender.segments)


class UnknownStrategy(InvalidArgument, AssertionError):
    """There is no such strategy. The error is also an AssertionError, because PyTorch raises
    one.
    """


def get_all_sharing_strategies() -> set[str]:
    """The strategies that set_sharing_strategy accepts, by PyTorch's names."""
    return {_strategy.FILE_DESCRIPTOR, _strategy.FILE_SYSTEM}


def get_sharing_strategy() -> str:
    """The strategy of this process: "file_descriptor" unless it was set."""
    return _strategy.current


def set_sharing_strategy(new_strategy: str) -> None:
    """Set how tensors of this process travel through multiprocessing from now on, in PyTorch's
    words.

    "file_descriptor" is the strategy at the start. The docstring of this module describes it. It is
    fast, needs no room in /dev/shm for tensors, and leaves no memory there in any case.

    "file_system" lends by name. From then on tenon.empty, zeros, from_numpy and clone put each
    tensor of mode "shared" into a named file of its own (in /dev/shm, unless configure says
    otherwise). Exceptions are tensors that are private, empty, in an arena or aligned to more than
    64 bytes. A message about such a file holds its name. It needs no fd, no thread of Python's and
    no keeper, however many files there are. A receiver needs room for one mapping for each file.

    - The sender may let go of the tensor, and may exit, before the message is read. The file waits
      for the message as long as the sender lives, and 60 seconds after an orderly exit. A message
      that is never read keeps its memory for that time.
    - If the sender was killed, its unread messages are lost: reading one raises NotFound, unless no
      process has looked at the file yet. Files that other processes hold stay.
    - Every holder in the family can write the file and cut it short (Storage.is_sealed is False).
      Only processes of the same user can open it.
    - A tensor that lies in no named file (made before, or of mode "frozen" or "lender_writes")
      travels as under "file_descriptor".

    Receivers of multiprocessing's carriers accept both kinds, whatever their own strategy.
    Elsewhere (Connection, open_fd, open_filename, open_descriptor) a process of this strategy
    accepts named files by default, and any other process with allow_unsealed=True. A forked child
    inherits the strategy. A child of spawn or forkserver begins with "file_descriptor", as in
    PyTorch. PyTorch's own strategy is a separate setting, which says how torch tensors travel.
    """
    if new_strategy not in get_all_sharing_strategies():
        message = (
            f"there is no sharing strategy {new_strategy!r}, only"
            f" {' and '.join(sorted(get_all_sharing_strategies()))}"
        )
        error = UnknownStrategy(message)
        error.status, error.code = lib.TENON_INVALID_ARGUMENT, "INVALID_ARGUMENT"
        error.details = {"option": "new_strategy"}
        raise error
    _strategy.current = new_strategy


# ---- the sender

_DEVICE = (  # the kind of segment, beside the accesses, for an fd that leads to memory of a device
    "device"
)


class _Lender:
    """The serving side of one process for the fds of device handles. It exists from the first such
    handle on.
    """

    def __init__(self) -> None:
        listener, self.path = _mp_serve.listen(_mp_family.make_folder())
        try:
            self.server = Server(listener)
        except BaseException:
            listener.close()
            _mp_serve.remove_listener(self.path)
            raise
        self.is_kept = False  # a keeper has the listener, so its path stays
        self.segments: weakref.WeakValueDictionary[tuple[int, int, str], Segment] = (
            weakref.WeakValueDictionary()
        )
        self._device_fds = 0
        self.thread: threading.Thread | None = threading.Thread(
            target=self.server.run, name="tenon-lender", daemon=True
        )
        try:
            self.thread.start()
        except RuntimeError:
            # The interpreter is about to end. Callers wait in the listener's queue for the keeper.
            self.thread = None

    def segment(self, fd: int, access: str) -> Segment:
        if access == _DEVICE:
            # The fds that the driver exports need not have inodes of their own, so two fds cannot
            # be recognised as one. Each gets a key of its own.
            self._device_fds += 1
            key = (0, self._device_fds, access)
        else:
            status = os.fstat(fd)
            key = (status.st_dev, status.st_ino, access)
        found = self.segments.get(key)
        if found is None:
            limit = _segment_limit()
            if len(self.segments) >= limit:
                raise make(
                    ResourceExhausted,
                    f"{limit} segments wait to be fetched by the receivers of earlier messages: let"
                    " them read first, keep small tensors together in the arena, or raise"
                    " max_unfetched_segments (tenon.multiprocessing.configure)",
                    limit="max_unfetched_segments",
                    limit_value=str(limit),
                )
            found = self.segments[key] = Segment(os.dup(fd))
        return found


_lock = threading.RLock()
_lender: _Lender | None = None


def _segment_limit() -> int:
    if "max_unfetched_segments" in _limits:
        return int(_limits["max_unfetched_segments"])
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(soft // 2, 1)


def _get_lender() -> _Lender:
    global _lender
    with _lock:
        if _lender is None:
            _mp_family.join()
            _lender = _Lender()
        return _lender


class _OutgoingFds:
    """The fds of one message's device handles while the message is pickled.

    The pickler's memo keeps this object alive, and makes it travel once per message.
    """

    __slots__ = ("__weakref__", "_lender", "_numbers", "_parcel")

    def __init__(self, lender: _Lender) -> None:
        self._lender = lender
        self._parcel = Parcel()
        self._numbers: dict[Segment, int] = {}

    def number(self, fd: int, access: str) -> int:
        segment = self._lender.segment(fd, access)
        number = self._numbers.get(segment)
        if number is None:
            number = self._numbers[segment] = len(self._parcel.segments)
            self._parcel.segments.append(segment)
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        # Each pickler that meets this object calls this method once, so every message has a key of
        # its own.
        key = os.urandom(_mp_serve.KEY_NBYTES)
        server = self._lender.server
        with server.lock:
            server.parcels[key] = self._parcel
        return _IncomingFds, (self._lender.path, key, os.getpid())


class _Pickling(threading.local):
    outgoing: weakref.ref[_OutgoingFds] | None = None


_pickling = _Pickling()
# One Python object for each storage while a message is pickled, so that the tensors over a storage
# share the object in the pickler's memo.
_storages: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()


def canonical(storage: Storage) -> Storage:
    """The one Python object of this process for a storage."""
    return _storages.setdefault(storage.id, storage)


def _outgoing_fds() -> _OutgoingFds:
    lender = _get_lender()
    outgoing = None if _pickling.outgoing is None else _pickling.outgoing()
    if outgoing is None or outgoing._lender is not lender:
        outgoing = _OutgoingFds(lender)
        _pickling.outgoing = weakref.ref(outgoing)
    return outgoing


class Outgoing:
    """The deposit of one message while the message is pickled.

    The pickler's memo keeps this object alive, and makes it travel once per message.
    """

    __slots__ = ("_deposit", "add", "withdraw")

    def __init__(self) -> None:
        _mp_family.join()
        self._deposit = Deposit()
        self.add = self._deposit.add
        self.withdraw = self._deposit.withdraw

    def __reduce__(self) -> tuple[Any, ...]:
        return _Incoming, (self._deposit.head,)


def _outgoing(*, anew: bool = False) -> Outgoing:
    pickling = _mp_hook.pickling
    if not pickling.depth:
        # A pickler other than multiprocessing's uses our reducers. We cannot know where its message
        # ends.
        return Outgoing()
    if pickling.outgoing is None or anew:
        pickling.outgoing = Outgoing()
    return pickling.outgoing


def _reduce_device(storage: Storage) -> tuple[Any, ...]:
    # The pickler's memo makes this one handle, opened once, for all tensors over the storage.
    handle = storage.share_cuda()
    if not handle.fds:
        return _open_cuda, (handle,)
    try:
        outgoing = _outgoing_fds()
        fds = [outgoing.number(fd, _DEVICE) for fd in handle.fds]
    except BaseException:
        release_cuda_counter(handle.counter, handle.slot)
        raise
    return _open_cuda, (handle.with_fds(()), outgoing, fds)


# A ticket for a whole message has 450 bytes, and 80 more for each tensor. A pipe holds 64 KiB, so a
# message of few tensors travels in pieces, which takes fewer bytes.
_FEW = 8


class _Envelope:
    """An object that pickles as the call of a function."""

    __slots__ = ("_call",)

    def __init__(self, *call: Any) -> None:
        self._call = call

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call[0], self._call[1:]


def with_tensors(
    tensors: list[Tensor], body: Buffer, protocol: int | None
) -> tuple[memoryview, bytes]:
    """Deposit the tensors to which a pickled message refers by number.

    Gives a message that fetches the tensors first, and the ticket of the deposit.
    """
    _mp_family.join()
    if len(tensors) > _FEW:
        ticket = deposit(tensors)
        envelope = _Envelope(_load, ticket, bytes(body))
    else:
        ticket, records, forms = deposit_tensors(tensors)
        envelope = _Envelope(_load_few, ticket, records, forms, bytes(body))
    return memoryview(pickle.dumps(envelope, protocol)), ticket


def _form_of(tensor: Tensor) -> tuple[Any, ...]:
    strides = None if tensor.is_contiguous else tensor.strides
    return tensor._dtype_number, tensor.shape, strides, tensor.offset, tensor._flags


def _is_collected(storage: Storage) -> bool:
    """Whether a storage can travel together with the other tensors of a message.

    Storages that cannot have reducers of their own.
    """
    if storage._device_numbers[0] == CUDA or not storage.nbytes or not storage.is_shared:
        return False
    return _strategy.current != _strategy.FILE_SYSTEM or storage.is_sealed


def collect(tensor: Tensor) -> int | None:
    """The number by which the message refers to the tensor. None means that the pickler is not
    ForkingPickler.dumps, and that the tensor travels by itself.
    """
    collected = _mp_hook.pickling.collected
    if collected is None:
        return None
    collected.append(tensor)
    return len(collected) - 1


def collect_storage(storage: Storage) -> int | None:
    """As collect, for a storage. It travels as a tensor of all its bytes."""
    return collect(Tensor._new(storage, _UINT8, (storage.nbytes,), None, 0, 0))


def reduce_storage(storage: Storage) -> tuple[Any, ...]:
    """The reducer of storages in multiprocessing's pickler."""
    if _is_collected(storage):
        number = collect_storage(storage)
        if number is not None:
            return _pick_storage, (number,)
    if storage._device_numbers[0] == CUDA:
        return _reduce_device(storage)
    if not storage.is_shared:
        raise make(
            Unsupported,
            "the storage is private memory, which cannot be lent: make the tensor with tenon.empty"
            " or tenon.zeros, or copy it with tenon.from_numpy or clone",
            option="private",
        )
    if not storage.nbytes:
        return _make_empty, (type(storage), storage.mode)
    if _strategy.current == _strategy.FILE_SYSTEM and not storage.is_sealed:
        # The pickler's memo makes this one name, and one count, for all tensors over the storage.
        return _open_named, (storage.share_filename(in_flight=True),)
    outgoing = _outgoing()
    try:
        record = outgoing.add(storage)
    except InvalidArgument:
        # The pickler writes to a stream, and the reader has fetched the first part already. The
        # rest is a deposit of its own.
        outgoing = _outgoing(anew=True)
        record = outgoing.add(storage)
    return _open_storage, (outgoing, record)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """The reducer of tensors in multiprocessing's pickler."""
    storage = canonical(tensor.storage)
    if _is_collected(storage):
        number = collect(tensor)
        if number is not None:
            return pick, (number,)
    return _make_tensor, (storage, *_form_of(tensor))


# The events that this process sent, by their handles. The driver opens no handle in the process
# that made the event.
_events: weakref.WeakValueDictionary[bytes, CudaEvent] = weakref.WeakValueDictionary()


def reduce_event(event: CudaEvent) -> tuple[Any, ...]:
    """The reducer of events in multiprocessing's pickler."""
    handle = event.ipc_handle()
    _events[handle] = event
    return _open_event, (handle, event._device, os.getpid())


# ---- the receiver


class _Loading(threading.local):
    tensors: Sequence[Tensor] = ()


_loading = _Loading()


def _load(ticket: bytes, body: bytes) -> Any:
    _mp_family.join()
    # The sender belongs to the family and decides itself whether it lends unsealed memory.
    with fetch(ticket, allow_unsealed=True, timeout=_fetch_seconds) as message:
        tensors = message.tensors
    return _load_body(tensors, body)


def _load_few(head: bytes, records: list[bytes], forms: list[tuple[Any, ...]], body: bytes) -> Any:
    _mp_family.join()
    return _load_body(
        fetch_tensors(
            Tensor, head, records, forms, int(min(_fetch_seconds, 4e9) * 1e9), runs_handlers()
        ),
        body,
    )


def _load_body(tensors: list[Tensor], body: bytes) -> Any:
    outer = _loading.tensors
    _loading.tensors = tensors
    try:
        return pickle.loads(body)
    except BaseException:
        tensors.clear()  # the error's traceback keeps this frame, which may live for long
        raise
    finally:
        _loading.tensors = outer


def pick(number: int) -> Tensor:
    """The tensor with this number in the message that this thread loads."""
    return _loading.tensors[number]


def _pick_storage(number: int) -> Storage:
    return canonical(pick(number).storage)


def _open_event(handle: bytes, device: int, pid: int) -> CudaEvent:
    own = _events.get(handle) if pid == os.getpid() else None
    return CudaEvent.from_ipc_handle(handle, device) if own is None else own


def _make_empty(cls: type[Storage], mode: Mode) -> Storage:
    return cls.new(0, mode=mode)


class _Incoming(Fetched):
    """The storages of one message while the message is unpickled.

    The unpickler's memo keeps this object alive. Storages that were not opened when the memo ends
    are given back.
    """

    __slots__ = ()

    def __init__(self, head: bytes) -> None:
        _mp_family.join()
        # The sender belongs to the family and decides itself whether it lends unsealed memory.
        super().__init__(head, allow_unsealed=True, timeout=_fetch_seconds)


def _open_storage(incoming: _Incoming, record: bytes) -> Storage:
    return incoming.storage(record)


def _open_named(handle: FilenameHandle) -> Storage:
    return open_filename(handle, allow_unsealed=True, decref=True, timeout=_fetch_seconds)


def _open_cuda(
    handle: CudaHandle, incoming: _IncomingFds | None = None, fds: Sequence[int] = ()
) -> Storage:
    if incoming is not None:
        handle = handle.with_fds([incoming.fd(number) for number in fds])
    try:
        return open_cuda(handle)
    except (NotFound, Unsupported):
        # A process that cannot reach the device has not opened the handle before either, and no
        # other process has the handle.
        if handle.counter:
            release_cuda_counter(handle.counter, handle.slot)
        raise


def _make_tensor(
    storage: Storage,
    dtype: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    offset: int,
    flags: int,
) -> Tensor:
    return Tensor._new(storage, dtype, shape, strides, offset, flags)


class _IncomingFds:
    """The fds of one message's device handles while the message is unpickled."""

    __slots__ = ("_parcel",)

    def __init__(self, path: str, key: bytes, pid: int) -> None:
        _mp_family.join()
        lender = _lender
        if lender is not None and lender.path == path:
            self._parcel = _mp_fetch.take(lender.server, key, pid)
        else:
            self._parcel = _mp_fetch.fetch(path, key, pid, _fetch_seconds)

    def fd(self, number: int) -> int:
        segments = self._parcel.segments
        if number >= len(segments):
            raise make(
                Corrupt,
                f"segment {number} of a message of {len(segments)}: the pickler went on after the"
                " message was fetched",
            )
        return segments[number].fd


# ---- exit and fork


def _relatives() -> list[int]:
    """A pidfd of the process that started this one. That process may never have imported Tenon."""
    parent = process.parent_process()
    if parent is None or parent.pid is None:
        return []
    try:
        fd = os.pidfd_open(parent.pid)
    except OSError:
        return []
    # The check comes after pidfd_open, so that the pid cannot belong to another process in between.
    if parent.is_alive():
        return [fd]
    os.close(fd)
    return []


def _is_loader_worker() -> bool:
    """Whether this process is a worker of PyTorch's DataLoader.

    The loader lets a worker end when it needs no more batches. Nobody reads the batches that are
    left in the pipe.
    """
    target = getattr(process.current_process(), "_target", None)
    return getattr(target, "__module__", None) == "torch.utils.data._utils.worker"


def hand_over() -> None:
    """Leave unfetched memory to a keeper. Called at a normal exit, after the feeder threads of
    queues.
    """
    family = _mp_family.path()
    _mp_family.leave()
    if _is_loader_worker():
        _close_lender()
        return
    relatives = _relatives()
    try:
        if relatives or _mp_serve.has_family(family):
            _hand_over_deposits(family, relatives)
            _hand_over_device_fds(family, relatives)
    finally:
        for fd in relatives:
            os.close(fd)
        _close_lender()


def _hand_over_deposits(family: str, relatives: list[int]) -> None:
    try:
        # Without the family's file, as in another mount namespace, the keeper stays for its whole
        # time.
        hand_over_deposits(
            seconds=_keep_seconds,
            pidfds=relatives,
            family=family if os.path.exists(family) else None,
        )
    except TenonError as error:
        print(
            "tenon: messages with tensors that nobody has fetched are lost, the keeper does not"
            f" start: {error}",
            file=sys.stderr,
        )


def _close_lender() -> Server | None:
    global _lender
    with _lock:
        lender, _lender = _lender, None
    if lender is None:
        return None
    lender.server.stop()
    if lender.thread is not None:
        lender.thread.join(5)
    lender.server.close()
    if not lender.is_kept:
        _mp_serve.remove_listener(lender.path)
    return lender.server


def _hand_over_device_fds(family: str, relatives: list[int]) -> None:
    lender = _lender
    if lender is None:
        return
    server = lender.server
    server.stop()
    if lender.thread is not None:
        lender.thread.join(5)
    if not server.parcels:
        return
    try:
        _start_keeper(server, lender.path, relatives, family)
        lender.is_kept = True
    except OSError as error:
        print(
            f"tenon: {len(server.parcels)} messages with tensors are lost, the keeper does not"
            f" start: {error}",
            file=sys.stderr,
        )


def _start_keeper(server: Server, path: str, relatives: list[int], family: str) -> None:
    import marshal

    parcels = {
        key: [segment.fd for segment in parcel.segments] for key, parcel in server.parcels.items()
    }
    plan = {
        "listener": server.listener.fileno(),
        "path": path,
        "parcels": parcels,
        "relatives": relatives,
        "family": family,
        "seconds": float(_keep_seconds),
    }
    fd = os.memfd_create("tenon-keeper-plan")
    try:
        with open(fd, "wb", closefd=False) as target:
            marshal.dump(plan, target)
        os.lseek(fd, 0, os.SEEK_SET)
        fds = {fd, server.listener.fileno(), *relatives}
        for numbers in parcels.values():
            fds.update(numbers)
        executable = os.fsencode(spawn.get_executable())
        arguments = [
            executable,
            b"-I",
            b"-S",
            b"-E",
            os.fsencode(_mp_serve.__file__),
            str(fd).encode(),
        ]
        util.spawnv_passfds(executable, arguments, sorted(fds))
    finally:
        os.close(fd)


def _before_fork() -> None:
    _lock.acquire()
    if _lender is not None:
        _lender.server.lock.acquire()


def _after_in_parent() -> None:
    if _lender is not None:
        _lender.server.lock.release()
    _lock.release()


def _after_in_child() -> None:
    """Drop the parent's lender, because the parent's messages belong to the parent.

    A copy of the listener in this process would make the parent look alive after its death.
    """
    global _lender
    lender, _lender = _lender, None
    if lender is not None:
        lender.server.close()
        lender.server.lock.release()
    _pickling.outgoing = None
    _lock.release()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
connection.Connection._send_bytes = _mp_carrier.sending(  # type: ignore[attr-defined]
    connection.Connection._send_bytes,  # type: ignore[attr-defined]
    lambda: max(_fetch_seconds, 1.0),
)
