"""Events: marks in CUDA streams, by which streams of this process and of others, and the host, wait
for each other.

An event is complete when all that was given to the stream before the mark has passed. It is of its
device's primary context, which CUDA's runtime uses and so every framework. A stream is what
share_cuda takes. In a child of fork of a process that used CUDA an event can be closed, and
everything else is Unsupported.
"""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon.by_cuda import EVENT_NBYTES, bytes_of, exactly, ordinal, stream_pointer
from tenon.error import call
from tenon.wait import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, SupportsIndex

    from tenon.by_cuda import Stream
    from tenon.wait import Cancel


def _options(device: SupportsIndex, flags: int) -> Any:
    options = ffi.new("tenon_cuda_event_options *")
    options.struct_size = ffi.sizeof("tenon_cuda_event_options")
    options.flags = flags
    options.device = ordinal(device)
    return options


class CudaEvent(Managed):
    """A mark in a CUDA stream.

    An interprocess event can go into a multiprocessing Queue or Pipe: what comes out means the same
    mark. It is opened on the device of the same number. Keep it here until all receivers have let
    go.
    """

    __slots__ = ("_device",)
    _instead = (
        "make it with interprocess=True and put it on a multiprocessing Queue or Pipe, or send its"
        " ipc_handle()"
    )
    _device: int

    def __init__(self, *, device: SupportsIndex = 0, interprocess: bool = False) -> None:
        """Make an event, which is complete until it is recorded.

        device: this process's number of it. interprocess: it has an ipc_handle. Events measure no
        time: what does cannot leave its process.
        """
        self._cdata = None
        self._device = ordinal(device)
        out = ffi.new("tenon_cuda_event **")
        call(
            lib.tenon_cuda_event_new,
            _options(device, lib.TENON_CUDA_EVENT_INTERPROCESS if interprocess else 0),
            out,
        )
        self._cdata = ffi.gc(out[0], lib.tenon_cuda_event_release)

    @classmethod
    def from_ipc_handle(cls, handle: bytes, device: SupportsIndex = 0) -> Self:
        """Open another process's event: both then mean the same mark, whichever of them records it.

        handle: 64 bytes, of CudaEvent.ipc_handle or of PyTorch's torch.cuda.Event. device: where it
        was made, in this process's numbering. The process that made it cannot open it, and has to
        keep it until all others have let go.
        """
        self = cls.__new__(cls)
        self._cdata = None
        self._device = ordinal(device)
        out = ffi.new("tenon_cuda_event **")
        given = ffi.from_buffer(
            "uint8_t[]",
            exactly(
                bytes_of(handle, "the event's handle"), EVENT_NBYTES, "the event's handle", "event"
            ),
        )
        call(lib.tenon_cuda_event_from_ipc_handle, given, _options(device, 0), out)
        self._cdata = ffi.gc(out[0], lib.tenon_cuda_event_release)
        return self

    def record(self, stream: Stream = None) -> None:
        """Mark what was given to the stream until now; an older mark is forgotten.

        The stream is of the event's device.
        """
        call(lib.tenon_cuda_event_record, self._own(), stream_pointer(stream))

    def wait(self, stream: Stream = None) -> None:
        """Let what is given to the stream from now on wait for the mark that was recorded last.

        The host does not wait.
        """
        call(lib.tenon_cuda_event_wait, self._own(), stream_pointer(stream))

    def query(self) -> bool:
        """Whether the event is complete. One that nobody recorded is."""
        out = ffi.new("int *")
        call(lib.tenon_cuda_event_query, self._own(), out)
        return bool(out[0])

    def synchronize(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        """Wait here until the event is complete.

        Seconds; 0 raises WouldBlock if it is not; None waits for ever. Ctrl-C ends it.
        """
        own = self._own()
        run(lambda wait, error: lib.tenon_cuda_event_synchronize(own, wait, error), timeout, cancel)

    def ipc_handle(self) -> bytes:
        """The 64 bytes by which other processes open the event, the same each time."""
        out = ffi.new("uint8_t[]", EVENT_NBYTES)
        call(lib.tenon_cuda_event_ipc_handle, self._own(), out)
        return bytes(ffi.buffer(out))

    def __repr__(self) -> str:
        return f"<tenon.CudaEvent{', closed' if self.closed else ''}>"
