"""The sharing strategy of this process.

It is not in tenon.multiprocessing, so that making a tensor does not import multiprocessing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon.by_filename import Filename

FILE_DESCRIPTOR = "file_descriptor"
FILE_SYSTEM = "file_system"

current = FILE_DESCRIPTOR
# How the strategy "file_system" makes names. None is the default of Filename.
filename: Filename | None = None
