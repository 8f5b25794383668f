"""tenon ls with real holders of names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import NOBODY, Holder, read_json, run

ESCAPE = "\x1b"


def by_name(directory: str, *arguments: object, **options: Any) -> dict[str, dict[str, Any]]:
    return {
        name["name"]: name for name in read_json("ls", directory, *arguments, **options)["names"]
    }


def without_unasked(text: str) -> list[str]:
    """The lines, without the one that counts the processes that could not be asked."""
    return [line for line in text.splitlines() if "could not be asked" not in line]


def test_nothing(directory: str) -> None:
    done = run("ls", directory)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"0 names in {directory}; 0 B of memory\n",
        "",
    )
    assert read_json("ls", directory)["names"] == []


def test_no_directory(directory: str) -> None:
    done = run("ls", f"{directory}/none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tenon: directory {directory}/none: No such file or directory\n"


def test_a_file_its_holders_and_its_end(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("file", 100_000)
    borrower = hold("open", 100_000, where=maker.name)
    found = by_name(directory)
    assert list(found) == [maker.name]
    name = found[maker.name]
    assert (name["kind"], name["state"], name["nbytes"], name["count"]) == (
        "file",
        "live",
        100_000,
        2,
    )
    assert name["allocated_nbytes"] == 25 * 4096
    assert (name["maker_pid"], name["uid"], name["mode"]) == (maker.pid, os.getuid(), "0600")
    assert 0 <= name["age_seconds"] < 120
    assert {holder["pid"] for holder in name["holders"]} == {maker.pid, borrower.pid}
    commands = {holder["pid"]: holder["command"] for holder in name["holders"]}
    assert commands[maker.pid].endswith(f"file {directory} 100000")
    assert commands[borrower.pid].endswith(f"open {maker.name} 100000")

    # The name stays after its maker's end.
    maker.kill()
    name = by_name(directory)[maker.name]
    assert (name["state"], [holder["pid"] for holder in name["holders"]]) == (
        "live",
        [borrower.pid],
    )
    assert name["maker_pid"] == maker.pid

    borrower.kill()
    report = read_json("ls", directory)
    (name,) = report["names"]
    assert (name["state"], name["holders"], report["dead"], report["live"]) == ("dead", [], 1, 0)
    assert "nobody has it open or mapped" in name["why"]
    assert os.path.exists(maker.name)


def test_a_socket(directory: str, hold: Callable[..., Holder]) -> None:
    lender = hold("socket", 4096)
    name = by_name(directory)[lender.name]
    assert (name["kind"], name["state"], name["count"]) == ("socket", "live", None)
    assert [holder["pid"] for holder in name["holders"]] == [lender.pid]
    lender.kill()
    name = by_name(directory)[lender.name]
    assert (name["kind"], name["state"], name["holders"]) == ("socket", "dead", [])


def test_a_message_in_flight(directory: str, hold: Callable[..., Holder]) -> None:
    sender = hold("sent", 4096)
    assert by_name(directory)[sender.name]["state"] == "live"
    sender.end()
    name = by_name(directory)[sender.name]
    assert (name["state"], name["holders"]) == ("in flight", [])
    row = next(
        line for line in run("ls", directory).stdout.splitlines() if line.startswith(sender.name)
    )
    assert "  in flight  " in row and name["why"][:20] in row


def test_a_holder_that_is_no_tenon(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("file", 4096)
    with open(maker.name, "rb"):
        maker.kill()
        name = by_name(directory)[maker.name]
        assert (name["state"], [holder["pid"] for holder in name["holders"]]) == (
            "live",
            [os.getpid()],
        )


def test_text_has_what_json_has(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("file", 3 << 20)
    hold("open", 3 << 20, where=maker.name)
    hold("socket", 4096)
    report = read_json("ls", directory)
    lines = without_unasked(run("ls", directory).stdout)
    titles = ["NAME", "KIND", "SIZE", "MEMORY", "AGE", "COUNT", "STATE", "MAKER", "HELD BY, OR WHY"]
    assert re.split(r"  +", lines[0].strip()) == titles
    # Columns stand under their titles. Some begin where the title begins, and right-aligned ones
    # end where it ends.
    starts = {title: lines[0].index(title) for title in titles}
    for name in report["names"]:
        at = next(i for i, line in enumerate(lines) if line.startswith(name["name"] + " "))
        row = lines[at]
        for title, value in [("KIND", name["kind"]), ("STATE", name["state"])]:
            assert row[starts[title] :].startswith(value), row
        if name["kind"] == "file":
            assert row[: starts["SIZE"] + 4].endswith(" 3 MiB")
            assert row[: starts["COUNT"] + 5].endswith(f" {name['count']}")
            assert row[: starts["MAKER"] + 5].endswith(f" {name['maker_pid']}")
        for i, holder in enumerate(name["holders"]):
            assert lines[at + i][starts["HELD BY, OR WHY"] :].startswith(f"{holder['pid']} ")
    assert lines[-1] == f"2 names in {directory}: 2 live; 3 MiB of memory"


def test_dead_ones_are_marked(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("file", 4096)
    maker.kill()
    text = run("ls", directory, "--color", "always").stdout
    assert f"{ESCAPE}[31mdead{ESCAPE}[0m" in text
    assert f"1 name in {directory}: 1 dead; 8 KiB of memory" in text


def test_what_else_is_in_the_directory(directory: str, hold: Callable[..., Holder]) -> None:
    maker = hold("file", 4096)
    os.symlink("/etc/passwd", f"{directory}/tenon-link")
    os.mkfifo(f"{directory}/tenon-pipe")
    os.mkdir(f"{directory}/tenon-folder")
    with open(f"{directory}/other", "wb") as file:
        file.write(bytes(100))
    begin = time.monotonic()
    assert list(by_name(directory)) == [maker.name]
    assert time.monotonic() - begin < 30
    found = by_name(directory, "--all")
    assert {name: found[name]["kind"] for name in found} == {
        maker.name: "file",
        f"{directory}/tenon-link": "other",
        f"{directory}/tenon-pipe": "other",
        f"{directory}/tenon-folder": "other",
        f"{directory}/other": "other",
    }
    assert found[f"{directory}/other"]["nbytes"] == 100
    assert "1 live, 4 of other programs" in run("ls", directory, "--all").stdout
    assert sorted(os.listdir(directory)) == sorted(
        [os.path.basename(maker.name), "tenon-link", "tenon-pipe", "tenon-folder", "other"]
    )


def test_files_that_only_look_like_pytorchs(directory: str) -> None:
    for leaf, content in [
        ("torch_1_2_3", b"short"),
        ("torch_x", bytes(64)),
        ("torch_", bytes(100)),
        ("tenon-" + "0" * 32, bytes(100)),
    ]:
        with open(f"{directory}/{leaf}", "wb") as file:
            file.write(content)
    report = read_json("ls", directory)
    assert {name["name"].rpartition("/")[2] for name in report["names"]} <= {"torch_x", "torch_"}
    assert run("ls", directory).returncode == 0


def test_control_characters(directory: str, hold: Callable[..., Holder]) -> None:
    leaf = "tenon-\x1b[31mred\r\nnew\tline\x9b\u202e\\"
    maker = hold("file", 4096, name=leaf, argv0="holder\x1b[2J\r")
    text = run("ls", directory).stdout
    # The lines are the titles, the name, and the total.
    assert len(without_unasked(text)) == 3
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert r"tenon-\x1b[31mred\x0d\x0anew\x09line" in text
    assert str(maker.pid) in text
    done = run("ls", directory, "--json")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\U0010ffff]", done.stdout)
    (name,) = json.loads(done.stdout)["names"]
    assert name["name"] == f"{directory}/{leaf}"


def test_bytes_that_are_no_text(directory: str) -> None:
    with open(os.fsencode(directory) + b"/tenon-\xff\xfe", "wb") as file:
        file.write(b"\1\0\0\0TnN1" + bytes(92))
    assert r"tenon-\xff\xfe" in run("ls", directory).stdout
    (name,) = read_json("ls", directory)["names"]
    assert name["name"] == f"{directory}/tenon-\ufffd\ufffd"


def test_another_user(directory: str, hold: Callable[..., Holder]) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    ours = hold("file", 4096)
    theirs = hold("file", 4096, user=NOBODY, group=NOBODY, extra_groups=[])
    report = read_json("ls", directory)
    assert ([name["name"] for name in report["names"]], report["not_shown"]) == ([ours.name], 1)
    assert "1 name of other users not shown (--all)" in run("ls", directory).stdout
    # Root sees everything.
    found = by_name(directory, "--all")
    assert found[theirs.name]["state"] == "live"
    assert [holder["pid"] for holder in found[theirs.name]["holders"]] == [theirs.pid]

    somebody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    report = read_json("ls", directory, "--all", **somebody)
    states = {name["name"]: (name["state"], name["why"]) for name in report["names"]}
    assert states[theirs.name][0] == "live"
    assert states[ours.name][0] == "unsure"
    assert report["unreadable_processes"] > 0
    text = run("ls", directory, "--all", **somebody).stdout
    assert "could not be asked what" in text


def test_default_directory(hold: Callable[..., Holder]) -> None:
    """/dev/shm has names of other processes too, so the test looks only for its own."""
    leaf = f"tenon-cli-test-{os.getpid()}-{time.time_ns()}"
    maker = hold("file", 4096, name=leaf, where="/dev/shm")
    try:
        assert maker.name == "/" + leaf
        names = {name["name"]: name for name in read_json("ls")["names"]}
        assert names["/" + leaf]["state"] == "live"
        maker.end()
        assert not os.path.exists(f"/dev/shm/{leaf}")
    finally:
        subprocess.run(["rm", "-f", f"/dev/shm/{leaf}"], check=True)
