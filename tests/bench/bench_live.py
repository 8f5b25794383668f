"""20,000 and 1,000,000 live tensors in another process: how many arrive, against PyTorch's queue.

Each tensor lies in memory of its own. Messages have 1,000 tensors of 64 B, and the consumer keeps
all of them. Each attempt has its own interpreters. It ends with the first message that does not
arrive: an error on either side, a process that has ended, or 20 s of silence. RLIMIT_NOFILE and
vm.max_map_count are those of the machine.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from python_pair import SMOKE, STRATEGIES, load_tenon, print_row, torch_name

PYTHON = "torch"
BATCH = 100 if SMOKE else 1000
TOTALS = (300,) if SMOKE else (20_000, 1_000_000)
PATIENCE_S = 20


def keep(ours: socket.socket, queue: Any, counts: Any) -> None:
    """Runs the consumer."""
    import tenon

    connection = tenon.Connection(ours)
    kept, count = [], 0
    while True:
        kept.append(list(connection.recv()) if queue is None else queue.get())
        count += len(kept[-1])
        counts.send(count)


def attempt(strategy: str, total: int) -> int:
    import torch
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    counts, there = context.Pipe(duplex=False)
    ends = socket.socketpair()
    queue = None if strategy == "tenon" else context.Queue()
    if queue is not None:
        multiprocessing.set_sharing_strategy(strategy)
    consumer = context.Process(target=keep, args=(ends[1], queue, there), daemon=True)
    consumer.start()
    there.close()
    ends[1].close()
    count = 0
    try:
        if queue is None:
            import tenon

            arena, connection = tenon.Arena(), tenon.Connection(ends[0])
        while count < total:
            if queue is None:
                connection.send([arena.empty(16) for _ in range(BATCH)])
            else:
                queue.put([torch.empty(16) for _ in range(BATCH)])
            if not counts.poll(PATIENCE_S):
                break
            count = counts.recv()
    except (EOFError, OSError, RuntimeError):
        pass
    consumer.kill()
    return count


def attempt_apart(strategy: str, total: int) -> float:
    command = [
        sys.executable,
        "-B",
        str(Path(__file__)),
        "--attempt",
        strategy,
        str(total),
        *(["--smoke"] if SMOKE else []),
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=600,
    )
    last = done.stdout.split()[-1:]
    return float(last[0]) if last else 0.0


def main() -> None:
    load_tenon()
    import torch

    fds = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for total in TOTALS:
        mine = attempt_apart("tenon", total)
        for strategy in STRATEGIES[:1] if SMOKE else STRATEGIES:
            theirs = attempt_apart(strategy, total)
            measure = f"{total} live tensors, {fds} fds allowed: how many arrive, Python"
            print_row(
                measure,
                "tensors",
                f"{torch_name(torch)}, {strategy}",
                {"of": "ours", "at_least": total},
                [mine],
                [theirs],
            )


if __name__ == "__main__":
    if "--attempt" in sys.argv:
        at = sys.argv.index("--attempt")
        print(attempt(sys.argv[at + 1], int(sys.argv[at + 2])), flush=True)
        os._exit(0)  # PyTorch's feeder may wait for a consumer that has ended
    main()
