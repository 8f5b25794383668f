"""Leases: memory that another process holds is not reused, and returns when that process lets
go.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tenon
from names import wait_until

MIB = 1 << 20

# Runs each line of its input, and says "ok" when the line is done.
BORROWER = """
import gc, os, sys, numpy, tenon
connection = tenon.Connection(int(sys.argv[1]), adopt=True)
held = []
for line in sys.stdin:
    exec(line)
    gc.collect()
    print("ok", flush=True)
"""


class Borrower:
    def __init__(self, process: subprocess.Popen[bytes], connection: tenon.Connection) -> None:
        self.process, self.connection, self.pid = process, connection, process.pid

    def run(self, line: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ok\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def borrower(child: Callable[..., Any]) -> Iterator[Borrower]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = child(BORROWER, theirs.fileno(), fds=(theirs.fileno(),))
    with tenon.Connection(ours, adopt=True) as connection:
        yield Borrower(process, connection)
        process.kill()
        process.wait(60)


def lend_all(
    arena: tenon.Arena,
    borrower: Borrower,
    take: str = "held.append(connection.recv(timeout=60)[0])",
) -> None:
    """Lend a tensor that fills the arena, and keep no reference to the tensor here."""
    tensor = arena.full(arena.stats().bytes_capacity, 5, "uint8")
    borrower.connection.send(tensor, timeout=60)
    tensor.close()
    borrower.run(take)


def test_a_lent_block_stays_until_it_is_given_back(borrower: Borrower) -> None:
    with tenon.Arena(MIB) as arena:
        lend_all(arena, borrower)
        now = arena.stats()
        assert (now.blocks_live, now.blocks_lent, now.bytes_live, now.bytes_lent) == (0, 1, 0, MIB)
        (holder,) = tenon.lease_holders()
        assert (holder.pid, holder.uid, holder.leases, holder.nbytes) == (
            borrower.pid,
            os.getuid(),
            1,
            MIB,
        )
        assert (holder.granted, holder.granted_bytes) == (1, MIB) and 0 < holder.age < 60
        assert "granted=1" in repr(holder)
        with pytest.raises(tenon.ResourceExhausted) as caught:
            arena.empty(MIB, "uint8")
        assert f"pid {borrower.pid} " in caught.value.details["holders"] and caught.value.details[
            "lent"
        ] == str(MIB)
        borrower.run("assert held[0].numpy().sum() == 5 * 1048576; held.clear()")
        assert arena.zeros(MIB, "uint8", timeout=60).numpy().sum() == 0
        assert arena.stats().blocks_lent == 0


def test_many_in_one_message(borrower: Borrower) -> None:
    with tenon.Arena(4 * MIB) as arena:
        tensors = [arena.full(64, i % 251, "uint8") for i in range(2000)]
        borrower.connection.send(tensors, timeout=60)
        borrower.run("held.extend(connection.recv(timeout=60))")
        del tensors[::2]
        assert (arena.stats().blocks_live, arena.stats().blocks_lent) == (1000, 2000)
        borrower.run(
            "assert all((t.numpy() == i % 251).all() for i, t in enumerate(held)); del held[:500]"
        )
        # Another thread of the library may still be taking the blocks back.
        wait_until(lambda: arena.stats().blocks_lent == 1500)
        tensors.clear()
        borrower.run("held.clear()")
        wait_until(lambda: arena.stats().blocks_lent == 0)
        assert arena.stats().blocks_live == 0


@pytest.mark.parametrize(
    "view",
    [
        "numpy.from_dlpack(m[0])",
        "m[0].numpy()",
        "memoryview(m[0])",
        "m[0].__dlpack__(max_version=(1, 0))",
        "m[0].__dlpack__()",
    ],
)
def test_a_view_keeps_the_lease(borrower: Borrower, view: str) -> None:
    with tenon.Arena(MIB) as arena:
        lend_all(
            arena,
            borrower,
            f"m = connection.recv(timeout=60); held.append({view}); m.close(); del m",
        )
        assert (arena.stats().blocks_lent, [each.leases for each in tenon.lease_holders()]) == (
            1,
            [1],
        )
        with pytest.raises(tenon.Timeout):
            arena.empty(1, timeout=0.1)
        borrower.run("held.clear()")
        arena.empty(1, timeout=60)
        assert arena.stats().blocks_lent == 0


def test_a_killed_borrower_ends_the_wait(borrower: Borrower) -> None:
    with tenon.Arena(MIB) as arena:
        lend_all(arena, borrower)
        borrower.kill()
        assert arena.zeros(MIB, "uint8", timeout=60).numpy().sum() == 0
        assert tenon.lease_holders() == []


def test_an_unread_message_ends_with_its_receiver(borrower: Borrower) -> None:
    with tenon.Arena(MIB) as arena:
        lend_all(arena, borrower, "pass")
        assert arena.stats().blocks_lent == 1
        borrower.kill()
        arena.empty(MIB, "uint8", timeout=60).close()


def test_a_release_ends_the_wait(borrower: Borrower) -> None:
    with tenon.Arena(MIB) as arena:
        lend_all(arena, borrower)
        assert borrower.process.stdin is not None and borrower.process.stdout is not None
        borrower.process.stdin.write(b"import time; time.sleep(0.2); held.clear()\n")
        borrower.process.stdin.flush()
        arena.empty(MIB, "uint8", timeout=60).close()
        assert borrower.process.stdout.readline() == b"ok\n"


def test_a_lent_block_is_cleared_unless_its_next_owner_fills_it(borrower: Borrower) -> None:
    for will_fill in (False, True):
        with tenon.Arena(MIB) as arena:
            lend_all(arena, borrower)
            borrower.run("held.clear()")
            with arena.storage(MIB, will_fill=will_fill, timeout=60) as storage:
                assert storage.read() == (b"\5" if will_fill else b"\0") * MIB


def test_storages_of_no_arena_have_leases_too(borrower: Borrower) -> None:
    tensor = tenon.zeros(1000, "uint8")
    borrower.connection.send(tensor, timeout=60)
    borrower.run("held.append(connection.recv(timeout=60)[0])")
    assert [each.leases for each in tenon.lease_holders()] == [1]
    borrower.run("held.clear()")
    assert tenon.lease_holders() == []


NO_THREAD = """
import os, select, signal, socket, sys, tenon
def threads(): return len(os.listdir("/proc/self/task"))
tenon.lease_use_no_thread()
tenon.lease_use_no_thread()
arena = tenon.Arena(1 << 20)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
tensor = arena.empty(1 << 20, "uint8")
pid = os.fork()
if pid == 0:
    ours.close()
    tensor.close()
    message = tenon.Connection(theirs).recv(timeout=60)
    print("held", flush=True)
    signal.pause()  # until it is killed; its standard input is its parent's too
theirs.close()
connection = tenon.Connection(ours)
connection.send(tensor)
tensor.close()
assert sys.stdin.read(1) == "x"
assert threads() == 1, threads()
assert [each.pid for each in tenon.lease_holders()] == [pid]
tenon.lease_poll()
assert arena.stats().blocks_lent == 1
os.kill(pid, 9)
while arena.stats().blocks_lent:
    assert select.select([tenon.lease_fd()], [], [], 60)[0]
    tenon.lease_poll()
arena.empty(1 << 20, "uint8")
assert threads() == 1, threads()
os.waitpid(pid, 0)
print("done", flush=True)
"""


def test_without_a_thread(child: Any) -> None:
    process = child(NO_THREAD)
    assert process.stdout.readline() == b"held\n"
    process.stdin.write(b"x")
    process.stdin.flush()
    assert process.stdout.readline() == b"done\n"
    assert process.wait(60) == 0


def test_with_a_thread_there_is_nothing_to_poll(borrower: Borrower) -> None:
    borrower.connection.send(tenon.zeros(1), timeout=60)
    for use in (tenon.lease_use_no_thread, tenon.lease_fd, tenon.lease_poll):
        with pytest.raises(tenon.InvalidArgument):
            use()
