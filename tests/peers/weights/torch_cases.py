"""Tests programs that torch.export saved: Tenon replaces weights, and PyTorch runs the result.

weights_test.py starts this file.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

import torch
from library import TenonError, Weights, check_broken_bytes
from tensors import given, raw, seen

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "weights"
FLOAT = 6


class Net(torch.nn.Module):
    """Has two parameters that are one, buffers with views and without elements, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.tied.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.small = torch.nn.Parameter(torch.rand(3).bfloat16())
        self.constant = torch.rand(4, 3).t()
        whole = torch.rand(16).reshape(4, 4)
        self.register_buffer("whole", whole)
        self.register_buffer("row", whole[1])
        self.register_buffer("transposed", torch.rand(4, 3).t())
        self.register_buffer("empty", torch.empty(0, 3))
        self.register_buffer("expanded", torch.rand(1).expand(3))
        self.register_buffer("temporary", torch.rand(4, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.tied(self.first(x))) @ self.whole + self.row
        y = (
            y @ self.transposed.t()
            + self.constant.sum(0)[:3]
            + self.expanded
            + self.small
            + self.empty.sum()
        )
        return y * torch.tensor([1.5, 2.5, 3.5]) + self.temporary.sum()


def records(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


class Case(unittest.TestCase):
    """Makes a folder with a program in it."""

    net: Net
    folder: Path
    program: Path
    example: torch.Tensor

    @classmethod
    def setUpClass(cls) -> None:
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        cls.folder = Path(kept.name)
        cls.program = cls.folder / "net.pt2"
        torch.manual_seed(0)
        cls.net = Net().eval()
        cls.example = torch.rand(2, 4)
        torch.export.save(torch.export.export(cls.net, (cls.example,)), cls.program)

    def refused(self, code: str, words: str, path: Path, **options: int) -> None:
        with self.assertRaises(TenonError) as caught:
            Weights(path, **options)
        self.assertEqual(caught.exception.args[0], code)
        self.assertRegex(caught.exception.args[1], words)

    def replacement_refused(
        self, code: str, words: str, weights: Weights, name: str, tensor: torch.Tensor
    ) -> None:
        with self.assertRaises(TenonError) as caught:
            weights[name] = given(tensor)
        self.assertEqual(caught.exception.args[0], code)
        self.assertRegex(caught.exception.args[1], words)

    def changed(self, name: str, change: Any) -> Path:
        """Returns the path of the program with one record replaced by change(its bytes)."""
        path = self.folder / "changed.pt2"
        with zipfile.ZipFile(self.program) as old, zipfile.ZipFile(path, "w") as new:
            for entry in old.infolist():
                data = old.read(entry)
                new.writestr(
                    entry.filename, change(data) if entry.filename == "net/" + name else data
                )
        return path


class Newest(Case):
    """Tests the form of the newest PyTorch: records with bytes of storages, and lists in JSON."""

    def test_reads_every_weight(self) -> None:
        program = torch.export.load(self.program)
        expected = dict(program.state_dict) | {
            name: value
            for name, value in program.constants.items()
            if isinstance(value, torch.Tensor)
        }
        for tensors in range(3):
            weights = Weights(self.program, tensors=tensors, check=2)
            self.assertEqual(sorted(weights.names()), sorted(expected))
            for name, tensor in expected.items():
                found = weights[name]
                with self.subTest(name):
                    self.assertEqual(found.sizes, tuple(tensor.shape))
                    self.assertTrue(torch.equal(seen(found), tensor.detach()))
                    self.assertEqual(found.requires_grad, tensor.requires_grad)
            self.assertEqual(weights["first.weight"].address(), weights["tied.weight"].address())
            self.assertEqual(weights["whole"].address(), weights["row"].address())

    def test_same_file_without_a_change(self) -> None:
        copy = self.folder / "copy.pt2"
        Weights(self.program).rewrite(copy)
        self.assertEqual(copy.read_bytes(), self.program.read_bytes())

    def test_new_weights_run_in_pytorch(self) -> None:
        weights = Weights(self.program)
        other = Net().eval()
        with torch.no_grad():
            other.norm.running_mean.uniform_()
            other.norm.num_batches_tracked.fill_(7)
        other.expanded = self.net.expanded
        kept = weights["first.weight"]
        new = {**other.state_dict(), "constant": other.constant, "temporary": other.temporary}
        for name, tensor in new.items():
            if name in ("row", "expanded", "tied.weight"):
                continue
            if name == "first.weight":
                tensor = tensor.t().contiguous().t()  # a layout that the file does not have
            weights[name] = given(tensor)
        self.assertTrue(torch.equal(seen(kept), self.net.first.weight))
        self.assertTrue(torch.equal(seen(weights["tied.weight"]), other.first.weight))
        self.assertTrue(torch.equal(seen(weights["row"]), other.row))
        path = self.folder / "new.pt2"
        weights.rewrite(path)
        loaded = torch.export.load(path)
        with torch.no_grad():
            # The program also has the literal [1.5, 2.5, 3.5] as a constant.
            self.assertTrue(torch.equal(loaded.module()(self.example), other(self.example)))
        for name, tensor in other.state_dict().items():
            self.assertTrue(torch.equal(loaded.state_dict[name], tensor), name)
        before, after = records(self.program), records(path)
        self.assertEqual(list(before), list(after))
        changed = {name for name in before if before[name] != after[name]}
        self.assertTrue(
            all(
                name.startswith(("net/data/weights/weight_", "net/data/constants/tensor_"))
                for name in changed
            ),
            changed,
        )
        self.assertEqual(path.stat().st_size, self.program.stat().st_size)

    def test_over_the_opened_file(self) -> None:
        path = self.folder / "own.pt2"
        path.write_bytes(self.program.read_bytes())
        weights = Weights(path)
        row = torch.rand(4)
        weights["row"] = given(row)
        weights.rewrite(path)
        again = Weights(path, check=2)
        self.assertTrue(torch.equal(seen(again["row"]), row))
        self.assertTrue(torch.equal(seen(again["whole"])[1], row))
        self.assertTrue(torch.equal(seen(again["whole"])[2], self.net.whole[2]))

    def test_refuses_what_does_not_fit(self) -> None:
        weights = Weights(self.program)
        good = torch.rand(4, 4)
        self.replacement_refused(
            "INVALID_ARGUMENT",
            r"float32 of the shape \[4, 4\].*float32 of the shape \[2, 8\]",
            weights,
            "first.weight",
            good.reshape(2, 8),
        )
        self.replacement_refused(
            "INVALID_ARGUMENT", "float64", weights, "first.weight", good.double()
        )
        self.replacement_refused(
            "NOT_FOUND", "did you mean first.weight", weights, "first.weigth", good
        )
        self.replacement_refused(
            "UNSUPPORTED", "several of its elements", weights, "expanded", torch.rand(3)
        )

    def test_refuses_broken_files(self) -> None:
        with self.assertRaises(TenonError):
            Weights(self.folder / "none.pt2")
        damaged = bytearray(self.program.read_bytes())
        damaged[damaged.index(raw(self.net.whole))] ^= 1
        path = self.folder / "damaged.pt2"
        path.write_bytes(damaged)
        self.refused("CORRUPT", "weight_", path, check=2)
        self.refused("CORRUPT", "weight_", path, tensors=2, check=1)
        self.assertIn("whole", Weights(path).names())
        listed = "data/weights/model_weights_config.json"
        self.refused("CORRUPT", "is no JSON", self.changed(listed, lambda data: data[:-3]))
        self.refused(
            "CORRUPT",
            "has a field",
            self.changed(
                listed, lambda data: data.replace(b'"sizes": [', b'"sizes": [' + b"[" * 100_000, 1)
            ),
        )
        self.refused("CORRUPT", "config", self.changed(listed, lambda data: b"{}"))
        self.refused(
            "CORRUPT",
            "is missing",
            self.changed(listed, lambda data: data.replace(b'"dtype"', b'"type"', 1)),
        )
        self.refused(
            "CORRUPT",
            "twice",
            self.changed(
                listed, lambda data: data.replace(b'"dtype": 7', b'"dtype": 7, "dtype": 7', 1)
            ),
        )
        self.refused(
            "CORRUPT",
            "two weights",
            self.changed(listed, lambda data: data.replace(b'"norm.bias"', b'"norm.weight"')),
        )
        self.refused(
            "CORRUPT",
            "no record data/weights/../x",
            self.changed(listed, lambda data: data.replace(b'"weight_0"', b'"../x"', 1)),
        )
        self.refused(
            "UNSUPPORTED", "archive_version is 1", self.changed("archive_version", lambda _: b"1")
        )

    def test_refuses_layouts_beyond_the_record(self) -> None:
        def change(**fields: object) -> Path:
            def edit(data: bytes) -> bytes:
                config = json.loads(data)
                weight = config["config"]["norm.weight"]
                weight["use_pickle"] = fields.pop("use_pickle", False)
                weight["tensor_meta"].update(fields)
                return json.dumps(config).encode()

            return self.changed("data/weights/model_weights_config.json", edit)

        def integers(*values: int) -> list[dict[str, int]]:
            return [{"as_int": value} for value in values]

        self.refused("CORRUPT", "norm.weight", change(sizes=integers(5)))
        self.refused("CORRUPT", "norm.weight", change(strides=integers(2)))
        self.refused("CORRUPT", "norm.weight", change(strides=integers(-1)))
        self.refused("CORRUPT", "norm.weight", change(storage_offset={"as_int": 1}))
        self.refused("CORRUPT", "norm.weight", change(storage_offset={"as_int": 2**62}))
        self.refused(
            "CORRUPT",
            "norm.weight",
            change(sizes=integers(2**40, 2**40), strides=integers(2**40, 1)),
        )
        self.refused(
            "CORRUPT", "norm.weight", change(sizes=integers(*[1] * 65), strides=integers(*[1] * 65))
        )
        for fields in (
            {"use_pickle": True},
            {"dtype": 99},
            {"layout": 1},
            {"sizes": [{"as_expr": {"expr_str": "s0"}}]},
        ):
            weights = Weights(change(**fields))
            self.assertIn("norm.weight", weights.names())
            with self.assertRaisesRegex(TenonError, '"norm.weight" cannot be read'):
                weights["norm.weight"]
            self.replacement_refused(
                "UNSUPPORTED",
                '"norm.weight" cannot be replaced',
                weights,
                "norm.weight",
                torch.rand(4),
            )
            weights["norm.bias"] = given(torch.rand(4))

    def test_two_programs(self) -> None:
        path = self.folder / "two.pt2"
        program = torch.export.export(torch.nn.Linear(2, 2), (torch.rand(1, 2),))
        torch.export.pt2_archive._package.package_pt2(
            path, exported_programs={"a": program, "b": program}
        )
        weights = Weights(path)
        self.assertEqual(sorted(weights.names()), ["a/bias", "a/weight", "b/bias", "b/weight"])
        weights["b/bias"] = given(torch.tensor([3.0, 4.0]))
        weights.rewrite(path)
        loaded = torch.export.pt2_archive._package.load_pt2(path).exported_programs
        self.assertEqual(loaded["b"].state_dict["bias"].tolist(), [3.0, 4.0])
        self.assertTrue(torch.equal(loaded["a"].state_dict["bias"], program.state_dict["bias"]))


class StateDict(Case):
    """Tests files of torch.save: state dicts and nested checkpoints."""

    def test_replaces(self) -> None:
        path, new = self.folder / "state.pth", self.folder / "new.pth"
        torch.save(self.net.state_dict(), path)
        for tensors in range(3):
            weights = Weights(path, tensors=tensors, check=2)
            self.assertEqual(weights.names(), list(self.net.state_dict()))
            for name, tensor in self.net.state_dict().items():
                self.assertTrue(torch.equal(seen(weights[name]), tensor), name)
            self.assertEqual(weights["first.weight"].storage, weights["tied.weight"].storage)
            weight = torch.rand(4, 4)
            weights["tied.weight"] = given(weight)
            weights["small"] = given(torch.tensor([1.0, 2.0, 3.0]).bfloat16())
            weights.rewrite(new)
            state = torch.load(new, weights_only=True)
            self.assertTrue(torch.equal(state["first.weight"], weight))
            self.assertEqual(state["small"].tolist(), [1, 2, 3])
            self.assertTrue(torch.equal(state["whole"], self.net.whole))
            self.assertEqual(new.stat().st_size, path.stat().st_size)

    def test_nested_checkpoint(self) -> None:
        path = self.folder / "checkpoint.pth"
        optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.net(self.example).sum().backward()
        optimiser.step()
        torch.save(
            {"model": self.net.state_dict(), "optim": optimiser.state_dict(), "epoch": 3}, path
        )
        weights = Weights(path)
        self.assertIn("model.norm.weight", weights.names())
        momentum = optimiser.state_dict()["state"][0]["momentum_buffer"]
        self.assertTrue(torch.equal(seen(weights["optim.state.0.momentum_buffer"]), momentum))
        self.assertNotIn("epoch", weights.names())
        self.assertEqual(weights.values()["epoch"], 3)
        self.assertEqual(weights.values()["optim.param_groups.0.lr"], 0.1)
        self.assertEqual(weights.skipped(), [])

    def test_compressed_and_damaged(self) -> None:
        path, packed = self.folder / "state.pth", self.folder / "packed.pth"
        torch.save(self.net.state_dict(), path)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in records(path).items():
                archive.writestr(name, data)
        weights = Weights(packed)
        self.assertTrue(torch.equal(seen(weights["first.weight"]), self.net.first.weight))
        self.replacement_refused(
            "UNSUPPORTED", "compressed", weights, "first.weight", torch.rand(4, 4)
        )
        data = bytearray(path.read_bytes())
        data[data.index(raw(self.net.whole))] ^= 1
        path.write_bytes(data)
        self.refused("CORRUPT", "data/", path, tensors=2, check=1)


class First(Case):
    """Tests the form of PyTorch 2.6: a zip archive without a folder, with two torch.save files."""

    def write(self, compression: int = zipfile.ZIP_STORED, version: str = "8.2") -> Path:
        """Writes such a file as torch.export.save of PyTorch 2.6 does."""
        path = self.folder / "first.pt2"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("serialized_exported_program.json", json.dumps({"graph_module": {}}))
            for name, tensors in (
                ("state_dict", self.net.state_dict()),
                ("constants", {"constant": self.net.constant}),
            ):
                data = io.BytesIO()
                torch.save(tensors, data)
                archive.writestr(f"serialized_{name}.pt", data.getvalue())
            archive.writestr("serialized_example_inputs.pt", b"not read")
            archive.writestr("version", version)
            archive.writestr("extra_files/note.txt", "kept")
        return path

    def nested(self, path: Path, name: str) -> Any:
        data = records(path)[f"serialized_{name}.pt"]
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.assertIsNone(archive.testzip())
        return torch.load(io.BytesIO(data), weights_only=True)

    def test_replaces(self) -> None:
        path = self.write()
        new = self.folder / "new.pt2"
        for tensors in range(3):
            weights = Weights(path, tensors=tensors, check=2)
            self.assertEqual(weights.names(), [*self.net.state_dict(), "constant"])
            for name, tensor in self.net.state_dict().items():
                self.assertTrue(torch.equal(seen(weights[name]), tensor), name)
            weight, constant = torch.rand(4, 4), torch.rand(3, 4)
            weights["tied.weight"] = given(weight)
            weights["constant"] = given(constant)
            weights["norm.num_batches_tracked"] = given(torch.tensor(9))
            weights.rewrite(new)
            state = self.nested(new, "state_dict")
            self.assertTrue(torch.equal(state["first.weight"], weight))
            self.assertTrue(torch.equal(state["norm.weight"], self.net.norm.weight))
            self.assertEqual(state["norm.num_batches_tracked"], 9)
            self.assertTrue(torch.equal(self.nested(new, "constants")["constant"], constant))
            before, after = records(path), records(new)
            self.assertEqual(
                {name for name in before if before[name] != after[name]},
                {"serialized_state_dict.pt", "serialized_constants.pt"},
            )
            self.assertEqual(new.stat().st_size, path.stat().st_size)

    def test_compressed(self) -> None:
        weights = Weights(self.write(zipfile.ZIP_DEFLATED))
        self.assertTrue(torch.equal(seen(weights["first.weight"]), self.net.first.weight))
        self.replacement_refused(
            "UNSUPPORTED", "compressed", weights, "first.weight", torch.rand(4, 4)
        )

    def test_damaged(self) -> None:
        path = self.write()
        data = bytearray(path.read_bytes())
        data[data.index(raw(self.net.whole))] ^= 1
        path.write_bytes(data)
        self.refused("CORRUPT", "data/", path, tensors=2, check=1)
        self.refused("UNSUPPORTED", "version is 9", self.write(version="9.0"))
        self.refused("CORRUPT", "version", self.write(version="new"))


class Second(unittest.TestCase):
    """Tests torch-2.8.0.pt2, which torch.export.save of PyTorch 2.8 wrote.

    The newest PyTorch still runs it.
    """

    def test_new_weights_run_in_pytorch(self) -> None:
        weights = Weights(GOLDEN / "torch-2.8.0.pt2", check=2)
        self.assertEqual(weights.names(), ["weight", "tied", "columns", "shift"])
        weight, shift = torch.rand(2, 3), torch.rand(2)
        weights["tied"] = given(weight)
        weights["shift"] = given(shift)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "new.pt2")
            weights.rewrite(path)
            program = torch.export.load(path)
        x = torch.ones(1, 3)
        columns = torch.arange(4.0).reshape(2, 2).t()
        self.assertTrue(
            torch.equal(program.module()(x), (x @ weight.t() + x @ weight.t()) @ columns + shift)
        )


class ExecuTorch(unittest.TestCase):
    """Tests executorch-1.5.1.ptd, which FlatTensorSerializer of ExecuTorch 1.5.1 wrote."""

    path = GOLDEN / "executorch-1.5.1.ptd"

    def test_reads(self) -> None:
        for tensors in range(3):
            weights = Weights(self.path, tensors=tensors)
            self.assertEqual(
                weights.names(),
                ["linear.weight", "tied.weight", "transposed", "table", "backend_blob", "half"],
            )
            self.assertEqual(seen(weights["linear.weight"]).tolist(), [[0, 1, 2], [3, 4, 5]])
            self.assertEqual(seen(weights["transposed"]).tolist(), [[0, 3], [1, 4], [2, 5]])
            self.assertEqual(weights["linear.weight"].address(), weights["tied.weight"].address())
            self.assertEqual(seen(weights["table"]).tolist(), [-1, 0, 1])
            self.assertEqual(weights["backend_blob"].data()[:12], b"packed bytes")
            self.assertEqual(seen(weights["half"]).tolist(), [[[1], [2], [3], [4]]])

    def test_is_not_written(self) -> None:
        weights = Weights(self.path)
        with self.assertRaisesRegex(TenonError, "reads and does not write"):
            weights["table"] = given(torch.tensor([1, 2, 3], dtype=torch.int16))
        with self.assertRaisesRegex(TenonError, "reads and does not write"):
            weights.rewrite(Path("/nowhere"))

    def test_every_broken_byte(self) -> None:
        """Changes one byte at a time. The file is then read or refused, and nothing crashes."""
        good = self.path.read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "broken.ptd")
            check_broken_bytes(self, path, good, range(struct.unpack_from("<Q", good, 32)[0]))


if __name__ == "__main__":
    unittest.main()
