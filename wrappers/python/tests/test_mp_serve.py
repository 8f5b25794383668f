"""The server of tenon.multiprocessing, tested without processes: which clients it admits, and
whether a family exists.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tenon import (
    NotFound,
    PeerGone,
    PermissionDenied,
    ResourceExhausted,
    _mp_fetch,
    _mp_serve,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_a_family_is_there_as_long_as_one_has_its_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "family")
    assert not _mp_serve.has_family(path)
    with open(path, "w") as member:
        assert not _mp_serve.has_family(path)
        fcntl.flock(member, fcntl.LOCK_SH)
        assert _mp_serve.has_family(path)
        assert _mp_serve.has_family(path)
    assert not _mp_serve.has_family(path)


@pytest.fixture
def server() -> Iterator[_mp_serve.Server]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(b"\0tenon-test-" + os.urandom(8).hex().encode())
    listener.listen(16)
    made = _mp_serve.Server(listener)
    yield made
    made.close()


def connect(server: _mp_serve.Server) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(server.listener.getsockname())
    server.step(5)
    client.setblocking(False)
    return client


def test_the_client_that_was_silent_for_longest_makes_room(
    server: _mp_serve.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mp_serve, "max_connections", lambda: 2)
    first, second, third = (connect(server) for _ in range(3))
    assert first.recv(100) == b""
    for client in (second, third):
        with pytest.raises(BlockingIOError):
            client.recv(100)
    for client in (first, second, third):
        client.close()


def test_clients_have_an_eighth_of_the_fds(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    limits = {1024: 128, 32: 8, 1 << 20: 512, resource.RLIM_INFINITY: 512}
    for soft, expected in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert _mp_serve.max_connections() == expected


CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def run_in_child(call: Callable[[], int]) -> int:
    """Run `call` in a child that ends without cleaning up, as a killed process does. Return its
    exit status.
    """
    pid = os.fork()
    if not pid:
        status = 99
        try:
            status = call()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory with a short path: the path of a socket has at most 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="tenon-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_a_listener_of_a_killed_process_leaves_no_path(folder: Path) -> None:
    def listen() -> int:
        _mp_serve.listen(str(folder))
        return 0

    living, path = _mp_serve.listen(str(folder))
    assert run_in_child(listen) == 0
    unfinished = folder / "unfinished-0"
    unfinished.touch()
    assert len(list(folder.iterdir())) == 3
    _mp_serve.remove_dead_listeners(str(folder))
    assert {str(entry) for entry in folder.iterdir()} == {
        path,
        str(unfinished),
    }, "somebody may be about to listen there"
    os.utime(unfinished, (0, 0))
    _mp_serve.remove_dead_listeners(str(folder))
    assert [str(entry) for entry in folder.iterdir()] == [path]
    living.close()
    _mp_serve.remove_listener(path)
    assert not folder.exists()


def test_fds_are_fetched_from_another_network_namespace(folder: Path) -> None:
    listener, path = _mp_serve.listen(str(folder))
    server = _mp_serve.Server(listener)
    key = os.urandom(_mp_serve.KEY_NBYTES)
    server.parcels[key] = _mp_serve.Parcel()
    server.parcels[key].segments.append(_mp_serve.Segment(os.memfd_create("segment")))

    def fetch() -> int:
        if ctypes.CDLL(None).unshare(CLONE_NEWNET | (CLONE_NEWUSER if os.geteuid() else 0)) != 0:
            return 77
        (segment,) = _mp_fetch.fetch(path, key, os.getppid(), 10).segments
        assert os.readlink(f"/proc/self/fd/{segment.fd}").startswith("/memfd:segment")
        return 0

    thread = threading.Thread(target=server.run)
    thread.start()
    status = run_in_child(fetch)
    server.stop()
    thread.join()
    server.close()
    if status == 77:
        pytest.skip("the kernel refuses a network namespace")
    assert status == 0
    assert not server.parcels


def test_a_lender_whose_path_is_not_there_may_live(tmp_path: Path) -> None:
    path = str(tmp_path / "lender-0")
    with pytest.raises(
        PeerGone, match=r"cannot be reached from here: there is no socket .*the same /dev/shm"
    ) as error:
        _mp_fetch.fetch(path, b"k" * _mp_serve.KEY_NBYTES, 5, 1)
    assert error.value.details == {"pid": "5", "path": path}


def test_a_message_that_was_fetched_before_is_not_found(folder: Path) -> None:
    listener, path = _mp_serve.listen(str(folder))
    server = _mp_serve.Server(listener)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with pytest.raises(NotFound, match="were fetched before") as error:
            _mp_fetch.fetch(path, b"k" * _mp_serve.KEY_NBYTES, os.getpid(), 10)
    finally:
        server.stop()
        thread.join()
        server.close()
    assert error.value.details == {"pid": str(os.getpid())}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_socket_of_another_user_is_refused(folder: Path) -> None:
    listener, path = _mp_serve.listen(str(folder))
    folder.chmod(0o755)

    def fetch() -> int:
        os.setuid(65534)
        with pytest.raises(PermissionDenied, match="belongs to another user"):
            _mp_fetch.fetch(path, b"k" * _mp_serve.KEY_NBYTES, 5, 1)
        return 0

    assert run_in_child(fetch) == 0
    listener.close()


def test_a_fetch_without_an_fd_says_what_is_full(tmp_path: Path) -> None:
    import resource

    def fetch() -> int:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        try:
            _mp_fetch.fetch(str(tmp_path / "lender"), b"k" * _mp_serve.KEY_NBYTES, 5, 1)
        except ResourceExhausted as error:
            assert error.details == {"limit": "RLIMIT_NOFILE", "limit_value": "0"}
            return 0
        return 1

    assert run_in_child(fetch) == 0
