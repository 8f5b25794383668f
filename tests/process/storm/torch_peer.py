"""PyTorch in the storm of names (world.cc): a nursery that imports PyTorch once and forks workers,
which are killed in its place.

Orders come over the socket whose number is the first argument. Each order brings a seed and a
worker's socket to the driver. The answer is the worker's pid. A worker obeys the orders of
tests/support/storm/peer.h, and name_peer.h defines the messages.
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
import traceback
from typing import Any

import torch

# An order: what, role, phase, dead, seed, number of links, and of each link whether it leads out,
# its kind and the other peer.
ORDER = struct.Struct("=B3xIIIQI32?32B32I4x")
ROUND, PHASE = 0, 1
ANSWER, NO_MANAGER = b"\0", b"\1"
NOTE = struct.Struct(
    "=IiQQIIQQ108s256s4x"
)  # in_flight, sender, seed, and the handle: its size, access, reserved, offset, nbytes, ...
HANDLE_NBYTES = 400
assert NOTE.size == 416
ROWS = [bytes((start + 7 * i) & 0xFF for i in range(256)) for start in range(256)]
UntypedStorage: Any = torch.UntypedStorage


def pattern(nbytes: int, seed: int) -> bytes:
    blocks = (ROWS[(seed * 37 + block) & 0xFF] for block in range((nbytes + 255) // 256))
    return b"".join(blocks)[:nbytes]


def dies(pid: int) -> bool:
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    dead = bool(select.select([end], [], [], 5)[0])
    os.close(end)
    return dead


class Worker:
    def __init__(self, control: socket.socket, seed: int) -> None:
        self.control = control
        self.takes: list[socket.socket] = []
        self.gives: list[socket.socket] = []
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
        self.control.send(NO_MANAGER)
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
            self.random.choice(self.gives).send(
                NOTE.pack(1, os.getpid(), seed, *handle), socket.MSG_DONTWAIT
            )
        except OSError:  # the socket is full, or its reader is gone
            storage._shared_decref()

    def receive(self) -> None:
        try:
            note = self.random.choice(self.takes).recv(NOTE.size, socket.MSG_DONTWAIT)
        except OSError:  # nothing has come, or the sender is gone
            return
        if not note:
            return
        in_flight, sender, seed, _, _, _, _, nbytes, manager, name = NOTE.unpack(note)
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
        while True:
            packet, fds, _, _ = socket.recv_fds(self.control, ORDER.size, 32)
            if not packet:
                return
            what, _, phase, _, _, n_links, *links = ORDER.unpack(packet)
            if what == ROUND:
                for fd, is_out in zip(fds, links[:n_links], strict=True):
                    (self.gives if is_out else self.takes).append(socket.socket(fileno=fd))
                self.control.send(ANSWER)
                while not select.select([self.control], [], [], 0)[0]:
                    self.step()
            elif what == PHASE:
                for storage, seed, _ in self.held:
                    self.look(storage, seed)
                if phase == 1:
                    self.held.clear()
                self.control.send(ANSWER)
            else:
                signal.pause()  # The storm kills this process.


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    orders.send(b"ready " + torch.__version__.encode())
    while True:
        order, fds, _, _ = socket.recv_fds(orders, 64, 1)
        if not order:
            return
        # A process between the two ends at once, so that the storm becomes the worker's parent.
        between = os.fork()
        if between == 0:
            if pid := os.fork():
                orders.send(str(pid).encode())
                os._exit(0)
            orders.close()
            signal.alarm(60)
            status = 1
            try:
                Worker(socket.socket(fileno=fds[0]), int(order)).run()
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                # The worker ends as one of torch.multiprocessing does: storages are released, and
                # exit handlers do not run.
                os._exit(status)
        os.waitpid(between, 0)
        os.close(fds[0])


if __name__ == "__main__":
    main()
