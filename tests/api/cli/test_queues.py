"""tenon ls and tenon top show the queues of real processes.

Other tests of this machine may have queues at the same time, so each test looks only at its own.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    FakeBoard,
    board_bytes,
    read_json,
    read_line,
    run,
    samples_of,
    wait_until,
    wait_until_stopped,
)

MEMBER = os.environ["TENON_CLI_QUEUE_MEMBER"]
CAPACITY = 4
MIB = 1 << 20


class Member:
    """A process that is a member of a queue."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [MEMBER, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self.process.pid
        self.said = read_line(self.process)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), f"{line}\n".encode())

    def answer(self) -> int:
        return int(read_line(self.process))

    def ask(self, line: str) -> int:
        self.tell(line)
        return self.answer()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def join() -> Iterator[Callable[[], Member]]:
    """The first join() makes a queue of 4 messages for each of 8 members, the next ones join it."""
    members: list[Member] = []

    def start() -> Member:
        how = ["join", *members[0].said.split()] if members else ["new", 8, CAPACITY]
        members.append(Member(*how))
        return members[-1]

    yield start
    for member in members:
        member.close()


def queue_of(member: Member) -> dict[str, Any]:
    (queue,) = [
        queue
        for queue in read_json("ls", "--queues")["queues"]
        if member.pid in [each["own_pid"] for each in queue["members"]]
    ]
    return queue


def entry_of(member: Member, queue: dict[str, Any] | None = None) -> dict[str, Any]:
    members = (queue or queue_of(member))["members"]
    return next(each for each in members if each["own_pid"] == member.pid)


def test_what_waits_and_what_was_moved(join: Callable[[], Member]) -> None:
    sender, receiver = join(), join()
    assert sender.ask(f"send 3 {MIB}") == 3
    assert receiver.ask("recv 2") == 2
    assert receiver.ask("send 1 100") == 1
    queue = queue_of(sender)
    assert (queue["waiting"], queue["died"]) == (2, 0)
    assert (queue["most_members"], queue["capacity"], queue["slot_nbytes"]) == (8, CAPACITY, 1024)
    assert queue["inode"] != 0 and queue["offset"] == 0
    assert [each["pid"] for each in queue["members"]] == [sender.pid, receiver.pid]
    entry = entry_of(sender, queue)
    assert (entry["member"], entry["state"], entry["uid"]) == (0, "here", os.getuid())
    assert entry["command"].endswith(f"new 8 {CAPACITY}")
    assert (entry["waiting"], entry["full"], entry["full_seconds"]) == (1, False, None)
    assert (entry["sent"], entry["sent_nbytes"]) == (3, 3 * MIB)
    assert (entry["received"], entry["received_nbytes"], entry["lost"]) == (0, 0, 0)
    entry = entry_of(receiver, queue)
    assert (entry["member"], entry["waiting"], entry["asleep"]) == (1, 1, False)
    assert (entry["sent"], entry["sent_nbytes"]) == (1, 100)
    assert (entry["received"], entry["received_nbytes"]) == (2, 2 * MIB)


def test_a_member_that_sleeps_and_one_that_left(join: Callable[[], Member]) -> None:
    sender, receiver, gone = join(), join(), join()
    gone.ask("leave")
    assert entry_of(gone)["state"] == "left"
    receiver.tell("block")
    wait_until(lambda: entry_of(receiver)["waits_for"] == "message", "the receiver never sleeps")
    queue = queue_of(receiver)
    assert (entry_of(receiver, queue)["asleep"], entry_of(sender, queue)["asleep"]) == (True, False)
    sender.ask("send 1 100")
    assert receiver.answer() == 1
    assert not entry_of(receiver)["asleep"]


def test_a_member_whose_lane_is_full(join: Callable[[], Member]) -> None:
    sender, receiver = join(), join()
    assert sender.ask("send 10 100") == CAPACITY
    entry = entry_of(sender)
    # No send waits, so nobody knows since when the lane has been full.
    assert (entry["waiting"], entry["full"], entry["full_seconds"]) == (CAPACITY, True, None)
    sender.tell("fill 100")
    wait_until(lambda: entry_of(sender)["waits_for"] == "room", "the sender never sleeps")
    wait_until(lambda: (entry_of(sender)["full_seconds"] or 0) > 0.2, "it does not say since when")
    entry = entry_of(sender)
    assert entry["full"] and entry["asleep"] and entry["full_seconds"] < 120
    assert receiver.ask("recv 2") == 2
    assert sender.answer() == 1
    entry = entry_of(sender)
    assert (entry["waiting"], entry["full"], entry["full_seconds"]) == (3, False, None)
    assert entry["sent"] == CAPACITY + 1


def test_a_stopped_member(join: Callable[[], Member]) -> None:
    sender, receiver = join(), join()
    sender.ask("send 1 100")
    sender.stop()
    queue = queue_of(receiver)
    assert entry_of(receiver, queue)["state"] == "here"
    entry = entry_of(sender, queue)
    assert (entry["state"], entry["waiting"], entry["sent"]) == ("stopped", 1, 1)


def test_a_killed_member_is_named(join: Callable[[], Member]) -> None:
    survivor, victim = join(), join()
    assert victim.ask("send 3 100") == 3
    # A member watches the others from its next call on.
    assert survivor.ask("recv 1") == 1
    victim.kill()
    wait_until(lambda: queue_of(survivor)["died"] == 1, "the survivor does not count the death")
    queue = queue_of(survivor)
    assert queue["waiting"] == 2
    entry = entry_of(victim, queue)
    assert (entry["state"], entry["pid"], entry["own_pid"]) == ("dead", None, victim.pid)
    # The victim's board ended with it. What lies in its lane is in the queue's memory.
    assert (entry["waiting"], entry["sent"], entry["command"]) == (2, None, None)


def test_a_death_that_no_member_has_noticed(join: Callable[[], Member]) -> None:
    survivor, victim = join(), join()
    survivor.stop()
    victim.kill()
    queue = queue_of(survivor)
    assert (entry_of(survivor, queue)["state"], queue["died"]) == ("stopped", 1)
    assert entry_of(victim, queue)["state"] == "dead"
    survivor.kill()
    assert survivor.pid not in [
        each["own_pid"]
        for queue in read_json("ls", "--queues")["queues"]
        for each in queue["members"]
    ]


def test_text(join: Callable[[], Member]) -> None:
    sender, receiver, victim = join(), join(), join()
    sender.ask("send 10 100")
    victim.kill()
    wait_until(lambda: queue_of(sender)["died"] == 1, "the death is not counted")
    receiver.stop()
    inode = queue_of(sender)["inode"]
    done = run("ls", "--queues")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(rf"^ *{inode} +2/8 +4 +4 +1 +1 +1$", done.stdout, re.MULTILINE)
    columns = rf"{{}} +{os.getuid()} +{{}} +- +{{}} +{{}} +{{}} +{{}} +{{}} +{{}}$"
    for row in (
        columns.format(sender.pid, "here", "4/4", r"\?", 4, 0, 0, r"\S.*"),
        columns.format(receiver.pid, "stopped", "0/4", "-", 0, 0, 0, r"\S.*"),
        columns.format(victim.pid, "dead", "0/4", "-", r"\?", r"\?", r"\?", "-"),
    ):
        assert re.search(rf"^ *{inode} +{row}", done.stdout, re.MULTILINE), done.stdout
    assert str(inode) in run("ls").stdout


def test_rates(join: Callable[[], Member]) -> None:
    sender, receiver = join(), join()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            sender.ask("send 2 1000")
            receiver.ask("recv 2")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        picture = read_json("top", "--once", "--interval", "0.5")
        text = run("top", "--once", "--interval", "0.2").stdout
    finally:
        stop.set()
        worker.join()
    (queue,) = [
        each
        for each in picture["queues"]
        if sender.pid in [member["pid"] for member in each["members"]]
    ]
    ours, theirs = entry_of(sender, queue), entry_of(receiver, queue)
    for rates in (queue, ours):
        assert rates["sent_per_second"] > 2
        assert rates["sent_nbytes_per_second"] == pytest.approx(1000 * rates["sent_per_second"])
    for rates in (queue, theirs):
        assert rates["received_per_second"] > 2
        assert rates["received_nbytes_per_second"] == pytest.approx(
            1000 * rates["received_per_second"]
        )
    assert (ours["received_per_second"], theirs["sent_per_second"]) == (0, 0)
    assert re.search(rf"^ *{queue['inode']} +2 +[0-4] +[0-9,]+ +[0-9,]+ +\S+ \w+ +0$", text, re.M)
    assert re.search(rf"^ *{queue['inode']} +{sender.pid} +here +[0-4]/4 ", text, re.M)


def test_prometheus(join: Callable[[], Member]) -> None:
    sender, receiver, victim = join(), join(), join()
    sender.ask("send 3 1000")
    receiver.ask("recv 1")
    victim.kill()
    wait_until(lambda: queue_of(sender)["died"] == 1, "the death is not counted")
    done = run("ls", "--prometheus")
    assert (done.returncode, done.stderr) == (0, "")
    samples = samples_of(done.stdout)
    queue = f'queue="{queue_of(sender)["inode"]}"'

    def of(member: int, who: Member) -> str:
        return f'{queue},member="{member}",pid="{who.pid}"'

    ours, theirs, dead = of(0, sender), of(1, receiver), of(2, victim)
    assert samples["tenon_queue_waiting_messages"][queue] == 2
    assert samples["tenon_queue_capacity_messages"][queue] == CAPACITY
    assert samples["tenon_queue_members"][queue] == 2
    assert samples["tenon_queue_died_total"][queue] == 1
    assert samples["tenon_queue_sent_messages_total"][ours] == 3
    assert samples["tenon_queue_sent_bytes_total"][ours] == 3000
    assert samples["tenon_queue_received_messages_total"][theirs] == 1
    assert samples["tenon_queue_received_bytes_total"][theirs] == 1000
    assert samples["tenon_queue_lost_messages_total"][ours] == 0
    assert samples["tenon_queue_member_waiting_messages"][ours] == 2
    assert samples["tenon_queue_member_full_seconds"][ours] == 0
    assert samples["tenon_queue_member_asleep"][theirs] == 0
    assert dead not in samples["tenon_queue_sent_messages_total"]
    states = samples["tenon_queue_member_info"]
    assert states[f'{dead},uid="{os.getuid()}",state="dead"'] == 1
    assert states[f'{ours},uid="{os.getuid()}",state="here"'] == 1


def memory_of(member: Member, inode: int) -> bytes:
    folder = Path(f"/proc/{member.pid}/fd")
    return next(fd for fd in folder.iterdir() if fd.stat().st_ino == inode).read_bytes()


def test_nothing_is_written(join: Callable[[], Member]) -> None:
    sender, receiver = join(), join()
    sender.ask("send 2 100")
    inode = queue_of(sender)["inode"]
    sender.stop()
    receiver.stop()
    before = memory_of(sender, inode)
    for arguments in (["ls", "--queues"], ["ls", "--prometheus"], ["top", "--once"]):
        assert run(*arguments).returncode == 0
    assert memory_of(sender, inode) == before


# ---- hostile boards and queues, in this process

MOST = (1 << 64) - 1


class FakeQueue:
    """A memfd of this process, and the row of a board that says that a queue lies in it."""

    def __init__(self, content: bytes, nbytes: int | None = None, seal: bool = True) -> None:
        self.fd = os.memfd_create("fake-queue", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.truncate(self.fd, len(content) if nbytes is None else nbytes)
        os.pwrite(self.fd, content, 0)
        if seal:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        status = os.fstat(self.fd)
        self.device, self.inode = status.st_dev, status.st_ino

    def row(self, offset: int = 0, member: int = 0, figure: int = 7) -> bytes:
        words = [1 << 16 | 4, 0, self.device, self.inode, offset, *[figure] * 6, member]
        return struct.pack("<12Q", *words).ljust(128, b"\0")

    def __enter__(self) -> FakeQueue:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def header(**fields: int) -> bytes:
    head = {"version": 1, "members": 2, "capacity": 4, "slot": 64, "incompat": 0, **fields}
    numbers = [head[name] for name in ("version", "members", "capacity", "slot", "incompat")]
    return b"TENONQUE" + struct.pack("<4IQ", *numbers)


NBYTES = 4096 + 2 * 192 + 2 * (384 + 4 * 64)
BAD: dict[str, dict[str, Any]] = {
    "empty": {"content": b""},
    "short": {"content": header()},
    "cut": {"content": header(), "nbytes": NBYTES - 1},
    "magic": {"content": bytes(NBYTES)},
    "not sealed": {"content": header(), "nbytes": NBYTES, "seal": False},
    "version": {"content": header(version=2), "nbytes": NBYTES},
    "features": {"content": header(incompat=1 << 63), "nbytes": NBYTES},
    "members": {"content": header(members=(1 << 32) - 1), "nbytes": NBYTES},
    "capacity": {"content": header(capacity=3), "nbytes": NBYTES},
    "slot": {"content": header(slot=1 << 31), "nbytes": NBYTES},
}


def queues_of_this_process() -> tuple[list[dict[str, Any]], list[str]]:
    report = read_json("ls", "--queues")
    mine = [
        each
        for each in report["queues"]
        if os.getpid() in [member["pid"] for member in each["members"]]
    ]
    return mine, [line for line in report["refused"] if f"of process {os.getpid()}" in line]


@pytest.mark.parametrize("kind", BAD)
def test_memory_that_is_no_queue(kind: str) -> None:
    with FakeQueue(**BAD[kind]) as fake, FakeBoard(board_bytes(fake.row())):
        (queue,), (line,) = queues_of_this_process()
        assert line.startswith(f"fd {fake.fd} of process {os.getpid()}, the queue {fake.inode}: ")
        assert line.isprintable() and len(line) < 200
        assert (queue["capacity"], queue["waiting"], queue["died"]) == (None, None, None)
        (member,) = queue["members"]
        assert (member["sent"], member["waiting"], member["own_pid"]) == (7, None, None)
        samples_of(run("ls", "--prometheus").stdout)
        assert run("top", "--once", "--interval", "0.1").returncode == 0
        done = run("ls", "--queues")
        assert done.returncode == 0 and f"tenon: {line}" in done.stderr.splitlines()


@pytest.mark.parametrize("offset", [1, 64, 1 << 63, MOST])
def test_a_place_that_is_none(offset: int) -> None:
    with (
        FakeQueue(header(), nbytes=NBYTES) as fake,
        FakeBoard(board_bytes(fake.row(offset=offset))),
    ):
        (queue,), refused = queues_of_this_process()
        assert (queue["offset"], queue["waiting"], len(refused)) == (offset, None, 1)


def test_memory_full_of_lies() -> None:
    content = header().ljust(64, b"\0") + b"\xff" * (NBYTES - 64)
    with FakeQueue(content) as fake, FakeBoard(board_bytes(fake.row(member=MOST, figure=MOST))):
        assert queues_of_this_process() == ([], [])
        (queue,) = [
            each for each in read_json("ls", "--queues")["queues"] if each["inode"] == fake.inode
        ]
        assert (queue["members"], queue["waiting"], queue["died"]) == ([], 0, MOST)


def entry_bytes(word: int, namespace: int = 0) -> bytes:
    head = struct.pack("<4Q", word, namespace, 1, 1 << 40).ljust(64, b"\0")
    return head + (b"\xff" * 64) * 2


def test_entries_full_of_lies() -> None:
    """Entries name processes that are none, and slots have states that are none."""
    ours = os.stat("/proc/self/ns/pid").st_ino
    states = b"".join(
        struct.pack("<Q", (1 << 64) - 16 + state).ljust(64, b"\xff") for state in (1, 1, 2, 15)
    )
    lanes = (b"\xff" * 384 + states) * 2
    head = header().ljust(192, b"\0") + b"\xff" * 128
    words = [0xFFFFFF << 40 | 0xFFFFFFFF << 8 | 2, os.getpid() << 8 | 2]
    content = head.ljust(4096, b"\0") + b"".join(entry_bytes(word, ours) for word in words) + lanes
    assert len(content) == NBYTES
    with FakeQueue(content) as fake, FakeBoard(board_bytes(fake.row(member=5))):
        queues = read_json("ls", "--queues")["queues"]
        (queue,) = [each for each in queues if each["inode"] == fake.inode]
        assert [each["waiting"] for each in queue["members"]] == [2, 2]
        # The entry says that this process started in another moment, so it is not this process.
        assert [each["pid"] for each in queue["members"]] == [None, None]
        assert [each["own_pid"] for each in queue["members"]] == [0xFFFFFFFF, os.getpid()]
        samples_of(run("ls", "--prometheus").stdout)
        assert run("top", "--once", "--interval", "0.1").returncode == 0


def test_a_queue_that_is_larger_than_what_is_read() -> None:
    """64 GiB of holes are not read, and the reader says that it does not know what waits."""
    most = header(members=256, capacity=4096, slot=65536).ljust(192, b"\0") + b"\xff" * 32
    entries = entry_bytes(1234 << 8 | 2) * 2
    content = most.ljust(4096, b"\0") + entries
    nbytes = 4096 + 256 * (192 + 384 + 4096 * 65536)
    with ExitStack() as stack:
        fake = stack.enter_context(FakeQueue(content, nbytes=nbytes))
        stack.enter_context(FakeBoard(board_bytes(fake.row(member=9))))
        queues = read_json("ls", "--queues")["queues"]
        (queue,) = [each for each in queues if each["inode"] == fake.inode]
        assert queue["waiting"] is None
        assert [each["waiting"] for each in queue["members"]] == [None, None]


def test_another_files_inode(tmp_path: Path) -> None:
    """A board that names a file on a disk leads the reader nowhere."""
    path = tmp_path / "file"
    path.write_bytes(header().ljust(NBYTES, b"\0"))
    status = path.stat()
    words = [1 << 16 | 4, 0, status.st_dev, status.st_ino, 0, *[7] * 6, 0]
    row = struct.pack("<12Q", *words).ljust(128, b"\0")
    with path.open("rb"), FakeBoard(board_bytes(row)):
        (queue,), refused = queues_of_this_process()
        assert (queue["waiting"], refused) == (None, [])
