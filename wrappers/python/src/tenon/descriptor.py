"""Descriptors: the portable form of a message, which is bytes and the fds to which the bytes
refer.
"""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import flags
from tenon._text import bytes_by
from tenon.by_fd import open_options
from tenon.error import owned
from tenon.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from tenon._options import Access
    from tenon.message import Tensors


class Descriptor(Managed):
    """A descriptor encodes a message, or tensors. It keeps the tensors and fds alive until it is
    closed.

    With bytes_only no fds travel. The opener fetches them from this process, which must live, and
    keep the descriptor open, until then.
    """

    __slots__ = ()

    def __init__(self, message: Message | Tensors, *, bytes_only: bool = False) -> None:
        self._cdata = None
        source = message if isinstance(message, Message) else Message(message)
        chosen = flags("DESCRIPTOR", bytes_only=bytes_only)
        options = new_struct("tenon_descriptor_options", flags=chosen)
        self._cdata = owned("tenon_descriptor", lib.tenon_descriptor_new, source._own(), options)

    @property
    def bytes(self) -> bytes:
        """The bytes to send."""
        return bytes_by(lib.tenon_descriptor_bytes, self._own())

    @property
    def fds(self) -> tuple[int, ...]:
        """The fds to send, in this order. The descriptor owns them, so do not close them."""
        own = self._own()
        size = ffi.new("size_t *")
        data = lib.tenon_descriptor_fds(own, size)
        return tuple(data[i] for i in range(size[0]))

    def _shown(self) -> str:
        return f" of {len(self.bytes)} bytes and {len(self.fds)} fds"


def open_descriptor(
    data: Buffer,
    fds: Sequence[int] = (),
    *,
    access: Access = "auto",
    private_copy: bool = False,
    private_cow: bool = False,
    adopt: bool = False,
    allow_unsealed: bool | None = None,
    other_user: bool = False,
) -> Message:
    """Open a descriptor that came from another process. The call borrows the fds. With adopt the
    library owns them once the call has succeeded.

    allow_unsealed is as in open_fd. With other_user, bytes without fds may name a process of
    another user, whose memory is opened with this process's rights.
    """
    options = open_options(
        access,
        allow_unsealed,
        private_copy=private_copy,
        private_cow=private_cow,
        adopt_fd=adopt,
        other_user=other_user,
    )
    numbers = ffi.new("int32_t[]", list(fds)) if fds else ffi.NULL
    with memoryview(data) as view, ffi.from_buffer(view) as source:
        what = source, view.nbytes, numbers, len(fds), options
        return Message._over(owned("tenon_message", lib.tenon_descriptor_open, *what))
