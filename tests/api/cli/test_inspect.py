"""tenon inspect of the golden descriptors, of bad bytes, and of names."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SOURCE, TENON, Holder, read_json, run

GOLDEN = SOURCE / "tests/peers/golden/descriptor"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.bin")), ids=lambda path: path.stem)
def test_golden_descriptors(path: Path) -> None:
    report = read_json("inspect", path)
    version = "1.1" if path.stem == "composites" else "1.0"
    assert (report["kind"], report["version"], report["nbytes"]) == (
        "descriptor",
        version,
        path.stat().st_size,
    )
    assert report["checksum"] == f"{int.from_bytes(path.read_bytes()[40:44], 'little'):08x}"
    text = run("inspect", path)
    assert (text.returncode, text.stderr) == (0, "")
    assert report["checksum"] in text.stdout
    counts = [
        int(number)
        for number in re.findall(
            r"^(\d+) segments?, (\d+) storages?, (\d+) tensors?", text.stdout, re.M
        )[0]
    ]
    assert counts == [len(report[part]) for part in ("segments", "storages", "tensors")]
    with path.open("rb") as file:
        assert run("inspect", "-", stdin=file).stdout == text.stdout


def test_one_tensor() -> None:
    report = read_json("inspect", GOLDEN / "one_tensor.bin")
    assert report["tensors"] == [
        {
            "storage": 0,
            "dtype": "float32",
            "sizes": [2, 3],
            "strides": [3, 1],
            "offset": 0,
            "flags": [],
            "name": "weight",
        }
    ]
    assert report["storages"] == [{"segment": 0, "offset": 64, "nbytes": 24}]
    (segment,) = report["segments"]
    assert (segment["reach"], segment["fd_index"], segment["mode"], segment["access"]) == (
        "fd",
        0,
        "shared",
        "writable",
    )
    assert segment["nbytes"] == 4096
    row = next(
        line
        for line in run("inspect", GOLDEN / "one_tensor.bin").stdout.splitlines()
        if "'weight'" in line
    )
    assert row.split() == ["0", "0", "float32", "[2,", "3]", "[3,", "1]", "0", "-", "'weight'"]


def test_everything() -> None:
    report = read_json("inspect", GOLDEN / "everything.bin")
    assert {segment["reach"] for segment in report["segments"]} == {"fd", "known", "proc"}
    assert {segment["mode"] for segment in report["segments"]} == {
        "shared",
        "lender writes",
        "frozen",
    }
    assert report["tensors"][0]["flags"] == ["requires_grad", "is_parameter"]
    assert max(len(tensor["sizes"]) for tensor in report["tensors"]) == 64
    text = run("inspect", GOLDEN / "everything.bin").stdout
    for tensor in report["tensors"]:
        if tensor["name"] is not None:
            assert f"'{tensor['name']}'" in text
    for segment_id in report["forgotten"]:
        assert f"forgotten: segment id {segment_id}\n" in text
    assert f"user bytes: {report['user']}\n" in text


def test_composites() -> None:
    report = read_json("inspect", GOLDEN / "composites.bin")
    assert report["incompat"] == 1 and len(report["composites"]) == 12
    assert report["composites"][1] == {
        "layout": "sparse_csr",
        "sizes": [2, 3, 4],
        "parts": {"values": 3, "indices": 4, "plain_indices": 5},
        "flags": [],
        "name": "csr",
    }
    row = next(
        line
        for line in run("inspect", GOLDEN / "composites.bin").stdout.splitlines()
        if "'csr'" in line
    )
    assert row.split()[1:] == [
        "sparse_csr",
        "[2,",
        "3,",
        "4]",
        "values",
        "3,",
        "indices",
        "4,",
        "plain",
        "indices",
        "5",
        "-",
        "'csr'",
    ]


def test_on_devices() -> None:
    report = read_json("inspect", GOLDEN / "on_devices.bin")
    on_device = [segment for segment in report["segments"] if segment["reach"] == "device"]
    assert on_device
    text = run("inspect", GOLDEN / "on_devices.bin").stdout
    for segment in on_device:
        assert f"device segment {segment['device_segment']} of its message" in text


def test_bad_bytes() -> None:
    good = (GOLDEN / "one_tensor.bin").read_bytes()
    flipped = bytearray(good)
    flipped[300] ^= 1
    future = bytearray(good)
    future[8] = 2
    for data, code, field in [
        (b"", "CORRUPT", "magic"),
        (good[:100], "CORRUPT", "header"),
        (good[:-8], "CORRUPT", "total_size"),
        (good + bytes(8), "CORRUPT", "total_size"),
        (bytes(flipped), "CORRUPT", "checksum"),
        (b"x" * len(good), "CORRUPT", "magic"),
        (bytes(future), "INCOMPATIBLE", "version"),
    ]:
        rc, out, err = inspect_bytes(data)
        assert (rc, out) == (1, "")
        assert re.fullmatch(rf"tenon: standard input: {code}: .* \(field {field}\)\n", err), err
        rc, out, err = inspect_bytes(data, "--json")
        error = json.loads(out)["error"]
        assert (rc, error["code"], error["details"]["field"]) == (1, code, field)
        assert error["message"] in err


def inspect_bytes(data: bytes, *arguments: str) -> tuple[int, str, str]:
    command = [TENON, "inspect", "-", *arguments]
    done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=100)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_bytes_that_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    done = run("inspect", path)
    assert done.returncode == 1
    assert done.stderr == f"tenon: {path} is longer than a descriptor can be\n"


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        done = run("inspect", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"tenon: {path}: ")
    assert (
        run("inspect", "/tenon-no-such-name").stderr
        == "tenon: /dev/shm/tenon-no-such-name: no such name\n"
    )


def test_a_named_file(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("sent", 5000)
    report = read_json("inspect", maker.name)
    assert (report["name"], report["kind"], report["state"], report["nbytes"]) == (
        maker.name,
        "file",
        "live",
        5000,
    )
    head = report["head"]
    assert (head["count"], head["in_flight"], head["maker_pid"], head["nbytes"]) == (
        2,
        1,
        maker.pid,
        5000,
    )
    assert head["maker_pid_namespace"] == os.stat("/proc/self/ns/pid").st_ino
    assert [holder["pid"] for holder in report["holders"]] == [maker.pid]
    text = run("inspect", maker.name).stdout
    fields = dict(re.findall(r"^([a-z' ]+?) {2,}(.*)$", text, re.M))
    assert (fields["name"], fields["kind"], fields["count"], fields["in flight"]) == (
        maker.name,
        "file",
        "2",
        "1",
    )
    assert fields["state"].startswith("live: ")
    assert fields["maker"].startswith(f"pid {maker.pid} in pid namespace ")
    assert fields["held by"].startswith(f"{maker.pid} ")
    # The path may also be relative.
    assert read_json("inspect", os.path.basename(maker.name), cwd=directory)["name"] == maker.name
    maker.kill()
    assert read_json("inspect", maker.name)["state"] == "dead"


def test_a_name_in_shared_memory(hold: Callable[..., Holder]) -> None:
    leaf = f"tenon-cli-inspect-{os.getpid()}"
    maker = hold("file", 4096, name=leaf, where="/dev/shm")
    try:
        for text in (f"/{leaf}", f"/dev/shm/{leaf}"):
            assert read_json("inspect", text)["name"] == f"/{leaf}"
    finally:
        maker.end()
        if os.path.exists(f"/dev/shm/{leaf}"):
            os.unlink(f"/dev/shm/{leaf}")


def test_a_socket_and_a_file_of_pytorchs_kind(directory: str, hold: Callable[..., Holder]) -> None:
    lender = hold("socket", 4096)
    report = read_json("inspect", lender.name)
    assert (report["kind"], report["state"], report["head"]) == ("socket", "live", None)
    path = f"{directory}/torch_{os.getpid()}_1_0"
    with open(path, "wb") as file:
        file.write(b"\3\0\0\0" + bytes(96))
    report = read_json("inspect", path)
    assert (report["kind"], report["nbytes"], report["head"]) == ("torch", 36, {"count": 3})
    assert report["maker_pid"] == os.getpid()
