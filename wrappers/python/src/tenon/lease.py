"""Leases: the processes that hold blocks of this process, and functions for a process that has no
service thread.
"""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._native import lib
from tenon.error import call, given, listed


class LeaseHolder(Frozen):
    """A process that holds leases of this process's blocks, over one connection.

    - pid and uid: As the kernel reports them. The pid is 0 if the holder is in a pid namespace that
      this process does not see.
    - leases: The number of leases that stand now.
    - nbytes: The bytes of their blocks. A block with two leases counts twice.
    - granted and granted_bytes: The number of leases ever granted, and the bytes of their blocks.
    - age: The seconds since the first of them.
    """

    pid: int
    uid: int
    leases: int
    nbytes: int
    granted: int
    granted_bytes: int
    age: float
    __slots__ = tuple(__annotations__)


def lease_holders() -> list[LeaseHolder]:
    """The processes that hold leases of this process's blocks, with one entry for each
    connection.
    """
    holders = listed("tenon_lease_holder", lib.tenon_lease_holders)
    return [LeaseHolder._of(each, age=each.age_ns / 1e9) for each in holders]


def lease_use_no_thread() -> None:
    """Make the library start no service thread in this process. The process itself must poll
    lease_fd and call lease_poll.

    Call this before the first lend and before the first use of a name.
    """
    call(lib.tenon_lease_use_no_thread)


def lease_fd() -> int:
    """The fd to poll. It is readable when lease_poll has work to do.

    The fd is borrowed. A forked child gets another one. The call works only in a process without a
    service thread.
    """
    return int(given("int32_t", lib.tenon_lease_fd))


def lease_poll() -> None:
    """Do the work that is due. The call does not block and takes about a millisecond at most. If
    more work is left, the fd stays readable.

    There is one exception: releasing memory that a device has pinned may wait for the device. The
    call works only in a process without a service thread.
    """
    call(lib.tenon_lease_poll)
