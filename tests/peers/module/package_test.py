#!/usr/bin/env python3
"""Packages of PyTorch's torch.package are changed and written again, in both PyTorch versions.
rewrite_test.py packs the modules of the zoo.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import kit

PEER = kit.HERE / "package_peer.py"


def records(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


class Packages(kit.TorchCase):
    def test_of_pytorch(self) -> None:
        for writer, python in kit.TORCHES.items():
            old, new, picked = (
                self.folder / f"{writer}{suffix}.pt" for suffix in ("", "-new", "-picked")
            )
            kit.run_python(python, PEER, "write", old)
            self.assertIn("version 10", kit.tell("add", old, new, "0.25")[0])
            before, after = records(old), records(new)
            kept = {name for name in before if not name.startswith(".data/")} - {"byteorder"}
            self.assertGreaterEqual(
                kept, {"models/net.pkl", "models/all", "models/note.txt", "models/code.py"}
            )
            for name in kept | {".data/extern_modules", ".data/python_version"}:
                if name == ".data/extern_modules":
                    self.assertLessEqual(set(before[name].split()), set(after[name].split()))
                else:
                    self.assertEqual(before[name], after[name], name)
            # The weight that two modules share is one record, and so is each class.
            self.assertEqual(
                len([name for name in after if name.startswith(".data/ts_code/code/")]), 2
            )
            kit.tell("pick", old, picked, "models/net.pkl", "models/twin.pkl")
            self.assertEqual(
                len([name for name in records(picked) if name.endswith(".storage")]), 5
            )
            for runner, other in kit.TORCHES.items():
                with self.subTest(written_by=writer, run_by=runner):
                    print(
                        writer, "→", kit.run_python(other, PEER, "check", old, new, "0.25").strip()
                    )
                    kit.run_python(other, PEER, "pick", old, picked)


if __name__ == "__main__":
    kit.main()
