"""Memory for packed items: anonymous files that grow until the kernel freezes them, and views of
frozen bytes. _packed and containers use it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager

from tenon.by_fd import open_fd
from tenon.error import Corrupt, TenonError, make
from tenon.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from tenon.by_fd import FdHandle

COW_NBYTES = 16 << 20
"""Arrays of at least this many bytes come out as copy-on-write memory. A copy of 64 MiB takes two
to three times as long to read. Below 16 MiB a copy is as fast to read, and several times as fast
to write.
"""

ALIGNMENT = 64
"""The alignment, in bytes, of arrays of at least COW_NBYTES."""

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def corrupt(what: str) -> NoReturn:
    """Raise the error for packed bytes that this package has not written."""
    raise make(
        Corrupt, f"the packed items are corrupt: {what}. Make the container again from its source"
    )


class Growing:
    """An anonymous file that grows at its end until it is frozen. Its bytes exist once.

    One thread uses it. It owns an fd, so freeze or close it in any case. After an OSError only
    close is of use, because a part of the bytes may have been appended.
    """

    __slots__ = ("_fd", "nbytes")

    def __init__(self) -> None:
        self.nbytes = 0
        self._fd = os.memfd_create("tenon-packed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)

    def write(self, data: Any) -> None:
        """Append the bytes of a contiguous buffer."""
        with memoryview(data) as whole:
            if not whole.nbytes:
                return
            with whole.cast("B") as view:
                done = 0
                while done < len(view):
                    with view[done:] as rest:
                        done += os.write(self._fd, rest)
                self.nbytes += done

    def pad(self, multiple: int) -> None:
        """Append zeros up to a multiple of bytes."""
        self.write(bytes(-self.nbytes % multiple))

    @contextmanager
    def numbers(self, nbytes: int) -> Iterator[memoryview]:
        """Append zeros, and give them as uint64 numbers that the caller changes in place."""
        begin, self.nbytes = self.nbytes, self.nbytes + nbytes
        os.posix_fallocate(self._fd, begin, nbytes)
        with (
            mmap.mmap(self._fd, self.nbytes) as mapping,
            memoryview(mapping) as view,
            view[begin:] as part,
            part.cast("Q") as numbers,
        ):
            yield numbers

    def freeze(self) -> Storage:
        """Make the kernel refuse every later write, and give the storage over the bytes."""
        try:
            if not self.nbytes:
                return Storage.new(0, mode="frozen").freeze()
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)
            return open_fd(self._fd, self.nbytes)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file. A further call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Memory:
    """The bytes of a frozen storage, and copy-on-write views of parts of them."""

    __slots__ = ("_handle", "storage", "view")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.view = storage.data
        self._handle: FdHandle | None = None

    def writable(self, begin: int, nbytes: int) -> Any:
        """A writable buffer with a part of the bytes.

        Writes to it stay in this process. The buffer is a copy, or memory that is copied page by
        page where it is written.
        """
        if nbytes >= COW_NBYTES:
            try:
                if self._handle is None:
                    self._handle = self.storage.share_fd()
                return open_fd(
                    self._handle.fd, nbytes, self._handle.offset + begin, private_cow=True
                ).data
            except TenonError:
                pass  # for example, there is no room for another mapping
        return bytearray(self.view[begin : begin + nbytes])
