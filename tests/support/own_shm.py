"""A private /dev/shm, for programs that fill it or look at what is left in it."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def enter_namespace(nbytes: int = 1 << 30) -> None:
    """Enter a mount namespace with a private /dev/shm. Raises OSError if the kernel refuses one."""
    uid, gid = os.getuid(), os.getgid()
    call_libc("unshare", CLONE_NEWNS | (CLONE_NEWUSER if uid else 0))
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    call_libc("mount", None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    call_libc(
        "mount",
        b"tmpfs",
        b"/dev/shm",
        b"tmpfs",
        ctypes.c_ulong(0),
        f"mode=1777,size={nbytes}".encode(),
    )


def take_own_shm(nbytes: int = 1 << 30) -> bool:
    """Enter such a namespace. Returns False if the kernel refuses one."""
    try:
        enter_namespace(nbytes)
    except OSError:
        return False
    return True


def restart_in_own_shm(nbytes: int = 1 << 30) -> bool:
    """Start this program again in such a namespace. Returns False if the kernel refuses one.

    A program that has imported tenon holds a file in the old /dev/shm, so it must begin anew.
    """
    if "TENON_TEST_OWN_SHM" not in os.environ:
        environment = {**os.environ, "TENON_TEST_OWN_SHM": "yes" if take_own_shm(nbytes) else "no"}
        os.execve(sys.executable, [sys.executable, "-B", *sys.argv], environment)
    return os.environ["TENON_TEST_OWN_SHM"] == "yes"
