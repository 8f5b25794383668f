"""The reports of exports and imports, which archive.py and module.py give."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._native import lib
from tenon._text import decoded
from tenon.error import filled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ExportReport(Frozen):
    """The report of an export.

    - nbytes and records: The size of the archive, and the number of its records.
    - version: The version of the operators.
    - skipped_files: How many of the hook's files were skipped because their names were in use.
    - oldest_pytorch: The oldest PyTorch that can run the archive, as far as operators and element
      types tell, such as "1.13".
    - bytecode_functions: The number of functions in the archive's bytecode, or 0 if it has none.
    - debug_tables: The number of debug tables that were written.
    """

    nbytes: int
    records: int
    version: int
    skipped_files: int
    oldest_pytorch: str
    bytecode_functions: int
    debug_tables: int
    __slots__ = tuple(__annotations__)


class ImportReport(Frozen):
    """The report of an import.

    - version: The version of the operators.
    - records: The number of records in the archive.
    - mapped_storages and mapped_nbytes: The storages that are views of the file.
    - filled_storages and filled_nbytes: The storages that are copies. misaligned, compressed and
      foreign_endian say how many were copied because they lie that way in the file.
    - without_crc: The number of records whose checksum was not verified.
    """

    version: int
    records: int
    mapped_storages: int
    mapped_nbytes: int
    filled_storages: int
    filled_nbytes: int
    misaligned: int
    compressed: int
    foreign_endian: int
    without_crc: int
    __slots__ = tuple(__annotations__)


def report_of(own: Any) -> ImportReport | None:
    """See Module.report."""
    found = filled("tenon_import_report", lib.tenon_module_import_report, own)
    return ImportReport._of(found) if found.version else None


def export_report_of(found: Any) -> ExportReport:
    """The report that an export filled in."""
    return ExportReport._of(found, oldest_pytorch=decoded(found.oldest_pytorch))
