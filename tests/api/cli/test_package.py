"""tenon inspect, verify and export of packages of torch.package.

`tests/peers/module/package_peer.py write` made the packages in tests/peers/golden/package with two
versions of PyTorch.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import SOURCE, read_json, run

PACKAGES = sorted((SOURCE / "tests/peers/golden/package").glob("*.pt"))
NEWEST = PACKAGES[-1]
LITE = SOURCE / "tests/peers/golden/lite/mlp-1.13.1.ptl"
NET = SOURCE / "tests/peers/golden/module/1.12.1/net.pt"
NO_PACKAGE = "is no package of torch.package, which --module is for. Leave out --module\n"


def records(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def damaged(path: Path, record: str, out: Path) -> Path:
    """Copy the package with one byte of a record changed."""
    found = next(each for each in read_json("inspect", path)["records"] if each["name"] == record)
    data = bytearray(path.read_bytes())
    data[found["offset"] + found["nbytes_in_file"] // 2] ^= 0x40
    out.write_bytes(data)
    return out


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.stem)
def test_a_package_is_shown(path: Path) -> None:
    report = read_json("inspect", path)
    inside = records(path)
    assert (report["kind"], report["name"], report["version"], report["error"]) == (
        "package",
        "nets",
        6,
        None,
    )
    assert {each["name"]: each["nbytes"] for each in report["records"]} == {
        name: len(data) for name, data in inside.items()
    }
    assert report["externs"] == inside[".data/extern_modules"].decode().split()
    assert [
        (each["name"], each["id"], each["resource"], each["class"]) for each in report["modules"]
    ] == [
        ("models/net.pkl", "0", "models/net.pkl", "__torch__.Net"),
        ("models/twin.pkl", "1", "models/twin.pkl", "__torch__.Net"),
        ("2", "2", None, "__torch__.Other"),
    ]
    assert [(each["modules"], each["tensors"], each["nbytes"]) for each in report["modules"]] == [
        (2, 3, 40),
        (2, 3, 40),
        (2, 2, 32),
    ]
    # Two modules share a weight of 24 bytes. One more record belongs to a Python pickle.
    assert (report["storages"], report["storage_nbytes"], report["shared_storages"]) == (
        7,
        40 + 40 - 24 + 32,
        1,
    )
    code = {
        name: data.decode()
        for name, data in inside.items()
        if name.startswith(".data/ts_code/code/") and name.endswith(".py")
    }
    assert {each["name"]: each["text"] for each in report["code"]} == code

    said = run("inspect", path)
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0].startswith(f'{path}: package "nets", {len(inside)} records, 3 script modules, ')
    assert lines[1] == "operators of version 6, runs with PyTorch 1.9 or newer"
    assert lines[2] == f"extern modules of Python: {', '.join(report['externs'])}"
    assert ["models/twin.pkl", "1", "__torch__.Net", "2", "3", "40"] in [
        line.split() for line in lines
    ]
    assert "7 storages, 88 B, 1 of them shared by several modules" in lines
    assert (
        "def forward(" not in said.stdout
        and "def forward(" in run("inspect", "--code", path).stdout
    )


@pytest.mark.parametrize("name", ["models/twin.pkl", "1"])
def test_one_module_is_shown_as_an_archive_is(tmp_path: Path, name: str) -> None:
    out = tmp_path / "twin.pt"
    assert run("export", NEWEST, "--module", name, out).returncode == 0
    report, archive = read_json("inspect", NEWEST, "--module", name), read_json("inspect", out)
    assert (report["kind"], report["module"]) == ("module", name)
    for key in (
        "version",
        "oldest_pytorch",
        "modules",
        "tensors",
        "storages",
        "members",
        "methods",
        "code",
    ):
        assert report[key] == archive[key], key
    said = run("inspect", NEWEST, "--module", name, "--code")
    assert said.stdout.startswith(f'{NEWEST}: module {name} of the package "nets", ')
    assert (
        "fc.weight  parameter" in said.stdout
        and "def forward(" in said.stdout
        and "\nrecords\n" not in said.stdout
    )


def test_operators() -> None:
    own = [
        run("inspect", "--ops", "--module", name, NEWEST).stdout.splitlines()
        for name in ("0", "1", "2")
    ]
    assert (
        "aten::gelu" in own[0]
        and own[0] == own[1]
        and "aten::sub.Tensor" in own[2]
        and "aten::gelu" not in own[2]
    )
    assert run("inspect", "--ops", NEWEST).stdout.splitlines() == sorted(
        {name for names in own for name in names}
    )
    assert (
        run("inspect", "--ops", "--methods", "forward", "--module", "2", NEWEST).stdout.splitlines()
        == own[2]
    )
    # --methods needs a single module.
    done = run("inspect", "--ops", "--methods", "forward", NEWEST)
    assert (
        done.returncode == 1
        and "is a package of 3 modules. Name one with --module. It has models/net.pkl, "
        in done.stderr
    )


def test_a_name_that_fits_nothing_is_told_what_does(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    for command in (["inspect", NEWEST], ["inspect", "--ops", NEWEST], ["export", NEWEST, out]):
        done = run(*command, "--module", "net")
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            done.stderr == f'tenon: {NEWEST} has no script module "net". It has models/net.pkl,'
            " models/twin.pkl, 2\n"
        )
    text = SOURCE / "README.md"
    for path, command in (
        (LITE, ["inspect", LITE]),
        (LITE, ["inspect", "--ops", LITE]),
        (LITE, ["export", LITE, out]),
        (text, ["inspect", text]),
    ):
        done = run(*command, "--module", "net")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tenon: {path} {NO_PACKAGE}")
    done = run("export", NEWEST, out)
    assert (
        done.returncode == 1
        and "is a package of 3 modules. Name one with --module. It has models/net.pkl, "
        in done.stderr
    )
    assert not out.exists()


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.stem)
def test_a_good_package(path: Path) -> None:
    done = run("verify", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        f"{path}: {name}: good: {n} tensors"
        for name, n in (("models/net.pkl", 3), ("models/twin.pkl", 3), ("2", 2))
    ]
    assert (
        lines[3].startswith(f"{path}: good: {len(records(path))} records, 3 script modules, ")
        and len(lines) == 4
    )
    report = read_json("verify", path)
    assert (
        report["ok"]
        and [each["ok"] for each in report["modules"]] == [True] * 3
        and report["records"] == []
    )
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
        assert run("verify", "-", stdin=cat.stdout).stdout == done.stdout.replace(
            str(path), "standard input"
        )


DAMAGE = {
    ".data/4.storage": ["models/twin.pkl"],
    ".data/1.storage": ["models/net.pkl", "models/twin.pkl"],
    ".data/ts_code/1/data.pkl": ["models/twin.pkl"],
    ".data/ts_code/2/constants.pkl": ["2"],
    ".data/ts_code/code/__torch__.py": ["models/net.pkl", "models/twin.pkl", "2"],
    # No module needs these records.
    ".data/7.storage": [],
    "models/note.txt": [],
}


@pytest.mark.parametrize("record", DAMAGE)
def test_damage_is_told_of_the_modules_that_have_it(tmp_path: Path, record: str) -> None:
    bad = damaged(NEWEST, record, tmp_path / "bad.pt")
    names = ["models/net.pkl", "models/twin.pkl", "2"]
    report = read_json("verify", bad, rc=1)
    assert [each["name"] for each in report["modules"]] == names
    assert [each["name"] for each in report["modules"] if not each["ok"]] == DAMAGE[record]
    assert len(report["records"]) == (0 if DAMAGE[record] else 1) and report["ok"] is False
    done = run("verify", bad)
    assert done.returncode == 1
    good = [name for name in names if name not in DAMAGE[record]]
    assert [line.split(": ")[:3] for line in done.stdout.splitlines()] == [
        [str(bad), name, "good"] for name in good
    ]
    starts = [f"tenon: {bad}: {name}: record {record} " for name in DAMAGE[record]] or [
        f"tenon: {bad}: record {record} "
    ]
    lines = done.stderr.splitlines()
    assert len(lines) == len(starts) and all(
        line.startswith(start) for line, start in zip(lines, starts, strict=True)
    ), lines
    # An undamaged module can still be taken out. The whole package is not written again, because
    # that would give the damage a valid checksum.
    for name in names:
        out = tmp_path / "out.pt"
        assert run("export", bad, "--module", name, out).returncode == (0 if name in good else 1)
        assert out.exists() == (name in good)
        out.unlink(missing_ok=True)
    done = run("export", "--package", bad, tmp_path / "out.pt")
    assert (
        done.returncode == 1
        and done.stderr.startswith(f"tenon: {bad}: record {record} ")
        and not (tmp_path / "out.pt").exists()
    )


def test_a_module_that_is_damaged_is_shown_so(tmp_path: Path) -> None:
    bad = damaged(NEWEST, ".data/ts_code/1/data.pkl", tmp_path / "bad.pt")
    done = run("inspect", bad)
    assert done.returncode == 1 and re.search(
        r"^models/twin\.pkl +1 +cannot be read", done.stdout, re.M
    )
    assert re.search(r"^models/net\.pkl +0 +__torch__\.Net ", done.stdout, re.M)
    assert (
        done.stderr.startswith(f"tenon: {bad}: models/twin.pkl: record .data/ts_code/1/data.pkl ")
        and done.stderr.count("\n") == 1
    )
    report = read_json("inspect", bad, rc=1)
    assert [each["error"] is None for each in report["modules"]] == [True, False, True]


CHANGES = {
    "code": (".py", b"torch.gelu", b"torch.gelo", "models/net.pkl: code/__torch__.py:"),
    "extern that is no name": (
        "extern_modules",
        b"collections",
        b"3 things",
        '.data/extern_modules: "3 things" is no name of a Python module',
    ),
    # PyTorch loads none of these packages either.
    "extern that contains a record": (
        "extern_modules",
        b"collections",
        b"models",
        "record models/note.txt lies in a Python module that is extern",
    ),
    "no extern for modules": (
        "extern_modules",
        b"torch",
        b"tor",
        "record .data/extern_modules lacks torch.jit._script, without which ",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_and_externs_are_checked(tmp_path: Path, change: str) -> None:
    end, old, new, message = CHANGES[change]
    bad = tmp_path / "bad.pt"
    with zipfile.ZipFile(NEWEST) as package, zipfile.ZipFile(bad, "w") as changed:
        for each in package.namelist():
            content = package.read(each)
            changed.writestr(each, content.replace(old, new) if each.endswith(end) else content)
    done = run("verify", bad)
    assert done.returncode == 1 and message in words(done.stderr), done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("tenon: ")]
    assert all(line.startswith(f"tenon: {bad}: ") and line.count(str(bad)) == 1 for line in lines)


def exported(*arguments: object) -> dict[str, Any]:
    report: dict[str, Any] = read_json("export", "--package", *arguments)
    assert report["ok"] and report["nbytes"] == Path(str(arguments[-1])).stat().st_size
    return report


def test_archives_become_a_package(tmp_path: Path) -> None:
    flat, out = tmp_path / "flat.ff", tmp_path / "out.pt"
    assert run("export", "--flatbuffer", LITE, flat).returncode == 0
    report = exported(NET, f"nets/a.b.pkl={NET}", flat, out)
    names = {"models/net.pkl": NET, "nets/a.b.pkl": NET, "models/flat.pkl": flat}
    assert report["modules"] == [{"name": name, "from": str(path)} for name, path in names.items()]
    assert report["warnings"] == [
        f"{flat}: its bytecode is not written, because a package has none"
    ]
    inside = records(out)
    assert report["records"] == len(inside) and names.keys() <= inside.keys()
    found = read_json("inspect", out)
    assert (found["kind"], found["name"], found["error"]) == ("package", "out", None)
    # Each input file is read once and gives one module, under the name of its first resource here.
    assert [each["name"] for each in found["modules"]] == ["models/net.pkl", "models/flat.pkl"]
    assert run("verify", out).returncode == 0
    for name, path in (("models/net.pkl", NET), ("models/flat.pkl", flat)):
        module, archive = read_json("inspect", out, "--module", name), read_json("inspect", path)
        for key in ("tensors", "members"):
            assert module[key] == archive[key], (name, key)

    said = run("export", "--package", NET, LITE, out)
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert words(said.stdout).startswith(
        f"warning: {LITE}: its bytecode is not written, because a package has none {out}: written: "
    )
    assert lines[-3:] == [
        "operators of version 10, runs with PyTorch 1.12 or newer",
        f"models/net.pkl: {NET}",
        f"models/mlp-1.13.1.pkl: {LITE}",
    ]
    with subprocess.Popen(["cat", NET], stdout=subprocess.PIPE) as cat:
        assert run("export", "--package", "models/net.pkl=-", out, stdin=cat.stdout).returncode == 0
    assert [each["name"] for each in read_json("inspect", out)["modules"]] == ["models/net.pkl"]


def test_a_package_gets_a_module_more(tmp_path: Path) -> None:
    out = Path(shutil.copy(NEWEST, tmp_path / "out.pt"))
    before = records(out)
    # The file that is replaced is also an input. A module takes the place of the one with the same
    # name.
    report = exported(out, f"models/net.pkl={NET}", LITE, out)
    assert [each["name"] for each in report["modules"]] == [
        "models/net.pkl",
        "models/mlp-1.13.1.pkl",
    ]
    after = records(out)
    for name in (
        "models/all",
        "models/twin.pkl",
        "models/note.txt",
        "models/code.py",
        ".data/7.storage",
    ):
        assert after[name] == before[name], name
    assert after["models/net.pkl"] != before["models/net.pkl"]
    found = {each["name"]: each["class"] for each in read_json("inspect", out)["modules"]}
    assert found.keys() == {"models/net.pkl", "models/twin.pkl", "models/mlp-1.13.1.pkl", "2"}
    assert run("verify", out).returncode == 0 and list(tmp_path.iterdir()) == [out]


def test_one_module_of_a_package_in_every_form(tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = read_json("inspect", NEWEST, "--module", "models/net.pkl")
    for options, functions in ([], 0), (["--bytecode"], 1), (["--flatbuffer"], 1):
        assert (
            read_json("export", NEWEST, out, "--module", "models/net.pkl", *options)[
                "bytecode_functions"
            ]
            == functions
        )
        found = read_json("inspect", out)
        assert found["kind"] == ("flatbuffer" if options == ["--flatbuffer"] else "archive")
        assert found["members"] == shown["members"]
        assert [each | {"storage": 0} for each in found["tensors"]] == [
            each | {"storage": 0} for each in shown["tensors"]
        ]
        assert run("verify", out).returncode == 0


REFUSED = [
    (
        [NET, f"models/net.pkl={LITE}"],
        f"{NET} and {LITE} would both be models/net.pkl. Give one of them another name, such as ",
    ),
    ([NET, "-"], "standard input gives no name to its module. Give one, such as models/net.pkl=-"),
    (
        [f"net={NET}"],
        (
            'the name "net" of an entry has no Python package before its last "/": give a name such'
            ' as "models/net.pkl"'
        ),
    ),
    ([f".data/x={NET}"], f".data/x={NET}: No such file or directory"),
    (
        [NEWEST, PACKAGES[0]],
        (
            f"{NEWEST} and {PACKAGES[0]} are packages, and a new package is made from one package"
            " at most. Write "
        ),
    ),
    (
        [f"models/a.pkl={NEWEST}"],
        (
            f"{NEWEST} is a package, whose modules have names. Give it without a name, as {NEWEST},"
            " or write one of "
        ),
    ),
    ([SOURCE / "README.md"], f"{SOURCE / 'README.md'} is "),
]


@pytest.mark.parametrize(
    ("inputs", "message"), REFUSED, ids=lambda value: value[:30] if isinstance(value, str) else None
)
def test_what_can_be_no_package_is_refused(
    tmp_path: Path, inputs: list[object], message: str
) -> None:
    out = tmp_path / "out.pt"
    with LITE.open("rb") as file:
        done = run("export", "--package", *inputs, out, stdin=file)
        file.seek(0)
        assert read_json("export", "--package", *inputs, out, rc=1, stdin=file)["ok"] is False
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tenon: ") and message in done.stderr and not out.exists(), (
        done.stderr
    )


def test_extra_files_are_missed(tmp_path: Path) -> None:
    extra = Path(shutil.copy(NET, tmp_path / "net.pt"))
    with zipfile.ZipFile(extra, "a") as archive:
        archive.writestr(f"{archive.namelist()[0].split('/')[0]}/extra/note", "hello")
    warnings = exported(extra, tmp_path / "out.pt")["warnings"]
    assert warnings == [f"{extra}: 1 extra file is not written, because a package has none"]
