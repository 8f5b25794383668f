"""Kills ends of queues: putters, getters, keepers and an executor's workers die of SIGKILL at
random moments.

This process is the other end of each pipe, so that only one end dies at a time. CPython's own queue
hangs for all others when a getter is killed in get(), and a half-written message hangs its reader.
Then this program checks that
 - a received message has the right bytes, even after the death of its sender,
 - a receiver gets the message, or PeerGone, or the end of the pipe, and never hangs,
 - all lent memory is free again, no fd is left, and the next process that deposits leaves no name
   in /dev/shm.

usage: queue_storm.py [--kills N] [--seed SEED]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing as mp
import os
import random
import signal
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import reduction
from pathlib import Path

import numpy as np
import tenon
import tenon.multiprocessing

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from own_shm import call_libc, restart_in_own_shm

PR_SET_CHILD_SUBREAPER = 36
# A message that nobody fetches is withdrawn. A getter that is slower than this may miss one.
AGE_S = 3.0
PATIENCE_S = 300.0
CONTEXT = mp.get_context("fork")


class Failure(Exception):
    pass


def expect(true: bool, what: str) -> None:
    if not true:
        raise Failure(what)


def message(arena: tenon.Arena, tag: int) -> tuple[int, float, tenon.Tensor, tenon.Tensor]:
    return (
        tag,
        time.monotonic(),
        arena.full((random.randrange(1, 30_000),), tag, "int32"),
        tenon.from_numpy(np.full(10, tag)),
    )


def check(received: tuple[int, float, tenon.Tensor, tenon.Tensor]) -> None:
    tag, _, large, small = received
    expect(
        bool((large.numpy() == tag).all() and (small.numpy() == tag).all()),
        f"message {tag} has wrong bytes",
    )


def get_until_killed(end: mp.connection.Connection) -> None:
    kept = []
    while True:
        data = end.recv_bytes()
        try:
            received = reduction.ForkingPickler.loads(data)
        except tenon.NotFound:
            # The message was withdrawn, because this process did not run for so long. Its unread
            # bytes tell its age.
            continue
        check(received)
        kept.append(received)
        if random.random() < 0.5:
            kept.pop(random.randrange(len(kept)))


def put_until_killed(end: mp.connection.Connection) -> None:
    with tenon.Arena(16 << 20) as arena:
        for tag in range(1, 1000):
            end.send(message(arena, tag))
        signal.pause()


def put_and_leave(end: mp.connection.Connection) -> None:
    with tenon.Arena(16 << 20) as arena:
        for tag in range(1, 20):
            end.send(message(arena, tag))


def add_one(tensor: tenon.Tensor) -> tenon.Tensor:
    return tenon.from_numpy(tensor.numpy() + 1)


class Storm:
    def __init__(self, arena: tenon.Arena) -> None:
        self.arena = arena
        self.counts: Counter[str] = Counter()
        self.tag = 0

    def kill(self, process: mp.process.BaseProcess, what: str) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        self.counts[f"{what} killed"] += 1

    def start(self, target: object) -> tuple[mp.connection.Connection, mp.process.BaseProcess]:
        """Starts a child with one end of a pipe, which no other process has. Returns the other end
        and the child.
        """
        receives = target is get_until_killed
        ends = CONTEXT.Pipe(duplex=False)
        mine, theirs = reversed(ends) if receives else ends

        def run() -> None:
            mine.close()
            target(theirs)

        process = CONTEXT.Process(target=run)
        process.start()
        theirs.close()
        return mine, process

    def getter(self) -> None:
        end, process = self.start(get_until_killed)
        for _ in range(random.randrange(1, 30)):
            self.tag += 1
            end.send(message(self.arena, self.tag))
        time.sleep(random.random() * 0.003)
        self.kill(process, "getter")
        end.close()

    def receive_rest(
        self,
        end: mp.connection.Connection,
        kept: list[tuple[int, float, tenon.Tensor, tenon.Tensor]],
    ) -> None:
        while True:
            expect(end.poll(PATIENCE_S), "nothing comes, and no end of the pipe")
            try:
                kept.append(end.recv())
            except tenon.PeerGone:
                self.counts["gone"] += 1
            except (EOFError, OSError):
                return

    def putter(self) -> None:
        end, process = self.start(put_until_killed)
        kept = []
        for _ in range(random.randrange(0, 20)):
            expect(end.poll(PATIENCE_S), "a living putter puts nothing")
            kept.append(end.recv())
        time.sleep(random.random() * 0.002)
        self.kill(process, "putter")
        self.receive_rest(end, kept)
        end.close()
        for received in kept:
            check(received)
        self.counts["received of the dead"] += len(kept)

    def keeper(self) -> None:
        end, process = self.start(put_and_leave)
        process.join()
        expect(process.exitcode == 0, f"a putter exits with {process.exitcode}")
        process.close()
        keepers = children()
        kept = []
        for _ in range(random.randrange(0, 3)):
            kept.append(end.recv())
        for pid in keepers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.counts["keeper killed"] += 1
        self.receive_rest(end, kept)
        end.close()
        for received in kept:
            check(received)
        if not keepers:
            self.counts["no keeper seen"] += 1

    def executor(self) -> None:
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=CONTEXT) as pool:
            tensors = [tenon.from_numpy(np.full(100, n)) for n in range(8)]
            first = pool.submit(add_one, tensors[0]).result(PATIENCE_S)
            expect(bool((first.numpy() == 1).all()), "an executor's result has wrong bytes")
            futures = [pool.submit(add_one, each) for each in tensors]
            os.kill(random.choice(list(pool._processes)), signal.SIGKILL)
            self.counts["executor's worker killed"] += 1
            for n, future in enumerate(futures):
                try:
                    expect(
                        bool((future.result(PATIENCE_S).numpy() == n + 1).all()),
                        "an executor's result has wrong bytes",
                    )
                except (BrokenProcessPool, tenon.PeerGone):
                    pass


def children() -> list[int]:
    """The children of this process: keepers, which it inherited when the processes that started
    them ended.
    """
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found]


def soon(is_so: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        expect(time.monotonic() < deadline, what)
        time.sleep(0.01)


def run(kills: int) -> Counter[str]:
    call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    tenon.multiprocessing.configure(max_unfetched_seconds=AGE_S)
    with tenon.Arena(1 << 30) as arena:
        storm = Storm(arena)
        kinds = [storm.getter] * 48 + [storm.putter] * 48 + [storm.keeper] * 3 + [storm.executor]
        storm.keeper()
        storm.executor()
        fds_before = len(os.listdir("/proc/self/fd"))
        while sum(count for what, count in storm.counts.items() if what.endswith("killed")) < kills:
            random.choice(kinds)()
        # The thread of an abandoned queue may deposit its last messages only now. They are
        # withdrawn when they are AGE_S old.
        soon(
            lambda: arena.stats().blocks_lent == 0 and tenon.multiprocessing.unfetched() == (0, 0),
            f"blocks are still lent: {arena.stats()}, {tenon.lease_holders()}, or unfetched:"
            f" {tenon.multiprocessing.unfetched()}",
        )
        expect(arena.stats().bytes_retired == 0, f"{arena.stats()}")
        # The process remembers some dead lenders for a while, with two fds each.
        fds = len(os.listdir("/proc/self/fd"))
        expect(fds <= fds_before + 40, f"{fds} fds, and {fds_before} at the start")
    return storm.counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    has_own_shm = restart_in_own_shm()
    random.seed(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    begin = time.monotonic()
    status = in_child(
        lambda: print(
            ", ".join(f"{count} {what}" for what, count in sorted(run(arguments.kills).items()))
        )
    )
    # The next process that deposits removes the sockets of the processes that were killed last.
    status = status or in_child(
        lambda: reduction.ForkingPickler.loads(
            bytes(reduction.ForkingPickler.dumps(tenon.zeros((1,))))
        )
    )
    # The file of the family also belongs to this process.
    left = (
        [name for name in os.listdir("/dev/shm") if not name.startswith("tenon-family-")]
        if has_own_shm
        else []
    )
    if status == 0 and left:
        print(f"queue_storm.py: left in /dev/shm: {left}", file=sys.stderr)
        status = 1
    print(
        f"{time.monotonic() - begin:.1f} s"
        if status == 0
        else f"again with --seed {arguments.seed}"
    )
    sys.exit(status)


def in_child(body: object) -> int:
    """Runs the body in a child that ends in order. Returns its exit status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        except Failure as failure:
            print(f"queue_storm.py: {failure}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            mp.util._exit_function()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
