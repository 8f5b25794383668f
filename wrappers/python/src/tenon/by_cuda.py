"""Lending and opening memory of CUDA devices, as PyTorch does it; and whether this process can use CUDA.

A handle is for one receiver, who opens it once. It leads to the whole allocation in which the storage lies, so its receiver can read and
write all of that; and it cannot be lent on. The memory's owner gets it back when neither the storage, nor a stream that used it, nor a
handle's receiver keeps it. Nobody is told of the last two: every share, open and last release looks, and so does cuda_collect. A receiver
that is killed, and a handle that nobody opens, keep the memory until this process ends.

A stream is a CUstream or cudaStream_t as an int, an object that has one as cuda_stream (PyTorch), as ptr (CuPy) or by __cuda_stream__, or
None, which is the default stream.
"""

from __future__ import annotations

import os

from tenon._frozen import Frozen
from tenon._native import ffi, lib
from tenon._options import CUDA_FORMS, CUDA_TRANSPORT_NAMES, number_of, unsigned
from tenon.error import InvalidArgument, Unsupported, call, make
from tenon.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Self, SupportsIndex

    from tenon._options import CudaForm, CudaTransport

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

_COUNTER_ROOM = ffi.sizeof(ffi.typeof("tenon_cuda_handle").fields[-1][1].type)
_EVENT_NBYTES = ffi.sizeof(ffi.typeof("tenon_cuda_handle").fields[-2][1].type)
_UUID_NBYTES = 16

# The default stream as DLPack has it; it is no pointer.
_LEGACY = 1


def cuda_available() -> bool:
    """Whether this process can use CUDA.

    Never in a child of fork of a process that had started CUDA's driver. The first call starts the driver, and can take a tenth of a second
    and more; what came of it is kept until the process ends. No context is made.
    """
    try:
        require_cuda()
    except Unsupported:
        return False
    return True


def require_cuda() -> None:
    """As cuda_available, but raise Unsupported, which says why, if this process cannot use CUDA."""
    call(lib.tenon_cuda_available)


def _stream_number(stream: Any) -> int:
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        version, stream = stream.__cuda_stream__()
        if version != 0:
            raise make(InvalidArgument, f"__cuda_stream__ is of version {version}, and only 0 is known", option="stream")
    else:
        stream = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if not hasattr(stream, "__index__"):
        raise TypeError(f"a stream is None, an int or an object with cuda_stream, ptr or __cuda_stream__, not {type(stream).__name__}")
    return unsigned(stream, "stream")


def raw_stream(stream: Stream) -> Any:
    return ffi.cast("void *", _stream_number(stream))


def producer_stream(stream: Stream) -> int:
    """As __dlpack__ takes it, for which 0 is ambiguous."""
    return _stream_number(stream) or _LEGACY


def consumer_stream(stream: Any) -> int:
    """A stream as __dlpack__ takes it for CUDA; -1: none."""
    if stream is None:
        return 0
    number = int(stream.__index__())
    if number == 0 or number < -1:
        raise make(
            InvalidArgument,
            f"stream {number} is ambiguous: for CUDA it is None or 1 (the default one), 2 (the calling thread's), -1 (none) or a pointer",
            option="stream",
        )
    return 0 if number == _LEGACY else number


def _bytes_of(data: Any, what: str) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} is bytes, not {type(data).__name__}")
    return bytes(data)


def _exactly(data: bytes, nbytes: int, what: str, field: str) -> bytes:
    if len(data) != nbytes:
        raise make(InvalidArgument, f"{what} has {len(data)} bytes and not {nbytes}", field=field)
    return data


def _counter_text(counter: str) -> bytes:
    """A C string that fits into a handle."""
    data = os.fsencode(counter)
    problem = ""
    if b"\0" in data:
        problem = "has a NUL in it"
    elif len(data) >= _COUNTER_ROOM:
        problem = f"has {len(data)} bytes, {_COUNTER_ROOM - 1} are the most"
    if problem:
        shown = data.decode("utf-8", "backslashreplace")
        raise make(InvalidArgument, f"the counter's name {shown!r} {problem}", path=shown)
    return data


class CudaHandle(Frozen):
    """How to reach a storage on a CUDA device. A value: it can be pickled, printed and sent by any means, but opened once only.

    transport: how the memory is reached: "ipc", "none" for an empty storage or, for an opener, "auto": what memory says. device:
    its number at the sender. uuid: the device's 16 bytes, which win over it; None: not known. offset and nbytes: where the storage is
    behind that handle, in bytes. counter: the name of the file in which the receiver says that he has let go, and slot: where there.
    memory: the memory handle. event: the event's handle, and event_required: whether the bytes are good only once that event has passed.
    An empty storage has no counter, memory nor event.
    """

    __slots__ = ("transport", "device", "uuid", "nbytes", "offset", "counter", "slot", "memory", "event", "event_required")  # noqa: RUF023 (the order of __init__)

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
    ) -> None:
        self._set(
            transport=transport,
            device=device,
            uuid=uuid,
            nbytes=nbytes,
            offset=offset,
            counter=counter,
            slot=slot,
            memory=memory,
            event=event,
            event_required=event_required,
        )

    def torch_tuple(self) -> TorchTuple:
        """(device, memory, nbytes, offset, counter, slot, event, event_required), as PyTorch's _new_shared_cuda takes it.

        The uuid is not in it: both processes must number their devices alike.
        """
        if not self.memory:
            return self.device, None, self.nbytes, self.offset, None, self.slot, None, None
        event = _exactly(self.event, _EVENT_NBYTES, "the event's handle", "event")
        return self.device, self.memory, self.nbytes, self.offset, os.fsencode(self.counter), self.slot, event, bool(self.event_required)

    @classmethod
    def from_torch_tuple(cls, items: tuple[Any, ...], uuid: bytes | None = None) -> Self:
        """From the eight items that PyTorch's _share_cuda_ gives; uuid: of the device, if it is known."""
        if not isinstance(items, (tuple, list)):
            raise TypeError(f"PyTorch's items are a tuple, not {type(items).__name__}")
        if len(items) != 8:
            raise make(InvalidArgument, f"PyTorch's tuple has 8 items, not {len(items)}")
        device, memory, nbytes, offset, counter, slot, event, event_required = items
        for number, what in ((device, "device"), (nbytes, "nbytes"), (offset, "offset"), (slot, "slot")):
            if isinstance(number, bool) or not hasattr(number, "__index__"):
                raise TypeError(f"{what} is an int, not {type(number).__name__}")
        if uuid is not None:
            uuid = _exactly(_bytes_of(uuid, "uuid"), _UUID_NBYTES, "the device's uuid", "uuid")
        numbers = int(device), uuid, unsigned(nbytes, "nbytes"), unsigned(offset, "offset")
        if memory is None:
            if counter is not None or event is not None or event_required:
                raise make(InvalidArgument, "PyTorch's tuple has a counter or an event, but no memory", field="memory")
            return cls("none", *numbers, "", unsigned(slot, "slot"), b"", b"", False)
        if not isinstance(event_required, bool):
            raise TypeError(f"event_required is a bool, not {type(event_required).__name__}")
        handle = _exactly(_bytes_of(event, "event"), _EVENT_NBYTES, "the event's handle", "event")
        name = os.fsdecode(_bytes_of(counter, "counter"))
        return cls("auto", *numbers, name, unsigned(slot, "slot"), _bytes_of(memory, "memory"), handle, event_required)

    def _cdata(self, memory: Any) -> Any:
        """memory: a buffer of self.memory, which has to outlive the result."""
        handle = ffi.new("tenon_cuda_handle *")
        handle.struct_size = ffi.sizeof("tenon_cuda_handle")
        handle.device = device_ordinal(self.device)
        if self.uuid is not None:
            handle.uuid = _exactly(self.uuid, _UUID_NBYTES, "the device's uuid", "uuid")
        handle.nbytes = unsigned(self.nbytes, "nbytes")
        handle.offset = unsigned(self.offset, "offset")
        handle.slot = unsigned(self.slot, "slot")
        handle.event_required = bool(self.event_required)
        if self.memory:
            handle.memory_nbytes = len(self.memory)
            handle.long_memory = memory
        if self.event:
            handle.event = _exactly(self.event, _EVENT_NBYTES, "the event's handle", "event")
        handle.counter = _counter_text(self.counter)
        return handle


def device_ordinal(number: SupportsIndex) -> int:
    value = number.__index__()
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} is no device")
    return value


def _options() -> Any:
    options = ffi.new("tenon_cuda_options *")
    options.struct_size = ffi.sizeof("tenon_cuda_options")
    return options


def share_cuda(storage: Storage, *, stream: Stream = None, form: CudaForm = "A", let_write: bool = False) -> CudaHandle:
    """See Storage.share_cuda."""
    options = _options()
    options.flags = lib.TENON_CUDA_LET_WRITE if let_write else 0
    options.form = number_of(CUDA_FORMS, form, "form")
    out = ffi.new("tenon_cuda_handle *")
    out.struct_size = ffi.sizeof("tenon_cuda_handle")
    call(lib.tenon_share_cuda, storage._own(), raw_stream(stream), options, out)
    transport: Any = CUDA_TRANSPORT_NAMES[out.transport]
    uuid = bytes(ffi.buffer(out.uuid))
    return CudaHandle(
        transport,
        int(out.device),
        uuid if any(uuid) else None,
        int(out.nbytes),
        int(out.offset),
        os.fsdecode(ffi.string(out.counter)),
        int(out.slot),
        bytes(ffi.buffer(out.memory, out.memory_nbytes)),
        bytes(ffi.buffer(out.event)) if out.memory_nbytes else b"",
        bool(out.event_required),
    )


def open_cuda(handle: CudaHandle, *, stream: Stream = None, device: int | None = None) -> Storage:
    """Open device memory that Tenon or PyTorch lends.

    What this process already holds comes back as the same storage. What is given to stream from now on waits for the sender's work, on the
    device; the storage counts as used in that stream, and whoever uses it in another one orders the two, and names it by
    Storage.record_stream. device: this process's number of the device, whatever the handle says. The memory goes back to the sender after
    the last reference to the storage, once the streams have passed.
    """
    options = _options()
    if device is not None:
        options.flags = lib.TENON_CUDA_ON_DEVICE
        options.device = device_ordinal(device)
    memory = ffi.from_buffer("uint8_t[]", handle.memory)
    out = ffi.new("tenon_storage **")
    call(lib.tenon_open_cuda, handle._cdata(memory), raw_stream(stream), options, out)
    return Storage._adopt(int(ffi.cast("uintptr_t", out[0])))


def release_cuda_counter(counter: str, slot: int) -> None:
    """Take a message back that will not be opened, on its receiver's side: CudaHandle's counter and slot. Needs no CUDA."""
    text = ffi.new("char[]", _counter_text(counter))
    call(lib.tenon_release_cuda_counter, text, unsigned(slot, "slot"))


def record_stream(storage: Storage, stream: Stream = None) -> None:
    """See Storage.record_stream."""
    call(lib.tenon_storage_record_stream, storage._own(), raw_stream(stream))


def cuda_collect() -> int:
    """Give device memory back that nobody uses any more. Returns how many storages' memory waits on."""
    return int(lib.tenon_cuda_collect())
