"""tenon inspect and tenon verify of archives with bytecode for PyTorch's lite interpreter."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from conftest import SOURCE, read_json, run

GOOD = sorted((SOURCE / "tests/peers/golden/lite").glob("*.ptl"))


def with_bytecode(path: Path, out: Path, old: bytes, new: bytes) -> Path:
    """Copy the archive with other bytes in its bytecode."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith("/bytecode.pkl"):
                assert old in content
                content = content.replace(old, new)
            changed.writestr(name, content)
    return out


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_bytecode_is_shown(path: Path) -> None:
    report = read_json("inspect", path)
    bytecode = report["bytecode"]
    assert bytecode["version"] == 8
    assert [name.rsplit(".", 1)[1] for name in bytecode["functions"]] == ["forward"]
    assert bytecode["instructions"] > 10
    assert bytecode["operators"] == sorted(bytecode["operators"])
    assert ("aten::linear" if path.stem.startswith("mlp") else "aten::mul.Tensor") in bytecode[
        "operators"
    ]
    counts = (
        f"1 function, {bytecode['instructions']} instructions, {len(bytecode['operators'])}"
        " operators"
    )
    assert f"bytecode of version 8: {counts}\n" in run("inspect", path).stdout
    assert ": good: " in run("verify", path).stdout


def test_an_archive_without_bytecode() -> None:
    path = SOURCE / "tests/peers/golden/module/1.12.1/net.pt"
    assert read_json("inspect", path)["bytecode"] is None
    assert "bytecode" not in run("inspect", path).stdout


def test_bad_bytecode_is_found_by_verify(tmp_path: Path) -> None:
    bad = with_bytecode(GOOD[0], tmp_path / "bad.ptl", b"MOVE", b"FORK")
    said = run("inspect", bad)
    assert said.returncode == 0
    assert "warning: bytecode is not kept" in said.stdout
    assert read_json("inspect", bad)["bytecode"] is None
    done = run("verify", bad)
    assert done.returncode == 1
    message = " ".join(done.stderr.split())
    assert (
        "function __torch__.Shifted.forward, instruction 1 (FORK 2 0): the lite interpreter does"
        " not run this opcode" in message
    )
    assert read_json("verify", bad, rc=1)["error"]["code"] == "UNSUPPORTED"
