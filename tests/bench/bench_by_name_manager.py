"""The manager with 1,000 clients, its memory and its answer time, against PyTorch's own.

Each client has registered one name. Then the clients register once more, one after the other. The
time runs from a client's message to the answer, and the slowest hundredth has a row of its own.
Both managers run at the same time and answer in turn.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from python_pair import SMOKE, print_row

PYTHON = "torch"
CLIENTS = 50 if SMOKE else 1000
ROUNDS = 2 if SMOKE else 20


def message(number: int) -> bytes:
    name = f"/torch_{os.getpid()}_{number}_0".encode()
    return struct.pack("=iB60s3x", os.getpid(), 0, name)


class Manager:
    def __init__(self, command: list[str], folder: str) -> None:
        environment = {**os.environ, "TMPDIR": folder}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.path = self.process.stdout.readline().strip()
        self.clients = [self.connect(number) for number in range(CLIENTS)]

    def connect(self, number: int) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(self.path)
        self.register(client, number)
        return client

    @staticmethod
    def register(client: socket.socket, number: int) -> float:
        data = message(number)
        begin = time.perf_counter()
        client.sendall(data)
        answer = client.recv(2)
        end = time.perf_counter()
        if answer != b"OK":
            raise RuntimeError(f"the manager answered {answer!r}")
        return (end - begin) * 1e6

    def memory_kib(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return float(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    def close(self) -> None:
        for client in self.clients:
            client.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)


def main() -> None:
    import importlib.util
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    spec = importlib.util.find_spec("torch")
    theirs_program = (
        Path(spec.origin or "").parent / "bin" / "torch_shm_manager" if spec else Path()
    )
    program = Path(os.environ["TENON_BUILD_DIR"]) / "tenon-manager"
    for each in (program, theirs_program):
        if not os.access(each, os.X_OK) or each.is_dir():
            print(f'{{"left_out": "there is no {each}"}}', flush=True)
            return
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as folder:
        managers = [Manager([str(program)], folder), Manager([str(theirs_program)], folder)]
        ours: list[float] = []
        theirs: list[float] = []
        slow_ours: list[float] = []
        slow_theirs: list[float] = []
        for _ in range(ROUNDS):
            times: tuple[list[float], list[float]] = ([], [])
            for number in range(CLIENTS):
                for side, manager in enumerate(managers):
                    times[side].append(manager.register(manager.clients[number], number))
            for side, (middle, slow) in enumerate(((ours, slow_ours), (theirs, slow_theirs))):
                middle.append(statistics.median(times[side]))
                slow.append(sorted(times[side])[len(times[side]) * 99 // 100])
        name = f"{sys.prefix.rsplit('/', 1)[-1]}: torch_shm_manager"
        what = f"manager with {CLIENTS:,} clients"
        print_row(f"{what}, register, p50", "us", name, None, ours, theirs)
        print_row(f"{what}, register, p99", "us", name, None, slow_ours, slow_theirs)
        print_row(
            f"{what}, memory", "KiB", name, None, *([manager.memory_kib()] for manager in managers)
        )
        for manager in managers:
            manager.close()


if __name__ == "__main__":
    main()
