"""The multiprocessing family: all processes with one authkey, which fork, spawn and forkserver hand
on. tenon.multiprocessing and the keepers use it.

Each member has a shared lock on one file, whose name is made from the key. A forked child shares
its parent's lock, and the kernel drops the lock with its last holder, however that holder died. So
a keeper that asks for the lock sees whether a process is left that could fetch, in other namespaces
too. The file lies in a directory of this user alone.

join and make_folder raise OSError: no fd is left, /dev/shm cannot be written, or (PermissionError)
the directory is not this user's alone. leave and remove raise nothing.
"""

from __future__ import annotations

import fcntl
import os
import sys

_member: tuple[bytes, int] | None = None


def _folder() -> str:
    return f"/dev/shm/tenon-family-{os.geteuid()}"


def make_folder() -> str:
    """Make the directory of this user's families, unless it exists."""
    folder = _folder()
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        status = os.lstat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o170077 != 0o040000:
            raise PermissionError(
                f"{folder} is no directory of this user alone: remove it, or have its owner do so"
            ) from None
    return folder


def _path(key: bytes) -> str:
    from hashlib import blake2b

    return f"{_folder()}/{blake2b(key, digest_size=16, person=b'tenon-family').hexdigest()}"


def path() -> str:
    """The file of this process's family."""
    # The module is taken from sys.modules, because multiprocessing may be in the middle of its
    # import.
    return _path(sys.modules["multiprocessing.process"].current_process().authkey)


def _is_current(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def join() -> None:
    """Make this process a member of its family. A further call does nothing, unless the key has
    changed.
    """
    global _member
    key = bytes(sys.modules["multiprocessing.process"].current_process().authkey)
    if _member is not None and _member[0] == key:
        return
    while True:
        make_folder()
        place = _path(key)
        try:
            fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # the directory was removed with its last family
        fcntl.flock(fd, fcntl.LOCK_SH)
        # The family's former last member may have removed the file meanwhile.
        if _is_current(fd, place):
            break
        os.close(fd)
    leave()
    _member = key, fd
    _remove_dead_families(place)


def _remove_dead_families(own: str) -> None:
    """Remove the files of some families whose members were all killed."""
    directory, name = os.path.split(own)
    for other in os.listdir(directory)[:32]:
        if other != name:
            remove(f"{directory}/{other}")


def leave() -> None:
    """End the membership of this process. Forked children keep theirs."""
    global _member
    if _member is None:
        return
    (key, fd), _member = _member, None
    os.close(fd)
    remove(_path(key))


def remove(path: str) -> None:
    """Remove the file of a family that has no members."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(fd, path):
            os.unlink(path)
            _remove_folder(os.path.dirname(path))
    except OSError:
        pass  # a member is left, or the directory holds another family
    finally:
        os.close(fd)


def _remove_folder(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        # The directory holds another family, or the path of a lender that was killed.
        from tenon import _mp_serve

        _mp_serve.remove_dead_listeners(path)
        os.rmdir(path)
