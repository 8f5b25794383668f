"""The sharing strategy of this process.

Apart from tenon.multiprocessing, so that making a tensor does not import multiprocessing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.by_filename import Filename

FILE_DESCRIPTOR = "file_descriptor"
FILE_SYSTEM = "file_system"

current = FILE_DESCRIPTOR
# How the names of "file_system" are made; None: as by default.
filename: Filename | None = None
