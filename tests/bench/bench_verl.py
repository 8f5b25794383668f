"""A sync of 1 GiB of weights by tenon.integrations.verl, against one memcpy of 1 GiB.

64 weights of 16 MiB go through a buffer of 512 MiB to another process. As views: the receiver reads
one number of each weight. Copied out: the receiver copies each weight to memory of its own, on
another core. The first two syncs, which make the buffer, do not count. The test dropin.rl puts
pyzmq where this file looks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

PYTHON = "torch"
BUFFER_MIB = 1 if SMOKE else 512
NUMEL = 1 << (10 if SMOKE else 22)
COUNT = 64
ROUNDS = 2 if SMOKE else 20


def find_zmq() -> None:
    """Lets this process and its children import the pyzmq that the tests use."""
    build = Path(__file__).resolve().parents[2] / "build"
    reference = os.environ.get("TENON_REFERENCE", build / "reference")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    sys.path.append(str(Path(reference, "vllm", f"packages-{version}")))


def receive(handle: str, copies: bool) -> None:
    """Runs the receiver, until its process is ended."""
    find_zmq()
    import torch
    from tenon.integrations.verl import BucketedWeightReceiver

    torch.set_num_threads(1)
    own = {f"{i}": torch.ones(NUMEL) for i in range(COUNT)}

    def take(weights: list[tuple[str, Any]], is_last: bool) -> None:
        for name, weight in weights:
            if copies:
                own[name].copy_(weight)
            else:
                own[name][0] = weight[0]

    while True:
        receiver = BucketedWeightReceiver(handle, torch.device("cpu"), use_shm=True)
        receiver.receive_weights(take)


def main() -> None:
    load_tenon()
    find_zmq()
    try:
        import zmq  # noqa: F401
    except ImportError as error:
        print(json.dumps({"left_out": f"{sys.executable}: {error}"}), flush=True)
        return
    import torch
    import torch.multiprocessing
    from tenon.integrations.verl import BucketedWeightSender

    torch.set_num_threads(1)
    weights = {f"{i}": torch.full((NUMEL,), float(i)) for i in range(COUNT)}
    flat, other = torch.ones(COUNT * NUMEL), torch.ones(COUNT * NUMEL)
    for how, copies in (("as views", False), ("copied out", True)):
        with tempfile.TemporaryDirectory() as folder:
            handle = f"ipc://{folder}/weights"
            context = torch.multiprocessing.get_context("spawn")
            process = context.Process(target=receive, args=(handle, copies), daemon=True)
            process.start()

            def sync(handle: str = handle) -> Callable[[], object]:
                time.sleep(0.005)  # the receiver of the last sync comes back outside the clock
                sender = BucketedWeightSender(handle, BUFFER_MIB, use_shm=True)
                return lambda: asyncio.run(sender.async_send_weights(iter(weights.items())))

            sync()()
            sync()()
            pairs = interleave(ROUNDS, sync, lambda: lambda: other.copy_(flat))
            process.kill()
            process.join()
        ours, theirs = ([each * 1e3 for each in side] for side in pairs)
        goal = None if copies else {"of": "theirs/ours", "at_least": 0.9}
        print_row(f"verl's sync of 1 GiB, {how}", "ms", "one memcpy", goal, ours, theirs)


if __name__ == "__main__":
    main()
