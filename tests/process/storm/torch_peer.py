"""PyTorch in the storm (storm.py): a nursery that imports PyTorch once and forks workers, which are
killed in its place.

Orders come over the socket whose number is the first argument. Each order brings three fds: the
worker's control, the queue from which the worker takes and the queue to which it gives. The answer
is the worker's pid. storm_peer.c defines the messages of the queues.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

import torch

NOTE = struct.Struct(
    "=IiQQIIQQ108s256s4x"
)  # in_flight, sender, seed, and the handle: its size, access, reserved, offset, nbytes, ...
HANDLE_NBYTES = 400
assert NOTE.size == 416
ROWS = [bytes((start + 7 * i) & 0xFF for i in range(256)) for start in range(256)]
UntypedStorage: Any = torch.UntypedStorage


def pattern(nbytes: int, seed: int) -> bytes:
    blocks = (ROWS[(seed * 131 + block) & 0xFF] for block in range((nbytes + 255) // 256))
    return b"".join(blocks)[:nbytes]


def is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
    except OSError:
        return True
    return fields["State"].strip()[0] in "ZX" or bool(
        int(fields["ShdPnd"], 16) & 1 << (signal.SIGKILL - 1)
    )


def dies(pid: int) -> bool:
    deadline = time.monotonic() + 1
    while not is_dead(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Worker:
    def __init__(
        self, control: socket.socket, take: socket.socket, give: socket.socket, seed: int
    ) -> None:
        self.control, self.take, self.give = control, take, give
        self.random = random.Random(seed)
        self.held: list[tuple[Any, int, tuple[bytes, bytes, int] | None]] = []
        self.manager = b""

    def look(self, storage: Any, seed: int) -> None:
        nbytes = storage.nbytes()
        if ctypes.string_at(storage.data_ptr(), nbytes) != pattern(nbytes, seed):
            self.fail("the bytes of a storage are not what they were")

    def fail(self, what: str) -> None:
        print(
            f"torch_peer {os.getpid()} ({torch.__version__}): {what}", file=sys.stderr, flush=True
        )
        os._exit(1)

    def is_about_manager(self, error: RuntimeError) -> bool:
        if not any(
            text in str(error)
            for text in (
                "Connection refused",
                "manager",
                "Other end",
                "Broken pipe",
                "Connection reset",
            )
        ):
            return False
        self.control.send(b"M " + str(error).split("\n")[0].encode()[:200])
        return True

    def hold(self, storage: Any, seed: int, lent: tuple[bytes, bytes, int] | None) -> None:
        self.look(storage, seed)
        if len(self.held) >= 8:
            self.held.pop(self.random.randrange(len(self.held)))
        self.held.append((storage, seed, lent))

    def make(self) -> None:
        nbytes, seed = self.random.randrange(1, 9000), self.random.randrange(1000000)
        storage = UntypedStorage(nbytes)
        ctypes.memmove(storage.data_ptr(), pattern(nbytes, seed), nbytes)
        try:
            lent = storage._share_filename_cpu_()
        except RuntimeError as error:
            if not self.is_about_manager(error):
                self.fail(f"share: {error}")
            return
        self.hold(storage, seed, lent)

    def send(self) -> None:
        storage, seed, lent = self.random.choice(self.held)
        if lent is None:
            return
        manager, name, nbytes = lent
        storage._shared_incref()
        handle = (HANDLE_NBYTES, 0, 0, 0, nbytes, manager, name)
        try:
            self.give.send(NOTE.pack(1, os.getpid(), seed, *handle), socket.MSG_DONTWAIT)
        except BlockingIOError:
            storage._shared_decref()

    def receive(self) -> None:
        try:
            in_flight, sender, seed, _, _, _, _, nbytes, manager, name = NOTE.unpack(
                self.take.recv(NOTE.size, socket.MSG_DONTWAIT)
            )
        except BlockingIOError:
            return
        try:
            storage = UntypedStorage._new_shared_filename_cpu(
                manager.rstrip(b"\0"), name.rstrip(b"\0"), nbytes
            )
        except RuntimeError as error:
            gone = "No such file" in str(error) and (not in_flight or dies(sender))
            if not gone and not self.is_about_manager(error):
                self.fail(f"open: {error}")
            return
        if in_flight:
            storage._shared_decref()
        self.manager = manager
        self.hold(storage, seed, None)

    def step(self) -> None:
        dice = self.random.random()
        # A worker that makes a name before it has met Tenon's manager gets PyTorch's manager.
        if dice < 0.3 and self.manager:
            self.make()
        elif dice < 0.5 and self.held:
            self.send()
        elif dice < 0.85:
            self.receive()
        elif self.held:
            self.held.pop(self.random.randrange(len(self.held)))
        if self.held:
            self.look(*self.random.choice(self.held)[:2])

    def run(self) -> None:
        self.control.send(b"W")
        while True:
            if select.select([self.control], [], [], 0)[0]:
                order = self.control.recv(1)
                if order != b"S":
                    return
                for storage, seed, _ in self.held:
                    self.look(storage, seed)
                self.held.clear()
                self.control.send(b"S 0 0 1")
                if self.control.recv(1) != b"R":
                    return
            self.step()


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    orders.send(b"ready " + torch.__version__.encode())
    while True:
        order, fds, _, _ = socket.recv_fds(orders, 64, 3)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            signal.alarm(60)
            status = 1
            try:
                Worker(*(socket.socket(fileno=fd) for fd in fds), int(order)).run()
                status = 0
            finally:
                # The worker ends as one of torch.multiprocessing does: storages are released, and
                # exit handlers do not run.
                os._exit(status)
        for fd in fds:
            os.close(fd)
        orders.send(str(pid).encode())


if __name__ == "__main__":
    main()
