from __future__ import annotations

import os
import socket

import numpy as np
import pytest
import tenon

OPENER = """
import socket, sys, tenon
s = socket.socket(fileno=int(sys.argv[1]))
data, fds, _, _ = socket.recv_fds(s, 1 << 16, 16)
try:
    message = tenon.open_descriptor(data, fds, adopt=True)
    message["w"].numpy()[1] += 1
    print(message["w"].tolist(), message.user_bytes, flush=True)
except tenon.TenonError as error:
    print(error.code, flush=True)
"""


def test_in_one_process() -> None:
    tensor = tenon.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3))
    with tenon.Descriptor(tenon.Message({"w": tensor[:, 1:]}, user_bytes=b"u")) as descriptor:
        assert len(descriptor.fds) == 2  # of the segment, and the token of the lease
        message = tenon.open_descriptor(descriptor.bytes, descriptor.fds)
        assert str(len(descriptor.bytes)) in repr(descriptor)
    assert message["w"].tolist() == [[1, 2], [4, 5]] and message.user_bytes == b"u"
    assert message["w"].storage == tensor.storage
    assert descriptor.closed
    with pytest.raises(ValueError, match="already closed"):
        descriptor.bytes  # noqa: B018


@pytest.mark.parametrize("bytes_only", [False, True])
def test_in_another_process(child, bytes_only: bool) -> None:  # type: ignore[no-untyped-def]
    tensor = tenon.from_numpy(np.arange(3))
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        tenon.Descriptor(
            tenon.Message({"w": tensor}, user_bytes=b"u"), bytes_only=bytes_only
        ) as descriptor,
    ):
        assert bool(descriptor.fds) != bytes_only
        process = child(OPENER, theirs.fileno(), fds=(theirs.fileno(),))
        socket.send_fds(ours, [descriptor.bytes], list(descriptor.fds))
        assert process.stdout.readline() == b"[0, 2, 2] b'u'\n"
        process.communicate()
    assert tensor.tolist() == [0, 2, 2]


def test_bytes_only_after_the_descriptor_is_gone(child) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with tenon.Descriptor(tenon.zeros(3), bytes_only=True) as descriptor:
            data = descriptor.bytes
        process = child(OPENER, theirs.fileno(), fds=(theirs.fileno(),))
        socket.send_fds(ours, [data], [])
        assert process.stdout.readline() == b"PEER_GONE\n"
        process.communicate()


def test_hostile_bytes() -> None:
    with tenon.Descriptor(tenon.Message({"w": tenon.zeros((2, 3))})) as descriptor:
        data, fds = descriptor.bytes, descriptor.fds
        for n in range(len(data)):
            with pytest.raises(tenon.TenonError):
                tenon.open_descriptor(data[:n], fds)
        for i in range(len(data)):
            flipped = bytearray(data)
            flipped[i] ^= 0xFF
            with pytest.raises(tenon.TenonError):
                tenon.open_descriptor(flipped, fds)
        with pytest.raises(tenon.TenonError):
            tenon.open_descriptor(data, ())
        with pytest.raises(tenon.TenonError):
            tenon.open_descriptor(data, [1 << 20])


def test_private_openings() -> None:
    tensor = tenon.from_numpy(np.arange(3), mode="frozen")
    with tenon.Descriptor(tensor) as descriptor:
        cow = tenon.open_descriptor(descriptor.bytes, descriptor.fds, private_cow=True)[0]
        copy = tenon.open_descriptor(descriptor.bytes, descriptor.fds, private_copy=True)[0]
        fds = [os.dup(fd) for fd in descriptor.fds]
        same = tenon.open_descriptor(descriptor.bytes, fds, adopt=True)[0]
    for private in (cow, copy):
        private.numpy()[0] = 9
        assert private.tolist() == [9, 1, 2]
    assert same.read_only and tensor.tolist() == [0, 1, 2]
