"""Tests files of torch.save and torch.jit.save, in both forms of each, against the PyTorch that
runs this file. weights_test.py starts it with each PyTorch.
"""

from __future__ import annotations

import collections
import json
import os
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from library import TenonError, Weights, check_broken_bytes
from tensors import TYPE_NUMBERS, given, raw, seen


class Net(torch.nn.Module):
    """Has tied parameters, a view of a buffer, and attributes of several types."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.tied = torch.nn.Linear(3, 3)
        self.tied.weight = self.first.weight
        self.blocks = torch.nn.ModuleList([torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)])
        whole = torch.rand(12).reshape(4, 3)
        self.register_buffer("whole", whole)
        self.register_buffer("row", whole[1])
        self.register_buffer("transposed", torch.rand(3, 4).t())
        self.register_buffer("hidden", torch.rand(2), persistent=False)
        self.scale = 0.5
        self.names = ["a", "b"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return (self.tied(self.first(self.row)).sum() + x.sum()) * self.scale + self.hidden.sum()


class Odd:
    """A class that only Python knows."""

    ran = False

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch " + str(SavedCase.folder / "ran"),)


def flatten(value: Any, name: str = "") -> dict[str, Any]:
    """Gives the leaves of dicts and lists by their dotted names."""
    if isinstance(value, torch.Tensor) or not isinstance(value, (dict, list, tuple)):
        return {name: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    dot = "." if name else ""
    return {k: v for key, each in items for k, v in flatten(each, f"{name}{dot}{key}").items()}


def load(path: Path) -> Any:
    """Loads a file as PyTorch does. Only newer ones have weights_only, and refuse some objects."""
    kwargs = {"weights_only": False} if "weights_only" in torch.load.__code__.co_varnames else {}
    return torch.load(path, **kwargs)


class SavedCase(unittest.TestCase):
    """Makes a folder, and compares what Tenon reads with what PyTorch has."""

    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        SavedCase.folder = Path(kept.name)
        torch.manual_seed(0)

    def check(self, weights: Weights, wanted: dict[str, Any]) -> None:
        tensors = {name: value for name, value in wanted.items() if torch.is_tensor(value)}
        self.assertEqual(sorted(weights.names()), sorted(tensors))
        for name, tensor in tensors.items():
            found = weights[name]
            with self.subTest(name):
                self.assertEqual((found.sizes, found.strides), (tensor.shape, tensor.stride()))
                self.assertTrue(torch.equal(seen(found), tensor.detach()))

    def refused(self, path: Path) -> tuple[str, str]:
        with self.assertRaises(TenonError) as caught:
            Weights(path)
        return caught.exception.args


class Saved(SavedCase):
    """Tests both forms of torch.save: the zip archive, and the pickles of PyTorch before 1.6."""

    forms = ({}, {"_use_new_zipfile_serialization": False})
    # A pickler of protocol 4 frames the pickles.
    more_forms = (*forms, {"_use_new_zipfile_serialization": False, "pickle_protocol": 4})

    def test_reads_and_replaces(self) -> None:
        net = Net()
        types = {str(dtype): torch.arange(5).to(dtype) for dtype in TYPE_NUMBERS}
        complete = {
            "model": net.state_dict(),
            "types": types,
            "list": [torch.rand(1), (torch.rand(2), torch.rand(2)[1:])],
            "empty": torch.empty(0, 3),
            5: torch.tensor(1.5),
            "default": collections.defaultdict(list, {"t": torch.rand(2)}),
            "epoch": 3,
            "rate": 0.25,
            "name": "ünï",
            "flags": {"yes": True, "none": None},
            "big": 2**62,
        }
        path, new = self.folder / "saved.pt", self.folder / "new.pt"
        for form in self.more_forms:
            torch.save(complete, path, **form)
            wanted = flatten(load(path))
            for tensors in range(3):
                weights = Weights(path, tensors=tensors, check=2)
                self.check(weights, wanted)
                values = {k: v for k, v in wanted.items() if not torch.is_tensor(v)}
                self.assertEqual(weights.values(), values)
                self.assertEqual(weights.skipped(), [])
                for one, other in (("first.weight", "tied.weight"), ("whole", "row")):
                    one, other = weights[f"model.{one}"], weights[f"model.{other}"]
                    self.assertEqual(one.address(), other.address())
                weights["model.tied.weight"] = given(torch.full((3, 3), 7.0))
                weights["model.transposed"] = given(torch.arange(12.0).reshape(4, 3))
                weights.rewrite(new)
                state = load(new)["model"]
                self.assertEqual(state["first.weight"].tolist(), [[7.0] * 3] * 3)
                self.assertEqual(
                    state["transposed"].tolist(), torch.arange(12.0).reshape(4, 3).tolist()
                )
                self.assertEqual(new.stat().st_size, path.stat().st_size)

    def test_a_single_tensor(self) -> None:
        path = self.folder / "one.pt"
        for form in self.forms:
            for tensor in (torch.rand(3, 2), torch.nn.Parameter(torch.rand(2)), torch.tensor(3)):
                torch.save(tensor, path, **form)
                self.check(Weights(path), {"": tensor})

    def test_a_large_pickle(self) -> None:
        """Has more bytes of pickle than the reader of the old form first takes."""
        path = self.folder / "large.pt"
        many = {f"layer.{i}": torch.tensor([i]) for i in range(5000)}
        for form in self.forms:
            torch.save(many, path, **form)
            weights = Weights(path)
            self.assertEqual(sorted(weights.names()), sorted(many))
            self.assertEqual(seen(weights["layer.4999"]).item(), 4999)

    def test_what_is_not_known_is_skipped_and_listed(self) -> None:
        path = self.folder / "odd.pt"
        complete = {
            "before": torch.rand(2),
            "odd": Odd(),
            "net": Net(),
            "list": [torch.rand(1), np.float64(1.5), {1, 2}],
            "after": torch.rand(3),
        }
        for form in self.forms:
            torch.save(complete, path, **form)
            weights = Weights(path)
            self.check(
                weights,
                {"before": complete["before"], "after": complete["after"]}
                | {"list.0": complete["list"][0]},
            )
            lines = dict(line.split(": ", 1) for line in weights.skipped())
            self.assertEqual(set(lines), {"odd", "net", "list.1", "list.2"})
            self.assertRegex(lines["odd"], r"a call of '(posix|os)\.system'")
            self.assertRegex(lines["net"], r"an object of '__main__\.Net'")
            self.assertRegex(lines["list.1"], r"numpy\..*scalar")
        self.assertFalse((self.folder / "ran").exists())

    def test_objects_at_the_root_are_refused(self) -> None:
        path = self.folder / "net.pt"
        for form in self.forms:
            for value, words in ((Net(), "Net"), (Odd(), "system"), (3, "3")):
                torch.save(value, path, **form)
                code, message = self.refused(path)
                self.assertEqual(code, "UNSUPPORTED")
                self.assertIn(words, message)
        self.assertFalse((self.folder / "ran").exists())

    def test_the_old_form_when_it_is_damaged(self) -> None:
        path = self.folder / "damaged.pt"
        torch.save({"a": torch.arange(3.0), "b": torch.ones(2)}, path, **self.forms[1])
        good = path.read_bytes()
        for nbytes in range(2, len(good)):
            path.write_bytes(good[:nbytes])
            self.assertIn(self.refused(path)[0], ("CORRUPT", "UNSUPPORTED"), nbytes)
        check_broken_bytes(self, path, good, range(2, len(good)))
        path.write_bytes(
            good.replace(raw(torch.ones(2)), b"").replace(b"FloatStorage", b"HalfStorage")
        )
        self.assertEqual(self.refused(path)[0], "CORRUPT")

    def test_other_pickles(self) -> None:
        path = self.folder / "pickle.pt"
        path.write_bytes(b"\x80\x02}.")
        self.assertEqual(self.refused(path)[0], "UNSUPPORTED")
        self.assertIn("no file of torch.save", self.refused(path)[1])
        torch.save({}, path, **self.forms[1])
        path.write_bytes(path.read_bytes().replace(b"M\xe9\x03.", b"M\xea\x03."))
        self.assertIn("version 1002", self.refused(path)[1])


class Script(SavedCase):
    """Tests modules of TorchScript: archives, those of the lite interpreter, and flatbuffers."""

    def setUp(self) -> None:
        try:
            torch.jit.script(torch.nn.Identity())
        except Exception as error:  # a newer PyTorch may have no TorchScript
            self.skipTest(str(error))
        self.net = torch.jit.script(Net().eval())

    def wanted(self) -> dict[str, Any]:
        return {**self.net.state_dict(), "hidden": self.net.hidden}

    def check_values(self, weights: Weights) -> None:
        values = weights.values()
        self.assertEqual((values["training"], values["blocks.0.training"]), (False, False))
        self.assertEqual((values["scale"], values["names.1"]), (0.5, "b"))
        self.assertEqual(weights.skipped(), [])

    def test_archive(self) -> None:
        path, new = self.folder / "script.pt", self.folder / "new.pt"
        self.net.save(str(path))
        for tensors in range(3):
            weights = Weights(path, tensors=tensors, check=2)
            self.check(weights, self.wanted())
            self.check_values(weights)
            tied = weights["first.weight"], weights["tied.weight"]
            self.assertEqual(tied[0].address(), tied[1].address())
        weights["first.weight"] = given(torch.full((3, 3), 7.0))
        weights.rewrite(new)
        self.assertEqual(torch.jit.load(str(new)).tied.weight.tolist(), [[7.0] * 3] * 3)

    def test_code_that_does_not_parse(self) -> None:
        path, broken = self.folder / "script.pt", self.folder / "broken.pt"
        self.net.save(str(path))
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(broken, "w") as changed:
            for name in old.namelist():
                is_code = "/code/" in name
                changed.writestr(name, b"def }{ no code" if is_code else old.read(name))
        self.check(Weights(broken), self.wanted())

    def test_lite(self) -> None:
        path = self.folder / "script.ptl"
        for kwargs in ({}, {"_use_flatbuffer": True}):
            self.net._save_for_lite_interpreter(str(path), **kwargs)
            for tensors in range(3):
                weights = Weights(path, tensors=tensors)
                self.check(weights, self.wanted())
                self.check_values(weights)
                self.assertEqual(weights["whole"].address(), weights["row"].address())


class Sharded(SavedCase):
    """Tests pytorch_model.bin.index.json and its shards, in both forms of torch.save."""

    def test_shards_are_one(self) -> None:
        state = Net().state_dict()
        names = sorted(state)
        shards = {"model-1.bin": names[::2], "model-2.bin": names[1::2]}
        for i, (file, chosen) in enumerate(shards.items()):
            form = Saved.forms[i]
            torch.save({name: state[name].clone() for name in chosen}, self.folder / file, **form)
        index = self.folder / "pytorch_model.bin.index.json"
        places = {name: file for file, chosen in shards.items() for name in chosen}
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
        for tensors in range(3):
            self.check(Weights(index, tensors=tensors), {n: t.clone() for n, t in state.items()})


if __name__ == "__main__":
    unittest.main()
