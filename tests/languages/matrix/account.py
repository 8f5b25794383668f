"""What a process holds. The driver reads it from /proc and the file system, and never asks the
process.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

SHM = Path("/dev/shm")
# Seconds that other processes get. The self-test has less, because it waits for events that never
# come.
PATIENCE = float(os.environ.get("TENON_MATRIX_PATIENCE", "20"))


class Leak(Exception):
    """A process holds, or has left, something that it should not."""


def shared(path: str) -> bool:
    """Whether a mapping or an fd is of shared memory: a memfd, or a file in the folder of names."""
    return path.startswith(("/memfd:", "/dev/shm/"))


def fds(pid: int) -> Counter[str]:
    """The targets of a process's fds, without the numbers of sockets and pipes."""
    found: Counter[str] = Counter()
    folder = Path(f"/proc/{pid}/fd")
    for name in os.listdir(folder):
        try:
            target = os.readlink(folder / name)
        except FileNotFoundError:
            continue
        found[re.sub(r"^(socket|pipe):\[\d+\]$", r"\1", target)] += 1
    return found


def mappings(pid: int) -> Counter[str]:
    """Mappings of shared memory, as `permissions path`, with their sizes in KiB."""
    found: Counter[str] = Counter()
    for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and shared(parts[5]):
            begin, end = (int(part, 16) for part in parts[0].split("-"))
            found[f"{parts[1]} {parts[5]} {(end - begin) >> 10} KiB"] += 1
    return found


def children(pid: int) -> list[int]:
    """The direct children of all threads of a process."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for child in children(pid):
        found |= {child} | descendants(child)
    return found


def command_of(comm: Path) -> str:
    try:
        return comm.read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def command(pid: int) -> str:
    return command_of(Path(f"/proc/{pid}/comm"))


class Snapshot:
    """fds, mappings of shared memory and children of a process at one moment."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fds = fds(pid)
        self.mappings = mappings(pid)
        self.children = Counter(map(command, descendants(pid)))

    def difference(self, before: Snapshot) -> str:
        """What this snapshot has and `before` lacks, and the reverse; "" if nothing.

        Closed directories do not count, because the library closes a directory when no name in use
        lies in it.
        """
        parts = []
        for what in ("fds", "mappings", "children"):
            now, then = getattr(self, what), getattr(before, what)
            parts += [f"{what}: +{count} {name}" for name, count in (now - then).items()]
            parts += [
                f"{what}: -{count} {name}"
                for name, count in (then - now).items()
                if what != "fds" or not os.path.isdir(name)
            ]
        return "; ".join(parts)

    def holdings(self, but: Iterable[Path] = ()) -> str:
        """The shared memory that is held, but for these files. Bells are empty files and hold no
        memory, so they do not count.
        """
        held = [
            f"fd {name}"
            for name in self.fds
            if shared(name) and "/.tenon-bell-" not in name and not os.path.isdir(name)
        ]
        held += [f"mapping {name}" for name in self.mappings]
        return "; ".join(text for text in held if not any(str(path) in text for path in but))


class Names:
    """The names that this run may make: those with its prefix or in its directory, PyTorch's own
    names by their maker's pid, and the managers' sockets.
    """

    def __init__(self, prefix: str, directory: Path, folders: list[Path]) -> None:
        self.prefix, self.directory, self.folders = prefix, directory, folders
        self.torch_pids: set[int] = set()

    def of_tenon(self) -> set[str]:
        found = {name for name in os.listdir(SHM) if name.startswith(self.prefix)}
        # A bell goes with its process and does not count as a name.
        return found | {
            name for name in os.listdir(self.directory) if not name.startswith(".tenon-bell-")
        }

    def all(self) -> set[str]:
        found = {
            name
            for name in os.listdir(SHM)
            if (match := re.match(r"torch_(\d+)_", name)) and int(match[1]) in self.torch_pids
        }
        found |= {
            str(path.relative_to(folder.parent))
            for folder in self.folders
            for path in folder.rglob("*")
        }
        return found | self.of_tenon() | set(os.listdir(self.directory))


def closers(pid: int) -> list[str]:
    """The library's threads that are still closing fds of a peer."""
    tasks = Path(f"/proc/{pid}/task").glob("*/comm")
    return [name for task in tasks if (name := command_of(task)) == "tenon-close"]


def service_marks(pid: int) -> list[tuple[str, ...]]:
    """Thread number, state and context switches of each service thread of the library.

    If the marks of two moments are equal and each state is "S", no service thread ran between them.
    """
    marks = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if fields["Name"] == "tenon":
            switches = (fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"])
            marks.append((task.name, fields["State"][:1], *switches))
    return marks


def settled(program: str, pid: int) -> Snapshot:
    """A snapshot of a process that has closed every fd that it gave up.

    The service thread opens a directory or a name briefly to look at it, and a busy machine may
    stop the thread in the middle. So the snapshot is taken while the thread sleeps.
    """
    until(f"{program} closes files", lambda: closers(pid))
    taken: list[Snapshot] = []

    def disturbed() -> str:
        before = service_marks(pid)
        taken[:] = [Snapshot(pid)]
        quiet = before == service_marks(pid) and all(state == "S" for _, state, *_ in before)
        return "" if quiet else f"its service thread is at work: {before}"

    until(f"{program} comes to rest", disturbed)
    return taken[0]


def until(what: str, left: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until nothing is left. Events in other processes need a moment."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while rest := left():
        if time.monotonic() > deadline:
            raise Leak(f"{what}: {rest}")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
