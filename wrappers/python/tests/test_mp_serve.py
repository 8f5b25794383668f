"""The server of tenon.multiprocessing, without processes: who its clients may be, and what the names of a family tell."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from tenon import _mp_serve

if TYPE_CHECKING:
    from collections.abc import Iterator


def bound(name: bytes) -> socket.socket:
    member = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    member.bind(b"\0" + name)
    return member


def test_a_family_is_found_by_its_secret_alone() -> None:
    secret, other = os.urandom(32), os.urandom(32)
    names = {_mp_serve.family_name(secret, os.urandom(_mp_serve.FAMILY_SALT_NBYTES)) for _ in range(2)}
    assert len(names) == 2
    prefix = b"tenon-family-"
    junk = [prefix, prefix + b"00", prefix + b"zz" * 16 + b"-" + b"0" * 32, prefix + b"0" * 32 + b"-" + b"0" * 32]
    salt = os.urandom(6).hex().encode()
    strangers = [bound(name + salt) for name in junk]
    assert not _mp_serve.has_family(secret)
    member = bound(names.pop())
    assert _mp_serve.has_family(secret)
    assert not _mp_serve.has_family(other)
    member.close()
    assert not _mp_serve.has_family(secret)
    for stranger in strangers:
        stranger.close()


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
