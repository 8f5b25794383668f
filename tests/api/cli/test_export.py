"""tenon export, which writes an archive anew, and tenon inspect --ops."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCE, read_json, run

LITE = SOURCE / "tests/peers/golden/lite/mlp-1.13.1.ptl"
OPERATORS = ["aten::linear", "aten::relu"]


def records(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return [name.partition("/")[2] for name in archive.namelist()]


def debug_tables(path: Path) -> int:
    return sum("debug_" in name for name in records(path))


def with_code(out: Path, old: bytes, new: bytes) -> Path:
    """Copy the archive with other words in its code."""
    with zipfile.ZipFile(LITE) as archive, zipfile.ZipFile(out, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            changed.writestr(name, content.replace(old, new) if name.endswith(".py") else content)
    return out


@pytest.mark.parametrize(
    ("options", "functions"),
    [
        ([], 1),
        (["--no-bytecode"], 0),
        (["--bytecode"], 1),
        (["--bytecode", "--methods", "forward"], 1),
    ],
)
def test_bytecode_is_kept_dropped_or_made(
    tmp_path: Path, options: list[str], functions: int
) -> None:
    out = tmp_path / "out.ptl"
    report = read_json("export", LITE, out, *options)
    assert report == {
        "path": str(out),
        "ok": True,
        "error": None,
        "warnings": [],
        "nbytes": out.stat().st_size,
        "records": len(records(out)),
        "version": 3,
        "oldest_pytorch": "1.6",
        "bytecode_functions": functions,
        "debug_tables": 0,
    }
    assert ("bytecode.pkl" in records(out)) == (functions > 0) and debug_tables(out) == 0
    assert ": good: " in run("verify", out).stdout
    assert read_json("inspect", out)["tensors"] == read_json("inspect", LITE)["tensors"]
    bytecode = read_json("inspect", out)["bytecode"]
    assert (bytecode["operators"] == OPERATORS) if functions else bytecode is None
    said = run("export", LITE, out, *options)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        f"{out}: written: {report['records']} records, {report['nbytes']:,} bytes",
        "operators of version 3, runs with PyTorch 1.6 or newer",
        "bytecode: 1 function" if functions else "no bytecode",
    ]


def test_the_flatbuffer_form(tmp_path: Path) -> None:
    out = tmp_path / "out.ff"
    said = run("export", LITE, out, "--flatbuffer")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        f"{out}: written: {out.stat().st_size:,} bytes",
        "operators of version 3, runs with PyTorch 1.13 or newer",
        "bytecode: 1 function",
    ]
    assert out.read_bytes()[4:8] == b"PTMF"
    archive = read_json("inspect", LITE)
    found = read_json("inspect", out)
    assert found["kind"] == "flatbuffer" and found["nbytes"] == out.stat().st_size
    for key in ("version", "bytecode", "modules", "tensors", "members", "methods", "code"):
        assert found[key] == archive[key], key
    assert [record["name"] for record in found["records"]] == [
        f"storage_data/{i}" for i in range(len(found["storages"]))
    ]
    assert run("inspect", out).stdout.startswith(
        f"{out}: flatbuffer, {len(found['storages'])} storages, "
    )
    assert f"good: {len(found['storages'])} storages, " in run("verify", out).stdout
    again = tmp_path / "again.ff"
    assert run("export", out, again, "--flatbuffer").returncode == 0
    assert again.read_bytes() == out.read_bytes()
    back = tmp_path / "back.ptl"
    assert run("export", out, back).returncode == 0
    assert read_json("inspect", back)["bytecode"] == archive["bytecode"]
    assert (
        read_json("export", LITE, out, "--flatbuffer", "--bytecode", "--methods", "forward")[
            "bytecode_functions"
        ]
        == 1
    )
    assert run("export", LITE, out, "--flatbuffer", "--no-bytecode").returncode == 2
    report = read_json("export", LITE, out, "--flatbuffer", "--bytecode", "--lower", "7", rc=1)
    assert "leave out bytecode_version" in report["error"]["message"]


def test_the_version_of_the_bytecode(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    assert run("export", LITE, out, "--bytecode", "--lower", "8").returncode == 0
    assert read_json("inspect", out)["bytecode"]["version"] == 8
    for options in (
        ["--lower", "8"],
        ["--bytecode", "--lower", "3"],
        ["--bytecode", "--lower", "9"],
    ):
        assert run("export", LITE, out, *options).returncode == 2


def test_an_archive_without_bytecode_gets_none_unless_told(tmp_path: Path) -> None:
    without = tmp_path / "without.ptl"
    assert read_json("export", LITE, without, "--no-bytecode")["bytecode_functions"] == 0
    assert read_json("export", without, tmp_path / "out.ptl")["bytecode_functions"] == 0
    assert (
        read_json("export", without, tmp_path / "out.ptl", "--bytecode")["bytecode_functions"] == 1
    )


def test_the_old_file_may_be_the_new_one(tmp_path: Path) -> None:
    path = Path(shutil.copy(LITE, tmp_path / "model.ptl"))
    tensors = read_json("inspect", path)["tensors"]
    for options in (["--no-bytecode"], ["--bytecode"]):
        assert run("export", path, path, *options).returncode == 0
        assert ("bytecode.pkl" in records(path)) == (options == ["--bytecode"])
        assert read_json("inspect", path)["tensors"] == tensors
    assert list(tmp_path.iterdir()) == [path]


def test_debug_tables_are_written_when_told(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    report = read_json("export", LITE, out, "--debug-tables")
    assert report["debug_tables"] == debug_tables(out) == debug_tables(LITE) > 2
    assert (
        f"\n{report['debug_tables']} debug tables\n"
        in run("export", LITE, out, "--debug-tables").stdout
    )
    # Some tables describe the old bytecode. Tables are written together or not at all.
    report = read_json("export", LITE, out, "--debug-tables", "--no-bytecode")
    assert report["debug_tables"] == debug_tables(out) == 0
    assert len(report["warnings"]) == 1 and report["warnings"][0].startswith(
        "the debug tables are not written: "
    )
    assert (
        "warning: the debug tables are not written: "
        in run("export", LITE, out, "--debug-tables", "--no-bytecode").stdout
    )


def test_debug_tables_are_made_for_new_bytecode(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    report = read_json("export", LITE, out, "--debug-tables", "--bytecode")
    assert report["debug_tables"] == debug_tables(out) > 2 and report["warnings"] == []
    assert {
        "mobile_debug_handles.pkl",
        "callstack_debug_map.pkl",
        "code/__torch__.py.debug_pkl",
    } < set(records(out))


def test_from_standard_input(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    with subprocess.Popen(["cat", LITE], stdout=subprocess.PIPE) as cat:
        assert run("export", "-", out, "--bytecode", stdin=cat.stdout).returncode == 0
    assert read_json("inspect", out)["bytecode"]["operators"] == OPERATORS


def failed(path: Path, *arguments: object) -> dict[str, Any]:
    """The error of an export, which must leave the old file unchanged and write no other file."""
    path.write_bytes(b"old")
    there = set(path.parent.iterdir())
    report = read_json("export", *arguments, rc=1)
    assert report["ok"] is False and report["path"] == str(path)
    done = run("export", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert " ".join(done.stderr.split()).startswith("tenon: " + report["error"]["message"])
    assert path.read_bytes() == b"old" and set(path.parent.iterdir()) == there
    return report["error"]


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "out.ptl"
    odd = with_code(tmp_path / "odd.ptl", b"torch.relu", b"torch.no_such_operator")
    error = failed(out, odd, out, "--bytecode")
    place = f"{error['details']['file']}:{error['details']['line']}:{error['details']['column']}: "
    assert (
        error["message"].startswith(f"{odd}: {place}")
        and "no_such_operator" in error["details"]["excerpt"]
    )
    error = failed(out, LITE, out, "--bytecode", "--methods", "forward,predict")
    assert error["code"] == "NOT_FOUND" and "predict" in error["message"]
    assert failed(out, tmp_path / "none.pt", out)["code"] == "NOT_FOUND"
    text = tmp_path / "text"
    text.write_text("hello")
    assert failed(out, text, out)["message"].startswith(f"{text} is ")


def test_damage_is_not_written_again_under_a_new_checksum(tmp_path: Path) -> None:
    record = next(
        each for each in read_json("inspect", LITE)["records"] if each["name"] == "data/0"
    )
    data = bytearray(LITE.read_bytes())
    data[record["offset"]] ^= 0x40
    bad = tmp_path / "bad.ptl"
    bad.write_bytes(data)
    error = failed(tmp_path / "out.ptl", bad, tmp_path / "out.ptl")
    assert error["code"] == "CORRUPT" and error["message"].startswith(str(bad))


def test_where_no_file_can_be(tmp_path: Path) -> None:
    done = run("export", LITE, tmp_path / "no" / "out.ptl")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}/no: No such file or directory" in done.stderr


def test_bad_old_bytecode_is_told_where_it_matters(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ptl"
    with zipfile.ZipFile(LITE) as archive, zipfile.ZipFile(bad, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            changed.writestr(
                name,
                content.replace(b"MOVE", b"FORK") if name.endswith("/bytecode.pkl") else content,
            )
    report = read_json("export", bad, tmp_path / "out.ptl")
    assert report["bytecode_functions"] == 0
    assert [warning.split(": ")[0] for warning in report["warnings"]] == ["bytecode is not kept"]
    for option, functions in (("--bytecode", 1), ("--no-bytecode", 0)):
        report = read_json("export", bad, tmp_path / "out.ptl", option)
        assert (report["bytecode_functions"], report["warnings"]) == (functions, [])


def test_operators() -> None:
    for path in sorted(LITE.parent.glob("*.ptl")):
        done = run("inspect", "--ops", path)
        assert (done.returncode, done.stderr) == (0, "")
        # Only the names are compared, because PyTorch wrote these archives' bytecode, and the list
        # is made from the code.
        assert done.stdout.splitlines() == read_json("inspect", path)["bytecode"]["operators"]
        assert read_json("inspect", "--ops", path) == {
            "path": str(path),
            "operators": done.stdout.splitlines(),
            "error": None,
        }
        assert run("inspect", "--ops", "--methods", "forward", path).stdout == done.stdout
        none = run("inspect", "--ops", "--methods", "none", path)
        assert (none.returncode, none.stdout) == (1, "") and "has no method none" in " ".join(
            none.stderr.split()
        )


def test_forks_run_at_once(tmp_path: Path) -> None:
    called = b"(first).forward(x, ))"
    forks = with_code(
        tmp_path / "forks.ptl",
        b"torch.relu(" + called,
        b"torch.wait(fork(torch.relu, " + called + b")",
    )
    error = failed(tmp_path / "out.ptl", forks, tmp_path / "out.ptl", "--bytecode")
    assert error["code"] == "UNSUPPORTED" and "forks_at_once" in error["message"]
    report = read_json("export", forks, tmp_path / "out.ptl", "--bytecode", "--forks-at-once")
    assert report["bytecode_functions"] == 1
    assert "aten::relu" in read_json("inspect", "--ops", forks)["operators"]


def test_operators_of_what_has_none(tmp_path: Path) -> None:
    odd = with_code(tmp_path / "odd.ptl", b"torch.relu", b"torch.no_such_operator")
    done = run("inspect", "--ops", odd)
    assert (done.returncode, done.stdout) == (1, "")
    report = read_json("inspect", "--ops", odd, rc=1)
    assert report["operators"] is None
    assert report["error"]["message"].startswith(
        f"{odd}: code/__torch__.py:{report['error']['details']['line']}:"
    )
    assert " ".join(done.stderr.split()).startswith("tenon: " + report["error"]["message"])
    for path in (tmp_path, tmp_path / "none", SOURCE / "README.md"):
        done = run("inspect", "--ops", path)
        assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(
            f"tenon: {path}"
        )
