#!/usr/bin/env python3
"""The example inference_server with workers in several languages, also when workers die.

usage: inference_server_test.py SERVER WORKER...     each WORKER is a command
       inference_server_test.py says|silent FD       a worker that takes a request and never answers

Exit status 77: the Python package is not installed.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROWS, WIDTH = 16, 256
SECONDS = 60


def take(kind: str, fd: int) -> None:
    """Take a request. `says` tells the front end so, and `silent` does not."""
    import tenon

    connection = tenon.Connection(fd)
    start = connection.recv()
    requests = tenon.Queue.join(start["requests"].storage)
    answers = tenon.Queue.join(start["answers"].storage)
    connection.send(user_bytes=b"ready")
    request = requests.recv()
    if len(request) == 0:
        return
    if kind == "says":
        answers.send(user_bytes=request.user_bytes + os.getpid().to_bytes(4, "little"))
    print(f"{os.getpid()} has taken a request", flush=True)
    signal.pause()


class Server:
    """A front end and its workers. After a failure all of them are killed."""

    def __init__(self, program: str, workers: list[str]) -> None:
        self.pids: list[int] = []
        self.process = subprocess.Popen(
            [program, "-listen", "127.0.0.1:0", *workers], stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self.has_ended = False
        self.changed = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def __enter__(self) -> Server:
        found = self.wait_for(r"http://(\S+), workers \[([\d ]+)\]")
        self.address, self.pids = found[1], [int(pid) for pid in found[2].split()]
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for pid in [self.process.pid, *self.pids]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0, "the server did not end in order"
        for pid in self.pids:
            assert not Path(f"/proc/{pid}").exists(), f"worker {pid} is left"

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print("   ", line, end="", flush=True)
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + SECONDS
        with self.changed:
            while True:
                for line in self.lines:
                    if found := re.search(pattern, line):
                        return found
                left = deadline - time.monotonic()
                assert left > 0 and not self.has_ended, f"never printed: {pattern}"
                self.changed.wait(left)

    def post(self, body: bytes) -> tuple[int, bytes, str | None]:
        return self.ask("POST", body)

    def ask(self, method: str, body: bytes = b"") -> tuple[int, bytes, str | None]:
        connection = http.client.HTTPConnection(self.address, timeout=SECONDS)
        try:
            connection.request(method, "/", body)
            response = connection.getresponse()
            return response.status, response.read(), response.getheader("X-Worker")
        finally:
            connection.close()


def matrix(number: int) -> Any:
    import numpy

    return ((numpy.arange(ROWS * WIDTH, dtype="float32") + number) % 7 - 3).reshape(ROWS, WIDTH)


def expected(x: Any) -> bytes:
    import numpy

    i, j = numpy.indices((WIDTH, WIDTH))
    weights = ((i % 5 - 2 + j % 3) / 4).astype("float32")
    answer: bytes = numpy.maximum(x @ weights, 0).astype("float32").tobytes()
    return answer


def check_answers(program: str, worker: str) -> None:
    """A worker answers, also after a request that was none."""
    with Server(program, [worker]) as server:
        for number in range(5):
            x = matrix(number)
            status, body, pid = server.post(x.tobytes())
            assert (status, body, pid) == (200, expected(x), str(server.pids[0])), (status, pid)
            assert server.post(b"too short")[0] == 400


def check_death(program: str, kind: str, others: list[str]) -> None:
    """A worker that has a request is killed. Another one answers, and the worker is named."""
    with Server(program, [f"{sys.executable} -B {__file__} {kind}", *others]) as server:
        x = matrix(1)
        results: list[tuple[int, bytes, str | None]] = []
        commands = {
            pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in server.pids
        }
        (victim,) = [pid for pid, words in commands.items() if kind.encode() in words]
        left = [pid for pid in server.pids if pid != victim]
        # While the others are stopped, only this worker can take the request.
        for pid in left:
            os.kill(pid, signal.SIGSTOP)
        client = threading.Thread(
            target=lambda: results.append(server.post(x.tobytes())), daemon=True
        )
        client.start()
        server.wait_for(f"^{victim} has taken a request")
        if kind == "says":
            wanted = f"worker {victim} has [1]\n".encode()
            deadline = time.monotonic() + SECONDS
            while wanted not in server.ask("GET")[1]:
                assert time.monotonic() < deadline, "the front end does not know who has it"
                time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        server.wait_for(f"worker {victim} has died, {len(left)} are left")
        if kind == "says" and left:
            server.wait_for(f"request 1 was with worker {victim}, and is sent again")
        for pid in left:
            os.kill(pid, signal.SIGCONT)
        client.join(SECONDS)
        ((status, body, name),) = results
        if left:
            assert (status, body) == (200, expected(x)), status
            assert name is not None and int(name) in left
        else:
            assert status == 503 and b"no worker is left" in body
            assert server.post(x.tobytes())[0] == 503


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] in ("says", "silent"):
        take(sys.argv[1], int(sys.argv[2]))
        return 0
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if importlib.util.find_spec("tenon") is None or importlib.util.find_spec("numpy") is None:
        print("skipped: the Python packages tenon and numpy are not installed")
        return 77
    program, workers = sys.argv[1], sys.argv[2:]
    for worker in workers:
        print(f"answers of {worker}", flush=True)
        check_answers(program, worker)
    for kind in ("says", "silent"):
        print(f"the death of a worker that {kind}", flush=True)
        check_death(program, kind, workers)
    print("the death of the last worker", flush=True)
    check_death(program, "says", [])
    print("the demonstration", flush=True)
    output = subprocess.run(
        [program, *workers], check=True, stdout=subprocess.PIPE, text=True, timeout=SECONDS
    ).stdout
    print(output, end="")
    assert re.search(r"worker \d+ was killed, and all 100 answers are right", output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
