"""Files of weights in shards: model.safetensors.index.json and what it names, opened as one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from safetensors import safe_open
from safetensors.numpy import save_file

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
    with pytest.raises(tenon.Corrupt, match=rf'"head\.bias" to the shard "{file}"') as refused:
        tenon.open_weights(index)
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


def test_a_shard_in_a_folder_below(folder: Path) -> None:
    (folder / "inner").mkdir()
    save_file({"w": np.ones(1)}, folder / "inner/x.safetensors")
    assert tenon.open_weights(write(folder, {"w": "inner/x.safetensors"}))["w"].tolist() == [1]


def test_shards_that_cannot_be_read(folder: Path) -> None:
    def refused(error: type[Exception], words: str, places: Any, **more: Any) -> None:
        with pytest.raises(error, match=words):
            tenon.open_weights(write(folder, places, **more))

    refused(FileNotFoundError, r"the shard .*none\.safetensors", {"w": "none.safetensors"})
    refused(tenon.Corrupt, "no shard", {"w": "model.safetensors.index.json"})
    (folder / "config.json").write_text("{}")
    refused(tenon.Corrupt, "no shard", {"w": "config.json"})
    (folder / "text").write_text("hello")
    refused(tenon.Corrupt, r"the shard .*text is no archive", {"w": "text"})
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
        with pytest.raises(error, match=words):
            tenon.open_weights(index)
    index.write_text('{"weight_map": {}}')
    assert tenon.open_weights(index).names() == ()
