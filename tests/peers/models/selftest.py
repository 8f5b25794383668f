#!/usr/bin/env python3
"""Proves that archive_compare.py finds each kind of difference, and accepts what may differ."""

import struct
import tempfile
import unittest
import zipfile
from pathlib import Path

import archive_compare


def storage(key: str, numel: int = 2) -> bytes:
    return (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        + text(key)
        + text("cpu")
        + bytes([ord("K"), numel])
        + b"tQ"
    )


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def module(*attributes: bytes, name: str = "Net") -> bytes:
    return b"\x80\x02c__torch__\n" + name.encode() + b"\n)\x81}(" + b"".join(attributes) + b"ub."


LIST = b"](K\x01K\x02e"
TWO_LISTS = module(text("a") + LIST, text("b") + LIST)
ONE_LIST = module(text("a") + LIST + b"q\x00", text("b") + b"h\x00")
TWO_STORAGES = module(text("a") + storage("0"), text("b") + storage("1"))
TWICE_READ = module(text("a") + storage("0"), text("b") + storage("0"))
ONE_STORAGE = module(text("a") + storage("0") + b"q\x05", text("b") + b"h\x05")

PLAIN = {
    "version": b"3\n",
    "code/__torch__.py": b"class Net(Module):\n" + b"  pass\n" * 50,
    "code/__torch__.py.debug_pkl": b"\x80\x02).",
    "constants.pkl": b"\x80\x02).",
    "extra/notes": b"notes",
    "data.pkl": TWO_STORAGES,
    "data/0": b"01234567",
    "data/1": b"89abcdef",
}


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name: str, records: dict[str, bytes]) -> Path:
        path = Path(self.folder.name) / f"{name}.pt"
        with zipfile.ZipFile(path, "w") as container:
            for record, data in records.items():
                deflated = zipfile.ZIP_DEFLATED if record.endswith(".py") else zipfile.ZIP_STORED
                container.writestr(f"{name}/{record}", data, deflated)
        return path

    def differences(
        self, first: dict[str, bytes | None], second: dict[str, bytes | None]
    ) -> list[str]:
        """Compares PLAIN with itself after these changes. A record whose change is None is left
        out.
        """
        paths = []
        for name, changes in (("first", first), ("second", second)):
            records = {key: data for key, data in (PLAIN | changes).items() if data is not None}
            paths.append(self.write(name, records))
        return archive_compare.compare_archives(*paths)

    def differ(
        self, first: dict[str, bytes | None], second: dict[str, bytes | None], count: int = 1
    ) -> None:
        self.assertEqual(len(self.differences(first, second)), count)
        self.assertEqual(len(self.differences(second, first)), count)

    def test_equal(self) -> None:
        self.differ({}, {}, 0)

    def test_what_may_differ(self) -> None:
        changes: dict[str, bytes | None] = {
            "code/__torch__.py.debug_pkl": None,
            "byteorder": b"little",
            "version": None,
            ".data/version": b"3",
        }
        self.differ({}, changes, 0)
        renamed: dict[str, bytes | None] = {
            "data.pkl": module(text("a") + storage("w"), text("b") + storage("0"))
        }
        self.differ({}, renamed | {"data/w": b"01234567", "data/0": b"89abcdef", "data/1": None}, 0)
        self.differ(
            {"data.pkl": module(text("a") + b"K\x05")},
            {"data.pkl": module(text("a") + b"J\x05\x00\x00\x00q\x09")},
            0,
        )

    def test_records(self) -> None:
        for record in ("code/__torch__.py", "constants.pkl", "extra/notes"):
            with self.subTest(record):
                self.differ({}, {record: PLAIN[record] + b" "})
        self.differ({}, {"extra/notes": None})
        self.differ({}, {"code/__torch__/more.py": b""})
        self.differ({}, {"constants/0": b"01234567"})
        self.differ({}, {"traced_inputs.pkl": b"\x80\x02}."})
        self.differ({}, {"version": b"10\n"})

    def test_values(self) -> None:
        for left, right in (
            (b"K\x01", b"\x88"),
            (b"K\x01", b"K\x02"),
            (b"N", b"\x89"),
            (b"]", b"}"),
            (LIST, b"](K\x01e"),
            (text("a"), text("b")),
        ):
            self.differ(
                {"data.pkl": module(text("a") + left)}, {"data.pkl": module(text("a") + right)}
            )
        zero, negative_zero = (b"G" + struct.pack(">d", value) for value in (0.0, -0.0))
        self.differ(
            {"data.pkl": module(text("a") + zero)}, {"data.pkl": module(text("a") + negative_zero)}
        )
        nan = b"G" + struct.pack(">d", float("nan"))
        self.differ({"data.pkl": module(text("a") + nan)}, {"data.pkl": module(text("a") + nan)}, 0)
        self.differ({"data.pkl": module()}, {"data.pkl": module(name="Other")})

    def test_sharing(self) -> None:
        self.differ({"data.pkl": ONE_LIST}, {"data.pkl": TWO_LISTS})
        self.differ({"data.pkl": ONE_STORAGE}, {"data.pkl": TWICE_READ})

    def test_storages(self) -> None:
        self.differ({}, {"data/0": b"0123456_"})
        self.differ({}, {"data/1": None})
        self.differ({}, {"data.pkl": module(text("a") + storage("0", 1), text("b") + storage("1"))})
        same: dict[str, bytes | None] = {"data/1": b"01234567"}
        self.differ(same, same | {"data.pkl": TWICE_READ})

    def test_crc(self) -> None:
        path = self.write("broken", PLAIN)
        path.write_bytes(path.read_bytes().replace(b"01234567", b"0123456_"))
        with self.assertRaises(ValueError):
            archive_compare.Archive(path)


if __name__ == "__main__":
    unittest.main()
