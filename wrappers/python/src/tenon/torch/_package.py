"""Archives of torch.package, opened once in a process. Imports torch when used."""

from __future__ import annotations

import os
import threading

from tenon import pickle as _pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_KEPT = 16

_kept = _pickle.Kept(_MOST_KEPT)  # identity of a file: its importer
_opening = threading.Lock()


def _in_child() -> None:
    global _opening
    _opening = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_in_child)


def _identity(path: Any) -> tuple[int, ...]:
    info = os.stat(path)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def open_package(path: str | os.PathLike[str]) -> Any:
    """The torch.package.PackageImporter of an archive, which is opened once in a process.

    Every caller in any thread gets the same importer, so the package's classes and modules are the
    same for all of them. Pass it as importer to tenon.pickle.dumps and loads, or to
    Connection.send_object and recv_object. If the file is replaced or rewritten, the next call
    opens it anew, and objects of the old package keep their classes. The last 16 packages are kept
    open. tenon.pickle.clear() forgets them. Importing from a package runs its code, so open only
    packages that you trust.

    Raises FileNotFoundError if there is no such file. Other exceptions of PackageImporter are
    passed on.
    """
    from torch.package import PackageImporter

    with _opening:
        while True:
            identity = _identity(path)
            found = _kept.get(identity)
            if found is not None:
                return found
            importer = PackageImporter(path)
            # Another process may have replaced the file while PackageImporter opened it.
            if _identity(path) == identity:
                return _kept.put(identity, importer)
