"""Lending and opening memory of CUDA devices, as PyTorch does it, and the question whether this
process can use CUDA.

A handle is for one receiver, who opens it once. It leads to the whole allocation in which the
storage lies, or to all pieces that are mapped there, and its receiver can read and write all of
that. Memory that came by an IPC handle cannot be lent on.

The memory's owner gets it back when neither the storage, nor a stream that used it, nor the
receiver of a handle keeps it. The owner is not notified when the last two are done. So every share,
every open and every last release checks a few waiting allocations, and cuda_collect checks all. A
receiver that is killed, and a handle that nobody opens, keep the memory until this process ends.

A stream is a CUstream or cudaStream_t as an int, or an object that has one as cuda_stream
(PyTorch), as ptr (CuPy) or by `__cuda_stream__`, or None, which is the default stream.
"""

from __future__ import annotations

import os

from tenon._frozen import Frozen
from tenon._native import ffi, lib, new_struct
from tenon._options import CUDA_TRANSPORT_NAMES, CUDA_TRANSPORTS, flags, number_of, unsigned, words
from tenon._storage_of import storage_of
from tenon._text import encoded_path
from tenon.error import InvalidArgument, Unsupported, call, filled, make, owned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol, Self, SupportsIndex

    from tenon._options import CudaTransport
    from tenon.storage import Storage

    class HasCudaStream(Protocol):
        def __cuda_stream__(self) -> tuple[int, int]: ...

    class IsTorchStream(Protocol):
        @property
        def cuda_stream(self) -> int: ...

    class IsCupyStream(Protocol):
        @property
        def ptr(self) -> int: ...

    Stream = SupportsIndex | HasCudaStream | IsTorchStream | IsCupyStream | None
    TorchTuple = tuple[int, bytes | None, int, int, bytes | None, int, bytes | None, bool | None]

_FIELDS = dict(ffi.typeof("tenon_cuda_handle").fields)
_COUNTER_ROOM = ffi.sizeof(_FIELDS["counter"].type)
EVENT_NBYTES = ffi.sizeof(_FIELDS["event"].type)
_UUID_NBYTES = 16

_FORMS = words("CUDA_FORM", "A B C D E")

# The default stream in DLPack's numbering. The number is no pointer.
_LEGACY = 1


def cuda_available() -> bool:
    """Whether this process can use CUDA.

    The answer is always False in a forked child of a process that had started CUDA's driver. The
    first call starts the driver, which can take a tenth of a second or more. The result is kept
    until the process ends, unless the driver refused for a reason that can pass. The call makes no
    context.
    """
    try:
        require_cuda()
    except Unsupported:
        return False
    return True


def require_cuda() -> None:
    """Raise Unsupported, with the reason, if this process cannot use CUDA. See cuda_available."""
    call(lib.tenon_cuda_available)


def _stream_number(stream: Any) -> int:
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        version, stream = stream.__cuda_stream__()
        if version != 0:
            raise make(
                InvalidArgument,
                f"__cuda_stream__ is of version {version}, and only 0 is known",
                option="stream",
            )
    else:
        stream = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError(
            "a stream is None, an int or an object with cuda_stream, ptr or __cuda_stream__, not"
            f" {type(stream).__name__}"
        )
    return unsigned(stream, "stream")


def stream_pointer(stream: Stream) -> Any:
    return ffi.cast("void *", _stream_number(stream))


def producer_stream(stream: Stream) -> int:
    """The number of a stream as `__dlpack__` takes it. 0 is ambiguous there, so the default stream
    becomes 1.
    """
    return _stream_number(stream) or _LEGACY


def consumer_stream(stream: Any) -> int:
    """The number of a stream that was given to `__dlpack__` for CUDA, or -1 for no stream. The
    default stream becomes 0.
    """
    if stream is None:
        return 0
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError(f"a stream is None or an int here, not {type(stream).__name__}")
    number = int(stream.__index__())
    if number == 0 or number < -1:
        raise make(
            InvalidArgument,
            f"stream {number} is ambiguous: for CUDA it is None or 1 (the default one), 2 (the"
            " calling thread's), -1 (none) or a pointer",
            option="stream",
        )
    return 0 if number == _LEGACY else number


def bytes_of(data: Any, what: str) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} is bytes, not {type(data).__name__}")
    return bytes(data)


def exactly(data: bytes, nbytes: int, what: str, field: str) -> bytes:
    if len(data) != nbytes:
        raise make(InvalidArgument, f"{what} has {len(data)} bytes and not {nbytes}", field=field)
    return data


class CudaHandle(Frozen):
    """How to reach a storage on a CUDA device. A handle is a plain value: it can be pickled,
    printed and sent by any means. It can be opened only once.

    - transport: How the memory is reached: "ipc", "fd", "fabric" or "pool". "none" stands for an
      empty storage. For an opener "auto" takes the transport from `memory`.
    - device: The number of the device at the sender.
    - uuid: The 16 bytes that identify the device, or None if they are not known. They take
      precedence over the number.
    - offset and nbytes: The place of the storage behind the handle, in bytes.
    - counter and slot: The name of the file in which the receiver says that it has let go, and the
      place in that file.
    - memory: The memory handle.
    - event and event_required: The event's handle, and whether the bytes are valid only once that
      event has passed. An empty storage has no counter, memory or event.
    - fds: The fds that a handle by "fd" or "pool" needs. The library owns them, and they stay open
      as long as the storage lives. They travel over a socket (socket.send_fds). The receiver opens
      handle.with_fds(received).
    """

    transport: CudaTransport
    device: int
    uuid: bytes | None
    nbytes: int
    offset: int
    counter: str
    slot: int
    memory: bytes
    event: bytes
    event_required: bool
    fds: tuple[int, ...]
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        transport: CudaTransport,
        device: int,
        uuid: bytes | None,
        nbytes: int,
        offset: int,
        counter: str,
        slot: int,
        memory: bytes,
        event: bytes,
        event_required: bool,
        fds: tuple[int, ...] = (),
    ) -> None:
        self._set(locals(), fds=tuple(fds))

    def with_fds(self, fds: Iterable[int]) -> Self:
        """Give the same handle with these fds, in the order of the sender's.

        The caller still owns the fds, and closes them once the handle is open.
        """
        items: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        items["fds"] = tuple(fds)
        return type(self)(**items)

    def torch_tuple(self) -> TorchTuple:
        """Give (device, memory, nbytes, offset, counter, slot, event, event_required), as PyTorch's
        `_new_shared_cuda` takes it.

        The tuple does not contain the uuid, so both processes must number their devices alike.
        """
        if self.transport not in ("ipc", "none", "auto"):
            raise make(
                Unsupported,
                "PyTorch opens memory by IPC handles alone, and this is reached by"
                f" {self.transport!r}",
                field="transport",
            )
        if not self.memory:
            return self.device, None, self.nbytes, self.offset, None, self.slot, None, None
        event = exactly(self.event, EVENT_NBYTES, "the event's handle", "event")
        counter, required = os.fsencode(self.counter), bool(self.event_required)
        place = self.device, self.memory, self.nbytes, self.offset
        return *place, counter, self.slot, event, required

    @classmethod
    def from_torch_tuple(cls, items: tuple[Any, ...], uuid: bytes | None = None) -> Self:
        """Make a handle of the eight items that PyTorch's `_share_cuda_` gives. uuid is that of the
        device, if it is known.
        """
        if not isinstance(items, (tuple, list)):
            raise TypeError(f"PyTorch's items are a tuple, not {type(items).__name__}")
        if len(items) != 8:
            raise make(InvalidArgument, f"PyTorch's tuple has 8 items, not {len(items)}")
        device, memory, nbytes, offset, counter, slot, event, event_required = items
        indices = {"device": device, "nbytes": nbytes, "offset": offset, "slot": slot}
        for what, number in indices.items():
            if isinstance(number, bool) or not hasattr(number, "__index__"):
                raise TypeError(f"{what} is an int, not {type(number).__name__}")
        if uuid is not None:
            uuid = exactly(bytes_of(uuid, "uuid"), _UUID_NBYTES, "the device's uuid", "uuid")
        numbers = int(device), uuid, unsigned(nbytes, "nbytes"), unsigned(offset, "offset")
        slot = unsigned(slot, "slot")
        if memory is None:
            if counter is not None or event is not None or event_required:
                raise make(
                    InvalidArgument,
                    "PyTorch's tuple has a counter or an event, but no memory",
                    field="memory",
                )
            return cls("none", *numbers, "", slot, b"", b"", False)
        if not isinstance(event_required, bool):
            raise TypeError(f"event_required is a bool, not {type(event_required).__name__}")
        handle = exactly(bytes_of(event, "event"), EVENT_NBYTES, "the event's handle", "event")
        name, data = os.fsdecode(bytes_of(counter, "counter")), bytes_of(memory, "memory")
        return cls("auto", *numbers, name, slot, data, handle, event_required)

    def _cdata(self, memory: Any, fds: Any) -> Any:
        """Make the C form of the handle. `memory` and `fds` are the C forms of self.memory and
        self.fds, and must outlive the result.
        """
        handle = new_struct(
            "tenon_cuda_handle",
            device=ordinal(self.device),
            nbytes=unsigned(self.nbytes, "nbytes"),
            offset=unsigned(self.offset, "offset"),
            slot=unsigned(self.slot, "slot"),
            event_required=bool(self.event_required),
            counter=encoded_path(self.counter, "the counter's name", _COUNTER_ROOM),
        )
        if self.uuid is not None:
            handle.uuid = exactly(self.uuid, _UUID_NBYTES, "the device's uuid", "uuid")
        if self.memory:
            handle.memory_nbytes, handle.long_memory = len(self.memory), memory
        if self.event:
            handle.event = exactly(self.event, EVENT_NBYTES, "the event's handle", "event")
        if self.fds:
            handle.fds, handle.n_fds = fds, len(self.fds)
        return handle


def ordinal(number: SupportsIndex) -> int:
    value = number.__index__()
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} is no number of a device or an fd")
    return value


def share_cuda(
    storage: Storage, stream: Stream, transport: str, form: str, let_write: bool
) -> CudaHandle:
    """See Storage.share_cuda."""
    options = new_struct("tenon_cuda_options", flags=flags("CUDA", let_write=let_write))
    options.transport = number_of(CUDA_TRANSPORTS, transport, "transport")
    options.form = number_of(_FORMS, form, "form")
    out = filled(
        "tenon_cuda_handle", lib.tenon_share_cuda, storage._own(), stream_pointer(stream), options
    )
    uuid = bytes(ffi.buffer(out.uuid))
    return CudaHandle._of(
        out,
        transport=CUDA_TRANSPORT_NAMES[out.transport],
        uuid=uuid if any(uuid) else None,
        counter=os.fsdecode(ffi.string(out.counter)),
        memory=bytes(ffi.buffer(out.memory, out.memory_nbytes)),
        event=bytes(ffi.buffer(out.event)) if out.memory_nbytes else b"",
        event_required=bool(out.event_required),
        fds=tuple(out.fds[i] for i in range(out.n_fds)),
    )


def open_cuda(
    handle: CudaHandle,
    *,
    stream: Stream = None,
    device: int | None = None,
    read_only: bool = False,
    keep_open: bool = False,
    other_user: bool = False,
) -> Storage:
    """Open device memory that Tenon or PyTorch lends.

    Memory that this process already holds comes back as the same storage. The memory goes back to
    the sender after the last reference to the storage, once the streams have passed.

    - stream: Work that is given to this stream from now on waits on the device for the sender's
      work. The storage counts as used in this stream. A caller that uses it in another stream must
      order the two streams, and record the other one with Storage.record_stream.
    - device: This process's number of the device. It takes precedence over the handle.
    - read_only: The device refuses this process's writes. That is possible for handles by "fd" and
      "fabric".
    - keep_open: The driver's opening stays when its last storage has gone, for the next handle of
      the same memory. It ends with cuda_collect, or when many other allocations were opened with
      keep_open. Use it only with senders that do not free meanwhile the memory that they lent.
      Memory of a pool is closed in any case.
    - other_user: Also fetch PyTorch's expandable segments from a process of another user, with this
      process's rights.
    """
    options = new_struct("tenon_cuda_options", device=0 if device is None else ordinal(device))
    options.flags = flags(
        "CUDA",
        on_device=device is not None,
        read_only=read_only,
        keep_open=keep_open,
        other_user=other_user,
    )
    memory = ffi.from_buffer("uint8_t[]", handle.memory)
    fds = ffi.new("int32_t[]", [ordinal(fd) for fd in handle.fds])
    own, queue = handle._cdata(memory, fds), stream_pointer(stream)
    return storage_of(owned("tenon_storage", lib.tenon_open_cuda, own, queue, options))


def release_cuda_counter(counter: str, slot: int) -> None:
    """Tell the sender, in place of the receiver, that a message will not be opened. The arguments
    are CudaHandle's counter and slot. The call needs no CUDA.
    """
    name = encoded_path(counter, "the counter's name", _COUNTER_ROOM)
    call(lib.tenon_release_cuda_counter, name, unsigned(slot, "slot"))


def cuda_collect() -> int:
    """Give back device memory that nobody uses any more, and close the openings that were only kept
    open.

    Returns the number of storages whose memory still waits.
    """
    return int(lib.tenon_cuda_collect())
