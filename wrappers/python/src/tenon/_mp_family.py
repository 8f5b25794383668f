"""Who belongs together: all processes with one multiprocessing authkey, which fork, spawn and
forkserver hand on.

Each has a shared lock on one file, whose name is made from the key. Fork hands the lock on, and the
kernel takes it back with its last holder, however that one died; so a keeper that asks for the lock
sees whether anybody is left who could fetch, in other namespaces too. The file lies in a directory
of this user alone.
"""

from __future__ import annotations

import fcntl
import os
import sys

_member: tuple[bytes, int] | None = None


def _folder() -> str:
    return f"/dev/shm/tenon-family-{os.geteuid()}"


def make_folder() -> str:
    """Make the directory of this user's families, if it is not there."""
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
    # Found through sys.modules, because multiprocessing may be in the middle of its import.
    return _path(sys.modules["multiprocessing.process"].current_process().authkey)


def _is_current(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def join() -> None:
    """Make this process one of the family. Again: nothing, unless the key has changed."""
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
            continue  # the directory went with its last family
        fcntl.flock(fd, fcntl.LOCK_SH)
        # The last member of before may have removed it meanwhile.
        if _is_current(fd, place):
            break
        os.close(fd)
    leave()
    _member = key, fd
    _remove_dead_families(place)


def _remove_dead_families(own: str) -> None:
    """Some of the files of families that were killed as a whole."""
    directory, name = os.path.split(own)
    for other in os.listdir(directory)[:32]:
        if other != name:
            remove(f"{directory}/{other}")


def leave() -> None:
    """Give up the membership of this process; children keep theirs."""
    global _member
    if _member is None:
        return
    (key, fd), _member = _member, None
    os.close(fd)
    remove(_path(key))


def remove(path: str) -> None:
    """Remove the file of a family of which nobody is left."""
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
        pass  # somebody is left, or another family
    finally:
        os.close(fd)


def _remove_folder(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        # Another family is there, or a lender of this one was killed.
        from tenon import _mp_serve

        _mp_serve.remove_dead_listeners(path)
        os.rmdir(path)
