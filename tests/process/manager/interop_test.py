#!/usr/bin/env python3
"""Tests Tenon's manager with live PyTorch as its client, and Tenon's client with PyTorch's manager.
Only a PyTorch is needed.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MANAGER = os.environ.get("TENON_TEST_MANAGER", "")
LINE_CLIENT = os.environ.get("TENON_TEST_LINE_CLIENT", "")
SHM = Path("/dev/shm")
PATIENCE = 300.0
LIBC = ctypes.CDLL(None, use_errno=True)


def torch_folder(python: str) -> str | None:
    # This only looks PyTorch up. Its import takes seconds, and the nursery does that.
    code = "import importlib.util as i, os; print(os.path.dirname(i.find_spec('torch').origin))"
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=False, cwd="/"
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def find_torches() -> dict[str, tuple[str, str]]:
    found = {}
    debian = os.environ.get("TENON_TORCH_DEBIAN", "/usr/bin/python3")
    for name, python in (("debian", debian), ("newest", os.environ.get("TENON_TORCH_NEWEST", ""))):
        if python and (folder := torch_folder(python)):
            found[name] = (python, folder)
    return found


TORCHES = find_torches()


def eventually(holds: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait for a condition that raises no event."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.002)
    return holds()


class Deletions:
    """The names that are deleted in a folder, with their times."""

    def __init__(self, folder: Path) -> None:
        self.fd = LIBC.inotify_init1(os.O_CLOEXEC)
        in_delete = 0x200
        assert LIBC.inotify_add_watch(self.fd, os.fsencode(folder), in_delete) >= 0
        self.seen: dict[str, float] = {}

    def wait(self, name: str, patience: float = PATIENCE) -> bool:
        end = time.monotonic() + patience
        while name not in self.seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                return False
            data = os.read(self.fd, 65536)
            while data:
                length = struct.unpack_from("=iIII", data)[3]
                self.seen[data[16 : 16 + length].rstrip(b"\0").decode()] = time.monotonic()
                data = data[16 + length :]
        return True

    def close(self) -> None:
        os.close(self.fd)


def pid_behind(path: str) -> int:
    """The pid of the process that listens on a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return int(
            struct.unpack("iii", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        )


def is_tenons(pid: int) -> bool:
    with contextlib.suppress(PermissionError):
        return os.path.samefile(f"/proc/{pid}/exe", MANAGER)
    # PyTorch's manager could be looked into. Tenon's cannot, and it has given up privileges that
    # PyTorch's keeps.
    return (
        "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()
        and os.stat(f"/proc/{pid}/fd").st_uid == 0
    )


class Nursery:
    """A PyTorch process that forks peers, so that PyTorch is imported once for all tests."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self.orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.orders.settimeout(PATIENCE)
        with theirs:
            self.process = subprocess.Popen(
                [python, "-B", str(HERE / "torch_peer.py"), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | environment,
                cwd="/",
            )

    def order(self, order: dict[str, Any], fds: Sequence[int] = ()) -> int:
        socket.send_fds(self.orders, [json.dumps(order).encode()], fds)
        answer = self.orders.recv(64)
        if not answer:
            raise RuntimeError(f"the PyTorch nursery ended with {self.process.wait(PATIENCE)}")
        return int(answer)

    def close(self) -> None:
        self.orders.close()
        self.process.wait(PATIENCE)


class Peer:
    def __init__(self, nursery: Nursery, environment: dict[str, str]) -> None:
        self.nursery = nursery
        self.code: int | None = None
        stdin, told = os.pipe()
        said, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(told, "w"), os.fdopen(said)
        self.pid = nursery.order({"fork": environment}, [stdin, stdout])
        os.close(stdin)
        os.close(stdout)

    def __call__(self, do: str, **arguments: Any) -> Any:
        self.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.stdin.flush()
        line = self.stdout.readline()
        if not line:
            raise RuntimeError(f"the PyTorch process ended with {self.end()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        if self.code is None:
            self.code = self.nursery.order({"wait": self.pid})
        self.stdout.close()
        return self.code


class Interop(unittest.TestCase):
    farms: Path
    nurseries: dict[tuple[str, bool], Nursery]

    @classmethod
    def setUpClass(cls) -> None:
        cls.farms = Path(tempfile.mkdtemp(prefix="tenon-managerinterop-farms-"))
        cls.nurseries = {}

    @classmethod
    def tearDownClass(cls) -> None:
        for nursery in cls.nurseries.values():
            nursery.close()
        shutil.rmtree(cls.farms)

    def setUp(self) -> None:
        signal.alarm(600)
        self.folder = Path(tempfile.mkdtemp(prefix="tenon-managerinterop-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.peers: list[Peer] = []
        self.names: set[str] = set()

    def tearDown(self) -> None:
        for peer in self.peers:
            if peer.code is None:
                peer.kill()
        eventually(lambda: not any((SHM / name).exists() for name in self.names), 10)
        left = [name for name in self.names if (SHM / name).exists()]
        for name in left:
            (SHM / name).unlink(missing_ok=True)
        # The managers of this test end by themselves and remove their folders.
        gone = eventually(lambda: not any(self.temporary.iterdir()), 15)
        remains = sorted(str(path) for path in self.temporary.rglob("*"))
        shutil.rmtree(self.folder)
        self.assertEqual(left, [], "names that were left")
        self.assertTrue(gone, f"folders that were left: {remains}")

    @classmethod
    def farm(cls, torch: str) -> Path:
        """A folder that has all of this PyTorch but its manager. In its place is Tenon's."""
        real = Path(TORCHES[torch][1])
        farm = cls.farms / torch
        (farm / "torch" / "bin").mkdir(parents=True)
        for entry in real.iterdir():
            if entry.name != "bin":
                (farm / "torch" / entry.name).symlink_to(entry)
        for entry in (real / "bin").iterdir():
            if entry.name != "torch_shm_manager":
                (farm / "torch" / "bin" / entry.name).symlink_to(entry)
        (farm / "torch" / "bin" / "torch_shm_manager").symlink_to(MANAGER)
        return farm

    def peer(self, torch: str, with_farm: bool = True) -> Peer:
        nursery = self.nurseries.get((torch, with_farm))
        if nursery is None:
            environment = {"PYTHONPATH": str(self.farm(torch))} if with_farm else {}
            nursery = Nursery(TORCHES[torch][0], environment)
            self.nurseries[torch, with_farm] = nursery
        peer = Peer(nursery, {"TMPDIR": str(self.temporary)})
        self.peers.append(peer)
        return peer

    def share(self, peer: Peer, keep: str, values: list[int]) -> list[Any]:
        handle: list[Any] = peer("share", keep=keep, values=values)
        self.names.add(handle[1][1:])
        return handle

    @contextlib.contextmanager
    def deletions(self) -> Iterator[Deletions]:
        watch = Deletions(SHM)
        try:
            yield watch
        finally:
            watch.close()

    def test_queues_of_tensors(self) -> None:
        for torch in TORCHES:
            for method in ("fork", "spawn"):
                with self.subTest(torch=torch, method=method):
                    peer = self.peer(torch)
                    before = self.torch_names()
                    result = peer("queue", method=method, count=20)
                    self.assertTrue(result["right"])
                    self.assertEqual(
                        result["exit"], 0, "the producer did not see what the consumer wrote"
                    )
                    self.assertTrue(result["manager"].startswith(str(self.temporary)))
                    self.assertTrue(is_tenons(pid_behind(result["manager"])))
                    pids = {peer.pid}
                    self.assertEqual(peer.end(), 0)
                    self.assertTrue(eventually(lambda: not any(self.temporary.iterdir())))
                    new = self.torch_names() - before
                    self.assertEqual(
                        {name for name in new if int(name.split("_")[1]) in pids}, set()
                    )

    @staticmethod
    def torch_names() -> set[str]:
        return {name for name in os.listdir(SHM) if re.match(r"torch_\d+_", name)}

    def test_a_killed_producer(self) -> None:
        for first in TORCHES:
            for second in TORCHES:
                with self.subTest(producer=first, consumer=second):
                    self.killed_producer(first, second)

    def killed_producer(self, first: str, second: str) -> None:
        producer, consumer = self.peer(first), self.peer(second)
        lost = [self.share(producer, f"lost{i}", [i]) for i in range(5)]
        held = self.share(producer, "held", [1, 2, 3])
        sent = self.share(producer, "sent", [4, 5, 6])
        producer("incref", keep="sent")
        self.assertTrue(is_tenons(pid_behind(held[0])))
        consumer("open", keep="held", handle=held)
        consumer("write", keep="held", at=0, value=9)
        self.assertEqual(producer("read", keep="held"), [9, 2, 3])
        with self.deletions() as watch:
            start = time.monotonic()
            producer.kill()
            for handle in lost:
                self.assertTrue(watch.wait(handle[1][1:]), "a killed producer's object stays")
            took = (max(watch.seen[handle[1][1:]] for handle in lost) - start) * 1000
            print(
                f"{first} killed beside {second}: its names were gone after {took:.1f} ms",
                flush=True,
            )
            self.assertLess(took, 20000)
            # An object that a process holds, and one that is in flight, must not be touched.
            self.assertTrue((SHM / held[1][1:]).exists())
            self.assertTrue((SHM / sent[1][1:]).exists())
            self.assertEqual(consumer("read", keep="held"), [9, 2, 3])
            consumer("open", keep="sent", handle=sent)
            consumer("decref", keep="sent")
            self.assertEqual(consumer("read", keep="sent"), [4, 5, 6])
            consumer("drop", keep="held")
            self.assertTrue(
                watch.wait(held[1][1:]),
                "an object whose producer was killed outlives its last holder",
            )
            consumer("drop", keep="sent")
            self.assertTrue(watch.wait(sent[1][1:]))
        self.assertEqual(consumer.end(), 0)
        self.assertTrue(eventually(lambda: not any(self.temporary.iterdir())))

    def test_a_killed_consumer(self) -> None:
        for first in TORCHES:
            for second in TORCHES:
                with self.subTest(producer=first, consumer=second):
                    producer, consumer = self.peer(first), self.peer(second)
                    handle = self.share(producer, "x", [1, 2, 3])
                    consumer("open", keep="x", handle=handle)
                    consumer.kill()
                    self.assertEqual(producer("read", keep="x"), [1, 2, 3])
                    self.assertTrue((SHM / handle[1][1:]).exists())
                    with self.deletions() as watch:
                        # The killed consumer's part is still in the count, so PyTorch itself would
                        # leave the file.
                        producer("drop", keep="x")
                        self.assertTrue(watch.wait(handle[1][1:]))
                    self.assertEqual(producer.end(), 0)

    def test_a_message_that_outlives_its_sender(self) -> None:
        for first in TORCHES:
            for second in TORCHES:
                with self.subTest(producer=first, consumer=second):
                    producer, consumer = self.peer(first), self.peer(second)
                    # The consumer is already a client, so the manager waits for it.
                    first_handle = self.share(producer, "first", [1])
                    consumer("open", keep="first", handle=first_handle)
                    handle = self.share(producer, "sent", [7, 8])
                    producer("incref", keep="sent")
                    producer("drop", keep="sent")
                    self.assertEqual(producer.end(), 0)
                    self.assertTrue((SHM / handle[1][1:]).exists())
                    consumer("open", keep="sent", handle=handle)
                    consumer("decref", keep="sent")
                    self.assertEqual(consumer("read", keep="sent"), [7, 8])
                    self.assertEqual(consumer.end(), 0)

    def test_given_our_managers_path(self) -> None:
        """PyTorch's tuple tells an unchanged PyTorch to register with a manager of Tenon's."""
        for torch in TORCHES:
            with self.subTest(torch=torch):
                path = str(self.temporary / "manager.sock")
                # The peer starts first, because PyTorch can take longer to start than a manager
                # waits for a client.
                peer = self.peer(torch, with_farm=False)
                peer("version")
                manager = subprocess.Popen(
                    [MANAGER, "--socket", path, "--foreground"], stdout=subprocess.PIPE, text=True
                )
                assert manager.stdout
                self.assertEqual(manager.stdout.readline().strip(), path)
                manager.stdout.close()
                name = f"tenon-managerinterop-{os.getpid()}-{torch}"
                self.names.add(name)
                (SHM / name).write_bytes(struct.pack("=i60x", 1) + bytes(range(10)))
                peer("open", keep="x", handle=[path, "/" + name, 10])
                self.assertEqual(peer("read", keep="x"), list(range(10)))
                peer("write", keep="x", at=0, value=99)
                self.assertEqual((SHM / name).read_bytes()[64], 99)
                # PyTorch registers its own objects with the first manager that it has met.
                own = self.share(peer, "own", [1])
                self.assertEqual(own[0], path)
                with self.deletions() as watch:
                    peer.kill()
                    self.assertTrue(watch.wait(own[1][1:]))
                # The count still has one more than the killed peer. That one is this test's, which
                # never was a visible holder.
                self.assertEqual(manager.wait(PATIENCE), 0)
                self.assertFalse((SHM / name).exists())

    def test_our_client_at_pytorchs_manager(self) -> None:
        for torch, (_, folder) in TORCHES.items():
            with self.subTest(torch=torch):
                manager = subprocess.Popen(
                    [f"{folder}/bin/torch_shm_manager"],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=os.environ | {"TMPDIR": str(self.temporary)},
                )
                assert manager.stdout
                path = manager.stdout.readline().strip()
                manager.stdout.close()
                self.assertFalse(is_tenons(pid_behind(path)))
                names = [f"tenon-managerinterop-{os.getpid()}-{torch}-{i}" for i in range(3)]
                self.names |= set(names)
                for name in names:
                    (SHM / name).write_bytes(struct.pack("=i60x", 1))
                client = subprocess.Popen(
                    [LINE_CLIENT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                assert client.stdin and client.stdout

                def ask(line: str, client: subprocess.Popen[str] = client) -> str:
                    assert client.stdin and client.stdout
                    client.stdin.write(line + "\n")
                    client.stdin.flush()
                    return client.stdout.readline().strip()

                for name in names:
                    self.assertEqual(ask(f"add /{name}"), "OK")
                (SHM / names[0]).unlink()
                self.assertEqual(ask(f"subtract /{names[0]}"), "OK")
                self.assertEqual(ask(f"add /{names[1]}"), "OK")
                # PyTorch's manager forgets a name that is gone at a deallocation. So it must not
                # touch this new file.
                (SHM / names[0]).write_bytes(b"x")
                client.stdin.close()
                client.stdout.close()
                self.assertEqual(client.wait(PATIENCE), 0)
                self.assertEqual(manager.wait(PATIENCE), 0)
                self.assertTrue((SHM / names[0]).exists())
                (SHM / names[0]).unlink()
                self.assertFalse((SHM / names[1]).exists())
                self.assertFalse((SHM / names[2]).exists())

    def test_a_stopped_manager_of_pytorchs(self) -> None:
        torch = next(iter(TORCHES))
        manager = subprocess.Popen(
            [f"{TORCHES[torch][1]}/bin/torch_shm_manager"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(self.temporary)},
        )
        assert manager.stdout
        path = manager.stdout.readline().strip()
        manager.stdout.close()
        client = subprocess.Popen(
            [LINE_CLIENT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert client.stdin and client.stdout
        client.stdin.write("add /tenon-managerinterop-none\n")
        client.stdin.flush()
        self.assertEqual(client.stdout.readline().strip(), "OK")
        manager.kill()
        manager.wait()
        client.stdin.write("subtract /tenon-managerinterop-none\nadd /tenon-managerinterop-none\n")
        client.stdin.flush()
        self.assertEqual(client.stdout.readline().strip(), "OK")
        answer = client.stdout.readline().strip()
        self.assertTrue(answer.startswith("PEER_GONE ") and path in answer, answer)
        client.stdin.close()
        client.stdout.close()
        self.assertEqual(client.wait(PATIENCE), 0)
        shutil.rmtree(Path(path).parent)


if __name__ == "__main__":
    if not MANAGER or not LINE_CLIENT:
        sys.exit("TENON_TEST_MANAGER and TENON_TEST_LINE_CLIENT must name the programs")
    if not TORCHES:
        print(
            f"skipped: no PyTorch that uid {os.getuid()} can run: neither TENON_TORCH_DEBIAN nor"
            " TENON_TORCH_NEWEST has one"
        )
        sys.exit(77)
    print(
        "PyTorch:",
        ", ".join(f"{name} ({python})" for name, (python, _) in TORCHES.items()),
        flush=True,
    )
    unittest.main(verbosity=2)
