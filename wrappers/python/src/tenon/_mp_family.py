"""Who belongs together: all processes with one multiprocessing authkey, which fork, spawn and forkserver hand on.

Each holds a bound socket that is never read, with a name made from the key. Fork hands it on, and the kernel takes the name away
with the last holder, however it died; so a keeper sees in /proc/net/unix whether anybody is left who could fetch. Everybody can
read that file, so each name has a salt of its own: it tells nobody which processes belong together, and a table of digests of
likely keys finds none.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_member: tuple[bytes, socket.socket] | None = None


def secret() -> bytes:
    """What all members of the family know, and a name of a socket does not tell."""
    from hashlib import blake2b

    # Found through sys.modules, because multiprocessing may be in the middle of its import.
    authkey = sys.modules["multiprocessing.process"].current_process().authkey
    return blake2b(authkey, digest_size=32, person=b"tenon-family").digest()


def join() -> None:
    """Make this process one of the family. Again: nothing, unless the key has changed."""
    global _member
    key = secret()
    if _member is not None and _member[0] == key:
        return
    import socket

    from tenon._mp_serve import FAMILY_SALT_NBYTES, family_name

    member = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    member.bind(b"\0" + family_name(key, os.urandom(FAMILY_SALT_NBYTES)))
    _member = key, member


def leave() -> None:
    """Give up the membership of this process; children keep theirs."""
    global _member
    if _member is not None:
        _member[1].close()
        _member = None
