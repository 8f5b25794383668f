"""Lending and opening by file descriptor."""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import ACCESS_NAMES, ACCESSES, number_of, open_flags, unsigned
from tenon._storage_of import storage_of
from tenon.error import call, owned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from tenon._options import Access
    from tenon.storage import Storage

    class HasFileno(Protocol):
        def fileno(self) -> int: ...


class FdHandle(Managed):
    """How to reach a storage by fd. The handle owns its fd until close or detach. All sizes and
    offsets are in bytes.
    """

    __slots__ = ()

    def __init__(self, cdata: Any) -> None:
        self._cdata = cdata

    @property
    def fd(self) -> int:
        """The fd, which is close-on-exec. It is -1 for an empty storage, and after detach."""
        return int(self._own().fd)

    def fileno(self) -> int:
        """The same fd, for select and similar functions."""
        return self.fd

    @property
    def access(self) -> str:
        """What the handle allows: "read_only" or "writable"."""
        return ACCESS_NAMES[self._own().access]

    @property
    def offset(self) -> int:
        """The offset of the storage in the segment."""
        return int(self._own().offset)

    @property
    def nbytes(self) -> int:
        """The size of the storage."""
        return int(self._own().nbytes)

    @property
    def segment_nbytes(self) -> int:
        """The size of the whole segment."""
        return int(self._own().segment_nbytes)

    def detach(self) -> int:
        """Give the fd to the caller, who owns it from now on."""
        own = self._own()
        fd = int(own.fd)
        own.fd = -1
        return fd

    def _shown(self) -> str:
        place = f"{self.nbytes} bytes at {self.offset} of {self.segment_nbytes}"
        return f" fd {self.fd}: {place}, {self.access}"


def share_fd(storage: Storage, access: Access = "auto") -> FdHandle:
    """See Storage.share_fd."""
    options = new_struct("tenon_share_options", access=number_of(ACCESSES, access, "access"))
    out = new_struct("tenon_fd_handle", fd=-1)
    call(lib.tenon_share_fd, storage._own(), options, out)
    return FdHandle(ffi.gc(out, lib.tenon_fd_handle_close))


def open_options(access: str, allow_unsealed: bool | None, **chosen: bool) -> Any:
    """The options of an opening. The other arguments are names of flags (see open_flags)."""
    number = number_of(ACCESSES, access, "access")
    flags = open_flags(allow_unsealed, **chosen)
    return new_struct("tenon_open_options", access=number, flags=flags)


def open_fd(
    fd: int | HasFileno | FdHandle,
    nbytes: int | None = None,
    offset: int = 0,
    *,
    access: Access = "auto",
    private_copy: bool = False,
    private_cow: bool = False,
    adopt: bool = False,
    allow_unsealed: bool | None = None,
) -> Storage:
    """Open a storage that was lent by fd. The argument is an FdHandle, or an fd with the size and
    offset that came with it.

    The call borrows the fd. With adopt the library owns it once the call has succeeded.
    allow_unsealed accepts memory whose owner can cut it short, so that a later load may end in
    SIGBUS: PyTorch's memory and named files. None accepts it only under the sharing strategy
    "file_system".
    """
    if isinstance(fd, FdHandle):
        if nbytes is not None or offset:
            raise TypeError("an FdHandle has its own nbytes and offset")
        handle = fd._own()
    else:
        if nbytes is None:
            raise TypeError("an fd needs nbytes")
        number = fd if isinstance(fd, int) else fd.fileno()
        if not -(1 << 31) <= number < 1 << 31:
            raise ValueError(f"{number} is no fd")
        place = {"offset": unsigned(offset, "offset"), "nbytes": unsigned(nbytes, "nbytes")}
        handle = new_struct("tenon_fd_handle", fd=number, **place)
    copies = {"private_copy": private_copy, "private_cow": private_cow}
    options = open_options(access, allow_unsealed, adopt_fd=adopt, **copies)
    storage = storage_of(owned("tenon_storage", lib.tenon_open_fd, handle, options))
    if adopt and isinstance(fd, FdHandle):
        fd.detach()
    return storage
