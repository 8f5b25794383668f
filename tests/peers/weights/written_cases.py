"""Tests the files that tenon_save_weights writes, against the PyTorch that runs this file.
weights_test.py starts it with each PyTorch.

The tests of the Python package compare safetensors files with those of the package safetensors.
"""

from __future__ import annotations

import json
import struct
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

import torch
from library import NPZ, SAFETENSORS, TORCH_SAVE, TenonError, Tensor, Weights, save
from tensors import TYPE_NUMBERS, given, raw

# The element types that only newer PyTorch has have the numbers of ScalarType too.
NUMBERS = TYPE_NUMBERS | {
    getattr(torch, name): number
    for name, number in (
        ("complex64", 9),
        ("complex128", 10),
        ("float8_e5m2", 23),
        ("float8_e4m3fn", 24),
        ("float8_e5m2fnuz", 25),
        ("float8_e4m3fnuz", 26),
        ("uint16", 27),
        ("uint32", 28),
        ("uint64", 29),
        ("float8_e8m0fnu", 44),
    )
    if hasattr(torch, name)
}
UINT1 = 30
# PyTorch 1.13 refuses every quantised tensor with weights_only=True, its own files too.
QUANTISED_WEIGHTS_ONLY = not torch.__version__.startswith("1.")
DTYPES = dict(
    pair.split(":")
    for pair in [
        "BOOL:bool",
        "U8:uint8",
        "I8:int8",
        "F8_E5M2:float8_e5m2",
        "F8_E4M3:float8_e4m3fn",
        "F8_E8M0:float8_e8m0fnu",
        "F8_E4M3FNUZ:float8_e4m3fnuz",
        "F8_E5M2FNUZ:float8_e5m2fnuz",
        "I16:int16",
        "U16:uint16",
        "F16:float16",
        "BF16:bfloat16",
        "I32:int32",
        "U32:uint32",
        "F32:float32",
        "C64:complex64",
        "F64:float64",
        "I64:int64",
        "U64:uint64",
    ]
)


def of_type(dtype: torch.dtype) -> torch.Tensor:
    """Two rows of elements with any bits that are a number."""
    size = torch.empty(0, dtype=dtype).element_size()
    numbers = torch.arange(6 * size, dtype=torch.uint8) % (2 if dtype == torch.bool else 64)
    return numbers.view(dtype).reshape(2, 3)


def layouts() -> dict[str, torch.Tensor]:
    whole = torch.arange(24.0).reshape(4, 6)
    return {
        "whole": whole,
        "transposed": whole.t(),
        "stepped": whole[1:, ::2],
        "row": whole[2],
        "expanded": torch.tensor([[1.5], [2.5]]).expand(2, 4),
        "scalar": torch.tensor(7, dtype=torch.int16),
        "empty": torch.empty(0, 3, dtype=torch.float64),
        "ünï.weight": torch.tensor([True, False]),
    }


def quantised() -> dict[str, torch.Tensor]:
    rows = torch.arange(-12.0, 12.0).reshape(4, 6)
    found = {}
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        found[f"{dtype}.tensor"] = torch.quantize_per_tensor(rows, 0.25, 3, dtype)
        for axis in (0, 1):
            count = rows.shape[axis]
            scales = torch.arange(1, count + 1, dtype=torch.float64) / 8
            found[f"{dtype}.channel.{axis}"] = torch.quantize_per_channel(
                rows, scales, torch.arange(count), axis, dtype
            )
    found["floats"] = torch.quantize_per_channel(
        rows, torch.full((4,), 0.5), torch.full((4,), 1.5), 0, torch.quint8
    )
    found["whole"] = torch.quantize_per_tensor(rows, 0.5, 0, torch.qint8)
    found["row"] = found["whole"][2]
    found["transposed"] = found["whole"].t()
    return found


def read_safetensors(path: Path) -> dict[str, Any]:
    """Read the file as its format's page says."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, each in header.items():
        start, end = (8 + length + offset for offset in each["data_offsets"])
        dtype = getattr(torch, DTYPES[each["dtype"]])
        elements = torch.empty(0, dtype=dtype)
        if end > start:
            # The package aligns no tensor but the first, so the bytes are copied.
            elements = torch.frombuffer(bytearray(data[start:end]), dtype=dtype)
        found[name] = elements.reshape(each["shape"])
    return found


class Written(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "written.pt")

    def check(self, found: dict[str, Any], wanted: dict[str, torch.Tensor]) -> None:
        self.assertEqual(set(found), set(wanted))
        for name, tensor in wanted.items():
            with self.subTest(name):
                self.assertEqual(
                    (found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape)
                )
                self.assertEqual(raw(found[name]), raw(tensor))

    def write(self, tensors: dict[str, torch.Tensor], form: int, **options: bool) -> None:
        handles = {name: given(tensor, NUMBERS) for name, tensor in tensors.items()}
        save(self.path, handles, form, **options)

    def test_all_types(self) -> None:
        tensors = {str(dtype): of_type(dtype) for dtype in NUMBERS}
        self.assertGreaterEqual(len(tensors), 12)
        self.write(tensors, TORCH_SAVE)
        self.check(torch.load(self.path, weights_only=True), tensors)
        with self.assertRaisesRegex(TenonError, "torch.complex128|complex128"):
            self.write(tensors, SAFETENSORS)
        del tensors["torch.complex128"]
        self.write(tensors, SAFETENSORS)
        self.check(read_safetensors(self.path), tensors)

    def test_layouts(self) -> None:
        tensors = layouts()
        self.write(tensors, TORCH_SAVE)
        found = torch.load(self.path, weights_only=True)
        self.check(found, tensors)
        for name, tensor in tensors.items():
            self.assertEqual(found[name].stride(), tensor.stride())
        with self.assertRaisesRegex(TenonError, 'shares memory with "'):
            save(self.path, self.shared(), SAFETENSORS)
        self.write(tensors, SAFETENSORS, duplicate_shared=True)
        self.check(read_safetensors(self.path), tensors)

    def shared(self) -> dict[str, Any]:
        tensor = given(torch.arange(4.0))
        return {"one": tensor, "two": tensor}

    def test_shared_memory_stays_shared(self) -> None:
        save(self.path, self.shared(), TORCH_SAVE)
        found = torch.load(self.path, weights_only=True)
        self.assertEqual(found["one"].data_ptr(), found["two"].data_ptr())
        self.assertEqual(found["two"].tolist(), [0, 1, 2, 3])

    def test_quantised(self) -> None:
        """Tenon reads quantised tensors from a file of PyTorch, and writes them for PyTorch."""
        tensors = quantised()
        theirs = self.path.with_name("theirs.pt")
        torch.save(tensors, theirs)
        weights = Weights(theirs)
        handles = {name: weights[name] for name in tensors}
        save(self.path, handles, TORCH_SAVE)
        for weights_only in (False, True) if QUANTISED_WEIGHTS_ONLY else (False,):
            found = torch.load(self.path, weights_only=weights_only)
            self.assertEqual(set(found), set(tensors))
            for name, wanted in tensors.items():
                with self.subTest(name, weights_only=weights_only):
                    self.check_quantised(found[name], wanted)
        one, other = found["whole"], found["row"]
        self.assertEqual(one[2].data_ptr(), other.data_ptr())
        again = self.path.with_name("again.pt")
        weights = Weights(self.path)
        save(again, {name: weights[name] for name in tensors}, TORCH_SAVE)
        with zipfile.ZipFile(self.path) as first, zipfile.ZipFile(again) as second:
            for name in first.namelist():
                other_name = name.replace("written/", "again/")
                self.assertEqual(first.read(name), second.read(other_name), name)
        for form, words in ((SAFETENSORS, "a safetensors file"), (NPZ, "an .npz file")):
            with self.assertRaisesRegex(TenonError, f"is quantised, which {words} cannot say"):
                save(again, handles, form)

    def check_quantised(self, found: torch.Tensor, wanted: torch.Tensor) -> None:
        self.assertEqual(found.dtype, wanted.dtype)
        self.assertEqual((found.shape, found.stride()), (wanted.shape, wanted.stride()))
        self.assertTrue(torch.equal(found.int_repr(), wanted.int_repr()))
        self.assertEqual(found.qscheme(), wanted.qscheme())
        if found.qscheme() == torch.per_tensor_affine:
            self.assertEqual(
                (found.q_scale(), found.q_zero_point()), (wanted.q_scale(), wanted.q_zero_point())
            )
        else:
            self.assertEqual(found.q_per_channel_axis(), wanted.q_per_channel_axis())
            for each in ("q_per_channel_scales", "q_per_channel_zero_points"):
                got, expected = getattr(found, each)(), getattr(wanted, each)()
                self.assertEqual((got.dtype, got.tolist()), (expected.dtype, expected.tolist()))
        self.assertTrue(torch.equal(found.dequantize(), wanted.dequantize()))

    def test_a_type_that_torch_load_does_not_read(self) -> None:
        for form, words in ((TORCH_SAVE, "which torch.load does not read"), (SAFETENSORS, "uint1")):
            with self.assertRaisesRegex(TenonError, words) as caught:
                save(self.path, {"bits": Tensor.of(b"\1", UINT1, (1,), (1,))}, form)
            self.assertEqual(caught.exception.args[0], "UNSUPPORTED")
        self.assertFalse(self.path.exists())

    def test_no_tensor(self) -> None:
        self.write({}, TORCH_SAVE)
        self.assertEqual(torch.load(self.path, weights_only=True), {})
        self.write({}, SAFETENSORS)
        self.assertEqual(read_safetensors(self.path), {})

    def test_a_module_loads_it(self) -> None:
        one, other = (torch.nn.Sequential(torch.nn.Linear(3, 4)) for _ in range(2))
        self.write(one.state_dict(), TORCH_SAVE)
        other.load_state_dict(torch.load(self.path, weights_only=True))
        self.check(other.state_dict(), one.state_dict())


if __name__ == "__main__":
    unittest.main()
