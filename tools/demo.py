"""Lends the weights of a real model once, to a C program, to Python and to PyTorch, and shows what
that cost.

tools/demo runs this program once everything is built. The program exits with 1 if a promise that it
prints does not hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tenon

ROOT = Path(__file__).resolve().parent.parent
MODEL = "data/silero_vad_16k.safetensors"
# What to try after the demo, and what each command does. A first word without a slash is a program
# beside this Python. A word with a slash is a file of the repository.
NEXT = (
    ("python3 examples/python/queue_of_tensors.py", "puts a tensor into a multiprocessing queue"),
    ("python3 examples/python/read_only_lend.py", "lends a tensor that the borrower cannot change"),
    ("tenon doctor", "says what limits Tenon on this machine"),
    ("docs/start/python.md", "is the quickstart in Python; docs/start has other languages too"),
    ("tools/test", "builds and runs all tests (this takes much longer than the demo)"),
)


class Failure(Exception):
    """A promise that did not hold."""


def check(holds: bool, promise: str) -> None:
    if not holds:
        raise Failure(promise)


def model_file() -> Path:
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise Failure(
            "the PyPI package silero-vad is not installed: run tools/demo, not tools/demo.py"
        )
    return Path(spec.submodule_search_locations[0]) / MODEL


def load(path: Path) -> dict[str, tenon.Tensor]:
    """Copy all weights of the file into one storage that can be lent: the demo's only copy."""
    from safetensors import safe_open

    arrays: dict[str, Any] = {}
    with safe_open(str(path), framework="numpy") as archive:
        for name in archive.keys():
            arrays[name] = archive.get_tensor(name)
    places: dict[str, int] = {}
    end = 0
    for name, array in arrays.items():
        places[name] = end
        end += (array.nbytes + 63) // 64 * 64
    storage = tenon.Storage.new(end)
    weights = {}
    for name, array in arrays.items():
        storage.write(array.tobytes(), places[name])
        weights[name] = tenon.Tensor.over(
            storage, array.shape, array.dtype, offset=places[name] // array.itemsize
        )
    return weights


class Borrower:
    """A process of another kind, at the other end of a socket."""

    def __init__(self, title: str, command: list[str], environment: dict[str, str]) -> None:
        self.title = title
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [theirs.fileno() if each == "FD" else each for each in command]
        with theirs:
            self.process = subprocess.Popen(
                [str(each) for each in arguments],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **environment},
            )
        self.connection = tenon.Connection(ours, adopt=True)
        self.answers: dict[str, Any] = {}

    def wait_until_ready(self) -> None:
        check(self.connection.recv(timeout=120).user_bytes == b"ready", f"{self.title} starts")

    def lend(self, weights: dict[str, tenon.Tensor]) -> float:
        sent = time.monotonic_ns()
        self.connection.send(weights, timeout=10)
        self.answers = json.loads(self.connection.recv(timeout=30).user_bytes)
        return (int(self.answers["first_byte_ns"]) - sent) / 1e3

    def ask(self, command: str) -> dict[str, Any]:
        self.connection.send(user_bytes=command.encode(), timeout=10)
        self.answers = json.loads(self.connection.recv(timeout=30).user_bytes)
        return self.answers

    def end(self) -> None:
        self.connection.close()
        check(self.process.wait(timeout=30) == 0, f"{self.title} ends in order")


def segment_memory(pid: int) -> tuple[int, int]:
    """Resident and proportional KiB that a process has of Tenon's segments, as the kernel counts
    them.
    """
    resident = proportional = 0
    inside = False
    for line in (
        Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines()
    ):
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            inside = "/memfd:tenon-" in rest
        elif inside and first == "Rss:":
            resident += int(rest.split()[0])
        elif inside and first == "Pss:":
            proportional += int(rest.split()[0])
    return resident, proportional


def has_torch(python: str) -> str | None:
    found = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else None


def borrowers(build: Path) -> list[Borrower]:
    program = str(ROOT / "examples" / "python" / "share_weights.py")
    found = [
        Borrower("C program", [str(build / "examples" / "c" / "share_weights"), "FD"], {}),
        Borrower("Python, numpy", [sys.executable, program, "FD", "numpy"], {}),
    ]
    for variable in ("TENON_TORCH_DEBIAN", "TENON_TORCH_NEWEST"):
        python = os.environ.get(variable)
        if not python:
            continue
        version = has_torch(python)
        if version is None:
            print(f"  (no PyTorch in {python}: left out)")
        else:
            found.append(Borrower(f"PyTorch {version}", [python, program, "FD", "torch"], {}))
    if len(found) == 2:
        print("  (PyTorch takes no part: this Python has none, or --no-torch was given)")
    return found


def open_fds() -> int:
    """Count this process's fds, without those of the library's thread, which stay while a lender
    lives.
    """
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += not os.readlink(f"/proc/self/fd/{fd}").startswith("anon_inode:")
        except FileNotFoundError:  # the fd of listdir itself
            count += 1
    return count


def maker_of(path: Path) -> int:
    """The pid of the process that made a name in /dev/shm; 0: unknown. PyTorch writes its pid into
    the name, and Tenon into the file's head. For a socket the kernel tells who listens.
    """
    if path.name.startswith("torch_"):
        pid = path.name.split("_")[1]
        return int(pid) if pid.isdecimal() else 0
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                probe.connect(str(path))
                return int(
                    struct.unpack(
                        "3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    )[0]
                )
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return 0
    return int(struct.unpack_from("<i", head, 12)[0]) if head[4:8] == b"TnN1" else 0


def names_of(pids: list[int]) -> list[str]:
    """Names in /dev/shm that these processes made. Other processes' names may come and go
    meanwhile.
    """
    return [str(path) for path in Path("/dev/shm").iterdir() if maker_of(path) in pids]


def run(build: Path) -> None:
    fds_before = open_fds()
    path = model_file()
    weights = load(path)
    first = next(iter(weights.values()))
    count, nbytes = len(weights), first.storage.nbytes
    loaded = tenon.stats().bytes_copied
    print(
        f"loaded   {path.name}: {count} tensors, {nbytes:,} bytes, into one storage ({loaded:,}"
        " bytes copied, this once)"
    )

    peers = borrowers(build)
    for peer in peers:
        peer.wait_until_ready()

    print(f"\nlent     the same {count} tensors to {len(peers)} processes, first byte read after")
    for peer in peers:
        microseconds = peer.lend(weights)
        check(int(peer.answers["bytes_copied"]) == 0, f"{peer.title} copied nothing")
        print(
            f"  {peer.title:<22} {microseconds:>8.0f} µs   writable   bytes copied there:"
            f" {peer.answers['bytes_copied']}"
        )
    check(tenon.stats().bytes_copied == loaded, "lending copies nothing")
    print(f"  bytes copied here for all these lends: {tenon.stats().bytes_copied - loaded}")

    print("\nread     by every process, in place: the sum of all weights")
    expected = float(sum(tensor.numpy().sum(dtype="float64") for tensor in weights.values()))
    for peer in peers:
        total = float(peer.ask("sum")["sum"])
        check(
            abs(total - expected) <= 1e-6 * max(1.0, abs(expected)),
            f"{peer.title} reads the same weights ({total} and not {expected})",
        )
        print(f"  {peer.title:<22} {total:.6f}")

    print(
        f"\nwritten  by every process, in place: each adds 1 to a weight of {next(iter(weights))!r}"
    )
    values = first.numpy().reshape(-1)
    before = values[: len(peers)].copy()
    # The array adds in float32, as the borrowers do. NumPy 1 adds to a single float32 in float64.
    after = before + 1
    for index, peer in enumerate(peers):
        peer.ask(f"add {index}")
        check(bool(values[index] == after[index]), f"the write of {peer.title} is seen here")
        print(
            f"  {peer.title:<22} weight {index}: {before[index]:+.4f} -> {values[index]:+.4f}, seen"
            " by the lender"
        )
    for peer in peers:
        total = float(peer.ask("sum")["sum"])
        check(
            abs(total - expected - len(peers)) <= 1e-3, f"{peer.title} sees what the others wrote"
        )
    print("  and every process sees what the others wrote")

    print("\nmemory   of the weights, as the kernel counts it (KiB)        resident   share (PSS)")
    shares = 0
    for title, pid in [
        ("lender", os.getpid()),
        *((peer.title, peer.process.pid) for peer in peers),
    ]:
        resident, share = segment_memory(pid)
        shares += share
        print(f"  {title:<52} {resident:>8} {share:>13}")
    print(f"  {'all shares together: the weights stand in memory once':<52} {'':>8} {shares:>13}")
    check(shares <= nbytes / 1024 * 1.1 + 64, "the weights stand in memory once")

    pids = [os.getpid(), *(peer.process.pid for peer in peers)]
    for peer in peers:
        peer.end()
    running = sum(Path(f"/proc/{pid}").exists() for pid in pids[1:])
    del first, values, weights, peer, peers
    tenon.trim()
    names_left = len(names_of(pids))
    fds_left, segments_left = open_fds() - fds_before, tenon.stats().segments
    print(
        f"\nleft     processes: {running}   fds: {fds_left}   names in /dev/shm: {names_left}  "
        f" segments: {segments_left}"
    )
    check(running == 0, "no process is left")
    check(fds_left == 0, "no fd is left")
    check(names_left == 0, "no name is left in /dev/shm")
    check(segments_left == 0, "no segment is left")


def as_typed(command: str) -> str:
    """Returns the command as a shell takes it in the reader's folder. Its files must exist."""
    words = command.split()
    for index, word in enumerate(words):
        if "/" in word or index == 0:
            path = ROOT / word if "/" in word else Path(sys.executable).with_name(word)
            check(path.is_file(), f"{path} exists")
            words[index] = os.path.relpath(path)
    return shlex.join(words)


def print_next() -> None:
    print("\nWhat to try next:")
    for command, purpose in NEXT:
        print(f"  {as_typed(command)}\n      {purpose}")


def main() -> int:
    started = time.monotonic()
    parser = argparse.ArgumentParser(prog="tools/demo.py", description=__doc__)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build" / "release")),
        help="the build folder",
    )
    parser.add_argument("--prepared", type=int, help="seconds that the setup and the build took")
    arguments = parser.parse_args()
    try:
        run(arguments.build)
        print("\nall of it holds")
        if arguments.prepared is not None:
            before, total = arguments.prepared, arguments.prepared + time.monotonic() - started
            print(f"{total:.0f} seconds in all, {before} of them for the setup and the build")
        print_next()
    except Failure as failure:
        sys.stdout.flush()
        print(f"\ndemo FAILED: it should be that {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
