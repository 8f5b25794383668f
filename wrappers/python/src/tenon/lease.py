"""Leases: who holds blocks of this process, and looking after them without a thread."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._native import ffi, lib
from tenon.error import call


class LeaseHolder(Frozen):
    """Who holds leases of this process's blocks, over one connection.

    pid: as the kernel tells it; 0: of a pid namespace that this process does not see. uid: as the
    kernel tells it. leases: that stand now; nbytes: of their blocks, where a block with two leases
    counts twice. granted: leases ever granted; granted_bytes: of their blocks. age: seconds since
    the first of them.
    """

    __slots__ = (  # noqa: RUF023 (the order of __init__)
        "pid",
        "uid",
        "leases",
        "nbytes",
        "granted",
        "granted_bytes",
        "age",
    )

    pid: int
    uid: int
    leases: int
    nbytes: int
    granted: int
    granted_bytes: int
    age: float

    def __init__(
        self,
        pid: int,
        uid: int,
        leases: int,
        nbytes: int,
        granted: int,
        granted_bytes: int,
        age: float,
    ) -> None:
        self._set(
            pid=pid,
            uid=uid,
            leases=leases,
            nbytes=nbytes,
            granted=granted,
            granted_bytes=granted_bytes,
            age=age,
        )


def lease_holders() -> list[LeaseHolder]:
    """Who holds leases of this process's blocks, one entry for each connection that does."""
    total = ffi.new("size_t *")
    call(lib.tenon_lease_holders, ffi.NULL, 0, total)
    while True:
        # Some more may have come meanwhile.
        room = int(total[0]) + 1
        out = ffi.new("tenon_lease_holder[]", room)
        out[0].struct_size = ffi.sizeof("tenon_lease_holder")
        call(lib.tenon_lease_holders, out, room, total)
        if total[0] <= room:
            return [
                LeaseHolder(
                    each.pid,
                    each.uid,
                    each.leases,
                    each.nbytes,
                    each.granted,
                    each.granted_bytes,
                    each.age_ns / 1e9,
                )
                for each in out[0 : total[0]]
            ]


def lease_use_no_thread() -> None:
    """Have no thread: the process itself polls lease_fd and calls lease_poll.

    Before the first lend and the first use of a name.
    """
    call(lib.tenon_lease_use_no_thread)


def lease_fd() -> int:
    """The fd to poll, readable when lease_poll has something to do.

    Borrowed; another one in a child of fork. Without a thread only.
    """
    out = ffi.new("int32_t *")
    call(lib.tenon_lease_fd, out)
    return int(out[0])


def lease_poll() -> None:
    """Do what is due, and never block: about a millisecond at most, and the fd stays readable if
    there is more. Without a thread only.

    But the end of memory that a device has pinned may wait for the device.
    """
    call(lib.tenon_lease_poll)
