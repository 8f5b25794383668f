#!/usr/bin/env python3
"""Writes the archives of tests/peers/golden/zip with Python's zipfile and, if this Python has it,
with PyTorch.

The files are committed and are not written again. tests/unit/archive/zip_golden_test.cc describes
each of them. PyTorch writes the path of this program into its archives, so run a copy of it from a
path that says nothing about a machine.

usage: zip_golden.py FOLDER
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

TEXT = "def forward(self, x):\n  return x\n" * 20


class Pipe(io.RawIOBase):
    """A file that cannot seek, for which zipfile writes data descriptors."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.bytes += data
        return len(data)


def fill(archive: zipfile.ZipFile) -> None:
    def put(name: str, data: bytes, method: int = zipfile.ZIP_STORED, wide: bool = False) -> None:
        info = zipfile.ZipInfo(name)
        info.compress_type = method
        with archive.open(info, "w", force_zip64=wide) as record:
            record.write(data)

    put("m/data.pkl", b"\x80\x02).")
    put("m/code/a.py", TEXT.encode(), zipfile.ZIP_DEFLATED)
    put("m/empty", b"")
    put("m/wide", bytes(range(256)), wide=True)
    put("m/ünïcode/名", b"1")


def with_zipfile(folder: Path) -> None:
    with zipfile.ZipFile(folder / "python.zip", "w") as archive:
        fill(archive)
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        fill(archive)
    (folder / "python_pipe.zip").write_bytes(pipe.bytes)
    with zipfile.ZipFile(folder / "python_odd.zip", "w") as archive:
        archive.comment = b"a comment with PK in it"
        archive.writestr(zipfile.ZipInfo("m/"), b"")
        fill(archive)
        archive.writestr(zipfile.ZipInfo("other/file"), b"2")
        archive.writestr(zipfile.ZipInfo("top"), b"3")


def with_torch(folder: Path) -> None:
    try:
        import torch
    except ImportError:
        return

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(3, dtype=torch.float32))
            self.nothing = torch.nn.Parameter(torch.zeros(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight + self.nothing.sum()

    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    torch.jit.save(torch.jit.script(Small()), str(folder / f"torch_{version}_jit.zip"))
    torch.save({"w": torch.arange(4)}, folder / f"torch_{version}_save.zip")
    if hasattr(torch.serialization, "set_crc32_options"):
        torch.serialization.set_crc32_options(False)
        torch.save({"w": torch.arange(4)}, folder / f"torch_{version}_no_crc.zip")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    with_zipfile(Path(sys.argv[1]))
    with_torch(Path(sys.argv[1]))
