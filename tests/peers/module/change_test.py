#!/usr/bin/env python3
"""Archives of PyTorch get other weights, other methods and other submodules, or several of them are
put under one root. PyTorch then computes the right results.
"""

from __future__ import annotations

import zipfile

import kit

CHECK = kit.HERE / "check_changed.py"


class Change(kit.TorchCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        for name, python in kit.TORCHES.items():
            for net in ("a", "b"):
                kit.run_python(python, kit.HERE / "write_changed.py", cls.folder / name, net)
            kit.run_python(python, "version_archives.py", cls.folder / name / "versions")

    def check(self, name: str, *arguments: object) -> None:
        kit.run_python(kit.TORCHES[name], CHECK, *map(str, arguments))

    def test_weights(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name
            for model in ("a", "layers", "traced"):
                with self.subTest(torch=name, model=model):
                    kit.tell("add", folder / f"{model}.pt", folder / "new.pt", "0.25")
                    self.check(name, "added", folder / f"{model}.pt", folder / "new.pt", "0.25")
                    with (
                        zipfile.ZipFile(folder / f"{model}.pt") as old,
                        zipfile.ZipFile(folder / "new.pt") as new,
                    ):
                        code = [entry for entry in old.namelist() if entry.endswith(".py")]
                        self.assertTrue(code)
                        for entry in code:
                            self.assertEqual(
                                old.read(entry), new.read("new" + entry[entry.index("/") :])
                            )

    def test_methods(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name
            for model in ("a", "b", "traced"):
                with self.subTest(torch=name, model=model):
                    kit.tell("twice", folder / f"{model}.pt", folder / "new.pt", "forward")
                    self.check(name, "twice", folder / f"{model}.pt", folder / "new.pt")

    def test_clashing_classes(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name
            with self.subTest(torch=name):
                parts = [folder / f"{part}.pt" for part in ("a", "b", "a", "traced", "layers")]
                kit.tell("combine", folder / "all.pt", *parts)
                self.check(name, "combined", folder / "all.pt", *parts)
                with zipfile.ZipFile(folder / "all.pt") as archive:
                    files = {
                        entry[entry.index("/") + 1 :]: archive.read(entry).decode()
                        for entry in archive.namelist()
                        if entry.endswith(".py")
                    }
                # The same archive twice has its classes once. A different class with the same name
                # gets a new name.
                whole = "\n".join(files.values())
                self.assertEqual(whole.count("class Net(Module)"), 2)
                self.assertEqual(whole.count("class Point(NamedTuple)"), 2)
                self.assertTrue(any("___torch_mangle_" in file for file in files))

    def test_submodules(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name
            for model in ("layers", "traced"):
                for path, other in (
                    ("0", "linear"),
                    ("1", "tanh"),
                    ("2", "layers"),
                    ("1", "traced"),
                ):
                    with self.subTest(torch=name, model=model, path=path, other=other):
                        kit.tell(
                            "swap",
                            folder / f"{model}.pt",
                            path,
                            folder / f"{other}.pt",
                            folder / "new.pt",
                        )
                        self.check(
                            name,
                            "swapped",
                            folder / f"{model}.pt",
                            path,
                            folder / f"{other}.pt",
                            folder / "new.pt",
                        )

    def test_versions_together(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name / "versions"
            # The new root is code of version 10. An operator that has had its present meaning since
            # before the part's version is accepted.
            for part, operator in (
                ("div_3", "div"),
                ("full_3", "full"),
                ("linspace_3", "linspace"),
                ("combined_3", "div"),
            ):
                with self.subTest(torch=name, part=part):
                    message = kit.refusal(
                        "combine",
                        folder / "refused.pt",
                        folder / "neutral_10.pt",
                        folder / f"{part}.pt",
                    )
                    self.assertIn(f"uses {operator}, ", message)
                    self.assertIn("__torch__.Combined", message)
                    self.assertFalse((folder / "refused.pt").exists())
            for parts in (
                ("div_10", "neutral_3"),
                ("div_8", "full_9", "neutral_3"),
                ("linspace_steps_9", "div_10"),
                # With a number of steps it means the same in every version.
                ("linspace_steps_3", "div_10"),
                ("linspace_steps_8", "full_8"),
            ):
                with self.subTest(torch=name, parts=parts):
                    paths = [folder / f"{part}.pt" for part in parts]
                    said = kit.tell("combine", folder / "new.pt", *paths)
                    self.assertIn("exported version 10 ", said[-1])
                    self.check(name, "combined", folder / "new.pt", "integers", *paths)
                    (folder / "new.pt").unlink()

    def test_forced_version(self) -> None:
        for name in kit.TORCHES:
            folder = self.folder / name / "versions"
            self.assertIn(
                "uses full", kit.refusal("version", folder / "full_3.pt", folder / "new.pt", "5")
            )
            self.assertIn(
                "uses div", kit.refusal("version", folder / "div_10.pt", folder / "new.pt", "3")
            )
            self.assertIn(
                "exported version 4 ",
                kit.tell("version", folder / "full_3.pt", folder / "new.pt", "4")[-1],
            )
            self.assertIn(
                "exported version 10 ",
                kit.tell("version", folder / "neutral_3.pt", folder / "new.pt", "10")[-1],
            )
            self.assertIn(
                "none of them",
                kit.refusal("version", folder / "neutral_3.pt", folder / "new.pt", "11"),
            )


if __name__ == "__main__":
    kit.main()
