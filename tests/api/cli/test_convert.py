"""tenon convert: files of weights become files of safetensors, of torch.save and of NumPy.

tests/peers/weights reads what the library writes with PyTorch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE, TENON, read_json, run, wait_until
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

GOLDEN = SOURCE / "tests/peers/golden"
CHECKPOINT = GOLDEN / "checkpoint/2.15.0/checkpoint.pt"
PROGRAM = GOLDEN / "weights/torch-2.15.0.pt2"
SLOW_DISK = os.environ["TENON_CLI_SLOW_DISK"]
ARRAYS: dict[str, Any] = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.arange(4, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "step": np.array(7, dtype=np.int16),
    "empty": np.zeros((0, 3), dtype=np.float64),
}


def is_equal(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[name].dtype == wanted[name].dtype
        and found[name].shape == wanted[name].shape
        and np.array_equal(found[name], wanted[name])
        for name in wanted
    )


def test_round_trip_through_all_forms(tmp_path: Path) -> None:
    first, torch, last = tmp_path / "a.npz", tmp_path / "model.bin", tmp_path / "b.safetensors"
    np.savez(first, **ARRAYS)
    done = run("convert", first, torch)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{torch}: written: 5 tensors, ")
    with zipfile.ZipFile(torch) as archive:
        assert archive.testzip() is None and "model/data.pkl" in archive.namelist()
    nbytes = sum(array.nbytes for array in ARRAYS.values())
    assert read_json("convert", torch, last) == {
        "path": str(last),
        "ok": True,
        "error": None,
        "tensors": 5,
        "nbytes": nbytes,
        "left_out": [],
    }
    assert last.read_bytes() == save(ARRAYS)
    arrays = tmp_path / "again.npz"
    done = run("convert", last, arrays)
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(arrays) as found:
        assert is_equal(dict(found), ARRAYS)
    assert run("verify", last, torch, arrays).returncode == 0


def test_metadata_is_copied_into_a_safetensors_file(tmp_path: Path) -> None:
    old, new, torch = tmp_path / "a.safetensors", tmp_path / "b.safetensors", tmp_path / "c.pth"
    save_file(ARRAYS, old, {"format": "np", "author": "ünï"})
    # The file of that name is replaced.
    shutil.copy(old, new)
    assert run("convert", new, new).returncode == 0
    with safe_open(new, "np") as file:
        assert file.metadata() == {"format": "np", "author": "ünï"}
    assert is_equal(load_file(new), ARRAYS)
    # torch.save has no place for it. The format alone is nothing to miss.
    error = read_json("convert", new, torch, rc=1)["error"]
    assert error["code"] == "UNSUPPORTED"
    assert "(__metadata__.author: a value that is no tensor): give --skip" in error["message"]
    assert not torch.exists()
    assert read_json("convert", new, torch, "--skip")["left_out"] == [
        "__metadata__.author: a value that is no tensor"
    ]
    save_file(ARRAYS, old, {"format": "np"})
    assert run("convert", old, torch).stderr == ""


def test_the_form(tmp_path: Path) -> None:
    old = tmp_path / "a.safetensors"
    save_file(ARRAYS, old)
    unknown = tmp_path / "weights.dat"
    done = run("convert", old, unknown)
    assert done.returncode == 1 and not unknown.exists()
    ends = (".safetensors", ".pt", ".pth", ".bin", ".npz")
    for choice in (*ends, "--form safetensors", "--form torch", "--form npz"):
        assert choice in done.stderr
    assert run("convert", old, unknown, "--form", "torch").returncode == 0
    assert zipfile.is_zipfile(unknown)
    assert run("convert", old, unknown, "--form", "npz").returncode == 0
    assert np.load(unknown)["bias"].tolist() == [0, 1, 2, 3]
    # The option is stronger than the name.
    named = tmp_path / "b.pt"
    assert run("convert", "-", named, "--form", "safetensors").returncode == 1
    with old.open() as given:
        done = run("convert", "-", named, "--form", "safetensors", stdin=given)
    assert done.returncode == 0 and named.read_bytes() == old.read_bytes()


def test_shared_memory_is_refused_or_written_twice(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"old")
    assert "an .npz file cannot say" in run("convert", PROGRAM, tmp_path / "out.npz").stderr
    done = run("convert", PROGRAM, out)
    assert done.returncode == 1 and list(tmp_path.iterdir()) == [out]
    assert done.stderr.startswith('tenon: the tensors "')
    assert '"tied"' in done.stderr and '"weight"' in done.stderr
    assert "--duplicate-shared" in done.stderr and out.read_bytes() == b"old"
    assert run("convert", PROGRAM, out, "--duplicate-shared").returncode == 0
    found = load_file(out)
    assert found["tied"].tolist() == found["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["columns"].shape == (2, 2)
    torch = tmp_path / "out.pt"
    assert run("convert", PROGRAM, torch).returncode == 0
    assert len(read_json("inspect", torch)["storages"]) == 3


def test_what_the_new_file_cannot_have(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    out.write_bytes(b"old")
    done = run("convert", CHECKPOINT, out)
    assert done.returncode == 1 and out.read_bytes() == b"old"
    assert 'cannot have (the tensor "coo" is sparse' in done.stderr
    assert " more): give --skip to leave it out" in done.stderr
    done = run("convert", CHECKPOINT, out, "--skip")
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and all(line.startswith("tenon: left out: ") for line in lines)
    assert "tenon: left out: epoch: a value that is no tensor" in lines
    old = {each["path"]: each for each in read_json("inspect", CHECKPOINT)["tensors"]}
    kept = ("", "requires_grad", "per_tensor_affine")
    wanted = {name for name, each in old.items() if each["details"] in kept}
    assert {each["path"] for each in read_json("inspect", out)["tensors"]} == wanted
    assert any('the tensor "coo" is sparse, and' in line for line in lines)
    done = run("convert", CHECKPOINT, tmp_path / "out.npz")
    assert '"quantised" is quantised, which an .npz file cannot say' in done.stderr


def test_an_index_of_shards(tmp_path: Path) -> None:
    names = sorted(ARRAYS)
    for i, part in enumerate((names[:2], names[2:])):
        save_file({name: ARRAYS[name] for name in part}, tmp_path / f"part-{i}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    where = {name: f"part-{int(i > 1)}.safetensors" for i, name in enumerate(names)}
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    assert run("convert", index, tmp_path / "all.safetensors").returncode == 0
    assert is_equal(load_file(tmp_path / "all.safetensors"), ARRAYS)


def test_damage_is_found(tmp_path: Path) -> None:
    torch, out = tmp_path / "a.pt", tmp_path / "out.safetensors"
    np.savez(tmp_path / "a.npz", **ARRAYS)
    assert run("convert", tmp_path / "a.npz", torch).returncode == 0
    data = torch.read_bytes().replace(ARRAYS["bias"].tobytes(), b"\7" * ARRAYS["bias"].nbytes)
    torch.write_bytes(data)
    error = read_json("convert", torch, out, rc=1)["error"]
    assert error["code"] == "CORRUPT" and error["message"].startswith(str(torch))
    assert not out.exists()
    error = read_json("convert", tmp_path / "none.pt", out, rc=1)["error"]
    assert error["code"] == "NOT_FOUND"


@pytest.mark.parametrize("form", ["safetensors", "torch", "npz"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_conversion_leaves_the_old_file(
    tmp_path: Path, form: str, sent: signal.Signals
) -> None:
    """The third write halts. A file with a name is removed by the next conversion after SIGKILL."""
    old, out = tmp_path / "a.safetensors", tmp_path / "folder/out"
    out.parent.mkdir()
    save_file({"large": np.ones(1 << 20, dtype=np.float32)}, old)
    out.write_bytes(b"old")
    environment = {
        "LD_PRELOAD": SLOW_DISK,
        "TENON_SLOW_DISK_HALT": "3",
        "TENON_SLOW_DISK_NAMED": "1",
    }
    command = [TENON, "convert", str(old), str(out), "--form", form]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    wait_until(
        lambda: any(path != out and path.stat().st_size > 0 for path in out.parent.iterdir()),
        "no write is done",
    )
    process.send_signal(sent)
    assert process.wait(60) == -sent and out.read_bytes() == b"old"
    assert run("convert", old, out, "--form", form).returncode == 0
    assert list(out.parent.iterdir()) == [out]
    assert run("verify", out).returncode == 0
