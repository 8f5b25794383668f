#!/usr/bin/env python3
"""Measures the time of lending and opening device memory: Tenon against PyTorch, and against bare
calls of the driver. Prints a table in Markdown.

    bench.py [--raw] [--quick]

Each row is a median in microseconds. Without PyTorch its column is empty.
(tests/bench/cuda.cc is about the fake driver alone: it counts calls.)
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import statistics
import sys
import traceback
from collections.abc import Callable
from typing import Any

import tenon
from sides import ON_THE_FAKE, PATIENCE_S, SPAWN, Borrower, IpcHandle, check, cuda, new_side, timed
from torch_suite import torch_lacks

KIB, MIB = 1 << 10, 1 << 20


def median(times: list[float]) -> float:
    return statistics.median(times)


def tensors_of(side: Any, memory: str, count: int) -> list[Any]:
    """Returns tensors of 1 KiB in one allocation, also of raw memory, like PyTorch's allocator."""
    if memory == "torch":
        return [side.make(bytes(KIB)) for _ in range(count)]
    whole = side.make(bytes(KIB * count))
    return [tenon.from_dlpack(whole[n * KIB : (n + 1) * KIB]) for n in range(count)]


def known(name: str, memory: str, count: int) -> tuple[float, float]:
    """Measures shares and opens of tensors whose memory both sides already know."""
    side, borrower = new_side(name, memory), Borrower(name, memory)
    tensors = tensors_of(side, memory, count)
    messages: list[Any] = []
    # One lend first, so that handles and mappings exist.
    borrower.ask("hold", [side.lend(tensors[0])])
    shares = timed(tensors, lambda tensor: messages.append(side.lend(tensor)))
    opened = borrower.ask("times", messages)
    borrower.end()
    side.settle_once()
    return median(shares), median(opened)


def bare_share(count: int) -> float:
    """Measures the driver's calls of a share without a cache: the memory's handle, and a record of
    an existing event.
    """
    side = new_side("tenon", "raw")
    tensor = side.make(bytes(KIB))
    pointer = ctypes.c_uint64(side.pointer(tensor))
    event, handle = ctypes.c_void_p(), IpcHandle()
    check(
        cuda.cuEventCreate(ctypes.byref(event), ctypes.c_uint(4 | 2))
    )  # interprocess, without times

    def share(_: int) -> None:
        check(cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer))
        check(cuda.cuEventRecord(event, None))

    share(0)
    times = timed(range(count), share)
    check(cuda.cuEventDestroy_v2(event))
    return median(times)


def new_allocation(memory: str, rounds: int) -> tuple[float, float]:
    """Measures opening and closing an allocation that the borrower does not have open: Tenon, and
    bare calls of the driver.
    """
    side, borrower = new_side("tenon", memory), Borrower("tenon", memory)
    ours, theirs = [], []
    for _ in range(rounds):
        tensor = side.make(bytes(32 * MIB))
        message = side.lend(tensor)
        ours += borrower.ask("cycles", [message])
        handle = message.items[1]
        theirs += borrower.ask("bare", [handle])
        del tensor
        side.settle()
    borrower.end()
    return median(ours), median(theirs)


def round_trip(name: str, memory: str, count: int) -> float:
    """Measures a tensor of 1 KiB through a pipe, until its consumer confirms that it has it."""
    side, borrower = new_side(name, memory), Borrower(name, memory)
    if name == "torch":
        import torch.multiprocessing  # noqa: F401  (teaches pickling about tensors)
    tensors = tensors_of(side, memory, count)

    def go(tensor: Any) -> None:
        (
            borrower.ask("there", tensor)
            if name == "torch"
            else borrower.ask("cycles", [side.lend(tensor)])
        )

    go(tensors[0])
    times = timed(tensors, go)
    borrower.end()
    return median(times)


def takes(line: socket.socket, memory: str) -> None:
    """Runs the other end of a connection: confirms and releases each message, until an empty one
    arrives.
    """
    new_side("tenon", memory)
    with tenon.Connection(line.detach(), adopt=True) as connection:
        while len(connection.recv()) > 0:
            connection.send()
            tenon.cuda_collect()


def over_a_connection(memory: str, things: list[Any], tensor_of: Callable[[Any], Any]) -> float:
    """Measures the round trip of a 1 KiB tensor in a message under a lease, until the receiver
    confirms it.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receiver = SPAWN.Process(target=takes, args=(there, memory), daemon=True)
    receiver.start()
    there.close()
    with tenon.Connection(here, adopt=True) as connection:

        def go(thing: Any) -> None:
            connection.send([tensor_of(thing)])
            connection.recv()

        go(things[0])
        times = timed(things, go)
        connection.send()
        receiver.join(PATIENCE_S)
    assert receiver.exitcode == 0, f"the receiver ended with {receiver.exitcode}"
    return median(times)


def connected(memory: str, count: int) -> tuple[float, float]:
    """Measures existing tensors, and blocks that an arena allocates for each message."""
    side = new_side("tenon", memory)
    tensors = tensors_of(side, memory, count)
    there = over_a_connection(memory, tensors, lambda tensor: tensor)
    with tenon.CudaArena(MIB) as arena:
        blocks = over_a_connection(
            memory,
            tensors,
            lambda _: tenon.Tensor.over(arena.allocate(KIB, timeout=PATIENCE_S), KIB, "uint8"),
        )
    del tensors
    side.settle()
    return there, blocks


def gets(queue: Any, answers: Any) -> None:
    while queue.get() is not None:
        answers.put(True)


def torch_queue(count: int) -> float:
    """Measures PyTorch's own queue, as users of PyTorch send a tensor."""
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    receiver = context.Process(target=gets, args=(queue, answers), daemon=True)
    receiver.start()
    side = new_side("torch", "torch")
    tensors = tensors_of(side, "torch", count)

    def go(tensor: Any) -> None:
        queue.put(tensor)
        answers.get(timeout=PATIENCE_S)

    go(tensors[0])
    times = timed(tensors, go)
    queue.put(None)
    receiver.join(PATIENCE_S)
    return median(times)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--raw", action="store_true", help="without PyTorch, with memory of the driver itself"
    )
    arguments = parser.parse_args()
    count, rounds = (50, 3) if arguments.quick else (1000, 30)
    lacks = "--raw was said" if arguments.raw else torch_lacks()
    memory = "raw" if lacks else "torch"
    rows: list[tuple[str, float, str, float | None]] = []
    ours = known("tenon", memory, count)
    theirs = (None, None) if lacks else known("torch", memory, count)
    rows.append(("share a tensor of a known allocation", ours[0], "PyTorch", theirs[0]))
    rows.append(("the same", ours[0], "cuIpcGetMemHandle, cuEventRecord", bare_share(count)))
    rows.append(("open a tensor of a known allocation", ours[1], "PyTorch", theirs[1]))
    ours_new, bare = new_allocation(memory, rounds)
    rows.append(
        (
            "open and give back a new allocation of 32 MiB",
            ours_new,
            "cuIpcOpenMemHandle, cuIpcCloseMemHandle",
            bare,
        )
    )
    trips = (
        round_trip("tenon", memory, count),
        None if lacks else round_trip("torch", memory, count),
    )
    rows.append(("send 1 KiB until it is there, through a pipe", trips[0], "PyTorch", trips[1]))
    there, blocks = connected(memory, count)
    queued = None if lacks else torch_queue(count)
    rows.append(
        (
            "send 1 KiB until it is there, over a connection",
            there,
            "torch.multiprocessing.Queue",
            queued,
        )
    )
    rows.append(("take 1 KiB of an arena, and send it so", blocks, "", None))
    if lacks:
        print(f"PyTorch's column is empty: {lacks}")
    if ON_THE_FAKE:
        print("FAKE: the driver of tests/support/fake_cuda; these times say nothing of CUDA")
    print(f"| median, us{', FAKE' if ON_THE_FAKE else ''} | Tenon | against | |\n|---|---|---|---|")
    for what, our, against, their in rows:
        print(f"| {what} | {our:.1f} | {against} | {'' if their is None else f'{their:.1f}'} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        # Tensors in an exception's frames would outlive the interpreter state that their deleters
        # need.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
