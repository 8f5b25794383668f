"""A /dev/shm of one's own, for programs that look at what is left there."""

from __future__ import annotations

import ctypes

_CLONE_NEWNS = 0x20000
_PRIVATE_AND_ALL_BELOW = 0x44000


def take_own_shm(nbytes: int) -> bool:
    """Move to a mount namespace with a /dev/shm that only this process and its children use. False: the kernel refuses one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _PRIVATE_AND_ALL_BELOW, None):
        return False
    return not libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={nbytes}".encode())
