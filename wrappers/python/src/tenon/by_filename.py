"""Lending and opening by name.

A name is a file or a socket in a directory that both processes see. A file, in PyTorch's layout,
holds one storage. Every process that has the file open can write it and cut it short, and the file
lives as long as a process holds it. A socket hands out the sealed memory of a segment, and lives as
long as its lender holds the storage. The names that a killed process leaves are removed by the next
process that looks, and by sweep.
"""

from __future__ import annotations

import os

from tenon._frozen import Frozen
from tenon._native import Struct, ffi, lib, new_struct
from tenon._options import ACCESS_NAMES, ACCESSES, flags, number_of, small, unsigned
from tenon._storage_of import storage_of
from tenon._text import encoded_path
from tenon.by_fd import open_options
from tenon.error import InvalidArgument, call, filled, make, owned
from tenon.wait import run, waited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from tenon._options import Access
    from tenon._text import Path
    from tenon.storage import Storage
    from tenon.wait import Cancel

_SECONDS = 5.0
_NAME_ROOM = ffi.sizeof(ffi.typeof("tenon_filename_handle").fields[-1][1].type)
_MANAGER_ROOM = ffi.sizeof(ffi.typeof("tenon_filename_handle").fields[-2][1].type)


def _text_of(cdata: Any) -> str:
    return os.fsdecode(ffi.string(cdata))


class Filename(Frozen):
    """How a name is made. The default is a name in /dev/shm of "tenon-" and 128 unguessable bits,
    for this user alone.

    - name: The whole name, without a slash.
    - prefix: The text before the random bits.
    - directory: An absolute path. PyTorch looks in /dev/shm only.
    - mode: The permission bits. 0 means 0o600, and 0o644 lets other users read.
    - group: A gid whose members may open the name too.
    """

    name: str | None
    prefix: str | None
    directory: str | None
    mode: int
    group: int | None
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        name: str | None = None,
        prefix: str | None = None,
        directory: str | None = None,
        mode: int = 0,
        group: int | None = None,
    ) -> None:
        super().__init__(name, prefix, directory, mode, group)


class FilenameHandle(Frozen):
    """How to reach a storage by name. A handle is a plain value: it holds nothing, and it can be
    pickled, printed and sent by any means.

    - name: "/leaf" in /dev/shm, or an absolute path. "" stands for an empty storage, which has no
      name.
    - offset and nbytes: The place of the storage behind that name, in bytes.
    - manager: The socket of the manager that guards the name, or "" if none does.
    - access: "read_only" or "writable". For an opener also "auto", which takes the access that the
      name gives.
    """

    name: str
    nbytes: int
    offset: int
    manager: str
    access: Access
    __slots__ = tuple(__annotations__)

    def __init__(
        self, name: str, nbytes: int, offset: int = 0, manager: str = "", access: Access = "auto"
    ) -> None:
        super().__init__(name, nbytes, offset, manager, access)

    def torch_tuple(self) -> tuple[bytes, bytes, int]:
        """Give (manager, name, nbytes), as PyTorch's `_new_shared_filename_cpu` takes it and
        `_share_filename_cpu_` gives it.
        """
        if self.offset:
            raise make(
                InvalidArgument,
                f"the storage begins {self.offset} bytes after the start of {self.name}, which"
                " PyTorch cannot be told",
            )
        return os.fsencode(self.manager), os.fsencode(self.name), self.nbytes

    @classmethod
    def from_torch_tuple(cls, manager: bytes, name: bytes, nbytes: int) -> Self:
        """Make a handle of the items that PyTorch's `_share_filename_cpu_` gives. To open it, pass
        allow_unsealed.
        """
        leaf = os.fsdecode(name)
        # PyTorch takes a name without its slash too.
        return cls(leaf if leaf.startswith("/") else f"/{leaf}", nbytes, 0, os.fsdecode(manager))

    def _cdata(self) -> Any:
        return new_struct(
            "tenon_filename_handle",
            name=encoded_path(self.name, "the name", _NAME_ROOM),
            manager=encoded_path(self.manager, "the manager's path", _MANAGER_ROOM),
            access=number_of(ACCESSES, self.access, "access"),
            offset=unsigned(self.offset, "offset"),
            nbytes=unsigned(self.nbytes, "nbytes"),
        )


def _stored(path: Path | None, what: str) -> Any:
    return None if path is None else ffi.new("char[]", encoded_path(path, what))


def options_of(
    filename: Filename | None, access: str = "auto", bits: int = 0, manager: Path | None = None
) -> Struct:
    """The tenon_filename_options of a new name."""
    number = number_of(ACCESSES, access, "access")
    options = Struct("tenon_filename_options", access=number, flags=bits)
    if filename is not None:
        if filename.group is not None:
            options.cdata.flags |= lib.TENON_FILENAME_GROUP
            options.cdata.group = small(filename.group, "group")
        options.cdata.mode = small(filename.mode, "mode")
        options.point(
            directory=_stored(filename.directory, "the directory"),
            prefix=_stored(filename.prefix, "the prefix"),
            name=_stored(filename.name, "the name"),
        )
    options.point(manager=_stored(manager, "the manager's path"))
    return options


def new_storage(nbytes: int, filename: Filename | None) -> Any:
    """See Storage.new_filename. The pointer owns a reference."""
    options, size = options_of(filename), unsigned(nbytes, "nbytes")
    return owned("tenon_storage", lib.tenon_storage_new_filename, options.cdata, size)


def share_filename(
    storage: Storage, options: Struct, timeout: float | None, cancel: Cancel | None
) -> FilenameHandle:
    """See Storage.share_filename. The options are those of options_of."""
    own = storage._own()
    out = new_struct("tenon_filename_handle")
    run(
        lambda wait, error: lib.tenon_share_filename(own, options.cdata, wait, out, error),
        timeout,
        cancel,
        whole=True,
    )
    texts = {"name": _text_of(out.name), "manager": _text_of(out.manager)}
    return FilenameHandle._of(out, access=ACCESS_NAMES[out.access], **texts)


def open_filename(
    name: str | FilenameHandle,
    nbytes: int | None = None,
    offset: int = 0,
    *,
    access: Access = "auto",
    private_copy: bool = False,
    private_cow: bool = False,
    allow_unsealed: bool | None = None,
    other_user: bool = False,
    tell_manager: bool = True,
    decref: bool = False,
    timeout: float | None = _SECONDS,
    cancel: Cancel | None = None,
) -> Storage:
    """Open a storage that was lent by name. The argument is a FilenameHandle, or a name with the
    size and offset that belong to it.

    Memory that this process already holds, by name or by fd, comes back as the same storage.

    - allow_unsealed: Accept a file, which other processes can cut short. None accepts one only
      under the sharing strategy "file_system".
    - other_user: Accept a name that belongs to another user.
    - tell_manager: Register the name with the handle's manager, if it has one.
    - decref: A message was received, so its count is taken back (filename_decref).
    - timeout: The seconds to wait for the lender behind a socket, or for the manager.
    """
    if isinstance(name, FilenameHandle):
        if nbytes is not None or offset:
            raise TypeError("a FilenameHandle has its own nbytes and offset")
        handle = name._cdata()
    else:
        if nbytes is None:
            raise TypeError("a name needs nbytes")
        handle = FilenameHandle(name, nbytes, offset)._cdata()
    options = open_options(
        access,
        allow_unsealed,
        private_copy=private_copy,
        private_cow=private_cow,
        other_user=other_user,
        no_manager=not tell_manager,
        decref=decref,
    )
    request = lib.tenon_open_filename, handle, options
    return storage_of(waited("tenon_storage", *request, timeout=timeout, cancel=cancel, whole=True))


def filename_incref(handle: FilenameHandle) -> None:
    """Count one message in flight about a storage that this process holds.

    The name then outlives this process's own references, until another process opens it with decref
    or calls filename_decref. It lives as long as this process does, and for 60 seconds after an
    orderly exit. The names that a killed process had in flight disappear with it.
    """
    call(lib.tenon_filename_incref, handle._cdata())


def filename_decref(handle: FilenameHandle) -> None:
    """Take one filename_incref back, because the message was received or will never be.

    The call does nothing if the name is gone.
    """
    call(lib.tenon_filename_decref, handle._cdata())


def filename_unlink(name: str) -> None:
    """Remove a name. A process that has it open keeps the memory, and no process can open it any
    more. The call does nothing if the name is gone.

    A PyTorch process that holds the name aborts when it releases the memory. So leave such names to
    their holders.
    """
    call(lib.tenon_filename_unlink, encoded_path(name, "the name"))


class Sweep(Frozen):
    """The result of a sweep.

    - live: The number of names that a process holds.
    - in_flight: The number of names that no process holds and that a message may refer to.
    - dead: The number of other names that no process holds. They were removed or, in a dry run,
      would be removed.
    - unsure: The number of names that could not be examined, such as other users'. They were left
      alone.
    - removed_nbytes: The memory of the dead names, in bytes.
    """

    live: int
    in_flight: int
    dead: int
    unsure: int
    removed_nbytes: int
    __slots__ = tuple(__annotations__)


def sweep(
    directory: str | None = None,
    *,
    dry_run: bool = False,
    torch: bool = False,
    min_age: float = 60.0,
) -> Sweep:
    """Remove the names in a directory (by default /dev/shm) that no process holds: Tenon's files
    and sockets and, with torch, PyTorch's files.

    The kernel says which process holds a file, so the sweep sees a holder in any container, whether
    it runs Tenon or PyTorch. Every process that makes and releases names also sweeps a little. This
    call removes the rest.

    - dry_run: Remove nothing.
    - min_age: Seconds. A younger file of PyTorch's may be in a message, and stays.
    """
    if not 0 <= min_age < 1e9:
        raise ValueError(f"min_age {min_age} is not a number of seconds")
    options = Struct("tenon_sweep_options", flags=flags("SWEEP", dry_run=dry_run, torch=torch))
    # 0 stands for the default.
    options.cdata.min_age_ns = max(int(min_age * 1e9), 1)
    options.point(directory=_stored(directory, "the directory"))
    return Sweep._of(filled("tenon_sweep_result", lib.tenon_filename_sweep, options.cdata))


def manager_start(
    program: Path | None = None, *, timeout: float | None = _SECONDS, cancel: Cancel | None = None
) -> str:
    """Give the path of the socket of this user's manager, which is started if there is none. Pass
    the path to PyTorch as the first item of its tuple.

    program is the path of tenon-manager. None means the environment's TENON_MANAGER, or else the
    program in this package. This process becomes a client of the manager, which ends by itself when
    its last client has ended.
    """
    path = ffi.NULL if program is None else encoded_path(program, "the program")
    out = ffi.new("char[]", _MANAGER_ROOM)
    run(
        lambda wait, error: lib.tenon_manager_start(path, wait, out, error),
        timeout,
        cancel,
        whole=True,
    )
    return _text_of(out)
