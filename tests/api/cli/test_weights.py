"""tenon inspect, verify and export of exported programs (.pt2), ExecuTorch's files (.ptd),
safetensors files and their indices, files of NumPy, and old files of torch.save.

tests/peers/golden/weights_golden.py made the files. Damaged files are copies of them.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE, read_json, run
from safetensors.numpy import save_file

GOLDEN = SOURCE / "tests/peers/golden/weights"
LEGACY = SOURCE / "tests/peers/fuzz/corpus/weights/legacy.pt"
NEWEST = GOLDEN / "torch-2.15.0.pt2"
NESTED = GOLDEN / "torch-2.8.0.pt2"
FIRST = GOLDEN / "torch-2.6.0.pt2"
FLAT = GOLDEN / "executorch-1.5.1.ptd"
FORMS = {
    NEWEST: ("pt2", "0", [], ["model"]),
    NESTED: ("pt2", "0", ["weights", "constants"], ["model"]),
    FIRST: ("pytorch-2.6", "8.2", ["state_dict", "constants"], []),
}
NESTED_NAMES = {NESTED: "data/{}/model.pt", FIRST: "serialized_{}.pt"}
NAMES = ["weight", "tied", "columns", "shift"]


def damaged(path: Path, offset: int, out: Path) -> Path:
    """Copy the file with one byte changed."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    out.write_bytes(data)
    return out


def offset_of(records: list[dict[str, Any]], name: str) -> int:
    return int(next(each for each in records if each["name"] == name)["offset"])


def rewritten(path: Path, out: Path, **changed: bytes | None) -> Path:
    """Copy the archive with other contents of some records. In a keyword two underscores stand for
    a slash. None leaves the record out.
    """
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            content = changed.get(
                info.filename.partition("/")[2].replace("/", "__").replace(".json", ""),
                old.read(info),
            )
            if content is not None:
                new.writestr(info.filename, content)
    return out


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_program_is_shown(path: Path) -> None:
    report = read_json("inspect", path)
    form, version, nested, programs = FORMS[path]
    assert (report["kind"], report["error"], report["warnings"]) == ("exported program", None, [])
    assert (report["form"], report["form_version"], report["programs"]) == (form, version, programs)
    with zipfile.ZipFile(path) as archive:
        sizes = [info.file_size for info in archive.infolist()]
    assert [each["nbytes"] for each in report["records"]] == sizes
    assert [each["record"] for each in report["archives"]] == [
        NESTED_NAMES[path].format(each) for each in nested
    ]
    assert all(
        "data/0" in {record["name"] for record in each["records"]} for each in report["archives"]
    )
    found = [
        (
            each["name"],
            each["dtype"],
            each["sizes"],
            each["nbytes"],
            each["strides"],
            each["storage"],
        )
        for each in report["weights"]
    ]
    assert found == [
        ("weight", "Float", [2, 3], 24, [3, 1], 0),
        ("tied", "Float", [2, 3], 24, [3, 1], 0),
        ("columns", "Float", [2, 2], 16, [1, 2], 1),
        ("shift", "Float", [2], 8, [1], 2),
    ]
    assert [(each["nbytes"], each["tensors"]) for each in report["storages"]] == [
        (24, 2),
        (16, 1),
        (8, 1),
    ]
    text = run("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith(f"{path}: exported program")
    assert f"version {version}\n" in text.stdout
    assert "3 storages, 48 B, 1 of them shared by several weights\n" in text.stdout
    assert text.stdout.count("\nrecords") == 1 + len(nested)


def test_flat_tensors_are_shown() -> None:
    through_a_pipe = ["sh", "-c", 'cat "$0" | "$@"', str(FLAT)]
    report = read_json("inspect", "-", prefix=through_a_pipe)
    assert (report["kind"], report["form"], report["path"], report["error"]) == (
        "flat tensors",
        "ptd",
        "standard input",
        None,
    )
    assert [each["nbytes"] for each in report["records"]] == [24, 6, 12, 8]
    assert {
        each["name"]: (each["dtype"], each["sizes"], each["storage"]) for each in report["weights"]
    } == {
        "linear.weight": ("Float", [2, 3], 0),
        "tied.weight": ("Float", [2, 3], 0),
        "transposed": ("Float", [3, 2], 0),
        "table": ("Short", [3], 1),
        "backend_blob": ("Byte", [12], 2),
        "half": ("BFloat16", [1, 4, 1], 3),
    }
    text = run("inspect", FLAT).stdout
    assert text.startswith(f"{FLAT}: flat tensors, 4 segments, ")
    assert (
        "\nsegments in the file\n" in text
        and "\n4 storages, 50 B, 1 of them shared by several weights\n" in text
    )


def test_good_files() -> None:
    done = run("verify", *FORMS, FLAT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [str(path), "good"] for path in (*FORMS, FLAT)
    ]
    assert lines[0].split(": ")[2].startswith("12 records, 4 weights, ")
    assert lines[-1].split(": ")[2].startswith("4 segments without checksums, 6 weights, ")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_damaged_weights_are_named_and_the_others_are_good(tmp_path: Path, path: Path) -> None:
    report = read_json("inspect", path)
    if report["archives"]:
        archive = report["archives"][0]
        offset = offset_of(report["records"], archive["record"]) + offset_of(
            archive["records"], "data/0"
        )
    else:
        offset = offset_of(report["records"], "data/weights/weight_0")
    broken = damaged(path, offset, tmp_path / "broken.pt2")
    said = read_json("verify", broken, rc=1)
    assert [(each["name"], each["ok"]) for each in said["weights"]] == [
        ("weight", False),
        ("tied", False),
        ("columns", True),
        ("shift", True),
    ]
    # The archive that contains the damaged record gives no second error.
    assert said["records"] == []
    done = run("verify", broken)
    assert (done.returncode, done.stdout) == (1, f"{broken}: good: 2 weights of 4\n")
    errors = done.stderr.splitlines()
    assert len(errors) == 2
    for name, error in zip(NAMES, errors, strict=False):
        assert error.startswith(f'tenon: {broken}: the weight "{name}" is damaged: ')
        assert str(broken) not in error.partition("is damaged: ")[2]


def test_damage_outside_the_weights_is_told(tmp_path: Path) -> None:
    for path, record in (
        (NEWEST, "models/model.json"),
        (FIRST, "serialized_exported_program.json"),
    ):
        broken = damaged(
            path,
            offset_of(read_json("inspect", path)["records"], record) + 5,
            tmp_path / "broken.pt2",
        )
        said = read_json("verify", broken, rc=1)
        assert all(each["ok"] for each in said["weights"])
        assert len(said["records"]) == 1 and f"record {record} " in said["records"][0]["message"]
        assert said["error"] == said["records"][0]


def test_a_damaged_list_leaves_the_records(tmp_path: Path) -> None:
    name = "data/weights/model_weights_config.json"
    broken = damaged(
        NEWEST,
        offset_of(read_json("inspect", NEWEST)["records"], name) + 5,
        tmp_path / "broken.pt2",
    )
    said = read_json("verify", broken, rc=1)
    assert (said["weights"], said["records"]) == ([], [])
    assert said["error"]["code"] == "CORRUPT" and said["error"]["message"].startswith(
        f"{broken}: record {name} "
    )
    done = run("inspect", broken)
    assert (
        done.returncode == 1
        and "\nrecords\n" in done.stdout
        and done.stderr.startswith(f"tenon: {broken}: record {name} ")
    )


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    for path in (*FORMS, FLAT):
        short = tmp_path / f"short{path.suffix}"
        short.write_bytes(path.read_bytes()[:-1000])
        for command in ("inspect", "verify"):
            done = run(command, short)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"tenon: {short}") and (
                path != FLAT or "Copy or download the file again" in done.stderr
            )


def test_weights_that_cannot_be_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(NEWEST) as archive:
        lists = json.loads(archive.read(f"{NEWEST.stem}/data/weights/model_weights_config.json"))
    lists["config"]["columns"]["tensor_meta"]["layout"] = 1
    changed = json.dumps(lists).encode()
    path = rewritten(NEWEST, tmp_path / "sparse.pt2", data__weights__model_weights_config=changed)
    why = f'{path}: the weight "columns" cannot be read: its layout is not strided'
    report = read_json("inspect", path, rc=1)
    wrong = {each["name"]: each["error"] for each in report["weights"] if each["error"] is not None}
    assert {name: (error["code"], error["message"]) for name, error in wrong.items()} == {
        "columns": ("UNSUPPORTED", why)
    }
    assert report["weights"][2]["dtype"] is None
    for command, told in (
        ("inspect", "\ncolumns  cannot be read"),
        ("verify", f"{path}: good: 3 weights of 4\n"),
    ):
        done = run(command, path)
        assert (done.returncode, done.stderr) == (1, f"tenon: {why}\n")
        assert told in done.stdout


def test_several_programs(tmp_path: Path) -> None:
    path = tmp_path / "two.pt2"
    shutil.copy(NEWEST, path)
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("models/{}.json", "data/weights/{}_weights_config.json"):
            archive.writestr(
                f"{NEWEST.stem}/{name.format('other')}",
                archive.read(f"{NEWEST.stem}/{name.format('model')}"),
            )
    report = read_json("inspect", path)
    assert report["programs"] == ["model", "other"]
    assert {each["name"] for each in report["weights"]} == {f"model/{name}" for name in NAMES} | {
        f"other/{name}" for name in NAMES[:3]
    }
    assert [each["tensors"] for each in report["storages"]] == [4, 2, 1]
    assert "\nprograms: model, other\n" in run("inspect", path).stdout


def test_an_archive_without_weights_shows_its_records(tmp_path: Path) -> None:
    path = tmp_path / "compiled.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (
            ("archive_format", "pt2"),
            ("archive_version", "0"),
            ("data/aotinductor/model/x.so", "binary"),
        ):
            archive.writestr(f"compiled/{name}", content)
    done = run("inspect", path)
    assert done.returncode == 1 and "data/aotinductor/model/x.so" in done.stdout
    assert f"{path}: has no exported program, and so no weights that Tenon reads" in done.stderr


@pytest.mark.parametrize(
    "option", [["--code"], ["--ops"], ["--module", "net"]], ids=lambda option: option[0]
)
def test_options_for_modules_are_refused(option: list[str]) -> None:
    for path, what in ((NEWEST, "an exported program"), (FLAT, "a file of ExecuTorch's weights")):
        done = run("inspect", *option, path)
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            f"{path} is {what} and no module, which {option[0]} is for. Leave out {option[0]}\n"
            in done.stderr
        )


def test_export_says_what_can_be_done(tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    for path, remedy in (
        (NEWEST, "tenon_weights_rewrite"),
        (FIRST, "tenon_weights_rewrite"),
        (FLAT, "tenon_open_weights"),
    ):
        for options in ([], ["--package"], ["--module", "net"]):
            done = run("export", *options, path, out)
            assert (done.returncode, done.stdout) == (1, "")
            assert (
                done.stderr.startswith(f"tenon: {path} is ")
                and remedy in done.stderr
                and "tenon.open_weights in Python" in done.stderr
            )
    assert not out.exists()


def test_safetensors_are_shown_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"b": np.zeros(3, np.uint8), "a": np.ones((2, 2), np.float32)}, path)
    report = read_json("inspect", path)
    assert (report["kind"], report["form"], report["error"]) == ("safetensors", "safetensors", None)
    assert [(each["name"], each["dtype"], each["sizes"]) for each in report["weights"]] == [
        ("a", "Float", [2, 2]),
        ("b", "Byte", [3]),
    ]
    done = run("verify", path)
    assert done.returncode == 0
    assert ": good: 2 tensors without checksums, 2 weights, " in done.stdout
    path.write_bytes(path.read_bytes()[:-1])
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert done.returncode == 1 and "cut short" in done.stderr
    done = run("export", path, tmp_path / "out.pt")
    assert done.returncode == 1 and "a safetensors file and has no module" in done.stderr


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    return {"layer/a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.uint8)}


def test_an_array_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(6, dtype=">i4").reshape(2, 3).T)
    report = read_json("inspect", path)
    assert (report["kind"], report["form"], report["error"]) == ("array of NumPy", "npy", None)
    [weight] = report["weights"]
    assert (weight["name"], weight["dtype"], weight["sizes"], weight["strides"]) == (
        "",
        "Int",
        [3, 2],
        [1, 3],
    )
    assert ": good: 1 array without checksums, 1 weight, 152 B\n" in run("verify", path).stdout
    path.write_bytes(path.read_bytes()[:-1])
    assert_refused(path, "24 bytes")
    path.write_bytes(path.read_bytes()[:20])
    assert_refused(path, "header")


def assert_refused(path: Path, *words: str) -> None:
    for command in ("inspect", "verify"):
        done = run(command, path)
        assert done.returncode == 1 and done.stderr.startswith(f"tenon: {path}: "), done.stderr
        for word in words:
            assert word in done.stderr


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "a.npz"
    save(path, **arrays())
    report = read_json("inspect", path)
    assert (report["kind"], report["form"], report["name"]) == ("arrays of NumPy", "npz", "")
    assert [each["name"] for each in report["records"]] == ["layer/a.npy", "b.npy"]
    assert [(each["name"], each["dtype"], each["sizes"]) for each in report["weights"]] == [
        ("layer/a", "Float", [2, 3]),
        ("b", "Byte", [3]),
    ]
    assert ": good: 2 records, 2 weights, " in run("verify", path).stdout
    with zipfile.ZipFile(path) as archive:
        stored_nbytes = archive.getinfo("b.npy").compress_size
    # An element of a stored record. The last bits of a compressed record mean nothing.
    at = offset_of(report["records"], "b.npy") + stored_nbytes - (1 if save is np.savez else 4)
    broken = damaged(path, at, tmp_path / "broken.npz")
    said = read_json("verify", broken, rc=1)
    assert said["error"]["code"] == "CORRUPT" and "record b.npy" in said["error"]["message"]
    if save is np.savez:  # the other arrays of a compressed archive are not read any more
        assert [(each["name"], each["ok"]) for each in said["weights"]] == [
            ("layer/a", True),
            ("b", False),
        ]
        assert f'{broken}: the weight "b" is damaged: ' in run("verify", broken).stderr


def test_an_old_file_of_torch_save(tmp_path: Path) -> None:
    report = read_json("inspect", LEGACY)
    assert (report["kind"], report["form"]) == ("old file of torch.save", "legacy")
    assert report["weights"] and report["storages"]
    assert len(report["records"]) >= len(report["storages"])
    assert "without checksums" in run("verify", LEGACY).stdout
    path = tmp_path / "short.pt"
    path.write_bytes(LEGACY.read_bytes()[:-1])
    assert_refused(path, "the storage '", "cut short")
    done = run("export", LEGACY, tmp_path / "out.pt")
    assert "a file of torch.save before PyTorch 1.6 and has no module" in done.stderr


def test_an_index_of_shards(tmp_path: Path) -> None:
    for name, array in zip("ab", arrays().values(), strict=True):
        save_file({name: array}, tmp_path / f"{name}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}))
    report = read_json("inspect", index)
    assert (report["kind"], report["form"]) == ("index of shards", "shards")
    assert report["nbytes"] == sum(
        (tmp_path / f"{name}.safetensors").stat().st_size for name in "ab"
    )
    assert [each["record"] for each in report["archives"]] == ["a.safetensors", "b.safetensors"]
    assert [(each["name"], each["storage"]) for each in report["weights"]] == [("a", 0), ("b", 1)]
    assert ": good: 2 shards without checksums, 2 weights, " in run("verify", index).stdout
    assert "\nthe shard b.safetensors\n" in run("inspect", index).stdout
    done = run("verify", "-", input=index.read_text())
    assert done.returncode == 1 and "Give the path of the index" in done.stderr
    for option in ("--code", "--ops"):
        assert "an index of shards and no module" in run("inspect", option, index).stderr
    shard = tmp_path / "b.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    assert_refused(index, "the shard b.safetensors: ", "cut short")
    save_file({"c": arrays()["b"]}, shard)
    assert_refused(index, 'the weight "b"', '"b.safetensors"')
    shard.unlink()
    assert_refused(index, "b.safetensors", "No such file")
    index.write_text('{"a": 1}')
    assert_refused(index, "weight_map")


def test_damage_in_a_shard_with_checksums(tmp_path: Path) -> None:
    index = tmp_path / "model.index.json"
    state = SOURCE / "tests/peers/golden/checkpoint/2.15.0/state_dict.pt"
    names = [each["path"] for each in read_json("inspect", state)["tensors"]]
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "state.pt")}))
    shutil.copy(state, tmp_path / "state.pt")
    assert ": good: 1 shard, 7 weights, " in run("verify", index).stdout
    offset = offset_of(read_json("inspect", state)["records"], "data/0")
    damaged(state, offset, tmp_path / "state.pt")
    said = read_json("verify", index, rc=1)
    assert [each["name"] for each in said["weights"] if not each["ok"]] == names[:1]
    assert "record data/0" in said["error"]["message"]
