"""Who belongs together: all processes with one multiprocessing authkey, which fork, spawn and forkserver hand on.

Each holds a bound socket that is never read, with a name made from the key. Fork hands it on, and the kernel takes the name away
with the last holder, however it died; so a keeper sees in /proc/net/unix whether anybody is left who could fetch.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_member: tuple[bytes, socket.socket] | None = None


def name() -> bytes:
    """The first part of the names of this family's sockets."""
    from hashlib import blake2b

    # Found through sys.modules, because multiprocessing may be in the middle of its import.
    authkey = sys.modules["multiprocessing.process"].current_process().authkey
    return b"tenon-family-" + blake2b(authkey, digest_size=16, person=b"tenon").hexdigest().encode() + b"-"


def join() -> None:
    """Make this process one of the family. Again: nothing, unless the key has changed."""
    global _member
    prefix = name()
    if _member is not None and _member[0] == prefix:
        return
    import socket

    member = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    member.bind(b"\0" + prefix + os.urandom(8).hex().encode())
    _member = prefix, member


def leave() -> None:
    """Give up the membership of this process; children keep theirs."""
    global _member
    if _member is not None:
        _member[1].close()
        _member = None
