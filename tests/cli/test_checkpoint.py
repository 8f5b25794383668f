"""tenon inspect and tenon verify of files that torch.save wrote: state dicts, checkpoints, tensors, and broken ones."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCE, read_json, run

GOLDEN = SOURCE / "tests/golden/checkpoint"
VERSIONS = ("1.13.1", "2.15.0")
STATE = {
    "0.weight": [4, 3],
    "0.bias": [4],
    "1.weight": [4],
    "1.bias": [4],
    "1.running_mean": [4],
    "1.running_var": [4],
    "1.num_batches_tracked": [],
}


def rewrite(path: Path, out: Path, **changed: bytes | None) -> Path:
    """The archive with other contents of some records, whose dots are two underscores; None: without the record."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            folder, _, name = info.filename.partition("/")
            content = changed.get(name.replace("/", "__").replace(".", "__"), old.read(info))
            if content is not None:
                new.writestr(f"{folder}/{name}", content)
    return out


@pytest.mark.parametrize("version", VERSIONS)
def test_a_state_dict(version: str) -> None:
    path = GOLDEN / version / "state_dict.pt"
    report = read_json("inspect", path)
    assert (report["kind"], report["error"], report["others"], report["other_count"]) == ("checkpoint", None, [], 0)
    assert {tensor["path"]: tensor["sizes"] for tensor in report["tensors"]} == STATE
    assert {tensor["kind"] for tensor in report["tensors"]} == {"tensor"}
    assert [tensor["dtype"] for tensor in report["tensors"]] == ["Float"] * 6 + ["Long"]
    assert [storage["nbytes"] for storage in report["storages"]] == [48, 16, 16, 16, 16, 16, 8]
    text = run("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    assert "a file of torch.save: 7 tensors, 0 other values\n" in text.stdout
    assert any(line.split() == ["0.weight", "tensor", "Float", "[4,", "3]", "[3,", "1]", "0", "0"] for line in text.stdout.splitlines())
    assert "7 storages, 136 B, 0 of them shared by several tensors\n" in text.stdout
    assert run("verify", path).stdout.startswith(f"{path}: good: ")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkpoint(version: str) -> None:
    path = GOLDEN / version / "checkpoint.pt"
    report = read_json("inspect", path)
    tensors = {tensor["path"]: tensor for tensor in report["tensors"]}
    assert {name: tensors[f"model.{name}"]["sizes"] for name in STATE} == STATE
    assert tensors["optimizer.state.0.exp_avg"]["sizes"] == [4, 3]
    shared = [tensors[f"shared.{i}"] for i in range(3)]
    assert len({tensor["storage"] for tensor in shared}) == 1
    assert report["storages"][shared[0]["storage"]] == {"dtype": "Float", "numel": 6, "nbytes": 24, "tensors": 3}
    assert [(each["strides"], each["offset"]) for each in shared] == [([3, 1], 0), ([1, 3], 0), ([1], 3)]
    details = {name: (tensors[name]["kind"], tensors[name]["dtype"], tensors[name]["details"]) for name in tensors}
    assert details["parameter"] == ("parameter", "Float", "requires_grad")
    assert details["quantised"] == ("tensor", "QUInt8", "per_tensor_affine")
    assert details["coo"] == ("tensor", "Float", "sparse_coo")
    assert details["csr"] == ("tensor", "Float", "sparse_csr")
    assert details["meta"] == ("tensor", "Float", "meta")
    assert details["conj"][1] == "ComplexFloat"
    assert tensors["csr"]["storage"] is None
    assert {"epoch", "note", "optimizer.param_groups.0.lr"} <= set(report["others"])
    assert report["other_count"] == len(report["others"])
    text = run("inspect", path).stdout
    assert "\nother values\n" in text
    assert "    epoch\n" in text


def test_a_tensor_alone() -> None:
    path = GOLDEN / VERSIONS[0] / "tensor.pt"
    (tensor,) = read_json("inspect", path)["tensors"]
    assert (tensor["path"], tensor["sizes"]) == ("", [2, 3])
    assert "(root)" in run("inspect", path).stdout


def test_what_holds_no_tensors_by_name() -> None:
    path = GOLDEN / VERSIONS[1] / "module.pt"
    report = read_json("inspect", path, rc=1)
    assert report["error"]["code"] == "UNSUPPORTED"
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert done.returncode == 1
        assert "torch.nn.modules.container.Sequential" in done.stderr
        assert "save module.state_dict()" in done.stderr
    assert "data.pkl" in run("inspect", path).stdout  # what can be shown is


def test_broken_files(tmp_path: Path) -> None:
    path = GOLDEN / VERSIONS[0] / "state_dict.pt"
    cases: list[tuple[Path, str, str, str]] = [
        (rewrite(path, tmp_path / "lost.pt", data__3=None), "CORRUPT", "data/3", "the file is not whole"),
        (rewrite(path, tmp_path / "short.pt", data__0=bytes(47)), "CORRUPT", "data/0", "has 47 bytes"),
        (rewrite(path, tmp_path / "empty.pt", data__pkl=b""), "CORRUPT", "data.pkl", "data.pkl"),
        (rewrite(path, tmp_path / "calls.pt", data__pkl=pickle.dumps(print, 2)), "UNSUPPORTED", "data.pkl", "print"),
    ]
    for broken, code, record, words in cases:
        error: Any = read_json("inspect", broken, rc=1)["error"]
        assert (error["code"], error["details"]["record"]) == (code, record), broken
        done = run("verify", broken)
        assert done.returncode == 1
        assert words in done.stderr, done.stderr
        assert done.stderr.startswith(f"tenon: {broken}: ")
    cut = tmp_path / "cut.pt"
    cut.write_bytes(path.read_bytes()[:1000])
    assert "cut short" in run("inspect", cut).stderr
    flipped = tmp_path / "flipped.pt"
    data = bytearray(path.read_bytes())
    record = next(each for each in read_json("inspect", path)["records"] if each["name"] == "data/0")
    data[record["offset"]] ^= 1
    flipped.write_bytes(data)
    assert run("inspect", flipped).returncode == 0
    assert "data/0" in run("verify", flipped).stderr
