"""Four workers use one copy of a model's weights. The first that opens the name loads the file, and
the others map the same memory. The worker that loaded is then killed, and a fifth one attaches all
the same.

usage: weights_once.py [FILE DIRECTORY]   with arguments it is a worker
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import tenon

FLOATS = 4_000_000


def write_file(path: Path) -> None:
    """A safetensors file of one tensor, as a model's weights come from a hub."""
    entry = {"dtype": "F32", "shape": [FLOATS], "data_offsets": [0, FLOATS * 4]}
    header = json.dumps({"layer.weight": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<f", 2.5) * FLOATS)


def pss_kb(address: int) -> int:
    """This process's share of the pages of the mapping at an address."""
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            begin, end = (int(text, 16) for text in words[0].split("-"))
            here = begin <= address < end
        elif here and words[0] == "Pss:":
            return int(words[1])
    return 0


def work(file: str, directory: str) -> None:
    with tenon.weights.open(file or None, name="model", directory=directory) as weights:
        array = weights["layer.weight"].numpy()
        print(int(weights.info().loaded), int(array.sum()), flush=True)
        sys.stdin.readline()  # until all workers have read all weights
        print(pss_kb(array.ctypes.data), flush=True)
        sys.stdin.read()


def start(file: str, directory: str) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, file, directory]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: "subprocess.Popen[str]", say: str = "") -> str:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(say)
    worker.stdin.flush()
    return worker.stdout.readline()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.safetensors")
        write_file(file)
        workers = [start(str(file), folder) for _ in range(4)]
        answers = [ask(worker).split() for worker in workers]
        loads = sum(int(loaded) for loaded, _ in answers)
        print(f"4 workers read {answers[0][1]}, and {loads} of them loaded the file")
        pss = sum(int(ask(worker, "\n")) for worker in workers)
        print(f"the file has {file.stat().st_size >> 10} KiB, and all workers together {pss} KiB")
        [loader] = [w for w, (loaded, _) in zip(workers, answers, strict=True) if loaded == "1"]
        loader.kill()
        file.unlink()
        fifth = start("", folder)  # without a path: it can only attach
        print(f"the loader was killed, and a new worker reads {ask(fifth).split()[1]}")
        for worker in [*workers, fifth]:
            worker.communicate()


if len(sys.argv) == 3:
    work(sys.argv[1], sys.argv[2])
else:
    main()
