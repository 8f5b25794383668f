"""Workers of DataLoader are killed at random moments, under the sharing strategy "tenon".

Each round starts a DataLoader with two workers, takes some batches, and kills one worker: just
after one of those batches, or while the workers begin. The loop must end: with all batches, if the
kill came late, or with DataLoader's own RuntimeError, or with tenon.PeerGone. Every batch that
arrives has the right bytes. So have the batches that are kept beyond the death of their worker. At
the end no memory and no file is left, and few descriptors.

usage: loader_storm.py [--kills N] [--seed SEED]
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tenon
import tenon.torch
import torch
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests" / "support"))

from own_shm import restart_in_own_shm

PATIENCE_S = 300.0
# This process keeps some fds for a killed worker whose messages were not fetched, and it does so
# for up to eight workers.
MOST_FDS = 8 * 3


class Pictures(Dataset):  # type: ignore[type-arg,misc]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return (
            torch.full((random.Random(index).randrange(1, 9), 1000), index, dtype=torch.int32).sum(
                0
            )
            // 1,
            index,
        )


def expect(true: bool, what: str) -> None:
    if not true:
        sys.exit(f"FAILED: {what}")


def check(batch: Any) -> None:
    pictures, numbers = batch
    for picture, number in zip(pictures, numbers.tolist(), strict=True):
        expect(
            bool((picture == number * random.Random(number).randrange(1, 9)).all()),
            f"picture {number} has wrong bytes",
        )


def kill_later(pid: int, seconds: float) -> threading.Thread:
    def kill() -> None:
        time.sleep(seconds)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def until_done(call: Callable[[], Any], counts: Counter[str]) -> None:
    """Call again when DataLoader's handler of SIGCHLD raises in the middle."""
    while True:
        try:
            call()
            return
        except RuntimeError as error:
            expect("DataLoader worker" in str(error), f"another error: {error}")
            counts["told later"] += 1


def play(counts: Counter[str], kept: list[Any]) -> None:
    batches = iter(DataLoader(Pictures(), batch_size=4, num_workers=2, prefetch_factor=3))
    victim = random.choice(batches._workers).pid
    # A DataLoader gives 16 batches. A kill after a random time would meet few batches, because a
    # busy machine makes workers slow to begin.
    n_before_kill = random.randrange(10)
    killer = kill_later(victim, random.random() * 0.02) if n_before_kill == 0 else None
    try:
        for n, batch in enumerate(batches, 1):
            check(batch)
            counts["batches"] += 1
            if random.random() < 0.3:
                kept.append(batch)
            if n == n_before_kill:
                killer = kill_later(victim, random.random() * 0.002)
        counts["ended"] += 1
    except tenon.PeerGone:
        counts["gone"] += 1
    except RuntimeError as error:
        expect("DataLoader worker" in str(error), f"another error: {error}")
        counts["told"] += 1
    if killer is not None:
        until_done(killer.join, counts)
    until_done(batches._shutdown_workers, counts)
    while len(kept) > 20:
        check(kept.pop(random.randrange(len(kept))))


def n_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    has_own_shm = restart_in_own_shm(64 << 20)
    print(f"seed {options.seed}")
    random.seed(options.seed)
    torch.set_num_threads(1)
    tenon.torch.install()
    counts: Counter[str] = Counter()
    kept: list[Any] = []
    play(counts, kept)  # the imports and fds of the first round stay
    kept.clear()
    gc.collect()
    before, files = n_fds() - tenon.stats().segment_fds, set(os.listdir("/dev/shm"))
    while counts["told"] + counts["gone"] < options.kills:
        play(counts, kept)
        expect(counts["ended"] < 20 + 20 * options.kills, "no kill meets a worker")
    expect(len(kept) > 0, "no batch was kept beyond the death of its worker")
    while kept:
        check(kept.pop())
    end = time.monotonic() + PATIENCE_S
    while True:
        gc.collect()
        left = n_fds() - tenon.stats().segment_fds - before, tenon.stats().bytes_opened
        if left[0] <= MOST_FDS and not left[1]:
            break
        expect(time.monotonic() < end, f"left: {left[0]} fds, {left[1]} bytes of others' memory")
        time.sleep(0.05)
    # New lenders remove some sockets of the killed workers each time. A sweep removes the others.
    tenon.sweep("/dev/shm", min_age=0)
    left_files = set(os.listdir("/dev/shm")) - files
    expect(not has_own_shm or not left_files, f"files left in /dev/shm: {sorted(left_files)}")
    print(f"ok: {dict(counts)}")


if __name__ == "__main__":
    main()
