"""usage: weights_once_test.py WORKER...

Each argument is the command of a worker of the example `weights_once`, one for each language. All
of them are workers of one name at the same time: one of them loads the file, the memory counts
once, and when the loader is killed the others hand the weights on to each command again.
"""

import json
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

FLOATS = 8_000_000
FILE_KIB = FLOATS * 4 // 1024
# The mapping has a header of the file and at most one page on each side, in each process.
SLACK_KIB = 64


def write_file(path: Path) -> None:
    entry = {"dtype": "F32", "shape": [FLOATS], "data_offsets": [0, FLOATS * 4]}
    header = json.dumps({"layer.weight": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<f", 2.5) * FLOATS)


class Worker:
    def __init__(self, command: str, file: str, directory: str) -> None:
        self.command = command
        self.process = subprocess.Popen(
            [*shlex.split(command), file, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, say: str = "") -> list[int]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(say)
        self.process.stdin.flush()
        answer = [int(word) for word in self.process.stdout.readline().split()]
        assert answer, f"{self.command} ended"
        return answer

    def end(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.command


def run(commands: list[str], folder: str) -> None:
    file = Path(folder, "model.safetensors")
    write_file(file)
    workers = [Worker(command, str(file), folder) for command in commands]
    try:
        answers = [worker.ask() for worker in workers]
        assert all(total == FLOATS * 2.5 for _, total in answers), answers
        assert sum(loaded for loaded, _ in answers) == 1, answers
        shares = [worker.ask("\n")[0] for worker in workers]
        print(f"the file has {FILE_KIB} KiB, and {len(workers)} workers together {sum(shares)} KiB")
        for worker, share in zip(workers, shares, strict=True):
            print(f"  {share:6} KiB  {worker.command}")
        assert FILE_KIB <= sum(shares) <= 1.05 * FILE_KIB + SLACK_KIB
        [loader] = [i for i, (loaded, _) in enumerate(answers) if loaded]
        killed = workers.pop(loader)
        killed.process.kill()
        killed.process.communicate()
        file.unlink()
        late = [Worker(command, "", folder) for command in commands]
        workers += late
        assert [worker.ask() for worker in late] == [[0, FLOATS * 5 // 2]] * len(late)
        assert 0 < sum(worker.ask("\n")[0] for worker in late) < FILE_KIB
        for worker in workers:
            worker.end()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.communicate()
    assert not list(Path(folder).iterdir()), "the last worker left a file"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(sys.argv[1:], directory)
