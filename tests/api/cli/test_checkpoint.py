"""tenon inspect and tenon verify of files that torch.save wrote: state dicts, checkpoints and
tensors, and of broken files.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCE, read_json, run

GOLDEN = SOURCE / "tests/peers/golden/checkpoint"
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


TENSOR = GOLDEN / VERSIONS[0] / "tensor.pt"


def rewrite(path: Path, out: Path, **changed: bytes | None) -> Path:
    """Copy the archive with other contents of some records. In a keyword two underscores stand for
    a dot or a slash. None leaves the record out.
    """
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            folder, _, name = info.filename.partition("/")
            content = changed.get(name.replace("/", "__").replace(".", "__"), old.read(info))
            if content is not None:
                new.writestr(f"{folder}/{name}", content)
    return out


def wide(number: int) -> bytes:
    """The pickle opcode LONG1 with 8 bytes."""
    return b"\x8a\x08" + number.to_bytes(8, "little", signed=True)


def retype(out: Path, old: bytes, new: bytes) -> Path:
    """Copy the file of a single tensor with other bytes in its pickle."""
    with zipfile.ZipFile(TENSOR) as file:
        data = file.read("tensor/data.pkl")
    assert data.count(old) == 1
    return rewrite(TENSOR, out, data__pkl=data.replace(old, new))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_state_dict(version: str) -> None:
    path = GOLDEN / version / "state_dict.pt"
    report = read_json("inspect", path)
    assert (report["kind"], report["error"], report["others"], report["other_count"]) == (
        "checkpoint",
        None,
        [],
        0,
    )
    assert {tensor["path"]: tensor["sizes"] for tensor in report["tensors"]} == STATE
    assert {tensor["kind"] for tensor in report["tensors"]} == {"tensor"}
    assert [tensor["dtype"] for tensor in report["tensors"]] == ["Float"] * 6 + ["Long"]
    assert [storage["nbytes"] for storage in report["storages"]] == [48, 16, 16, 16, 16, 16, 8]
    text = run("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    assert "a file of torch.save: 7 tensors, 0 other values\n" in text.stdout
    assert any(
        line.split() == ["0.weight", "tensor", "Float", "[4,", "3]", "48", "[3,", "1]", "0", "0"]
        for line in text.stdout.splitlines()
    )
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
    assert report["storages"][shared[0]["storage"]] == {
        "dtype": "Float",
        "numel": 6,
        "nbytes": 24,
        "tensors": 3,
    }
    assert [(each["strides"], each["offset"]) for each in shared] == [
        ([3, 1], 0),
        ([1, 3], 0),
        ([1], 3),
    ]
    details = {
        name: (tensors[name]["kind"], tensors[name]["dtype"], tensors[name]["details"])
        for name in tensors
    }
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


def test_what_the_numbers_count() -> None:
    path = GOLDEN / VERSIONS[0] / "values.pt"
    report = read_json("inspect", path)
    channels, expanded, view = report["tensors"]
    assert (channels["path"], channels["dtype"], channels["details"], channels["nbytes"]) == (
        "channels",
        "QInt8",
        "per_channel_affine",
        6,
    )
    assert (expanded["sizes"], expanded["strides"], expanded["nbytes"]) == ([1000, 2], [0, 0], 8000)
    assert (view["sizes"], view["strides"], view["offset"], view["nbytes"]) == (
        [2, 2],
        [3, 1],
        1,
        16,
    )
    # The storages are the elements, their scales and zero points, one number, and the six numbers
    # of which the view shows a part.
    assert [storage["nbytes"] for storage in report["storages"]] == [6, 16, 16, 4, 24]
    assert (report["others"], report["other_count"]) == ([f"many.{i}" for i in range(64)], 70)
    text = run("inspect", path).stdout
    assert "5 storages, 66 B, 0 of them shared by several tensors\n" in text
    assert "    many.63\n    and 6 more\n" in text
    through_a_pipe = ["sh", "-c", 'cat "$0" | "$@"', str(path)]
    assert read_json("inspect", "-", prefix=through_a_pipe)["tensors"] == report["tensors"]


def test_devices_and_names_are_shown_without_control_characters(tmp_path: Path) -> None:
    for saved_on, shown in ((b"cuda:3", "cuda:3"), (b"xx\x1b", "xx\\x1b")):
        path = retype(
            tmp_path / "device.pt",
            b"\x03\x00\x00\x00cpu",
            bytes([len(saved_on), 0, 0, 0]) + saved_on,
        )
        assert run("inspect", path).stdout.splitlines()[5].split()[-1] == shown
    path = rewrite(TENSOR, tmp_path / "name.pt", data__pkl=pickle.dumps({"\x1b[31m\n": 1}, 2))
    assert "\nother values\n    \\x1b[31m\\x0a\n" in run("inspect", path).stdout


def put_hole(archive: zipfile.ZipFile, name: str, nbytes: int) -> None:
    """Add a record of zeros, with a wrong checksum, that takes no room on the disk."""
    assert archive.fp is not None
    info = zipfile.ZipInfo(name)
    info.CRC = 1
    info.file_size = info.compress_size = nbytes
    info.header_offset = archive.fp.tell()
    archive.fp.write(info.FileHeader(zip64=True))
    archive.start_dir = archive.fp.seek(nbytes, os.SEEK_CUR)
    archive.filelist.append(info)
    archive.NameToInfo[name] = info


def test_a_file_that_is_larger_than_memory(tmp_path: Path) -> None:
    nbytes = 1 << 40
    with zipfile.ZipFile(TENSOR) as file:
        data = file.read("tensor/data.pkl")
    for old, new in (
        (b"K\x06t", wide(nbytes // 4) + b"t"),
        (b"K\x02K\x03\x86", wide(nbytes // 12) + b"K\x03\x86"),
    ):
        assert old in data
        data = data.replace(old, new)
    path = tmp_path / "large.pt"
    try:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("large/data.pkl", data)
            put_hole(archive, "large/data/0", nbytes)
            archive.writestr("large/version", "3\n")
    except OSError as error:
        pytest.skip(f"the file system has no file of 1 TiB: {error}")
    # One second of processor time does not suffice to read even a hundredth of the file.
    report = read_json("inspect", path, prefix=["prlimit", "--cpu=1"])
    assert report["tensors"][0]["sizes"] == [nbytes // 12, 3]
    assert report["storages"] == [
        {"dtype": "Float", "numel": nbytes // 4, "nbytes": nbytes, "tensors": 1}
    ]


def test_what_holds_no_tensors_by_name() -> None:
    path = GOLDEN / VERSIONS[1] / "module.pt"
    report = read_json("inspect", path, rc=1)
    assert report["error"]["code"] == "UNSUPPORTED"
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert done.returncode == 1
        assert "torch.nn.modules.container.Sequential" in done.stderr
        assert "save module.state_dict()" in done.stderr
    assert "data.pkl" in run("inspect", path).stdout  # inspect shows the parts that can be read


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        (
            b"K\x02K\x03\x86",
            b"K\x03K\x03\x86",
            "CORRUPT",
            "sizes [3, 3], strides [3, 1] and offset 0 leave a storage of 6 elements",
        ),
        (b"QK\x00", b"QK\x01", "CORRUPT", "offset 1 leave a storage of 6 elements"),
        (b"K\x06t", wide(-1) + b"t", "CORRUPT", "the number of elements of a storage is -1"),
        (b"K\x06t", wide(2**63 - 1) + b"t", "CORRUPT", "data/0 has 24 bytes"),
        (b"cpuq\x04K\x06t", b"cpu0K\x06t", "CORRUPT", "a storage is a tuple of 4"),
        (
            b"\x01\x00\x00\x000q",
            b"\x05\x00\x00\x00../..q",
            "CORRUPT",
            "there is no record data/../..",
        ),
        (b"FloatStorage", b"OtherStorage", "UNSUPPORTED", "OtherStorage"),
        (b"_rebuild_tensor_v2", b"_rebuild_tensor_v9", "UNSUPPORTED", "_rebuild_tensor_v9"),
        (b"Rq\x0b.", b"Rq\x0b", "CORRUPT", "data.pkl"),
    ],
)
def test_a_hostile_pickle_is_refused_with_its_record_and_offset(
    tmp_path: Path, old: bytes, new: bytes, code: str, words: str
) -> None:
    path = retype(tmp_path / "hostile.pt", old, new)
    error = read_json("inspect", path, rc=1)["error"]
    assert (error["code"], error["details"]["record"]) == (code, "data.pkl"), error
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert done.returncode == 1
        assert done.stderr.startswith(
            f"tenon: {path}: data.pkl, byte {error['details']['offset']}: "
        ), done.stderr
        assert words in done.stderr, done.stderr


def test_a_file_from_before_pytorch_1_6(tmp_path: Path) -> None:
    """A file without tensors. test_weights.py has one with tensors."""
    path = tmp_path / "old.pt"
    pickles = [
        pickle.dumps(each, 2)
        for each in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}, [])
    ]
    path.write_bytes(b"".join(pickles))
    report = read_json("inspect", path)
    assert (report["form"], report["weights"]) == ("legacy", [])
    path.write_bytes(b"".join(pickles[:-1]))
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{path}: the pickle of the storages' keys is missing" in done.stderr


def test_broken_files(tmp_path: Path) -> None:
    path = GOLDEN / VERSIONS[0] / "state_dict.pt"
    cases: list[tuple[Path, str, str, str]] = [
        (
            rewrite(path, tmp_path / "lost.pt", data__3=None),
            "CORRUPT",
            "data.pkl",
            "there is no record data/3",
        ),
        (
            rewrite(path, tmp_path / "short.pt", data__0=bytes(47)),
            "CORRUPT",
            "data.pkl",
            "data/0 has 47 bytes",
        ),
        (rewrite(path, tmp_path / "empty.pt", data__pkl=b""), "CORRUPT", "data.pkl", "data.pkl"),
        (
            rewrite(path, tmp_path / "calls.pt", data__pkl=pickle.dumps(print, 2)),
            "UNSUPPORTED",
            "data.pkl",
            "print",
        ),
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
    record = next(
        each for each in read_json("inspect", path)["records"] if each["name"] == "data/0"
    )
    data[record["offset"]] ^= 1
    flipped.write_bytes(data)
    assert run("inspect", flipped).returncode == 0
    assert "data/0" in run("verify", flipped).stderr
