"""`tenon weights ls`: the weights that processes share by a name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SOURCE, read_json, run, wait_until, wait_until_stopped

WEIGHTS = SOURCE / "tests/peers/golden/weights/torch-2.8.0.pt2"
LIBRARY = Path(os.environ["TENON_BUILD_DIR"]) / "libtenon.so.1"

# Opens the weights of a name, and keeps them. The struct is tenon_shared_weights_options.
OPENER = """
import ctypes, sys
library, path, name, directory = sys.argv[1:]
class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("flags", ctypes.c_uint32),
                ("group", ctypes.c_uint32), ("directory", ctypes.c_char_p),
                ("max_nbytes", ctypes.c_uint64), ("progress", ctypes.c_void_p),
                ("progress_context", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 16)]
options = Options(ctypes.sizeof(Options), 0, 0, directory.encode(), 0, None, None)
weights = ctypes.c_void_p()
tenon = ctypes.CDLL(library)
status = tenon.tenon_open_shared_weights(path.encode() or None, name.encode(),
    ctypes.byref(options), None, ctypes.byref(weights), None)
print(status, flush=True)
sys.stdin.read()
"""


class Openers:
    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[str]]()

    def start(self, name: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", OPENER, LIBRARY, WEIGHTS, name, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "0\n"
        return process.pid

    def stop(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def openers(tmp_path: Path) -> Iterator[Openers]:
    made = Openers(tmp_path)
    yield made
    made.stop()


def test_it_lists_who_has_the_weights(openers: Openers) -> None:
    server, other = openers.start("net"), openers.start("net")
    alone = openers.start("alone")
    [first, second] = read_json("weights", "ls", openers.folder)["weights"]
    assert (first["name"], first["server_pid"], first["holders"]) == ("alone", alone, [alone])
    assert (second["name"], second["state"], second["server_pid"]) == ("net", "live", server)
    assert second["holders"] == sorted([server, other]) and second["loader_pid"] == server
    assert second["file"] == WEIGHTS.name and second["file_nbytes"] == WEIGHTS.stat().st_size
    text = run("weights", "ls", openers.folder).stdout
    assert "2 names in" in text and WEIGHTS.name in text and str(other) in text


def test_it_tells_stopped_and_dead_servers(openers: Openers) -> None:
    server = openers.start("net")
    os.kill(server, signal.SIGSTOP)
    wait_until_stopped(server)
    [found] = read_json("weights", "ls", openers.folder)["weights"]
    assert (found["state"], found["server_pid"]) == ("silent", server)
    openers.stop()

    def state() -> str:
        [found] = read_json("weights", "ls", openers.folder)["weights"]
        return str(found["state"])

    wait_until(lambda: state() == "dead", "the name is not dead")


def test_what_is_not_there(openers: Openers) -> None:
    assert read_json("weights", "ls", openers.folder)["weights"] == []
    done = run("weights", "ls", openers.folder / "none")
    assert done.returncode == 1 and "No such file" in done.stderr
    assert run("weights", "ls").returncode == 0
