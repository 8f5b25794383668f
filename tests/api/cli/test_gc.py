"""tenon gc removes only dead names, and only on request."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import NOBODY, Holder, PrivateShm, read_json, read_line, run, wait_until_stopped


def leave_dead(hold: Callable[..., Holder], *kinds: str) -> list[str]:
    """Make names of killed processes. All are stopped first, so none removes another's name."""
    holders = [hold(kind, 10_000) for kind in kinds]
    for holder in holders:
        holder.stop()
    for holder in holders:
        holder.kill()
    return [holder.name for holder in holders]


def names_of(report: dict[str, Any]) -> set[str]:
    return {name["name"] for name in report["names"]}


def test_nothing_to_do(directory: str) -> None:
    for arguments in [(), ("--yes",), ("--torch", "--yes", "--min-age", "0")]:
        done = run("gc", directory, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert "remove" in done.stdout and " 0 names" in done.stdout


def test_no_directory(directory: str) -> None:
    done = run("gc", f"{directory}/none", "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"tenon: directory {directory}/none: ")


def test_dry_run_and_removal(directory: str, hold: Callable[..., Holder]) -> None:
    alive = [hold("file", 10_000), hold("socket", 10_000)]
    for holder in alive:
        holder.stop()  # or they would remove the dead names themselves
    dead = leave_dead(hold, "file", "file", "socket")
    before = sorted(os.listdir(directory))

    report = read_json("gc", directory)
    assert report["dry_run"] is True
    assert names_of(report) == set(dead)
    assert report["allocated_nbytes"] == 2 * 3 * 4096
    assert report["kept"] == 2
    assert not any(name["removed"] for name in report["names"])
    text = run("gc", directory).stdout
    assert sorted(os.listdir(directory)) == before
    for name in report["names"]:
        (row,) = [line for line in text.splitlines() if line.startswith(name["name"])]
        assert "  remove  " in row and row.endswith(name["why"])
    assert (
        "would remove 3 names, 24 KiB; 2 held or in flight" in text
        and "(dry run: --yes removes)" in text
    )
    assert {name["why"] for name in report["names"]} == {
        "nobody has it open or mapped (the kernel gave a lock and a write lease)",
        "nobody listens on it (connecting is refused)",
    }

    done = run("gc", directory, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "removed 3 names, 24 KiB; 2 held or in flight" in done.stdout
    names = [
        name for name in os.listdir(directory) if not name.startswith(".tenon-bell-")
    ]  # a living lender's bell
    assert sorted(names) == sorted(os.path.basename(holder.name) for holder in alive)
    report = read_json("gc", directory, "--yes")
    assert (report["names"], report["kept"], report["dry_run"]) == ([], 2, False)


def test_removal_in_json(directory: str, hold: Callable[..., Holder]) -> None:
    dead = leave_dead(hold, "file", "socket")
    report = read_json("gc", directory, "--yes")
    assert names_of(report) == set(dead)
    assert all(name["removed"] for name in report["names"])
    assert (report["allocated_nbytes"], report["not_removed"]) == (3 * 4096, 0)
    assert os.listdir(directory) == []


def test_a_message_in_flight_stays(directory: str, hold: Callable[..., Holder]) -> None:
    sender = hold("sent", 4096)
    sender.end()
    report = read_json("gc", directory, "--yes")
    assert (report["names"], report["kept"]) == ([], 1)
    assert os.path.exists(sender.name)


def test_whoever_has_it_open_or_mapped_keeps_it(
    directory: str, hold: Callable[..., Holder]
) -> None:
    (name,) = leave_dead(hold, "file")
    with open(name, "rb"):
        assert read_json("gc", directory, "--yes")["names"] == []
    assert names_of(read_json("gc", directory, "--yes")) == {name}


def test_what_is_not_ours_stays(directory: str, tmp_path: Any) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(100))
    os.symlink(precious, f"{directory}/tenon-link")
    os.symlink(precious, f"{directory}/torch_1_2_3")
    os.symlink("nowhere", f"{directory}/torch_1_2_4")
    os.mkfifo(f"{directory}/tenon-pipe")
    os.mkfifo(f"{directory}/torch_1_2_5")
    os.mkdir(f"{directory}/torch_1_2_6")
    os.mkdir(f"{directory}/tenon-folder")
    for leaf, content in [
        ("tenon-" + "0" * 32, bytes(100)),
        ("torch_1_2_7", b"short"),
        ("other", b""),
    ]:
        with open(f"{directory}/{leaf}", "wb") as file:
            file.write(content)
    # No process listens on this socket, but it lacks Tenon's mark.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bound:
        bound.bind(f"{directory}/tenon-socket")
    before = sorted(os.listdir(directory))
    done = run("gc", directory, "--yes", "--torch", "--min-age", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(directory)) == before
    assert precious.read_bytes() == bytes(100)


def test_what_cannot_be_removed(directory: str, hold: Callable[..., Holder]) -> None:
    somebody: dict[str, Any] = (
        {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    )
    holders = [hold("file", 4096, **somebody) for _ in range(2)]
    for holder in holders:
        holder.stop()
    for holder in holders:
        holder.kill()
    os.chmod(directory, 0o555)
    try:
        done = run("gc", directory, "--yes", **somebody)
        assert done.returncode == 1
        assert done.stderr == f"tenon: 2 names in {directory} could not be removed\n"
        assert (
            "  failed  " in done.stdout
            and "Permission denied" in done.stdout
            and "removed 0 names, 0 B" in done.stdout
        )
        done = run("gc", directory, "--yes", "--json", **somebody)
        assert done.returncode == 1 and '"not_removed": 2' in done.stdout
        # There was nothing to remove, so nothing could fail.
        assert run("gc", directory, **somebody).returncode == 0
    finally:
        os.chmod(directory, 0o1777)
    assert all(os.path.exists(holder.name) for holder in holders)


def test_another_users_names_stay(directory: str, hold: Callable[..., Holder]) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    theirs = hold("file", 4096, user=NOBODY, group=NOBODY, extra_groups=[])
    theirs.stop()
    theirs.kill()
    report = read_json("gc", directory, "--yes", "--torch")
    assert (report["names"], report["unsure"]) == ([], 1)
    assert os.path.exists(theirs.name)
    # For the file's own user the name is dead.
    assert names_of(
        read_json("gc", directory, "--yes", user=NOBODY, group=NOBODY, extra_groups=[])
    ) == {theirs.name}


def ended_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait(60)
    return child.pid


def test_dead_files_of_pytorch_are_a_matter_of_wish_and_age(directory: str) -> None:
    old = f"{directory}/torch_{ended_pid()}_1_0"
    young = f"{directory}/torch_{ended_pid()}_1_1"
    ours = f"{directory}/torch_{os.getpid()}_1_0"  # the process that made it lives
    for path in (old, young, ours):
        with open(path, "wb") as file:
            file.write(b"\1\0\0\0" + bytes(96))
    os.utime(old, (1, 1))  # this does not change the ctime, which is the file's age
    report = read_json("gc", directory, "--yes")
    assert (report["names"], report["torch_left"], report["kept"]) == ([], 0, 3)
    report = read_json("gc", directory, "--yes", "--min-age", "0")
    assert (report["names"], report["torch_left"], report["kept"]) == ([], 2, 1)
    assert (
        "2 dead files of PyTorch left alone (--torch)"
        in run("gc", directory, "--min-age", "0").stdout
    )
    report = read_json("gc", directory, "--yes", "--torch", "--min-age", "3600")
    assert report["names"] == []
    report = read_json("gc", directory, "--yes", "--torch", "--min-age", "0")
    assert names_of(report) == {old, young}
    assert all(
        f"its maker, pid {name['maker_pid']}, is gone" in name["why"] for name in report["names"]
    )
    assert os.listdir(directory) == [os.path.basename(ours)]


TORCH = """
import sys, torch
storage = torch.arange(1000).storage()
storage = getattr(storage, "_untyped_storage", None) or storage.untyped()
manager, name, nbytes = storage._share_filename_cpu_()
print(name.decode(), flush=True)
theirs = sys.stdin.readline().strip()
opened = torch.UntypedStorage._new_shared_filename_cpu(manager, theirs.encode(), 4096)
opened[0] = 7
print("opened", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["TENON_TORCH_DEBIAN", "TENON_TORCH_NEWEST"])
def torch_python(request: pytest.FixtureRequest) -> Iterator[str]:
    python = os.environ.get(request.param) or (
        "/usr/bin/python3" if request.param == "TENON_TORCH_DEBIAN" else None
    )
    if python is None:
        pytest.skip(f"{request.param} is not set: no such PyTorch here")
    try:
        done = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    except OSError:
        pytest.skip(f"uid {os.getuid()} cannot run {python}")
    if done.returncode != 0:
        pytest.skip(f"{python} has no torch")
    yield python


def test_a_holder_of_pytorch_survives(
    torch_python: str, private_shm: Callable[..., PrivateShm]
) -> None:
    """PyTorch looks only in /dev/shm, and --torch on the real one would endanger other tests. So
    the test has a private /dev/shm.
    """
    space = private_shm()
    maker = Holder("file", "/dev/shm", 4096, prefix=tuple(space.enter))
    peer = subprocess.Popen(
        [*space.enter, torch_python, "-B", "-c", TORCH],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        theirs = read_line(peer)
        assert theirs.startswith("/torch_")
        assert peer.stdin is not None and peer.stdout is not None
        peer.stdin.write(maker.name.encode() + b"\n")
        peer.stdin.flush()
        assert read_line(peer) == "opened"
        # Tenon's own process is gone. Only PyTorch, which takes no locks, holds both names.
        maker.kill()
        everything = ("gc", "--yes", "--torch", "--min-age", "0")
        for _ in range(3):
            report = read_json(*everything, prefix=space.enter)
            assert (report["names"], report["kept"]) == ([], 2)
        states = {name["name"]: name for name in read_json("ls", prefix=space.enter)["names"]}
        assert {name: states[name]["state"] for name in states} == {
            maker.name: "live",
            theirs: "live",
        }
        assert states[theirs]["kind"] == "torch" and states[theirs]["nbytes"] == 8000
        for name in states.values():
            assert [holder["pid"] for holder in name["holders"]] == [peer.pid]

        # PyTorch's manager would remove its file two seconds later, so the test stops the manager.
        stopped = stop_managers(space)
        peer.kill()
        peer.wait(60)
        # On a busy machine the kernel may count the files of an ended process as held for a moment
        # longer.
        deadline = time.monotonic() + 10
        report = read_json("gc", "--min-age", "0", prefix=space.enter)
        while names_of(report) != {maker.name} and time.monotonic() < deadline:
            time.sleep(0.05)
            report = read_json("gc", "--min-age", "0", prefix=space.enter)
        assert (names_of(report), report["torch_left"]) == ({maker.name}, 1)
        report = read_json(*everything, prefix=space.enter)
        assert names_of(report) == {maker.name, theirs}
        assert all(name["removed"] for name in report["names"])
        assert read_json("ls", prefix=space.enter)["names"] == []
        for pid in stopped:
            os.kill(pid, 9)
    finally:
        maker.close()
        peer.kill()
        peer.wait(60)
        for stream in (peer.stdin, peer.stdout):
            if stream is not None:
                stream.close()


def stop_managers(space: PrivateShm) -> list[int]:
    """Stop PyTorch's managers in this mount namespace, and return their pids."""
    ours = os.stat(f"/proc/{space.process.pid}/ns/mnt").st_ino
    stopped = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}/ns/mnt").st_ino == ours:
                with open(f"/proc/{entry}/comm") as file:
                    if file.read().startswith("torch_shm_manag"):
                        os.kill(int(entry), 19)
                        stopped.append(int(entry))
        except OSError:
            continue
    for pid in stopped:
        wait_until_stopped(pid)
    return stopped
