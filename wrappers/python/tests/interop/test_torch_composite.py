"""PyTorch's sparse, nested, meta and quantised tensors: there and back, and to another process."""

from __future__ import annotations

import socket

import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]


@pytest.fixture(scope="module", autouse=True)
def imported(peer: Peer) -> None:
    """Before fds are counted: the family's socket and the library's thread stay."""
    peer.run("import tenon.torch; tenon.Arena(4096, prefault_nbytes=1).close()")


# All that this PyTorch has, and whether two are the same.
CASES = """
import warnings
import tenon
import tenon.torch as tt
warnings.simplefilter("ignore")
torch.set_num_threads(1)
dense = torch.tensor([[1.0, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0], [0, 0, 0, 0]])
numbers = torch.arange(8.0).reshape(2, 4)
scales, floats = torch.tensor([0.1, 0.2]), torch.tensor([0.5, 1.5])
cases = {
    "coo": dense.to_sparse(), "repeated": torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)),
    "hybrid": dense.to_sparse(1), "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(),
    "bsr": dense.to_sparse_bsr((2, 2)), "bsc": dense.to_sparse_bsc((2, 2)),
    "grad": torch.nn.Parameter(dense.to_sparse()), "meta": torch.empty((3, 4), device="meta")[1:, ::2],
    "quint8": torch.quantize_per_tensor(numbers, 0.5, 3, torch.quint8).t(),
    "qint32": torch.quantize_per_channel(numbers, scales, torch.tensor([0, 1]), 0, torch.qint32),
    "quint4x2": torch.quantize_per_channel(numbers, scales, floats, 0, torch.quint4x2),
    "qfloat": torch.quantize_per_channel(numbers, scales, floats, 0, torch.quint8),
}
if hasattr(torch, "_nested_view_from_buffer"):
    cases["nested"] = torch.nested.nested_tensor([torch.arange(6.0).reshape(2, 3), torch.arange(4.0).reshape(4, 1)])
    cases["jagged"] = torch.nested.nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([3, 2, 5])
    cases["lengths"] = torch.nested.narrow(torch.arange(24.0).reshape(3, 8), 1, starts, lengths, layout=torch.jagged)

def check_same(a, b, name):
    assert (a.layout, a.dtype, a.requires_grad, type(a)) == (b.layout, b.dtype, b.requires_grad, type(b)), name
    if a.is_meta:
        assert (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset()), name
    elif a.is_nested:
        assert all(torch.equal(x, y) for x, y in zip(a.unbind(), b.unbind())), name
    elif a.is_quantized:
        assert a.qscheme() == b.qscheme(), name
        assert torch.equal(a.dequantize(), b.dequantize()), name
    else:
        assert a.layout is not torch.sparse_coo or a.is_coalesced() == b.is_coalesced(), name
        assert torch.equal(a.detach().to_dense(), b.detach().to_dense()), name
"""


def test_there_and_back_in_one_process(peer: Peer) -> None:
    peer.run(
        CASES
        + """
for name, tensor in cases.items():
    composite = tt.from_torch(tensor, copy=True)
    check_same(tensor, tt.to_torch(composite), name)
    # Over Tenon's memory: found again, without a copy. The indices of a checked one are private.
    again = tt.to_torch(composite, trusted=True)
    before = tenon.stats().bytes_copied
    found = tt.from_torch(again)
    small = 0 if name in ("coo", "csr", "csc", "bsr", "bsc", "hybrid", "repeated", "grad", "meta", "quint8") else 1024
    assert tenon.stats().bytes_copied - before <= small, name
    if composite.parts:
        assert found.values.storage == composite.values.storage, name
moved = dense.to_sparse_csr()
shared = tt.from_torch(moved, share=True)
shared.values.numpy()[0] = 7
assert moved.values()[0] == 7 and moved.values().is_shared()
"""
    )


def test_to_another_process(peer: Peer) -> None:
    left, right = socket.socketpair()
    with left, right:
        # The peer's tensors go through this process, which has no PyTorch, and come home.
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
        check_same(tensor, tt.to_torch(got), name)
connection.close()
kept.clear()
""")


def test_a_column_that_is_not_there(peer: Peer) -> None:
    """PyTorch would read memory that is not the tensor's."""
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
frozen = tenon.SparseTensor.coo(tenon.from_numpy([[0], [0]]), tenon.from_numpy([1.0], mode="frozen"), (1, 1))
assert tenon.torch.to_torch(frozen, writable="cow").to_dense().tolist() == [[1.0]]
tenon.torch.to_torch(frozen)
""")
