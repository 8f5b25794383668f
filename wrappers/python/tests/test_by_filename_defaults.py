"""The defaults of sender and receiver agree, for each strategy and carrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tenon


def by_connection(tensor: tenon.Tensor, **how: bool) -> tenon.Storage:
    import socket

    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        tenon.Connection(left, adopt=True) as lender,
        tenon.Connection(right, adopt=True, **how) as borrower,
    ):  # type: ignore[arg-type]
        lender.send(tensor)
        return borrower.recv(timeout=60)[0].storage


def by_descriptor(tensor: tenon.Tensor, **how: bool) -> tenon.Storage:
    with tenon.Descriptor(tensor) as descriptor:
        return tenon.open_descriptor(descriptor.bytes, descriptor.fds, **how)[0].storage  # type: ignore[arg-type]


def by_fd(tensor: tenon.Tensor, **how: bool) -> tenon.Storage:
    with tensor.storage.share_fd() as handle:
        return tenon.open_fd(handle, **how)  # type: ignore[arg-type]


def by_filename(tensor: tenon.Tensor, **how: bool) -> tenon.Storage:
    return tenon.open_filename(tensor.storage.share_filename(), **how)  # type: ignore[arg-type]


Carrier = Callable[..., tenon.Storage]
CARRIERS = [by_connection, by_descriptor, by_fd, by_filename]


@pytest.fixture
def named(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy "file_system", with its names in the test's folder."""
    monkeypatch.setattr(tenon._strategy, "filename", tenon.Filename(directory=folder))
    monkeypatch.setattr(tenon._strategy, "current", "file_system")


@pytest.mark.parametrize("carrier", CARRIERS)
def test_by_the_strategy_of_names(carrier: Carrier, named: None) -> None:
    tensor = tenon.zeros(3)
    assert not tensor.storage.is_sealed and carrier(tensor) == tensor.storage
    # A storage without a named file is sent and opened as under the other strategy.
    frozen = tenon.zeros(3, mode="lender_writes")
    assert frozen.storage.is_sealed and carrier(frozen).same_memory(frozen.storage)
    if carrier is not by_filename:
        # If this process already holds the memory, opening its name makes no request of a peer.
        with pytest.raises(tenon.PermissionDenied):
            carrier(tensor, allow_unsealed=False)


@pytest.mark.parametrize("carrier", CARRIERS[:3])
def test_by_the_strategy_of_fds(carrier: Carrier, folder: str) -> None:
    tensor = tenon.zeros(3)
    assert tensor.storage.is_sealed and carrier(tensor) == tensor.storage
    # The sender asked for a named file. The receiver did not, and cannot know who sent it, so the
    # receiver must ask too.
    asked = tenon.zeros(3, filename=tenon.Filename(directory=folder))
    if carrier is not by_connection:
        with pytest.raises(tenon.PermissionDenied):
            carrier(asked)
    assert carrier(asked, allow_unsealed=True) == asked.storage


def test_a_connection_takes_a_named_file_of_the_same_user(
    folder: str, child: Callable[..., Any]
) -> None:
    """The receiver opens a named file although the strategy was only the sender's choice."""
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender = (
        "import sys, tenon; tenon.multiprocessing.set_sharing_strategy('file_system'); connection ="
        " tenon.Connection(int(sys.argv[1])); connection.send(tenon.zeros(3)); connection.recv()"
    )
    process = child(sender, theirs.fileno(), fds=(theirs.fileno(),))
    theirs.close()
    with tenon.Connection(ours, adopt=True) as connection:
        tensor = connection.recv(timeout=60)[0]
        assert tensor.tolist() == [0, 0, 0] and not tensor.storage.is_sealed
        tensor.numpy()[0] = 1
        connection.send([])
    assert process.wait(60) == 0


def test_a_connection_refuses_unsealed_memory_where_it_is_told_to(folder: str) -> None:
    asked = tenon.zeros(3, filename=tenon.Filename(directory=folder))
    with pytest.raises(tenon.PermissionDenied, match="allow_unsealed"):
        by_connection(asked, allow_unsealed=False)


def test_another_process_of_that_strategy_opens_a_name(
    folder: str, child: Callable[..., Any]
) -> None:
    tensor = tenon.zeros(3, filename=tenon.Filename(directory=folder))
    program = (
        "import sys, tenon; tenon.multiprocessing.set_sharing_strategy(sys.argv[2]); "
        "storage = tenon.open_filename(sys.argv[1], 12); storage.write(b'x'); print('opened')"
    )
    for strategy, expected in (("file_system", b"opened"), ("file_descriptor", b"")):
        process = child(program, tensor.storage.share_filename().name, strategy)
        assert process.communicate(timeout=60)[0].strip() == expected
    assert tensor.tobytes()[:1] == b"x"
