"""Files of weights in shards: model.safetensors.index.json and what it names, opened as one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from safetensors import safe_open
from safetensors.numpy import save_file

GOLDEN = Path(__file__).resolve().parents[3] / "tests/peers/golden"
SHARDS = {
    "model-00001-of-00002.safetensors": {
        "embed.weight": np.arange(12, dtype=np.float32).reshape(4, 3),
        "layer.0.bias": np.arange(3, dtype=np.float16),
    },
    "model-00002-of-00002.safetensors": {
        "layer.1.bias": np.array([1, -1], np.int8),
        "head.weight": np.ones((2, 2)),
    },
}
PLACES = {name: file for file, arrays in SHARDS.items() for name in arrays}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file, arrays in SHARDS.items():
        save_file(arrays, tmp_path / file, metadata={"format": "pt"})
    write(tmp_path, PLACES)
    return tmp_path


def write(folder: Path, places: Any, **more: Any) -> Path:
    index = folder / "model.safetensors.index.json"
    content = {"metadata": {"total_size": 86, "deep": [{"x": None}]}, "weight_map": places}
    index.write_text(json.dumps({**content, **more}, indent=2))
    return index


def share(index: Path) -> Any:
    """Opens the index under a name. It is the same as tenon.open_weights in all but the memory."""
    folder = index.parent / "names"
    folder.mkdir(exist_ok=True)
    try:
        return tenon.weights.open(index, name="net", directory=folder)
    except Exception:
        assert not list(folder.iterdir())
        raise


def test_shards_share_one_name(folder: Path) -> None:
    fewer = {name: file for name, file in PLACES.items() if name != "layer.1.bias"}
    for wanted in (PLACES, fewer):
        index = write(folder, wanted)
        with share(index) as shared:
            alone = tenon.open_weights(index)
            assert set(shared) == set(alone) == set(wanted)
            for name in wanted:
                assert shared[name].shape == alone[name].shape
                assert shared[name].numpy().tobytes() == alone[name].numpy().tobytes(), name
            # A tensor that were misaligned in the memory would be a copy outside of it.
            places = [shared[name].numpy().ctypes.data for name in wanted]
            assert max(places) - min(places) < shared.info().nbytes
            assert shared.value("__metadata__.format") == "pt"
    nothing = write(folder, {})
    with share(nothing) as shared:
        assert len(shared) == 0


@pytest.mark.parametrize("how", ["replaced", "gone", "cut"])
def test_a_shard_that_changes_while_it_is_shared(folder: Path, how: str) -> None:
    shard = folder / PLACES["head.weight"]

    def change(_done: int, _total: int) -> None:
        if how == "cut":
            os.truncate(shard, 60)
        else:
            shard.unlink(missing_ok=True)
        if how == "replaced":
            save_file(SHARDS[shard.name], shard)

    (folder / "names").mkdir()
    with pytest.raises(FileNotFoundError if how == "gone" else tenon.Corrupt, match=shard.name):
        tenon.weights.open(
            folder / "model.safetensors.index.json",
            name="net",
            directory=folder / "names",
            progress=change,
        )
    assert not list((folder / "names").iterdir())


@pytest.mark.parametrize("numpy", [True, False], ids=["npz", "mixed"])
def test_shards_of_another_form_share_one_name(tmp_path: Path, numpy: bool) -> None:
    np.savez(tmp_path / "one.npz", a=np.arange(5, dtype=np.int16), b=np.eye(2).T)
    if numpy:
        np.savez(tmp_path / "two", c=np.float32(7))
    else:
        save_file({"c": np.array(7, np.float32)}, tmp_path / "two.npz")
    index = write(tmp_path, {"a": "one.npz", "b": "one.npz", "c": "two.npz"})
    with share(index) as shared:
        assert shared["a"].tolist() == [0, 1, 2, 3, 4] and shared["c"].tolist() == 7
        assert shared["b"].tolist() == [[1, 0], [0, 1]]
        assert shared.info().file_nbytes == sum(
            path.stat().st_size for path in tmp_path.iterdir() if path.is_file()
        )


def test_shards_of_torch_save_share_one_name(tmp_path: Path) -> None:
    tied = np.arange(6, dtype=np.float32)
    tenon.weights.save(tmp_path / "1.bin", {"in": tied, "out": tied.reshape(2, 3)}, form="torch")
    rows = np.broadcast_to(np.float32(2), (1000, 1000))
    tenon.weights.save(tmp_path / "2.bin", {"rows": rows}, form="torch")
    index = write(tmp_path, {"in": "1.bin", "out": "1.bin"})
    with share(index) as shared:
        assert shared["in"].tolist() == [0, 1, 2, 3, 4, 5]
        assert shared["out"].tolist() == [[0, 1, 2], [3, 4, 5]]
    # The rows have four bytes in their file, and four million in the memory.
    index = write(tmp_path, {"rows": "2.bin"})
    with share(index) as shared:
        assert shared["rows"].tolist()[999] == [2] * 1000
    with pytest.raises(tenon.ResourceExhausted) as refused:
        tenon.weights.open(index, name="net", directory=tmp_path / "names", max_nbytes=3_999_999)
    assert refused.value.details["limit"] == "max_nbytes"
    shutil.copy(GOLDEN / "checkpoint/2.15.0/checkpoint.pt", tmp_path / "3.bin")
    with pytest.raises(tenon.Unsupported, match='"quantised" is quantised, which') as refused:
        share(write(tmp_path, {"quantised": "3.bin"}))
    assert refused.value.details["name"] == "quantised"


@pytest.mark.parametrize("tensors", ["map", "fill"])
def test_shards_are_one(folder: Path, tensors: Any) -> None:
    weights = tenon.open_weights(folder / "model.safetensors.index.json", tensors=tensors)
    assert set(weights) == set(PLACES)
    for name, file in PLACES.items():
        with safe_open(folder / file, "numpy") as peer:
            assert np.array_equal(weights[name].numpy(), peer.get_tensor(name)), name
    assert weights.value_names() == ("__metadata__.format",)
    assert weights.value("__metadata__.format") == "pt" and weights.skipped() == ()
    with pytest.raises(tenon.Unsupported, match="Open the shard itself"):
        weights.replace("head.weight", np.zeros((2, 2)))
    with pytest.raises(tenon.Unsupported, match="index of several files"):
        weights.rewrite(folder / "new")


def test_a_link_to_a_shard_is_followed(folder: Path, tmp_path_factory: Any) -> None:
    snapshot = tmp_path_factory.mktemp("snapshot")  # as in the cache of Hugging Face
    for file in folder.iterdir():
        (snapshot / file.name).symlink_to(file)
    weights = tenon.open_weights(snapshot / "model.safetensors.index.json")
    assert weights["head.weight"].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("nbytes", [0x7B, 0x120, 0x10A, 0x17B])
def test_a_length_that_looks_like_an_index(tmp_path: Path, nbytes: int) -> None:
    """The first byte of a safetensors file is that of a length, and may be { or a space."""
    path = tmp_path / "w.safetensors"
    header = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.ljust(nbytes)
    path.write_bytes(nbytes.to_bytes(8, "little") + header + b"\7")
    assert tenon.open_weights(path)["w"].tolist() == [7]


def test_a_name_that_the_shard_lacks(folder: Path) -> None:
    file = PLACES["head.weight"]
    index = write(folder, {**PLACES, "head.bias": file})
    for opened in (tenon.open_weights, share):
        with pytest.raises(tenon.Corrupt, match=rf'"head\.bias" to the shard "{file}"') as refused:
            opened(index)
        assert refused.value.details["name"] == "head.bias"
        assert refused.value.details["path"] == file
    other = next(iter(SHARDS))
    with pytest.raises(tenon.Corrupt, match=rf'"head\.weight" to the shard "{other}"'):
        tenon.open_weights(write(folder, {**PLACES, "head.weight": other}))


def test_a_weight_that_the_index_does_not_name(folder: Path) -> None:
    places = {name: file for name, file in PLACES.items() if name != "layer.1.bias"}
    weights = tenon.open_weights(write(folder, places))
    assert "layer.1.bias" not in weights and len(weights) == 3
    assert len(weights.skipped()) == 1
    assert weights.skipped()[0].startswith(f"layer.1.bias: the shard {PLACES['layer.1.bias']} has")


@pytest.mark.parametrize(
    "file", ["../x.safetensors", "/etc/passwd", "a/../../x", "", ".", "a//b", "a\\b", "a\0b"]
)
def test_a_shard_stays_in_the_folder_of_the_index(folder: Path, file: str) -> None:
    inner = folder / "inner"
    inner.mkdir()
    save_file({"w": np.ones(1)}, folder / "x.safetensors")
    with pytest.raises(tenon.Corrupt, match="the index names the shard"):
        tenon.open_weights(write(inner, {"w": file}))
    with pytest.raises(tenon.Corrupt, match="the index names the shard"):
        share(inner / "model.safetensors.index.json")


def test_a_shard_in_a_folder_below(folder: Path) -> None:
    (folder / "inner").mkdir()
    save_file({"w": np.ones(1)}, folder / "inner/x.safetensors")
    index = write(folder, {"w": "inner/x.safetensors"})
    assert tenon.open_weights(index)["w"].tolist() == [1]
    with share(index) as shared:
        assert shared["w"].tolist() == [1]


def test_shards_that_cannot_be_read(folder: Path) -> None:
    def refused(error: type[Exception], words: str, places: Any, **more: Any) -> None:
        index = write(folder, places, **more)
        messages = []
        for opened in (tenon.open_weights, share):
            with pytest.raises(error, match=words) as told:
                opened(index)
            messages.append(str(told.value))
        assert messages[0] == messages[1]

    refused(FileNotFoundError, r"the shard .*none\.safetensors", {"w": "none.safetensors"})
    refused(tenon.Corrupt, "no shard", {"w": "model.safetensors.index.json"})
    (folder / "config.json").write_text("{}")
    refused(tenon.Corrupt, "no shard", {"w": "config.json"})
    (folder / "text").write_text("hello")
    refused(tenon.Corrupt, r"the shard .*text is no archive", {"w": "text"})
    whole = (folder / PLACES["head.weight"]).read_bytes()
    (folder / "cut").write_bytes(whole[:-1])
    refused(tenon.Corrupt, r"the shard cut: .* it is cut short", {"w": "cut"})
    refused(tenon.Corrupt, "a list where", [])
    refused(tenon.Corrupt, "a number where", {"w": 1})
    refused(tenon.Corrupt, "an object where", {"w": {}})
    index = folder / "model.safetensors.index.json"
    for text, error, words in (
        ('{"metadata": {}}', tenon.Unsupported, "without weight_map"),
        ('{"weight_map": {"a": "x", "a": "y"}}', tenon.Corrupt, "twice"),
        ('{"weight_map": {}, "weight_map": {}}', tenon.Corrupt, "twice"),
        ('{"weight_map": {"a": "x"}', tenon.Corrupt, "no JSON"),
        ('{"x": ' + "[" * 100_000, tenon.Corrupt, "too deep"),
    ):
        index.write_text(text)
        for opened in (tenon.open_weights, share):
            with pytest.raises(error, match=words):
                opened(index)
    index.write_text('{"weight_map": {}}')
    assert tenon.open_weights(index).names() == ()
