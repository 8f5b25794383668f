"""Files of NumPy as weights: .npy and .npz, each array equal to what numpy.load gives."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon

DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
ARRAYS: dict[str, Any] = {
    **{f"{order}{kind}": np.arange(6).astype(order + kind) for order in "<>" for kind in DTYPES},
    "fortran": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "foreign fortran": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "scalar": np.array(1.5),
    "none": np.zeros((0, 4), np.int16),
    "folder/layer.0/weight": np.ones((2, 1, 2), np.float64),
    "ünï.npy": np.zeros(1, np.uint8),
}


def check(found: Any, wanted: Any) -> None:
    array = found.numpy()
    assert array.dtype == wanted.dtype.newbyteorder("=") and array.shape == wanted.shape
    assert np.array_equal(array, wanted)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("tensors", ["map", "fill"])
def test_npz(tmp_path: Path, save: Any, tensors: Any) -> None:
    path = tmp_path / "a.npz"
    save(path, **ARRAYS)
    weights = tenon.open_weights(path, tensors=tensors, check="all")
    with np.load(path) as peer:
        assert list(weights) == peer.files == list(ARRAYS)
        for name in peer.files:
            check(weights[name], peer[name])
    assert weights["fortran"].strides == (1, 2, 6)


def test_saved_archives_are_those_of_numpy(tmp_path: Path) -> None:
    path, told = tmp_path / "saved.npz", []
    arrays = {name: array for name, array in ARRAYS.items() if not name.startswith(">")}
    arrays |= {"": np.array(7), "stepped": np.arange(20.0).reshape(4, 5)[1:, ::2], "0": np.eye(2)}
    del arrays["foreign fortran"]
    tenon.weights.save(
        path, arrays, form="npz", progress=lambda done, total: told.append((done, total))
    )
    assert told[-1] == (sum(array.nbytes for array in arrays.values()),) * 2
    with np.load(path) as peer, zipfile.ZipFile(path) as archive:
        assert peer.files == list(arrays) and archive.testzip() is None
        for name, array in arrays.items():
            assert peer[name].dtype == array.dtype and np.array_equal(peer[name], array)
            wanted = io.BytesIO()
            np.lib.format.write_array(wanted, np.ascontiguousarray(array).reshape(array.shape))
            assert archive.read(f"{name}.npy") == wanted.getvalue()
    weights = tenon.open_weights(path, check="all")
    for name, array in arrays.items():
        check(weights[name], array)
        assert array.size == 0 or weights[name].numpy().ctypes.data % 64 == 0
    np.savez(tmp_path / "peer.npz", **arrays)
    tenon.weights.save(path, dict(tenon.open_weights(tmp_path / "peer.npz")), form="npz")
    assert np.load(path)["stepped"].tolist() == arrays["stepped"].tolist()
    tenon.weights.save(path, {}, form="npz")
    assert np.load(path).files == []


def test_what_numpy_does_not_have_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "saved.npz"
    save_file = tenon.weights.save
    half = tenon.empty((2,), "bfloat16")
    for arrays, error, words in (
        ({"a": half}, tenon.Unsupported, '"a" is of the type bfloat16, which NumPy does not have'),
        ({"a/../b": np.ones(1)}, tenon.InvalidArgument, r'has a component that is "\." or "\.\."'),
        ({"/a": np.ones(1)}, tenon.InvalidArgument, "is absolute: give it another name"),
    ):
        with pytest.raises(error, match=words) as refused:
            save_file(path, arrays, form="npz")
        assert refused.value.details.get("name", "a") in arrays
    with pytest.raises(tenon.InvalidArgument, match="only a safetensors file has metadata"):
        save_file(path, {}, form="npz", metadata={"a": "b"})
    one = np.arange(6.0)
    with pytest.raises(tenon.InvalidArgument, match=r"which an \.npz file cannot say"):
        save_file(path, {"one": one, "two": one[2:]}, form="npz")
    assert not path.exists()
    save_file(path, {"one": one, "two": one[2:]}, form="npz", duplicate_shared=True)
    assert np.load(path)["two"].tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("name", ["<f4", ">c16", "fortran", "scalar", "none"])
def test_npy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.bin"  # the content decides, and not the name
    with path.open("wb") as file:
        np.save(file, ARRAYS[name])
        file.write(b"NumPy too ignores what follows")
    for tensors in ("map", "fill"):
        weights = tenon.open_weights(path, tensors=tensors)
        assert weights.names() == ("",)
        check(weights[""], np.load(path))


def test_other_versions_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for version in ((1, 0), (2, 0), (3, 0)):
        with path.open("wb") as file:
            np.lib.format.write_array(file, ARRAYS["<f4"], version)
        check(tenon.open_weights(path)[""], ARRAYS["<f4"])


def test_arrays_are_replaced_and_written_again(tmp_path: Path) -> None:
    path, new = tmp_path / "a.npz", tmp_path / "b.npz"
    np.savez(path, **ARRAYS)
    weights = tenon.open_weights(path)
    for name in ("fortran", "<f4", "scalar"):
        weights.replace(name, np.full_like(ARRAYS[name], 7, order="C"))
    with pytest.raises(tenon.Unsupported, match="big-endian"):
        weights.replace(">f4", np.zeros(6, np.float32))
    weights.rewrite(new)
    with zipfile.ZipFile(new) as archive:
        assert archive.testzip() is None
    with np.load(new) as peer:
        for name, array in ARRAYS.items():
            wanted = np.full_like(array, 7) if name in ("fortran", "<f4", "scalar") else array
            assert np.array_equal(peer[name], wanted), name
    np.savez_compressed(path, a=np.zeros(1000))
    with pytest.raises(tenon.Unsupported, match="compressed"):
        tenon.open_weights(path).replace("a", np.zeros(1000))
    np.save(path.with_suffix(".npy"), ARRAYS["fortran"])
    one = tenon.open_weights(path.with_suffix(".npy"))
    one.replace("", np.full((2, 3, 4), 9, np.float32))
    one.rewrite(tmp_path / "one.npy")
    assert (np.load(tmp_path / "one.npy") == 9).all()


def test_what_a_tensor_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    odd = {
        "object": (np.array([{}, "x"], object), "'|O', which are objects of Python"),
        "structured": (np.zeros(2, [("a [", "<i4"), ("b'", "<f8", (2,))]), "structured"),
        "text": (np.array(["ab", "c"]), "'<U2'"),
        "bytes": (np.array([b"ab"]), "'|S2'"),
        "time": (np.array(["2026-01-01"], "M8[D]"), "'<M8"),
        "raw": (np.zeros(2, "V3"), "'|V3'"),
        "long": (np.zeros(2, np.longdouble), "'<f16'"),
    }
    np.savez(path, good=np.ones(2), **{name: array for name, (array, _) in odd.items()})
    weights = tenon.open_weights(path)
    assert weights["good"].tolist() == [1, 1]
    assert {line.split(":")[0] for line in weights.skipped()} == set(odd)
    for name, (_, words) in odd.items():
        with pytest.raises(tenon.Unsupported, match=f'"{name}" cannot be read') as refused:
            weights[name]
        assert words in str(refused.value)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An array with this text as its header."""
    width = 2 if version == 1 else 4
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(header).to_bytes(width, "little")
        + (header.encode() + data)
    )


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
HOSTILE = {
    "code for a shape": GOOD.replace("(2,)", "__import__('os').abort()"),
    "code behind it": GOOD + "+ exit()",
    "a number for a shape": GOOD.replace("(2,)", "(2)"),
    "a negative size": GOOD.replace("2", "-2"),
    "a sum": GOOD.replace("(2,)", "(1+1,)"),
    "no comma": GOOD.replace("(2,)", "(2 2)"),
    "an overflow": GOOD.replace("(2,)", "(4294967296, 4294967296, 4294967296)"),
    "too large a size": GOOD.replace("(2,)", "(18446744073709551615,)"),
    "too many dimensions": GOOD.replace("(2,)", "(" + "1," * 65 + ")"),
    "no shape": "{'descr': '<f4', 'fortran_order': False}",
    "a key twice": GOOD.replace("}", "'shape': (2,)}"),
    "an unknown key": GOOD.replace("}", "'x': 1}"),
    "a word for the order": GOOD.replace("False", "None"),
    "an escape": GOOD.replace("<f4", "\\x3cf4"),
    "no end": GOOD.replace("}", ""),
    "brackets without an end": GOOD.replace("'<f4'", "[(("),
    "an empty header": "",
    "too few elements": GOOD.replace("2", "3"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers(tmp_path: Path, what: str) -> None:
    path, packed = tmp_path / "a.npy", tmp_path / "a.npz"
    good = npy(GOOD, bytes(8))
    path.write_bytes(good)
    assert tenon.open_weights(path)[""].tolist() == [0, 0]
    path.write_bytes(npy(HOSTILE[what], bytes(8)))
    with pytest.raises(tenon.Corrupt):
        tenon.open_weights(path)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.writestr("good.npy", good)
            archive.writestr("bad.npy", npy(HOSTILE[what], bytes(8)))
        with pytest.raises(tenon.Corrupt, match=r"record bad\.npy"):
            tenon.open_weights(packed)


def test_other_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    good = npy(GOOD, bytes(8))
    for nbytes in range(6, len(good)):
        path.write_bytes(good[:nbytes])
        with pytest.raises(tenon.Corrupt):
            tenon.open_weights(path)
    path.write_bytes(npy(GOOD, bytes(8), version=4))
    with pytest.raises(tenon.Unsupported, match=r"version 4\.0"):
        tenon.open_weights(path)
    path.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")
    with pytest.raises(tenon.Corrupt):
        tenon.open_weights(path)
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(100.0))
    data = bytearray(path.read_bytes())
    data[data.index(np.arange(100.0).tobytes()) + 80] ^= 1
    path.write_bytes(data)
    with pytest.raises(tenon.Corrupt, match="CRC-32"):
        tenon.open_weights(path, check="all")


def test_a_bomb_is_bounded_by_its_declared_size(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(1 << 22, np.uint8), b=np.zeros(1 << 22, np.uint8))
    assert path.stat().st_size < 1 << 14
    assert tenon.open_weights(path)["b"].shape == (1 << 22,)
    with pytest.raises(tenon.ResourceExhausted) as refused:
        tenon.open_weights(path, max_inflated_nbytes=1 << 22)
    assert refused.value.details["limit"] == "max_inflated_nbytes"
    # A header that declares more elements than the member has bytes gets no memory for them.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(GOOD.replace("(2,)", f"({1 << 50},)"), bytes(1 << 16)))
    with pytest.raises(tenon.Corrupt, match="needs"):
        tenon.open_weights(path)


def test_a_file_of_python_2(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy(GOOD.replace("(2,)", "(1L, 2L)"), np.ones(2, np.float32).tobytes()))
    assert tenon.open_weights(path)[""].tolist() == [[1, 1]]
