#!/usr/bin/env python3
"""The kill loop: processes lend to each other by name, and hundreds of them are killed by SIGKILL
at random moments.

In each round a few peers (storm_peer.c), PyTorch's workers (torch_peer.py) and their children make,
lend, send, open, count, check, release and fork. They are killed one after the other, and sometimes
the manager is killed too. Then this program checks that
 - all readers had their bytes as long as they lived (each reader checks everything that it holds at
   every step, and fails if a byte has changed),
 - with one peer alive, soon no name of Tenon is left, and that peer has no more fds and mappings
   than at first,
 - with no peer alive, nothing is left after the next call of any process: no name, and not a page
   of the file system's memory.
Everything happens on a /dev/shm of its own, in a mount namespace (77: the kernel refuses one).

usage: storm.py PEER [--kills N] [--seconds S] [--seed SEED] [--no-torch] [--no-manager]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from own_shm import call_libc, enter_namespace

HERE = Path(__file__).resolve().parent
SHM = "/dev/shm"
PR_SET_CHILD_SUBREAPER = 36
# A limit for names that never go. A disturbed look at a name is repeated after up to half a second.
SOON_S = 10.0


class Failure(Exception):
    pass


def skip(why: str) -> None:
    print(f"skipped: {why}")
    raise SystemExit(77)


def move_into_namespace() -> None:
    try:
        enter_namespace()
    except OSError as error:
        skip(f"no mount namespace with a /dev/shm of its own: {error}")


def used_nbytes() -> int:
    info = os.statvfs(SHM)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def names() -> list[str]:
    """The names in /dev/shm, without the manager's folder."""
    return sorted(name for name in os.listdir(SHM) if not name.startswith("tenon-manager-"))


def describe(name: str) -> str:
    """Describes a name that should not exist, and the file or socket that has it."""
    try:
        info = os.lstat(f"{SHM}/{name}")
        if not stat.S_ISREG(info.st_mode):
            return f"{name} (a socket)"
        with open(f"{SHM}/{name}", "rb") as file:
            head = file.read(64)
    except OSError as error:
        return f"{name} ({error.strerror})"
    if len(head) < 64:
        return f"{name} (a file of {info.st_size} bytes)"
    count, magic, in_flight, pid, _, _, keep_until_ns = struct.unpack_from("=iIiiQqq", head)
    ours = "Tenon's" if magic == 0x314E6E54 else "not Tenon's"
    keep = f", kept until {keep_until_ns}" if keep_until_ns else ""
    return f"{name} (a file, {ours}, count {count}, in flight {in_flight}, made by {pid}{keep})"


def children(parent: int | None = None) -> list[int]:
    parent = parent or os.getpid()
    try:
        return [
            int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        ]
    except OSError:
        return []


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def spawn(arguments: list[str], fds: list[int]) -> int:
    """subprocess is not used, because it would reap the process before this program does."""
    for fd in fds:
        if fd >= 0:
            os.set_inheritable(fd, True)
    try:
        return os.posix_spawn(arguments[0], arguments, os.environ)
    finally:
        for fd in fds:
            if fd >= 0:
                os.set_inheritable(fd, False)


def pairs() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@dataclass
class Process:
    pid: int
    what: str
    control: socket.socket
    dead: bool = False


class Nursery:
    """A Python with PyTorch that forks workers."""

    def __init__(self, python: str) -> None:
        ours, theirs = pairs()
        # A PyTorch whose manager is killed prints many lines.
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        arguments = [python, "-B", str(HERE / "torch_peer.py"), str(theirs.fileno())]
        self.process = subprocess.Popen(arguments, pass_fds=[theirs.fileno()], stderr=self.errors)
        theirs.close()
        ours.settimeout(120)
        self.orders = ours
        self.name = ""

    def wait(self) -> None:
        answer = self.orders.recv(64).decode().split()
        if len(answer) != 2:
            raise Failure("a Python with PyTorch did not start")
        self.name = f"PyTorch {answer[1]}"

    def fork(self, seed: int, fds: list[int]) -> int:
        socket.send_fds(self.orders, [str(seed).encode()], fds)
        return int(self.orders.recv(64))

    def close(self) -> None:
        self.orders.close()
        self.process.wait(30)


@dataclass
class Storm:
    peer: str
    random: random.Random
    with_manager: bool
    nurseries: list[Nursery] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    manager_kills: int = 0
    manager_errors: list[str] = field(default_factory=list)
    round: int = 0
    processes: dict[int, Process] = field(default_factory=dict)

    # ---- processes

    def spawn(self, role: str, queues: dict[str, tuple[socket.socket, socket.socket]]) -> Process:
        ours, theirs = pairs()
        seed = self.random.randrange(1, 2**48)
        if role.startswith("torch"):
            nursery = self.nurseries[int(role[5:])]
            pid = nursery.fork(
                seed, [theirs.fileno(), queues["torch"][1].fileno(), queues["tenon"][0].fileno()]
            )
            what = nursery.name
        else:
            fds = [theirs.fileno(), queues["tenon"][1].fileno(), queues["tenon"][0].fileno()]
            torch_out = queues["torch"][0].fileno() if self.nurseries else -1
            torch = "1" if self.with_manager else "0"
            arguments = [
                self.peer,
                "work",
                str(seed),
                SHM,
                role,
                torch,
                *(str(fd) for fd in fds),
                str(torch_out),
            ]
            pid = spawn(arguments, [*fds, torch_out])
            what = role
        theirs.close()
        process = Process(pid, what, ours)
        self.processes[pid] = process
        return process

    def kill(self, process: Process) -> None:
        if process.dead:
            return
        process.dead = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
            self.kills[process.what] += 1

    def listen(self, timeout_s: float = 0) -> list[tuple[Process, str]]:
        """Reads the reports of the peers."""
        said = []
        sockets = {
            process.control: process
            for process in self.processes.values()
            if process.control.fileno() >= 0
        }
        while ready := select.select(list(sockets), [], [], timeout_s)[0]:
            timeout_s = 0
            for each in ready:
                try:
                    text = each.recv(400, socket.MSG_DONTWAIT).decode()
                except (BlockingIOError, ConnectionResetError):
                    text = ""
                if not text:
                    del sockets[each]
                    each.close()
                    continue
                process = sockets[each]
                if text.startswith("P "):
                    pid = int(text[2:])
                    self.processes.setdefault(
                        pid, Process(pid, f"child of a {process.what}", socket.socket())
                    )
                    self.processes[pid].control.close()
                elif text.startswith("M "):
                    self.manager_errors.append(
                        f"{process.what} {process.pid} found no manager, and none was killed:"
                        f" {text[2:]}"
                    )
                else:
                    said.append((process, text))
        return said

    def reap(self) -> None:
        """Reaps every process that ended, and checks how: by SIGKILL of this program, or in
        order.
        """
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            command = command_of(pid)
            _, status = os.waitpid(pid, 0)
            # An unknown process is a manager, or a child that had no time to report itself.
            process = self.processes.pop(pid, None) or Process(pid, command, closed_socket())
            process.control.close()
            code = os.waitstatus_to_exitcode(status)
            self.ends[str(code)] += 1
            if (
                process.what.startswith("PyTorch")
                and code == -signal.SIGABRT
                and self.manager_kills
            ):
                continue  # PyTorch ends so when its manager dies
            if command == "tenon-manager" and code in (1, -signal.SIGPIPE):
                # The process that started this manager was killed before the manager could report.
                self.manager_kills += 1
                continue
            if code not in (0, -signal.SIGKILL):
                raise Failure(f"{process.what} {pid} ended with {code}")

    def managers(self) -> list[int]:
        return [pid for pid in children() if command_of(pid).startswith("tenon-manager")]

    def living_managers(self) -> list[int]:
        self.reap()
        return self.managers()

    def kill_manager(self) -> None:
        for pid in self.managers():
            self.manager_kills += 1
            self.kills["manager"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def call(self, *arguments: str) -> None:
        result = subprocess.run([self.peer, *arguments, SHM], timeout=60, check=False)
        if result.returncode != 0:
            raise Failure(
                f"{' '.join(arguments)}: a process that was never here before ended with"
                f" {result.returncode}"
            )

    # ---- what is left

    def wait_until(self, what: str, limit_s: float, left: object) -> None:
        begin = time.monotonic()
        pause_s = 0.002
        pauses = (
            limit_s / pause_s
        )  # counted: a machine without time for this process has none for the others either
        while remaining := left():  # type: ignore[operator]
            pauses -= 1
            if pauses < 0:
                if isinstance(remaining, list):
                    remaining = ", ".join(describe(str(name)) for name in remaining)
                raise Failure(f"{what}: {remaining}")
            time.sleep(pause_s)
        self.slowest[what] = max(self.slowest.get(what, 0), time.monotonic() - begin)

    def settle(self, survivor: Process) -> None:
        """Checks what is left when only the survivor lives, after it has released everything."""
        # A child of a dead process may still have its names. A process that holds nothing watches
        # no directory, and does not notice the child's end.
        self.finish_children(survivor, its_own=False)
        with contextlib.suppress(OSError):  # if it is gone, the loop below sees that
            survivor.control.send(b"S")
        deadline = time.monotonic() + 20
        answer = ""
        while not answer:
            self.reap()
            for process, text in self.listen(0.01):
                if process is survivor and text.startswith("S "):
                    answer = text
            if survivor.pid not in self.processes or not Path(f"/proc/{survivor.pid}").exists():
                if survivor.what.startswith("PyTorch") and self.manager_kills:
                    return  # it did not survive its manager
                raise Failure(f"{survivor.what} {survivor.pid} is gone")
            if time.monotonic() > deadline:
                raise Failure(f"{survivor.what} {survivor.pid} does not settle")
        self.finish_children(survivor)  # the survivor's own children go last
        fds, mappings, sent = (int(word) for word in answer.split()[1:])
        if survivor.what != "receiver":
            return  # a sender keeps messages that nobody received
        if fds > 0 or mappings or sent:
            raise Failure(
                f"receiver {survivor.pid} let go of everything, and has {fds} fds more than at"
                f" first, {mappings} mappings"
            )
        self.wait_until(
            "names with a peer alive",
            SOON_S,
            lambda: [name for name in names() if not name.startswith("torch_")],
        )

    def run_round(self) -> None:
        self.round += 1
        queues = {"tenon": pairs(), "torch": pairs()}
        roles = ["sender", "sender", "receiver", "receiver"]
        roles += (
            [f"torch{self.random.randrange(len(self.nurseries))}"] if self.nurseries else ["sender"]
        )
        if len(self.nurseries) > 1 and self.random.random() < 0.5:
            roles.append(f"torch{self.random.randrange(len(self.nurseries))}")
        self.random.shuffle(roles)
        living = [self.spawn(role, queues) for role in roles]
        time.sleep(self.random.uniform(0, 0.03))
        survivor = self.random.choice(
            [each for each in living if each.what == "receiver"] * 3 + living
        )
        victims = [each for each in living if each is not survivor]
        self.random.shuffle(victims)
        for victim in victims:
            time.sleep(self.random.uniform(0, 0.004))
            if self.with_manager and self.random.random() < 0.05:
                self.kill_manager()
            self.listen()
            self.kill(victim)
            self.reap()
        self.settle(survivor)
        self.kill(survivor)
        self.finish_children(None)
        if self.manager_errors and self.manager_kills == 0:
            raise Failure(self.manager_errors[0])
        for ends in queues.values():
            for end in ends:
                end.close()
        self.look_at_what_is_left()

    def finish_children(self, survivor: Process | None, *, its_own: bool = True) -> None:
        """Kills children until only the survivor, the nurseries and the managers are left, and the
        survivor's children unless `its_own`.
        """
        nurseries = {nursery.process.pid for nursery in self.nurseries}
        deadline = time.monotonic() + 10
        while True:
            self.listen()
            self.reap()
            spared = {survivor.pid} if survivor else set()
            theirs = set(children(survivor.pid)) if survivor else set()
            if not its_own:
                spared, theirs = spared | theirs, set()
            keep = nurseries | set(self.managers()) | spared
            for pid in set(children()) - keep | theirs:
                self.kill(self.processes.setdefault(pid, Process(pid, "child", closed_socket())))
            left = set(children()) - keep | theirs | set(self.processes) - spared
            # A worker of a nursery is no child of this process. It is gone when its pid is.
            for pid in list(left):
                if not Path(f"/proc/{pid}").exists():
                    self.processes.pop(pid, None)
                    left.discard(pid)
                elif pid in self.processes:
                    self.kill(self.processes[pid])
            if not left:
                return
            if time.monotonic() > deadline:
                raise Failure(f"processes {left} do not end")
            time.sleep(0.0005)

    def look_at_what_is_left(self) -> None:
        self.call("call")

        # A socket that was left between bind and link may take another second.
        def ours() -> list[str]:
            left = [name for name in names() if not name.startswith("torch_")]
            if left:
                self.call("call")
            return left

        self.wait_until("names with nobody alive", 2 * SOON_S, ours)
        self.call("sweep")
        self.wait_until("names after a sweep of PyTorch's too", SOON_S, names)
        self.wait_until("bytes of memory", SOON_S, used_nbytes)

    def close(self) -> None:
        for nursery in self.nurseries:
            nursery.close()
        for process in list(self.processes.values()):
            self.kill(process)
        self.wait_until("managers after their last client", 15, self.living_managers)
        deadline = time.monotonic() + 10
        while children() and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.001)
        if children():
            raise Failure(f"processes are left: {[(pid, command_of(pid)) for pid in children()]}")


def closed_socket() -> socket.socket:
    made = socket.socket()
    made.close()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kills processes that lend by name, and looks at what they leave."
    )
    parser.add_argument("peer", help="the program storm_peer")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=90, help="end after so many seconds, even with fewer kills"
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--no-manager", action="store_true")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}", flush=True)

    move_into_namespace()
    call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    manager = Path(
        os.environ.get("TENON_MANAGER", Path(options.peer).resolve().parents[3] / "tenon-manager")
    )
    with_manager = not options.no_manager and manager.exists()
    if with_manager:
        os.environ["TENON_MANAGER"] = str(manager)
    storm = Storm(options.peer, random.Random(seed), with_manager)
    if with_manager and not options.no_torch:
        pythons = [
            os.environ.get(name, "") for name in ("TENON_TORCH_DEBIAN", "TENON_TORCH_NEWEST")
        ]
        storm.nurseries = [Nursery(python) for python in pythons if python]
        for nursery in storm.nurseries:
            nursery.wait()
    print(
        f"with {'a' if with_manager else 'no'} manager;"
        f" {', '.join(each.name for each in storm.nurseries) or 'no PyTorch'}",
        flush=True,
    )
    status = 0
    begin = time.monotonic()
    try:
        while storm.kills.total() < options.kills and time.monotonic() - begin < options.seconds:
            storm.run_round()
        storm.close()
        if left := os.listdir(SHM):
            raise Failure(f"left in the end: {left}")
        if storm.kills.total() < options.kills:
            raise Failure(f"only {storm.kills.total()} kills in {options.seconds:.0f} s")
    except Failure as failure:
        print(f"FAILED in round {storm.round} of seed {seed}: {failure}", flush=True)
        status = 1
        for nursery in storm.nurseries:
            nursery.errors.seek(0)
            print(
                "".join(
                    line
                    for line in nursery.errors
                    if line.startswith(("torch_peer", "Traceback", "  File"))
                ),
                end="",
            )
    print(
        f"{storm.kills.total()} kills in {storm.round} rounds, {time.monotonic() - begin:.1f} s:"
        f" {dict(storm.kills)}"
    )
    print(f"ends: {dict(storm.ends)}; calls that met a dead manager: {len(storm.manager_errors)}")
    for what, seconds in storm.slowest.items():
        print(f"slowest: {what} gone after {seconds * 1000:.0f} ms")
    if status:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return status


if __name__ == "__main__":
    sys.exit(main())
