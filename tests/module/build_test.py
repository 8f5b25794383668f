#!/usr/bin/env python3
"""Modules that are built by hand run in PyTorch, and compute what PyTorch's own layers do."""

from __future__ import annotations

import zipfile

import kit


class Build(kit.TorchCase):
    def test_all(self) -> None:
        names = kit.tell("names")
        failed = kit.Agent([["build", name, str(self.folder / f"{name}.pt")] for name in names]).failures()
        self.assertEqual(failed, [])
        for runner, python in kit.TORCHES.items():
            with self.subTest(run_by=runner):
                print(kit.run_python(python, kit.HERE / "check_built.py", self.folder).strip())

    def test_bytes_are_a_function_of_the_module(self) -> None:
        for folder in ("a", "b"):
            (self.folder / folder).mkdir()
            kit.tell("build", "types", self.folder / folder / "types.pt")
        self.assertEqual((self.folder / "a" / "types.pt").read_bytes(), (self.folder / "b" / "types.pt").read_bytes())

    def test_records(self) -> None:
        kit.tell("build", "shared", self.folder / "s.pt")
        with zipfile.ZipFile(self.folder / "s.pt") as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(
                archive.namelist(),
                [
                    f"s/{name}"
                    for name in (
                        "extra/note.txt",
                        "data/0",
                        "data.pkl",
                        "code/__torch__.py",
                        "constants.pkl",
                        "traced_inputs/0",
                        "traced_inputs.pkl",
                        ".data/version",
                        "byteorder",
                    )
                ],
            )
            self.assertEqual(archive.read("s/.data/version"), b"10\n")
            self.assertEqual(archive.getinfo("s/traced_inputs/0").file_size, 0)


if __name__ == "__main__":
    kit.main()
