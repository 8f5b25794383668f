"""Events: marks in CUDA streams. Streams of this and of other processes, and the host, wait for
each other by them.

An event is complete when all work that was given to the stream before the mark has passed. It
belongs to its device's primary context, which CUDA's runtime and so every framework uses. A stream
is anything that share_cuda takes. In a forked child of a process that used CUDA an event can be
closed; every other call raises Unsupported.
"""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import flags
from tenon.by_cuda import EVENT_NBYTES, bytes_of, exactly, ordinal, stream_pointer
from tenon.error import call, given, owned
from tenon.wait import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, SupportsIndex

    from tenon.by_cuda import Stream
    from tenon.wait import Cancel


def _options(device: SupportsIndex, bits: int) -> Any:
    return new_struct("tenon_cuda_event_options", flags=bits, device=ordinal(device))


class CudaEvent(Managed):
    """An event is a mark in a CUDA stream.

    An interprocess event can go into a multiprocessing Queue or Pipe. The event that comes out
    means the same mark, on the device of the same number. Keep the event here until all receivers
    have let go.
    """

    __slots__ = ("_device",)
    _instead = (
        "make it with interprocess=True and put it on a multiprocessing Queue or Pipe, or send its"
        " ipc_handle()"
    )
    _device: int

    def __init__(self, *, device: SupportsIndex = 0, interprocess: bool = False) -> None:
        """Make an event, which counts as complete until it is recorded.

        device is this process's number of the device. With interprocess the event has an
        ipc_handle. Events measure no time, because CUDA's timing events cannot leave their process.
        """
        self._cdata = None
        self._device = ordinal(device)
        options = _options(device, flags("CUDA_EVENT", interprocess=interprocess))
        self._cdata = owned("tenon_cuda_event", lib.tenon_cuda_event_new, options)

    @classmethod
    def from_ipc_handle(cls, handle: bytes, device: SupportsIndex = 0) -> Self:
        """Open another process's event. Both events then mean the same mark, whichever process
        records it.

        handle is the 64 bytes of CudaEvent.ipc_handle or of PyTorch's torch.cuda.Event. device is
        the one on which the event was made, in this process's numbering. The process that made the
        event cannot open it, and must keep it until all others have let go.
        """
        self = cls.__new__(cls)
        self._cdata = None
        self._device = ordinal(device)
        what = "the event's handle"
        data = exactly(bytes_of(handle, what), EVENT_NBYTES, what, "event")
        source = ffi.from_buffer("uint8_t[]", data), _options(device, 0)
        self._cdata = owned("tenon_cuda_event", lib.tenon_cuda_event_from_ipc_handle, *source)
        return self

    def record(self, stream: Stream = None) -> None:
        """Mark the work that was given to the stream so far. This forgets an older mark.

        The stream must belong to the event's device.
        """
        call(lib.tenon_cuda_event_record, self._own(), stream_pointer(stream))

    def wait(self, stream: Stream = None) -> None:
        """Let later work in the stream wait for the mark that was recorded last.

        The host does not wait.
        """
        call(lib.tenon_cuda_event_wait, self._own(), stream_pointer(stream))

    def query(self) -> bool:
        """Whether the event is complete. An event that was never recorded is."""
        return bool(given("int", lib.tenon_cuda_event_query, self._own()))

    def synchronize(self, *, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        """Wait here until the event is complete.

        timeout is in seconds. 0 raises WouldBlock if the event is not complete, and None waits for
        ever. Ctrl-C ends the wait.
        """
        own = self._own()
        run(lambda wait, error: lib.tenon_cuda_event_synchronize(own, wait, error), timeout, cancel)

    def ipc_handle(self) -> bytes:
        """The 64 bytes by which other processes open the event. They are the same each time."""
        out = ffi.new("uint8_t[]", EVENT_NBYTES)
        call(lib.tenon_cuda_event_ipc_handle, self._own(), out)
        return bytes(ffi.buffer(out))
