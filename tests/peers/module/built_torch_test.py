#!/usr/bin/env python3
"""Modules that are built by hand run in PyTorch, and compute what PyTorch's own layers do."""

from __future__ import annotations

import zipfile

import kit
import page
import programs


class Built(kit.TorchCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        page.clear("built")
        wrong = programs.Program("c").run(programs.all_steps(), cls.folder)
        assert not wrong, wrong

    def test_all(self) -> None:
        for runner, python in kit.TORCHES.items():
            with self.subTest(run_by=runner):
                print(kit.check("built", python, kit.HERE / "check_built.py", self.folder))

    def test_records(self) -> None:
        with zipfile.ZipFile(self.folder / "shared.pt") as archive:
            self.assertIsNone(archive.testzip())
            names = [
                "extra/note.txt",
                "extra/bytes/of any kind",
                "extra/nothing",
                "data/0",
                "data.pkl",
                "code/__torch__.py",
            ]
            names += [
                "constants.pkl",
                "traced_inputs/0",
                "traced_inputs.pkl",
                ".data/version",
                "byteorder",
            ]
            self.assertEqual(archive.namelist(), [f"shared/{name}" for name in names])
            self.assertEqual(archive.read("shared/.data/version"), b"10\n")
            # PyTorch shows no user the inputs that it has read.
            self.assertEqual(archive.getinfo("shared/traced_inputs/0").file_size, 0)
            self.assertIn(b"forward", archive.read("shared/traced_inputs.pkl"))


if __name__ == "__main__":
    kit.main()
