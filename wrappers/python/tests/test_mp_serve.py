"""The server of tenon.multiprocessing, without processes: who its clients may be, and whether a family is there."""

from __future__ import annotations

import fcntl
import os
import socket
from typing import TYPE_CHECKING

import pytest
from tenon import _mp_serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


def test_the_client_that_was_silent_for_longest_makes_room(server: _mp_serve.Server, monkeypatch: pytest.MonkeyPatch) -> None:
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
