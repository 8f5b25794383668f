"""tenon inspect and tenon verify of module archives from old versions of PyTorch, and of broken
archives.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import SOURCE, read_json, run

GOLDEN = SOURCE / "tests/peers/golden/module"
GOOD = sorted(path for path in GOLDEN.glob("*/net.pt") if path.parent.name != "1.2.0")


def flip(path: Path, end: str, out: Path) -> Path:
    """Copy the archive with one byte changed in the middle of a stored record."""
    report = read_json("inspect", path)
    record = next(each for each in report["records"] if each["name"].endswith(end))
    assert not record["deflated"]
    data = bytearray(path.read_bytes())
    data[record["offset"] + record["nbytes"] // 2] ^= 0x40
    out.write_bytes(data)
    return out


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.parent.name)
def test_what_old_versions_wrote(path: Path) -> None:
    report = read_json("inspect", path)
    with zipfile.ZipFile(path) as file:
        infos = file.infolist()
        assert [record["nbytes"] for record in report["records"]] == [
            info.file_size for info in infos
        ]
        assert [record["nbytes_in_file"] for record in report["records"]] == [
            info.compress_size for info in infos
        ]
        code = {
            info.filename.split("/", 1)[1]: file.read(info).decode()
            for info in infos
            if info.filename.endswith(".py")
        }
    assert {each["name"]: each["text"] for each in report["code"]} == code
    assert report["error"] is None
    assert report["modules"][0]["path"] == ""
    assert len(report["modules"]) > 1
    used = [tensor["storage"] for tensor in report["tensors"] if tensor["storage"] is not None]
    assert sorted(set(used)) == list(range(len(report["storages"])))
    assert [storage["tensors"] for storage in report["storages"]] == [
        used.count(i) for i in range(len(report["storages"]))
    ]
    assert any(
        method["path"] == "forward" and method["head"].startswith("def forward(")
        for method in report["methods"]
    )

    text = run("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    for tensor in report["tensors"]:
        assert any(
            line.split()[:2] == [tensor["path"], tensor["kind"]]
            for line in text.stdout.splitlines()
        ), tensor
    for record in report["records"]:
        assert record["name"] in text.stdout
    assert "def forward(" not in text.stdout.split("\ncode\n")[1]
    assert "def forward(" in run("inspect", "--code", path).stdout.split("\ncode\n")[1]

    assert run("verify", path).stdout.startswith(
        f"{path}: good: {len(report['records'])} records, {len(report['tensors'])} tensors"
    )
    assert read_json("verify", path)["ok"] is True


def test_what_is_refused_by_name() -> None:
    old = GOLDEN / "1.2.0" / "net.pt"
    for command in ("inspect", "verify"):
        done = run(command, old)
        assert done.returncode == 1
        assert "model.json" in done.stderr
    # inspect shows the parts that can be read.
    assert "model.json" in run("inspect", old).stdout


def test_a_zip_file_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("folder/letter.txt", "hello")
    report = read_json("inspect", path, rc=1)
    assert [record["name"] for record in report["records"]] == ["letter.txt"]
    assert report["error"]["code"]
    done = run("verify", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tenon: ")


def test_a_flipped_bit_of_a_tensor_is_found_by_verify(tmp_path: Path) -> None:
    bad = flip(GOOD[-1], "data/0", tmp_path / "bad.pt")
    assert run("inspect", bad).returncode == 0  # level structure: tensors are not read
    done = run("verify", bad)
    assert done.returncode == 1
    assert "data/0" in done.stderr
    report = read_json("verify", bad, rc=1)
    assert report["ok"] is False
    assert report["error"]["details"]["record"].endswith("data/0")


def test_a_flipped_bit_of_a_pickle_is_found_at_once(tmp_path: Path) -> None:
    bad = flip(GOOD[-1], "data.pkl", tmp_path / "bad.pt")
    for command in ("inspect", "verify"):
        done = run(command, bad)
        assert done.returncode == 1
        assert "data.pkl" in done.stderr


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = GOOD[-1].read_bytes()
    for length in (4, 100, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"{length}.pt"
        path.write_bytes(whole[:length])
        for command in ("inspect", "verify"):
            done = run(command, path)
            assert done.returncode == 1, length
            assert done.stderr.startswith("tenon: "), length
            assert done.stderr.count("\n") == 1


KINDS = {
    "lfs.pt": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "Git LFS pointer",
        "git lfs pull",
    ),
    "page.pt": (b"<!DOCTYPE html><html></html>", "web page", "download the file"),
    "model.ff": (
        b"\xff\xff\0\0PTMF" + bytes(100),
        "flatbuffer is broken",
        "download the file again",
    ),
    "m.pt.gz": (b"\x1f\x8b\x08" + bytes(100), "gzip", "gunzip"),
    "w.safetensors": (b"\x02\0\0\0\0\0\0\0{}" + bytes(100), "safetensors", "describes 0 bytes"),
    "old.pt": (b"\x80\x02}q\0.", "pickle", "torch.jit.save"),
    "empty.pt": (b"", "empty", "no bytes"),
    "cut.pt": (b"PK\3\4" + bytes(100), "cut short", "download it again"),
}


# inspect takes an empty file for a descriptor that lacks its magic, so that case is left out.
NAMED = [
    (command, name)
    for command in ("inspect", "verify")
    for name in KINDS
    if (command, name) != ("inspect", "empty.pt")
]


@pytest.mark.parametrize(("command", "name"), NAMED)
def test_what_is_no_archive_is_named_with_what_to_do(
    tmp_path: Path, command: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(KINDS[name][0])
    done = run(command, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1 and done.stderr.count(name) == 1
    for words in KINDS[name][1:]:
        assert words in done.stderr


def test_from_standard_input_and_pipes(tmp_path: Path) -> None:
    good = GOOD[-1]
    for name in ("-", "/dev/stdin"):
        with subprocess.Popen(["cat", good], stdout=subprocess.PIPE) as cat:
            done = run("verify", name, stdin=cat.stdout)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(("standard input" if name == "-" else name) + ": good: ")
        with subprocess.Popen(["cat", good], stdout=subprocess.PIPE) as cat:
            report = json.loads(run("inspect", name, "--json", stdin=cat.stdout).stdout)
        assert report["tensors"] == read_json("inspect", good)["tensors"]
    with good.open("rb") as file:
        assert run("verify", "-", stdin=file).returncode == 0
    done = run("verify", "-", input="<html>")
    assert done.returncode == 1 and done.stderr.startswith("tenon: standard input is a web page")


def test_several_files_at_once(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pt"
    bad.write_bytes(GOOD[-1].read_bytes()[:-30])
    done = run("verify", GOOD[0], bad, GOOD[-1])
    assert done.returncode == 1
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        [str(GOOD[0]), "good"],
        [str(GOOD[-1]), "good"],
    ]
    assert done.stderr.count("\n") == 1 and str(bad) in done.stderr
    assert [each["ok"] for each in read_json("verify", GOOD[0], bad, rc=1)] == [True, False]


def test_damage_is_said_once_with_the_file_and_the_record(tmp_path: Path) -> None:
    good = GOOD[-1]
    path = tmp_path / "code.pt"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            new.writestr(
                entry,
                (
                    data.replace(b"  def forward", b"  class : int\n  def forward")
                    if entry.endswith(".py")
                    else data
                ),
            )
    done = run("verify", path)
    assert done.returncode == 1 and done.stderr.startswith(f"tenon: {path}: ")
    assert done.stderr.count(str(path)) == 1 and done.stderr.count("code/__torch__") == 1, (
        done.stderr
    )
    missing = tmp_path / "noversion.pt"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(missing, "w") as new:
        for entry in old.namelist():
            if not entry.endswith("version"):
                new.writestr(entry, old.read(entry))
    assert run("verify", missing).stderr == f"tenon: {missing}: there is no record version\n"


def begin_forward_with(path: Path, line: bytes) -> None:
    """Writes a good archive whose methods forward begin with this line."""
    with zipfile.ZipFile(GOOD[-1]) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            if entry.endswith(".py"):
                head = rb"(def forward\(.*?-> .*?:\n)"
                data = re.sub(head, rb"\1    " + line + rb"\n", data, flags=re.S)
            new.writestr(entry, data)


def test_weights_that_are_lost_are_told(tmp_path: Path) -> None:
    """The archive imitates torch.jit.save of torch.jit.optimize_for_inference(scripted)."""
    path = tmp_path / "optimised.pt"
    begin_forward_with(path, rb"_w = ops.prim.ConstantMKLDNNTensor()")
    for command in ("verify", "inspect"):
        done = run(command, path)
        assert done.returncode == 1
        assert (
            "ops.prim.ConstantMKLDNNTensor exists in an optimised graph alone" in done.stderr
            and str(path) in done.stderr
        )
        assert "or newer" not in done.stdout
    # An export changes no code, so it still writes the archive.
    done = run("export", path, tmp_path / "again.pt")
    assert done.returncode == 0 and "or newer" not in done.stdout
    words = " ".join(done.stdout.split())
    assert words.startswith("warning: PyTorch does not take this code, which is as it was: code/")
    assert "ops.prim.ConstantMKLDNNTensor exists in an optimised graph alone" in words


def test_verify_tells_what_only_some_versions_take(tmp_path: Path) -> None:
    path = tmp_path / "new.pt"
    begin_forward_with(path, rb"_s = torch.symeig(torch.zeros([2, 2]))")
    done = run("verify", path)
    assert done.returncode == 0 and ": good: " in done.stdout
    (warning,) = read_json("verify", path)["warnings"]
    assert re.match(
        r"PyTorch 2\.\d+ refuses torch\.symeig, and PyTorch 1\.13 has it, in"
        r" code/__torch__.*:\d+:\d+",
        warning,
    )
    assert "warning: " + warning in " ".join(done.stdout.split()), done
    assert read_json("inspect", path)["warnings"] == []
