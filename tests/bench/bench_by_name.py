"""Memory made, lent and opened by name, against PyTorch's file_system strategy.

Rows compare Tenon from Python and Tenon in C with PyTorch in the same run. In each round the
producer makes memory under a new name, fills it, and sends the name through a pipe. The consumer, a
process of its own, opens the memory, reads the first byte, releases it and acknowledges. Then the
producer releases it. PyTorch's storage is private first, and _share_filename_cpu_ copies it, as
PyTorch's users do. PyTorch's producer and its consumer tell the manager. Times are for one
hand-over, as means of batches.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

PYTHON = "torch"
SIZES = (("4 KiB", 4 << 10, 20, 60), ("1 MiB", 1 << 20, 5, 40))


def consume(torch: Any, tenon: Any, take: socket.socket) -> None:
    while order := take.recv(400):
        side, manager, name, nbytes = order.split(b" ")
        if side == b"theirs":
            storage = torch.UntypedStorage._new_shared_filename_cpu(manager, name, int(nbytes))
            ctypes.string_at(storage.data_ptr(), 1)
        else:
            storage = tenon.open_filename(name.decode(), int(nbytes), allow_unsealed=True)
            memoryview(storage)[0]
        del storage
        take.send(b"\1")


def main() -> None:
    tenon = load_tenon()
    import torch

    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    consumer = os.fork()
    if consumer == 0:
        here.close()
        try:
            consume(torch, tenon, there)
        finally:
            os._exit(0)
    there.close()
    program = Path(os.environ["TENON_BUILD_DIR"]) / "tests" / "bench" / "bench_by_name"
    in_c = subprocess.Popen(
        [program, "--pairs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    name = f"PyTorch {torch.__version__.split('+')[0]}, file_system"

    def hand_over(*parts: bytes) -> None:
        here.send(b" ".join(parts))
        if here.recv(1) != b"\1":
            raise RuntimeError("the consumer is gone")

    def ours(nbytes: int, batch: int) -> None:
        for _ in range(batch):
            storage = tenon.Storage.new_filename(nbytes)
            ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(storage)), 1, nbytes)
            handle = storage.share_filename()
            hand_over(b"ours", b"", handle.name.encode(), b"%d" % nbytes)

    def theirs(nbytes: int, batch: int) -> None:
        for _ in range(batch):
            storage = torch.UntypedStorage(nbytes)
            ctypes.memset(storage.data_ptr(), 1, nbytes)
            manager, filename, size = storage._share_filename_cpu_()
            hand_over(b"theirs", manager, filename, b"%d" % size)
            del storage

    def ours_in_c(nbytes: int, batch: int) -> float:
        assert in_c.stdin is not None and in_c.stdout is not None
        in_c.stdin.write(f"{nbytes} {batch}\n")
        return float(in_c.stdout.readline())

    for size, nbytes, batch, rounds in SIZES:
        rounds = 2 if SMOKE else rounds
        what = f"make, lend and open by name, {size}"
        mine, other = interleave(
            rounds,
            lambda nbytes=nbytes, batch=batch: lambda: ours(nbytes, batch),
            lambda nbytes=nbytes, batch=batch: lambda: theirs(nbytes, batch),
        )
        print_row(
            f"{what}, Python",
            "us",
            name,
            None,
            [second * 1e6 / batch for second in mine],
            [second * 1e6 / batch for second in other],
        )
        native: list[float] = []
        _, other = interleave(
            rounds,
            lambda nbytes=nbytes, batch=batch, native=native: (
                lambda: native.append(ours_in_c(nbytes, batch) / 1e3)
            ),
            lambda nbytes=nbytes, batch=batch: lambda: theirs(nbytes, batch),
        )
        print_row(
            f"{what}, C",
            "us",
            name,
            None,
            native[-len(other) :],
            [second * 1e6 / batch for second in other],
        )
    here.close()
    os.waitpid(consumer, 0)
    in_c.communicate()


if __name__ == "__main__":
    main()
