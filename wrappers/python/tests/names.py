"""Shared by the tests of names."""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import time
from collections.abc import Callable

import numpy as np
import tenon

Child = Callable[..., "subprocess.Popen[bytes]"]

HEADER = 64
SEND = "import os, sys, tenon\ndef say(*words): print(*words, flush=True)\n"
OPEN = (
    SEND
    + """
name, nbytes = sys.argv[1], int(sys.argv[2])
offset = int(sys.argv[3]) if len(sys.argv) > 3 else 0
storage = tenon.open_filename(name, nbytes, offset, allow_unsealed=True)
tensor = tenon.Tensor.over(storage, (nbytes // 4,), "float32")
say(tensor.tolist())
for line in sys.stdin:
    if line.startswith("read"): say(tensor.tolist())
    elif line.startswith("write"): tensor.numpy()[0] = float(line.split()[1]); say("done")
    elif line.startswith("close"): tensor.close(); storage.close(); say("done")
"""
)


def settled(path: str) -> list[str]:
    """Wait until a directory is empty, and return what is left in it.

    Two threads that look at one name at once disturb each other. The library's thread then looks
    again a little later.
    """
    gc.collect()
    deadline = time.monotonic() + 10
    while os.listdir(path) and time.monotonic() < deadline:
        time.sleep(0.002)
    return os.listdir(path)


def count_of(path: str) -> int:
    with open(path, "rb") as file:
        return int(struct.unpack("i", file.read(4))[0])


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    text = process.stdout.readline().decode().strip()
    assert text, f"it ended with {process.wait(60)}"
    return text


def tell(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text.encode() + b"\n")
    process.stdin.flush()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def gone(path: str) -> None:
    wait_until(lambda: not os.path.exists(path))


def named(folder: str, values: object = (1.0, 2.0, 3.0), **options: object) -> tenon.Tensor:
    return tenon.from_numpy(
        np.asarray(values, "float32"), filename=tenon.Filename(directory=folder, **options)
    )  # type: ignore[arg-type]
