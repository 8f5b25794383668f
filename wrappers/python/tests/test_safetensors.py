"""tenon.integrations.safetensors against the package safetensors. interop/test_torch_safetensors.py
has the tensors of PyTorch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import tenon
from tenon.integrations.safetensors import SafetensorError, safe_open
from tenon.integrations.safetensors import numpy as ours

NUMPY = ["BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "I64", "U64", "F64", "C64"]
OTHERS = ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"]


def write(path: Path, entries: list[tuple[str, str, list[int], bytes]], **more: Any) -> Path:
    header: dict[str, Any] = {**more}
    at = 0
    for name, dtype, shape, data in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    body = b"".join(data for *_, data in entries)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Each type of elements, a scalar, empty tensors, and a misaligned one at the end."""
    ones = bytes([1, 0] * 24)
    entries = [(f"x.{dtype}", dtype, [48 // size_of(dtype)], ones) for dtype in NUMPY + OTHERS]
    entries += [
        ("scalar", "F32", [], b"\0\0\x80\x3f"),
        ("empty", "F32", [0, 3], b""),
        ("cube", "I32", [2, 3, 4], np.arange(24, dtype=np.int32).tobytes()),
        ("byte", "U8", [1], b"\7"),
        ("misaligned", "F64", [2], np.array([1.5, -2]).tobytes()),
    ]
    texts = {"format": "pt", "größe": "ß"}
    return write(tmp_path / "all.safetensors", entries, __metadata__=texts)


def size_of(dtype: str) -> int:
    sizes = {"B": 1 if dtype == "BOOL" else 2, "C": 8}
    digits = "".join(c for c in dtype[1:].split("_")[0] if c.isdigit())
    return sizes.get(dtype[0]) or int(digits) // 8


def same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted) is np.ndarray
    assert (found.dtype, found.shape, found.flags.c_contiguous, found.flags.writeable) == (
        wanted.dtype,
        wanted.shape,
        wanted.flags.c_contiguous,
        wanted.flags.writeable,
    )
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("shared", [False, True])
def test_every_tensor_is_that_of_the_original(file: Path, tmp_path: Path, shared: bool) -> None:
    found = find_spec("silero_vad")
    assert found is not None and found.origin is not None
    real = Path(found.origin).with_name("data") / "silero_vad_16k.safetensors"
    for path in (file, real):
        more: dict[str, Any] = {"name": path.stem, "directory": tmp_path} if shared else {}
        with safe_open(path, "np", **more) as mine, safetensors.safe_open(path, "np") as theirs:
            assert mine.keys() == theirs.keys() and len(mine.keys()) > 10
            assert mine.offset_keys() == theirs.offset_keys()
            assert mine.metadata() == theirs.metadata()
            for key in mine.keys():
                part, their_part = mine.get_slice(key), theirs.get_slice(key)
                assert part.get_shape() == their_part.get_shape(), key
                assert part.get_dtype() == their_part.get_dtype(), key
                if part.get_dtype() not in OTHERS:
                    same(mine.get_tensor(key), theirs.get_tensor(key))
    del part
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize("dtype", OTHERS)
def test_types_that_numpy_lacks(file: Path, dtype: str) -> None:
    with safe_open(file, "np") as mine, safetensors.safe_open(file, "np") as theirs:
        if find_spec("ml_dtypes"):
            assert mine.get_tensor(f"x.{dtype}").tobytes() == bytes([1, 0] * 24)
            return
        with pytest.raises(TypeError, match="install ml_dtypes"):
            mine.get_tensor(f"x.{dtype}")
        with pytest.raises((TypeError, AttributeError)):
            theirs.get_tensor(f"x.{dtype}")


INDICES = [
    *(0, 1, -1, -2, np.int64(1), True, ..., (), []),
    *(slice(None), slice(1), slice(1, None), slice(None, None, 2), slice(0, 1, 3)),
    *((0, 0), (0, 0, 0), (-1, -1, -1), (0, ...), (..., 0), (..., slice(1, 3)), (0, ..., 1)),
    *((slice(None), 1), (slice(None), slice(1, 3)), (slice(None), slice(None), slice(0, 4, 3))),
    *((slice(None), slice(0, 3, 2), 3), (1, slice(None), slice(2))),
]
WRONG = [
    *(2, -3, (0, 3), (0, 0, 9), (0, 0, 0, 0), (slice(None),) * 4, 1.5, "x", None, (0, None)),
    *([0], [0, 1], ([0],), np.array([0]), np.array([True, False]), (..., ...)),
    *(slice(None, None, -1), slice(None, None, 0)),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_slices(file: Path, index: Any) -> None:
    with safe_open(file, "np") as mine, safetensors.safe_open(file, "np") as theirs:
        same(mine.get_slice("cube")[index], theirs.get_slice("cube")[index])


@pytest.mark.parametrize("index", WRONG, ids=repr)
def test_wrong_slices(file: Path, index: Any) -> None:
    with safe_open(file, "np") as mine, safetensors.safe_open(file, "np") as theirs:
        for opened in (mine, theirs):
            with pytest.raises((SafetensorError, ValueError)) as raised:
                opened.get_slice("cube")[index]
            # numpy itself refuses a step of 0 and two dots.
            assert raised.type is SafetensorError or index in (slice(None, None, 0), (..., ...))


@pytest.mark.parametrize("index", [(), ..., 0, slice(None)], ids=repr)
def test_slices_of_a_scalar(file: Path, index: Any) -> None:
    with safe_open(file, "np") as mine, safetensors.safe_open(file, "np") as theirs:
        if index in ((), ...):
            same(mine.get_slice("scalar")[index], theirs.get_slice("scalar")[index])
            return
        for opened in (mine, theirs):
            with pytest.raises(SafetensorError, match="Error during slicing"):
                opened.get_slice("scalar")[index]


def test_slices_that_the_original_cannot_give(file: Path) -> None:
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    with safe_open(file, "np") as mine:
        for index in (slice(-1, None), slice(0, 99), slice(1, 0), slice(5, 9)):
            assert np.array_equal(mine.get_slice("cube")[index], cube[index])
        assert mine.get_slice("empty")[:].shape == (0, 3)


@pytest.mark.parametrize("shared", [False, True])
def test_a_write_stays_in_this_array(file: Path, tmp_path: Path, shared: bool) -> None:
    before = file.read_bytes()
    more: dict[str, Any] = {"name": "net", "directory": tmp_path} if shared else {}
    with safe_open(file, "np", **more) as mine:
        copied = tenon.stats().bytes_copied
        array = mine.get_tensor("cube")
        part = mine.get_slice("cube")[0]
        assert tenon.stats().bytes_copied == copied and not part.flags.owndata
    array[:] = 5
    part[0] = 7
    # A tensor outlives the file, and another opening does not see the write.
    with safe_open(file, "np", **more) as again:
        assert again.get_tensor("cube").tolist() == np.arange(24).reshape(2, 3, 4).tolist()
    assert (array[1] == 5).all() and file.read_bytes() == before


WORKER = """
import sys, numpy
from tenon.integrations.safetensors import safe_open
with safe_open(sys.argv[1], "np", name="net", directory=sys.argv[2], timeout=30) as file:
    array = file.get_tensor("cube")
    print(array.sum(), flush=True)
array[:] = 0
sys.stdin.read()
print(array.sum())
"""


def test_a_name_shares_one_copy_and_an_array_hands_it_on(file: Path, tmp_path: Path) -> None:
    with safe_open(file, "np", name="net", directory=tmp_path):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, file, tmp_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None and int(worker.stdout.readline()) == 276
    # This process has let go of everything. The worker's array alone keeps the weights.
    with tenon.weights.open(name="net", directory=tmp_path, timeout=30) as rest:
        assert rest.info().server_pid == worker.pid
        assert rest["cube"].numpy().sum() == 276
    assert worker.communicate()[0] == "0\n"
    assert not list(tmp_path.glob("net.*"))


def test_metadata_stays_that_of_the_loaded_file(file: Path, tmp_path: Path) -> None:
    with safe_open(file, "np", name="net", directory=tmp_path) as mine:
        assert mine.metadata() == {"format": "pt", "größe": "ß"}
        write(tmp_path / "new", [], __metadata__={"format": "np"}).replace(file)
        assert mine.metadata() == {"format": "pt", "größe": "ß"}
        with pytest.raises(PermissionError, match="another version"):
            safe_open(file, "np", name="net", directory=tmp_path)


def test_without_metadata(tmp_path: Path) -> None:
    path = write(tmp_path / "plain", [("a", "I8", [2], b"\1\2")])
    assert safe_open(path, "np").metadata() is safetensors.safe_open(path, "np").metadata() is None


def test_load_file_and_load(file: Path, tmp_path: Path) -> None:
    arrays = {
        "z": np.arange(6.0).reshape(2, 3),
        "a": np.array([True, False]),
        "e": np.zeros((0, 2)),
    }
    safetensors.numpy.save_file(arrays, tmp_path / "some")
    whole = ours.load_file(tmp_path / "some")
    theirs = safetensors.numpy.load_file(tmp_path / "some")
    assert list(whole) == list(theirs)
    for name, array in whole.items():
        same(array, theirs[name])
    loaded = ours.load((tmp_path / "some").read_bytes())
    for name, array in loaded.items():
        same(array, theirs[name])
    assert loaded.keys() == arrays.keys()
    with safe_open(tmp_path / "some", "numpy") as mine:
        assert mine.get_tensors().keys() == theirs.keys()


def test_a_closed_file(file: Path) -> None:
    for module in (tenon.integrations.safetensors, safetensors):
        with module.safe_open(file, "np") as opened:
            part = opened.get_slice("cube")
        assert part.get_shape() == [2, 3, 4] and part[0, 0].tolist() == [0, 1, 2, 3]
        opened.__exit__(None, None, None)
        for call in (opened.keys, opened.metadata, opened.offset_keys, opened.get_tensors):
            with pytest.raises(SafetensorError, match="File is closed"):
                call()
        for method in (opened.get_tensor, opened.get_slice):
            with pytest.raises(SafetensorError, match="File is closed"):
                method("cube")


def test_errors_are_of_the_originals_kinds(file: Path, tmp_path: Path) -> None:
    assert SafetensorError is safetensors.SafetensorError
    data = file.read_bytes()
    broken = {
        "short": data[:5],
        "empty": b"",
        "cut": data[:-1],
        "long": data + b"x",
        "header": data[:20],
        "text": b"\x10" + bytes(7) + b"{" * 16,
        "huge": b"\xff" * 8 + data,
        "npy": b"\x93NUMPY\x01\x00" + data[:200],
        "zip": b"PK\3\4" + bytes(60),
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
    for module in (tenon.integrations.safetensors, safetensors):
        for name in broken:
            with pytest.raises(SafetensorError):
                module.safe_open(tmp_path / name, "np")
        with module.safe_open(file, "np") as opened:
            for method in (opened.get_tensor, opened.get_slice):
                with pytest.raises(SafetensorError, match="File does not contain tensor none"):
                    method("none")
        for more in (("bogus",), ("np", "cuda:0"), ("np", 0), ("np", "bogus")):
            with pytest.raises(SafetensorError):
                module.safe_open(file, *more)
        with pytest.raises(SafetensorError, match='backend "x" is invalid'):
            module.safe_open(file, "np", backend="x")
        with pytest.raises(FileNotFoundError):
            module.safe_open(tmp_path / "none", "np")
        with pytest.raises(OSError):
            module.safe_open(tmp_path, "np")
        with pytest.raises(TypeError):
            module.safe_open(3, "np")
        if not find_spec("torch"):
            with pytest.raises(ModuleNotFoundError, match="torch"):
                module.safe_open(file, "pt").get_tensor("cube")
        module.safe_open(file, "np", device=None, backend="pread")


def test_types_of_less_than_a_byte(tmp_path: Path) -> None:
    entries = [
        ("pairs", "F4", [2, 4], b"\1\2\3\4"),
        ("odd", "F4", [2, 3], b"\5\6\7"),
        ("six", "F6_E2M3", [4], b"\1\2\3"),
        ("b", "I8", [1], b"\3"),
    ]
    path = write(tmp_path / "packed", entries)
    with tenon.open_weights(path) as plain:
        pairs = plain["pairs"]
        assert (pairs.dtype, pairs.shape) == ("float4_e2m1fnx2", (2, 2))
        assert bytes(pairs.storage.data) == b"\1\2\3\4"
    with safe_open(path, "np") as mine:
        assert mine.offset_keys() == [name for name, *_ in entries]
        assert mine.get_tensor("b").tolist() == [3]
        part = mine.get_slice("pairs")
        assert part.get_shape() == [2, 4] and part.get_dtype() == "F4"
        for name, dtype in (("odd", "F4"), ("six", "F6_E2M3")):
            with pytest.raises(SafetensorError, match=dtype):
                mine.get_tensor(name)


def test_without_the_package_the_error_is_its_own() -> None:
    code = """
import sys
sys.modules["safetensors"] = None
from tenon.integrations.safetensors import SafetensorError
assert SafetensorError.__module__ == "tenon.integrations.safetensors"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
