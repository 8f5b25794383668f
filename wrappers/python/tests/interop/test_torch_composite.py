"""PyTorch's sparse, nested, meta and quantised tensors become composites and come back, also in
another process.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]


@pytest.fixture(scope="module", autouse=True)
def imported(peer: Peer) -> None:
    """Import Tenon before fds are counted: the family's socket and the library's thread stay."""
    peer.run("import tenon.torch; tenon.Arena(4096, prefault_nbytes=1).close()")


# Every composite tensor that this PyTorch can make, and a function that compares two of them.
CASES = (
    (Path(__file__).parents[1] / "dropin/layouts.py").read_text()
    + """
import tenon
import tenon.torch as tt
cases, dense = layouts(), dense_numbers()
"""
)


def test_there_and_back_in_one_process(peer: Peer) -> None:
    peer.run(
        CASES
        + """
for name, tensor in cases.items():
    composite = tt.from_torch(tensor, copy=True)
    check_same(tensor, tt.to_torch(composite), name, packed=True)
    # Over Tenon's memory: found again, without a copy. The indices of a checked one are private.
    again = tt.to_torch(composite, trusted=True)
    before = tenon.stats().bytes_copied
    found = tt.from_torch(again)
    small = ("qint32", "quint4x2", "qfloat", "nested", "lengths")
    has_small_parts = name.startswith("jagged") or name in small
    small = 1024 if has_small_parts else 0
    assert tenon.stats().bytes_copied - before <= small, name
    if composite.parts and composite.values.numel:
        assert found.values.storage == composite.values.storage, name
if hasattr(torch, "_nested_view_from_buffer"):
    # Components are counted from where the values begin, and not from where their storage begins.
    buffer = tenon.from_numpy(list(map(float, range(9))))
    sizes, steps = [[2, 2], [3, 1]], [[2, 1], [1, 1]]
    inside = tenon.NestedTensor.of(buffer[2:], sizes, steps, [0, 4])
    value = [each.tolist() for each in tt.to_torch(inside).unbind()]
    assert value == [[[2, 3], [4, 5]], [[6], [7], [8]]], value
moved = dense.to_sparse_csr()
shared = tt.from_torch(moved, share=True)
shared.values.numpy()[0] = 7
assert moved.values()[0] == 7 and moved.values().is_shared()
"""
    )


def test_to_another_process(peer: Peer) -> None:
    left, right = socket.socketpair()
    with left, right:
        # The peer sends its tensors to this process, which has no PyTorch, and gets them back.
        code = (
            CASES
            + """
import socket
connection = tenon.Connection(socket.socket(fileno=fds[0]))
sent = {name: tt.from_torch(tensor, copy=True) for name, tensor in cases.items()}
connection.send(sent, timeout=60)
kept[:] = [connection, sent, cases, check_same, tt]
value = sorted(cases)
"""
        )
        names = peer.run(code, right.fileno())
        with tenon.Connection(left) as connection:
            message = connection.recv(timeout=60)
            assert sorted(str(name) for name, _ in message.contents()) == names
            values = message.composite("csr").values.numpy()
            values[0] = 7
            connection.send(message, timeout=60)
            peer.run("""
connection, sent, cases, check_same, tt = kept
message = connection.recv(timeout=60)
for name, tensor in cases.items():
    got = message.composite(name)
    if name == "csr":
        assert tt.to_torch(got).values()[0] == 7
        assert got.values.storage == sent[name].values.storage
    else:
        check_same(tensor, tt.to_torch(got), name, packed=True)
connection.close()
kept.clear()
""")


def test_a_column_that_is_not_there(peer: Peer) -> None:
    """Without the check PyTorch would read memory outside of the tensor."""
    with pytest.raises(PeerError, match="plain indices at 2") as refused:
        peer.run(
            CASES
            + """
composite = tt.from_torch(dense.to_sparse_csr(), copy=True)
trusted = tt.to_torch(composite, trusted=True)
checked = tt.to_torch(composite)
composite.plain_indices.numpy()[2] = 1 << 40
assert trusted.col_indices()[2] == 1 << 40 and checked.col_indices()[2] == 1
assert torch.equal(checked.to_dense(), dense)
tt.to_torch(composite)
"""
        )
    assert "Corrupt" in refused.value.kinds


def test_what_is_not_carried_is_refused_by_name(peer: Peer) -> None:
    with pytest.raises(PeerError, match=r"layout torch\._mkldnn"):
        peer.run("import tenon.torch\ntenon.torch.from_torch(torch.ones(3, 3).to_mkldnn())")
    with pytest.raises(PeerError, match="read-only"):
        peer.run("""
import tenon.torch
tenon.torch.to_torch(tenon.torch.from_torch(torch.eye(3).to_sparse_csr(), copy=True))
values = tenon.from_numpy([1.0], mode="frozen")
frozen = tenon.SparseTensor.coo(tenon.from_numpy([[0], [0]]), values, (1, 1))
assert tenon.torch.to_torch(frozen, writable="cow").to_dense().tolist() == [[1.0]]
tenon.torch.to_torch(frozen)
""")
