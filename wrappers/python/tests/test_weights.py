"""Weights of torch.export's programs, of ExecuTorch's files, of safetensors files and of modules.
tests/peers/weights runs the programs with new weights in PyTorch, and reads torch.save files.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

GOLDEN = Path(__file__).resolve().parents[3] / "tests/peers/golden/weights"


@pytest.mark.parametrize("file", ["torch-2.15.0.pt2", "torch-2.6.0.pt2"])
def test_weights_are_replaced_and_written_again(tmp_path: Path, file: str) -> None:
    new = tmp_path / "new.pt2"
    with tenon.open_weights(GOLDEN / file) as weights:
        assert (
            weights.names() == tuple(weights) == ("weight", "tied", "columns", "shift")
            and len(weights) == 4
        )
        assert "tied" in weights and "none" not in weights and "columns" in repr(weights)
        old = weights["weight"]
        assert old.tolist() == [[0, 1, 2], [3, 4, 5]] and weights["columns"].tolist() == [
            [0, 2],
            [1, 3],
        ]
        weights.replace("tied", tenon.from_numpy(np.full((3, 2), 7, np.float32)).numpy().T)
        weights.replace("shift", tenon.from_numpy(np.array([8, 9], np.float32)))
        assert (
            old.tolist() == [[0, 1, 2], [3, 4, 5]] and weights["weight"].tolist() == [[7] * 3] * 2
        )
        weights.rewrite(new, durability="file")
    assert (
        repr(weights) == "<tenon.Weights, closed>"
        and new.stat().st_size == (GOLDEN / file).stat().st_size
    )
    with pytest.raises(ValueError, match="closed"):
        weights.names()
    again = tenon.open_weights(new, tensors="fill", check="all")
    assert again["weight"].tolist() == [[7] * 3] * 2 and again["shift"].tolist() == [8, 9]


def test_executorch() -> None:
    weights = tenon.open_weights(GOLDEN / "executorch-1.5.1.ptd")
    assert (
        weights["transposed"].tolist() == [[0, 3], [1, 4], [2, 5]]
        and bytes(weights["backend_blob"].numpy()) == b"packed bytes"
    )
    with pytest.raises(tenon.Unsupported, match="reads and does not write"):
        weights.rewrite("/nowhere")


def test_safetensors(tmp_path: Path) -> None:
    path, new = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    # The float32 array lies at an odd offset, where a tensor cannot be a view of the file.
    arrays = {
        "int8": np.array([1, -2, 3], np.int8),
        "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
        "float16": np.arange(4, dtype=np.float16)[:, None],
        "scalar": np.array(2**40),
        "none": np.zeros((0, 4), np.float64),
        "bool": np.array([[True], [False]]),
    }
    save_file(arrays, path, metadata={"format": "np"})
    weights = tenon.open_weights(path)
    with safe_open(path, "numpy") as peer:
        assert list(weights) == peer.offset_keys()
    for name, array in arrays.items():
        assert weights[name].numpy().dtype == array.dtype, name
        assert np.array_equal(weights[name].numpy(), array), name
    assert weights["float16"].read_only
    assert weights.value_names() == ("__metadata__.format",)
    assert weights.value("__metadata__.format") == "np"
    with pytest.raises(KeyError, match=r"did you mean __metadata__\.format"):
        weights.value("__metadata__.formats")
    weights.replace("float32", np.full((2, 3), 7, np.float32))
    weights.replace("int8", np.array([4, 5, 6], np.int8))
    weights.rewrite(new)
    again = load_file(new)
    assert (again["float32"] == 7).all() and again["int8"].tolist() == [4, 5, 6]
    assert again["scalar"] == 2**40 and new.stat().st_size == path.stat().st_size
    assert load_file(path)["int8"].tolist() == [1, -2, 3]


def silero_vad(file: str) -> Path:
    (path,) = find_spec("silero_vad").submodule_search_locations  # type: ignore[union-attr]
    return Path(path) / "data" / file


def test_weights_of_a_real_module_are_those_of_the_module() -> None:
    file = silero_vad("silero_vad.jit")
    weights = tenon.open_weights(file)
    with tenon.import_module(file) as module:
        wanted = dict(module.tensors())
        assert wanted.keys() <= set(weights) and len(wanted) == 30
        for name, tensor in wanted.items():
            assert np.array_equal(weights[name].numpy(), tensor.numpy()), name
    # These two are attributes that are no buffers.
    assert set(weights) - wanted.keys() == {"_context", "_state"}
    assert weights.value("training") is False and weights.skipped() == ()


@pytest.mark.parametrize("tensors", ["map", "fill"])
def test_weights_of_a_real_model_are_those_that_safetensors_reads(tensors: Any) -> None:
    file = silero_vad("silero_vad_16k.safetensors")
    wanted = load_file(file)
    weights = tenon.open_weights(file, tensors=tensors)
    assert set(weights) == set(wanted) and len(wanted) == 15
    for name, array in wanted.items():
        assert np.array_equal(weights[name].numpy(), array), name


def test_refusals(tmp_path: Path) -> None:
    weights = tenon.open_weights(GOLDEN / "torch-2.15.0.pt2")
    with pytest.raises(KeyError, match="did you mean weight"):
        weights["weigth"]
    with pytest.raises(KeyError, match="none"):
        weights.replace("none", tenon.zeros(2))
    with pytest.raises(
        tenon.InvalidArgument, match=r"float32 of the shape \[2, 3\].*float32 of the shape \[2\]"
    ):
        weights.replace("weight", tenon.zeros(2))
    (tmp_path / "text.pt2").write_text("no zip file")
    with pytest.raises(tenon.TenonError):
        tenon.open_weights(tmp_path / "text.pt2")


def test_saved_files_are_those_of_the_package_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    kinds = ["bool", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "c8", "u8", "i8", "f8"]
    arrays = {f"{kind}.{n}": np.arange(n).astype(kind) for kind in kinds for n in (3, 0)}
    arrays |= {
        'é"\\\n\x7f': np.ones((2, 1, 3)),
        "": np.array(5.0),
        "big": np.arange(10)[::3].copy(),
    }
    for metadata in (None, {"format": "np", "ü": "\t"}):
        tenon.weights.save(path, arrays, metadata=metadata)
        # The package writes metadata in the order of a hash.
        if metadata is None:
            assert path.read_bytes() == save(arrays)
        with safe_open(path, "np") as file:
            assert file.metadata() == metadata
        found = load_file(path)
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays | found)
    tenon.weights.save(path, {"a": np.arange(6).reshape(2, 3).T[::-1]})
    assert load_file(path)["a"].tolist() == [[2, 5], [1, 4], [0, 3]]


def test_a_safetensors_file_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    whole = save({"w": np.arange(9.0)})
    for nbytes in (9, len(whole) - 73, len(whole) - 72, len(whole) - 1):
        path.write_bytes(whole[:nbytes])
        with pytest.raises(tenon.Corrupt, match=r"w\.safetensors: the safetensors .*cut short"):
            tenon.open_weights(path)


def test_save(tmp_path: Path) -> None:
    path, told = tmp_path / "saved", []
    arrays = {"one": np.arange(6.0).reshape(2, 3).T, "two": np.array(True)}
    tenon.weights.save(
        path,
        arrays,
        metadata={"format": "np", "author": "ünï"},
        durability="file",
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (49, 49)
    found = load_file(path)
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays | found)
    with safe_open(path, "np") as file:
        assert file.metadata() == {"format": "np", "author": "ünï"}
    with tenon.open_weights(path) as weights:
        # The file is replaced while its own views are written.
        tenon.weights.save(path, dict(weights), form="torch")
    assert tenon.open_weights(path)["one"].tolist() == arrays["one"].tolist()

    shared = {"one": arrays["one"], "two": arrays["one"][1:]}
    with pytest.raises(tenon.InvalidArgument, match="shares memory") as caught:
        tenon.weights.save(path, shared)
    assert caught.value.details["other"] == "two"
    tenon.weights.save(path, shared, duplicate_shared=True)
    assert load_file(path)["two"].shape == (2, 2)
    tenon.weights.save(path, {})
    assert load_file(path) == {}

    def fail(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        tenon.weights.save(path, arrays, progress=fail)
    with pytest.raises(ValueError, match="form 'zip' is not one of safetensors, npz, torch"):
        tenon.weights.save(path, arrays, form="zip")  # type: ignore[arg-type]
    with pytest.raises(tenon.InvalidArgument):
        tenon.weights.save(path, {"one": 1})
