"""Ctrl-C ends any wait. Other signals do not."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

PREPARE = """
import signal, sys, threading, time, tenon
left, right = tenon.pair()
arena = tenon.Arena(1 << 20)
"""

WAITS = {
    "recv": "left.recv()",
    "recv with timeout": "left.recv(timeout=60)",
    "recv with cancel": "left.recv(cancel=tenon.Cancel())",
    "empty": "keep = arena.empty(1 << 20, 'uint8'); arena.empty(1, timeout=None)",
    "empty with timeout": "keep = arena.empty(1 << 20, 'uint8'); arena.empty(1, timeout=60)",
    "send": "[left.send(tenon.zeros(1), user_bytes=bytes(60000)) for _ in range(100000)]",
}


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c(child: Any, wait: str, threads: int) -> None:
    # If there are other threads, the kernel may deliver the signal to one of them.
    program = f"""{PREPARE}
stop = threading.Event()
others = [threading.Thread(target=stop.wait) for _ in range({threads})]
for thread in others: thread.start()
try:
    print("ready", flush=True)
    {WAITS[wait]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
stop.set()
"""
    process = child(program)
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)  # lets the wait begin; a signal before it would end it just as well
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"interrupted\n"
    assert time.monotonic() - start < 30  # without the signal a wait takes a minute or for ever
    assert process.wait(60) == 0


def test_other_signals_run_their_handler_and_the_wait_goes_on(child: Any) -> None:
    program = f"""{PREPARE}
def handler(*_):
    print("handled", flush=True)
signal.signal(signal.SIGUSR1, handler)
print("ready", flush=True)
print(len(left.recv()), flush=True)
right.close()
"""
    program = program.replace(
        "print(len(", "threading.Timer(1.0, lambda: right.send(tenon.zeros(1))).start()\nprint(len("
    )
    process = child(program)
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    for _ in range(3):
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == b"handled\n"
    assert process.stdout.readline() == b"1\n"
    assert process.wait(60) == 0


def test_an_exception_of_a_handler_ends_the_wait(child: Any) -> None:
    program = f"""{PREPARE}
class Stop(Exception): pass
def handler(*_): raise Stop
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    left.recv()
except Stop:
    right.send(tenon.zeros(1))
    print(len(left.recv()))
"""
    process = child(program)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"1\n")
