"""Makes from the committed cases a folder that a runner executes: bytes from golden files, fds,
files on disk, and the flat form for C.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GOLDEN = HERE.parents[1] / "peers/golden/descriptor"

F_ADD_SEALS = 1033
SEAL, SHRINK, GROW, WRITE, FUTURE_WRITE = 1, 2, 4, 8, 16
SEALS = {
    "none": 0,
    "shared": SEAL | SHRINK | GROW,
    "lender_writes": SEAL | SHRINK | GROW | FUTURE_WRITE,
    "frozen": SEAL | SHRINK | GROW | WRITE,
}


# The beginning of the reason why a case is skipped whose requirement is not met.
UNMET = "requires "


def committed(requires: str = "") -> list[dict[str, Any]]:
    """Returns all cases as they are in the repository, or only those with this requirement."""
    cases = [
        case
        for path in sorted((HERE / "cases").glob("*.json"))
        for case in json.loads(path.read_text())
    ]
    ids = [case["id"] for case in cases]
    repeated = {name for name in ids if ids.count(name) > 1}
    if repeated:
        raise SystemExit(f"cases with the same id: {sorted(repeated)}")
    return [case for case in cases if not requires or case.get("requires") == requires]


def pattern(seed: int, nbytes: int) -> bytes:
    return bytes((seed * 31 + i * 7 + i // 256) & 255 for i in range(nbytes))


def descriptor_bytes(case: dict[str, Any]) -> bytes:
    """Returns the bytes of a golden file, or bytes in hex. They are patched, cut and lengthened,
    and get a right checksum unless the case keeps the wrong one.
    """
    data = bytearray(
        (GOLDEN / case["file"]).read_bytes() if "file" in case else bytes.fromhex(case["bytes"])
    )
    for offset, patch in case.get("patch", []):
        data[offset : offset + len(patch) // 2] = bytes.fromhex(patch)
    data = data[: case.get("cut", len(data))] + bytes.fromhex(case.get("append", ""))
    if len(data) >= 44 and not case.get("keep_checksum"):
        data[40:44] = bytes(4)
        data[40:44] = struct.pack("<I", zlib.crc32(data))
    return bytes(data)


def memory(nbytes: int, seals: str, seed: int) -> int:
    fd = os.memfd_create("tenon-vectors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, nbytes)
    if seed >= 0:
        os.pwrite(fd, pattern(seed, nbytes), 0)
    if SEALS[seals]:
        fcntl.fcntl(fd, F_ADD_SEALS, SEALS[seals])
    return fd


class Prepared:
    """Cases that are ready to run in `folder`. The runner inherits the fds in `held`."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder, self.shared = folder, shared
        self.cases: list[dict[str, Any]] = []
        self.held: list[int] = []
        self.locks: list[int] = []
        self.files: dict[Path, bytes] = {}

    def add(self, case: dict[str, Any]) -> None:
        ready = dict(case)
        if case["kind"] == "descriptor":
            for key in ("file", "patch", "cut", "append", "keep_checksum"):
                ready.pop(key, None)
            ready["bytes"] = descriptor_bytes(case).hex()
            ready["fds"] = [memory(**fd) for fd in case["fds"]]
            self.held += ready["fds"]
        elif case["kind"] == "named_file":
            path = self.shared / f"{len(self.files)}"
            head = ready.pop("head")
            payload = ready.pop("payload", "")
            ready["path"] = str(path)
            if head is not None:
                self.files[path] = bytes.fromhex(head + payload)
                path.write_bytes(self.files[path])
                # A file without a holder is dead, and any process that looks may remove it.
                self.locks.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                fcntl.flock(self.locks[-1], fcntl.LOCK_SH)
        elif case["kind"] == "new_named_file":
            directory = self.shared / "new"
            directory.mkdir(exist_ok=True)
            ready["directory"] = str(directory)
        self.cases.append(ready)

    def write(self) -> None:
        (self.folder / "cases.json").write_text(json.dumps(self.cases, indent=1))
        (self.folder / "cases.txt").write_text("".join(f"{flat(case)}\n" for case in self.cases))

    def left(self) -> list[str]:
        """Returns the files that the runner left behind or changed."""
        wrong = [
            f"{path.name} is gone or has other bytes"
            for path, data in self.files.items()
            if not path.exists() or path.read_bytes() != data
        ]
        directory = self.shared / "new"
        return wrong + (
            [f"{name} is left in the directory" for name in os.listdir(directory)]
            if directory.exists()
            else []
        )


@contextlib.contextmanager
def prepared(folder: Path, shared: Path, cases: list[dict[str, Any]]) -> Iterator[Prepared]:
    made = Prepared(folder, shared)
    try:
        for case in cases:
            made.add(case)
        made.write()
        yield made
    finally:
        for fd in made.held + made.locks:
            os.close(fd)


def flat(case: dict[str, Any]) -> str:
    """Returns one case as lines of `key value` (README.md, "cases.txt")."""
    return "".join(f"{key} {value}\n" for key, value in _lines("", case))


def _lines(prefix: str, item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in item.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _lines(f"{name}.", value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield name, str(len(value))
            for index, inner in enumerate(value):
                yield from _lines(f"{name}.{index}.", inner)
        elif isinstance(value, list):
            yield (
                name,
                ",".join(
                    ":".join(map(_word, part)) if isinstance(part, list) else _word(part)
                    for part in value
                ),
            )
        else:
            yield name, _word(value)


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(int(value))
    return str(value)
