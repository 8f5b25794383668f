"""tenon ls and tenon top show arenas and leases of real lenders and borrowers.

Other tests of this machine may lend at the same time, so each test looks only at its own processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from conftest import (
    BOARD_NBYTES,
    NOBODY,
    TENON,
    FakeBoard,
    board_bytes,
    read_json,
    read_line,
    run,
    samples_of,
    wait_until,
    wait_until_stopped,
)

LENDER = os.environ["TENON_CLI_LENDER"]
MIB = 1 << 20
CAPACITY = 64 * MIB


class Lender:
    """A process with an arena of CAPACITY that lends to one borrower for each count."""

    def __init__(
        self, nbytes: int, *counts: int, capacity: object = CAPACITY, **options: Any
    ) -> None:
        command = [LENDER, str(capacity), str(nbytes), *map(str, counts)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )
        self.pid = self.process.pid
        self.borrowers = [int(word) for word in read_line(self.process).split()]

    def ask(self, what: str) -> int:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), what.encode())
        return int(read_line(self.process))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def lend() -> Iterator[Callable[..., Lender]]:
    lenders: list[Lender] = []

    def start(*arguments: int, **options: Any) -> Lender:
        lenders.append(Lender(*arguments, **options))
        return lenders[-1]

    yield start
    for lender in lenders:
        lender.close()


def arenas_of(pid: int, **options: Any) -> list[dict[str, Any]]:
    return [
        arena for arena in read_json("ls", "--arenas", **options)["arenas"] if arena["pid"] == pid
    ]


def leases_of(pid: int, **options: Any) -> dict[int | None, dict[str, Any]]:
    return {
        each["borrower_pid"]: each
        for each in read_json("ls", "--leases", **options)["leases"]
        if each["lender_pid"] == pid
    }


def wait_for_borrowers(lender: Lender) -> None:
    """Wait until tenon ls knows the borrowers. A borrower says who it is when it gets the first
    message, and the lender's thread must read that.
    """
    wait_until(
        lambda: set(leases_of(lender.pid)) == set(lender.borrowers), "the borrowers are not known"
    )


def test_a_lender_and_two_borrowers(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 3, 5)
    wait_for_borrowers(lender)
    (arena,) = arenas_of(lender.pid)
    assert (arena["mode"], arena["capacity_nbytes"], arena["uid"]) == (
        "lender_writes",
        CAPACITY,
        os.getuid(),
    )
    assert arena["command"].endswith(f"{CAPACITY} {MIB} 3 5")
    assert (arena["live_nbytes"], arena["lent_nbytes"], arena["peak_nbytes"]) == (
        8 * MIB,
        8 * MIB,
        8 * MIB,
    )
    assert (
        arena["blocks_live"],
        arena["blocks_lent"],
        arena["blocks_made"],
        arena["made_nbytes"],
    ) == (8, 8, 8, 8 * MIB)
    assert (arena["retired_nbytes"], arena["blocks_retired"]) == (0, 0)
    assert (
        arena["reserved_nbytes"] >= 8 * MIB
        and arena["free_nbytes"] == arena["reserved_nbytes"] - 8 * MIB
    )
    assert 0 <= arena["age_seconds"] < 120 and arena["inode"] != 0

    leases = leases_of(lender.pid)
    for borrower, count in zip(lender.borrowers, (3, 5), strict=True):
        lease = leases[borrower]
        assert (lease["leases"], lease["nbytes"]) == (count, count * MIB)
        assert (lease["granted"], lease["granted_nbytes"]) == (count, count * MIB)
        assert (lease["borrower_uid"], lease["carrier"]) == (os.getuid(), "connection")
        assert (
            " borrow " in lease["borrower_command"] and lease["lender_command"] == arena["command"]
        )
        assert 0 <= lease["age_seconds"] < 120

    # The lender's own storages are released. The lent blocks stay.
    lender.ask("r")
    (arena,) = arenas_of(lender.pid)
    assert (
        arena["live_nbytes"],
        arena["blocks_live"],
        arena["lent_nbytes"],
        arena["blocks_lent"],
    ) == (0, 0, 8 * MIB, 8)
    assert arena["free_nbytes"] == arena["reserved_nbytes"] - 8 * MIB


def test_default_homes(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 3, capacity="home")
    wait_for_borrowers(lender)
    (home,) = arenas_of(lender.pid)
    assert (home["arena"], home["inode"], home["mode"], home["capacity_nbytes"]) == (
        None,
        None,
        "shared",
        64 * MIB,
    )
    assert (home["live_nbytes"], home["lent_nbytes"], home["blocks_made"]) == (3 * MIB, 3 * MIB, 3)
    lender.ask("r")
    (home,) = arenas_of(lender.pid)
    assert (home["live_nbytes"], home["lent_nbytes"]) == (0, 3 * MIB)
    os.kill(lender.borrowers[0], signal.SIGKILL)
    # A process without an arena and without a lender's ledger has no board.
    wait_until(lambda: leases_of(lender.pid) == {}, "the dead borrower stays")


def test_a_stopped_lender_is_seen_as_well(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 2)
    wait_for_borrowers(lender)
    lender.process.send_signal(signal.SIGSTOP)
    wait_until_stopped(lender.pid)
    assert arenas_of(lender.pid)[0]["lent_nbytes"] == 2 * MIB
    assert leases_of(lender.pid)[lender.borrowers[0]]["leases"] == 2


def test_the_dead_disappear(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 3, 5)
    wait_for_borrowers(lender)
    os.kill(lender.borrowers[1], signal.SIGKILL)
    wait_until(
        lambda: set(leases_of(lender.pid)) == {lender.borrowers[0]}, "the dead borrower stays"
    )
    assert arenas_of(lender.pid)[0]["lent_nbytes"] == 3 * MIB
    lender.kill()
    assert (arenas_of(lender.pid), leases_of(lender.pid)) == ([], {})


def test_a_forked_child_has_no_board_of_its_parents(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 1)
    wait_for_borrowers(lender)
    child = lender.ask("f")
    assert (arenas_of(child), leases_of(child)) == ([], {})
    assert arenas_of(lender.pid)[0]["lent_nbytes"] == MIB


def test_a_descriptor_that_nobody_opened(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB)
    assert leases_of(lender.pid) == {}
    lender.ask("d")
    ((borrower, lease),) = leases_of(lender.pid).items()
    assert (borrower, lease["carrier"], lease["borrower_uid"], lease["borrower_command"]) == (
        None,
        "descriptor",
        None,
        None,
    )
    assert (lease["leases"], lease["nbytes"]) == (1, MIB)
    assert "a descriptor" in run("ls", "--leases").stdout


def test_text(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 3)
    wait_for_borrowers(lender)
    lines = run("ls", "--arenas").stdout.splitlines()
    titles = [
        "PID",
        "ARENA",
        "MODE",
        "CAPACITY",
        "RESERVED",
        "LIVE",
        "LENT",
        "FREE",
        "RETIRED",
        "PEAK",
        "AGE",
        "COMMAND",
    ]
    assert lines[0].split() == titles
    (row,) = [line for line in lines if re.match(rf" *{lender.pid} ", line)]
    assert re.search(
        r" lender_writes +64 MiB +[0-9.]+ MiB +3 MiB +3 MiB +[0-9.]+ (?:KiB|MiB|B) +0 B +3 MiB"
        r" +[0-9]+ s ",
        row,
    )
    lines = run("ls", "--leases").stdout.splitlines()
    assert re.split(r"  +", lines[0].strip()) == [
        "LENDER",
        "BORROWER",
        "LEASES",
        "BYTES",
        "GRANTED",
        "AGE",
        "BORROWER'S COMMAND",
    ]
    (row,) = [line for line in lines if re.match(rf" *{lender.pid} ", line)]
    assert re.search(rf" {lender.borrowers[0]} +3 +3 MiB +3 +[0-9]+ s +\S", row)


def test_what_is_listed(lend: Callable[..., Lender], directory: str) -> None:
    lend(MIB, 1)
    parts = {"names", "arenas", "leases", "queues"}
    assert parts <= set(read_json("ls"))
    for part in parts:
        assert parts & set(read_json("ls", f"--{part}")) == {part}
    assert parts & set(read_json("ls", directory)) == {"names"}
    assert "names" in read_json("ls", "--names", "--leases", directory)


def test_prometheus(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 3, 5)
    wait_for_borrowers(lender)
    done = run("ls", "--prometheus")
    assert (done.returncode, done.stderr) == (0, "")
    samples = samples_of(done.stdout)

    def ours(metric: str, *words: str) -> list[float]:
        found = {
            labels: value
            for labels, value in samples[metric].items()
            if f'pid="{lender.pid}"' in labels.split(",")
        }
        return [value for labels, value in found.items() if set(words) <= set(labels.split(","))]

    assert ours("tenon_arena_bytes", 'kind="live"', 'mode="lender_writes"') == [8 * MIB]
    assert ours("tenon_arena_bytes", 'kind="lent"') == [8 * MIB]
    assert ours("tenon_arena_bytes", 'kind="capacity"') == [CAPACITY]
    assert ours("tenon_arena_blocks", 'kind="live"') == [8]
    assert ours("tenon_arena_made_blocks_total") == [8]
    assert ours("tenon_leases", f'borrower="{lender.borrowers[1]}"') == [5]
    assert ours("tenon_lease_bytes", f'borrower="{lender.borrowers[0]}"') == [3 * MIB]
    assert sum(ours("tenon_lease_granted_bytes_total")) == 8 * MIB
    assert len(ours("tenon_process_info")) == 1


HOSTILE: dict[str, dict[str, Any]] = {
    "random": {"content": random.Random(1).randbytes(BOARD_NBYTES)},
    "empty": {"content": b"", "nbytes": 0},
    "short": {"content": b"TENONBRD", "nbytes": 127},
    "not sealed": {"content": board_bytes(bytes(128)), "seal": False},
    "version": {"content": board_bytes(bytes(128), version=2)},
    "features": {"content": board_bytes(bytes(128), incompat=1 << 63)},
    "rows": {"content": board_bytes(bytes(128), rows=0xFFFFFFFF)},
    "used": {"content": board_bytes(bytes(128), used=(1 << 64) - 1)},
    "row size": {"content": board_bytes(bytes(128), row=64)},
    "cut": {"content": board_bytes(bytes(128)), "nbytes": BOARD_NBYTES - 128},
    "a name that is none": {"content": b"x" * 128, "name": "tenon-board-\x1b[31m\nred"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_board_is_refused_in_one_line(kind: str) -> None:
    with FakeBoard(**HOSTILE[kind]) as fd:
        done = run("ls", "--leases")
        assert done.returncode == 0
        start = f"tenon: fd {fd} of process {os.getpid()}: "
        (line,) = [line for line in done.stderr.splitlines() if line.startswith(start)]
        assert line.isprintable() and len(line) < 200
        report = read_json("ls", "--arenas")
        (line,) = [
            line for line in report["refused"] if line.startswith(start.removeprefix("tenon: "))
        ]
        assert [arena for arena in report["arenas"] if arena["pid"] == os.getpid()] == []


def test_many_fds_with_the_name_of_a_board_are_not_all_read() -> None:
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(FakeBoard(b"x" * 128))
        refused = [
            line
            for line in read_json("ls", "--arenas")["refused"]
            if f"process {os.getpid()}" in line
        ]
        assert len(refused) == 33
        assert "more than 32 fds" in refused[-1]


def test_figures_that_cannot_be(lend: Callable[..., Lender]) -> None:
    most = (1 << 64) - 1
    rows = struct.pack("<16Q", 1 << 16 | 1, *[most] * 15) + struct.pack(
        "<16Q", 2 << 16 | 3, *[most] * 15
    )
    rows += struct.pack("<16Q", 3 << 16 | 77, *[most] * 15) + struct.pack(
        "<16Q", 4 << 16 | 9 << 8 | 1, *[most] * 15
    )
    with FakeBoard(board_bytes(rows)):
        (arena,) = arenas_of(os.getpid())
        assert (arena["lent_nbytes"], arena["free_nbytes"]) == (most, 0)
        assert [lease["leases"] for lease in leases_of(os.getpid()).values()] == [most]
        samples_of(run("ls", "--prometheus").stdout)
        assert run("top", "--once", "--interval", "0.1").returncode == 0
        assert run("ls", "--arenas").returncode == 0


def file_of(pid: int, fd: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except FileNotFoundError:
        return ""  # closed since it was listed


def test_a_copy_of_somebody_elses_board(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 1)
    name = next(
        fd
        for fd in os.listdir(f"/proc/{lender.pid}/fd")
        if "tenon-board-" in file_of(lender.pid, fd)
    )
    with open(f"/proc/{lender.pid}/fd/{name}", "rb") as copy:
        assert copy.read(8) == b"TENONBRD"
        report = read_json("ls", "--arenas")
        assert [arena for arena in report["arenas"] if arena["pid"] == os.getpid()] == []
        assert not [line for line in report["refused"] if f"process {os.getpid()}:" in line]
    # Only the lender can write the board, even if another process opens the fd through /proc.
    with (
        pytest.raises(PermissionError),
        open(f"/proc/{lender.pid}/fd/{name}", "r+b", buffering=0) as writable,
    ):
        writable.write(b"x")


def test_another_user(lend: Callable[..., Lender]) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    somebody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    ours = lend(MIB, 1)
    theirs = lend(MIB, 1, **somebody)
    assert arenas_of(theirs.pid)[0]["uid"] == NOBODY
    assert arenas_of(theirs.pid, **somebody)[0]["lent_nbytes"] == MIB
    assert (arenas_of(ours.pid, **somebody), leases_of(ours.pid, **somebody)) == ([], {})
    assert read_json("ls", "--leases", **somebody)["unreadable_boards"] > 0
    assert "could not be asked for" in run("ls", "--leases", **somebody).stdout


def test_top_once_has_rates(lend: Callable[..., Lender]) -> None:
    lender = lend(4096, 2)
    wait_for_borrowers(lender)
    process = subprocess.Popen(
        [TENON, "top", "--once", "--interval", "1", "--json"], stdout=subprocess.PIPE, text=True
    )
    rounds = 0
    while process.poll() is None and rounds < 1000:
        lender.ask("m")
        rounds += 1
        time.sleep(0.01)
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    process.stdout.close()
    assert process.wait(60) == 0
    assert 0.9 <= report["interval_seconds"] < 60
    (line,) = [each for each in report["processes"] if each["pid"] == lender.pid]
    assert 0 < line["grants_per_second"] * report["interval_seconds"] <= 2 * rounds + 0.5
    assert line["granted_nbytes_per_second"] == pytest.approx(line["grants_per_second"] * 4096)
    assert line["blocks_per_second"] > 0
    (lease,) = [each for each in report["leases"] if each["lender_pid"] == lender.pid]
    assert lease["grants_per_second"] == pytest.approx(line["grants_per_second"])
    assert [each["lent_nbytes"] for each in report["processes"]] == sorted(
        (each["lent_nbytes"] for each in report["processes"]), reverse=True
    )


def test_top_without_a_terminal(lend: Callable[..., Lender]) -> None:
    lender = lend(MIB, 2)
    done = run("top", "--once", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    titles = [
        "PID",
        "ARENAS",
        "RESERVED",
        "LIVE",
        "LENT",
        "LEASES",
        "MADE/S",
        "GRANTS/S",
        "BYTES/S",
        "AGE",
        "COMMAND",
    ]
    assert titles in [line.split() for line in done.stdout.splitlines()]
    assert [
        line
        for line in done.stdout.splitlines()
        if re.match(rf" *{lender.pid} .* 2 MiB +2 MiB +2 +0 +0 +0 B ", line)
    ]
    # Without --once, tenon top prints reports until a signal ends it.
    process = subprocess.Popen(
        [TENON, "top", "--interval", "0.1", "--json"], stdout=subprocess.PIPE
    )
    for _ in range(3):
        assert lender.pid in {each["pid"] for each in json.loads(read_line(process))["processes"]}
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("end", ["q", "\x03", "SIGTERM"])
def test_top_on_a_terminal(lend: Callable[..., Lender], end: str) -> None:
    lender = lend(MIB, 2)
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    # tenon top gets a session of its own with this terminal, so that Ctrl-C is a key there.
    command = ["setsid", "--ctty", TENON, "top", "--interval", "0.2"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, env={"TERM": "xterm", "PATH": os.environ["PATH"]}
    )
    text = b""

    def read_until(what: bytes) -> None:
        nonlocal text
        deadline = time.monotonic() + 60
        while what not in text:
            assert time.monotonic() < deadline, text
            if select.select([ours], [], [], 1)[0]:
                text += os.read(ours, 65536)

    read_until(str(lender.pid).encode())
    assert text.startswith(b"\x1b[?1049h\x1b[?25l")
    assert not termios.tcgetattr(theirs)[3] & (termios.ECHO | termios.ICANON)
    text = b""
    read_until(b"\x1b[H")
    if end == "SIGTERM":
        process.terminate()
    else:
        os.write(ours, end.encode())
    text = b""
    read_until(b"\x1b[?25h\x1b[?1049l")
    assert process.wait(60) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


def test_many_arenas_while_they_change(lend: Callable[..., Lender]) -> None:
    """A board is read while its owner lends. Every report has only whole rows."""
    lender = lend(4096, 1)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            lender.ask("m")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        seen = 0
        for _ in range(20):
            (arena,) = arenas_of(lender.pid)
            assert arena["blocks_made"] >= seen and arena["made_nbytes"] % 4096 == 0
            seen = arena["blocks_made"]
    finally:
        stop.set()
        worker.join()
