"""Arenas and PyTorch: tensors allocated in one, views that keep a lease, and a whole arena as one
storage of PyTorch's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest
import tenon
from conftest import Peer  # type: ignore[import-not-found]

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def warm(peer: Peer) -> None:
    """Start the library's thread, and Tenon's part of multiprocessing, before fds are counted."""
    tenon.Arena(4096, prefault_nbytes=1).close()
    peer.run("import tenon.torch; tenon.Arena(4096, prefault_nbytes=1).close()")


@pytest.fixture
def line(peer: Peer) -> Iterator[tenon.Connection]:
    """A connection to the peer, which has its end as kept[0]."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer.run("import tenon; kept.append(tenon.Connection(fds[0], adopt=True))", theirs.fileno())
    with tenon.Connection(ours, adopt=True) as connection:
        yield connection


@pytest.mark.parametrize(
    "view",
    [
        "tenon.torch.to_torch(m[0])",
        "torch.from_dlpack(m[0])",
        "torch.frombuffer(m[0], dtype=torch.uint8)",
    ],
)
def test_a_torch_tensor_keeps_the_lease(peer: Peer, line: tenon.Connection, view: str) -> None:
    with tenon.Arena(MIB) as arena:
        tensor = arena.full(MIB, 3, "uint8")
        line.send(tensor, timeout=60)
        tensor.close()
        value = peer.run(
            f"import gc, tenon.torch; m = kept[0].recv(timeout=300); t = {view};"
            " kept.append(t[1:]); m.close(); del m, t\ngc.collect(); value ="
            " [tenon.stats().storages, kept[1].sum().item()]"
        )
        assert value == [1, 3 * (MIB - 1)]
        assert (arena.stats().blocks_live, arena.stats().blocks_lent) == (0, 1)
        assert [(each.pid, each.leases) for each in tenon.lease_holders()] == [
            (peer.process.pid, 1)
        ]
        with pytest.raises(tenon.Timeout):
            arena.empty(1, timeout=0.1)
        peer.run("del kept[1]; import gc; gc.collect()")
        arena.empty(1, timeout=60)
        assert arena.stats().blocks_lent == 0


def test_torch_tensors_allocated_in_an_arena(peer: Peer, line: tenon.Connection) -> None:
    value = peer.run("""
import tenon
from tenon.torch import to_torch
arena = tenon.Arena(1 << 20); kept.append(arena)
lent = arena.empty((4, 5), "bfloat16")
t = to_torch(lent); t.fill_(2)
u = to_torch(arena.tensor(torch.arange(6).reshape(2, 3).numpy())); u += 1
kept[0].send({"t": lent}, timeout=60); kept.append(t)
value = [arena.stats().blocks_live, u.tolist(), str(t.dtype)]
""")
    assert value == [2, [[1, 2, 3], [4, 5, 6]], "torch.bfloat16"]
    with line.recv(timeout=300) as message:
        tensor = message["t"]
    assert (tensor.view(dtype="uint16").numpy() == 0x4000).all()
    peer.run("kept[2].fill_(1)")
    assert (tensor.view(dtype="uint16").numpy() == 0x3F80).all()
    peer.run("del kept[2]")
    assert peer.run("s = kept[1].stats(); value = s.blocks_lent") == 1
    tensor.close()
    del tensor
    # Another thread of the library may still be taking the block back.
    peer.run("while kept[1].stats().blocks_lent: pass")


WHOLE = """
storage = torch.UntypedStorage._new_shared_fd_cpu(fds[0], {nbytes})
__import__("os").close(fds[0])
kept.append(storage)
"""
PIECE = (
    "t = torch.empty(0, dtype=torch.{dtype}).set_(kept[0], {offset}, {sizes}, {strides});"
    " kept.append(t); value = t.tolist()"
)


def test_a_whole_arena_as_one_storage(peer: Peer) -> None:
    with tenon.Arena(4 * MIB) as arena:
        tensors = [
            arena.tensor(np.arange(60, dtype=dtype).reshape(6, 10) + i)
            for i, dtype in enumerate(["float32", "int64", "uint8"])
        ]
        with tensors[0].storage.share_fd() as handle:
            assert handle.segment_nbytes == arena.stats().bytes_capacity
            peer.run(WHOLE.format(nbytes=handle.segment_nbytes), handle.fd)
        for tensor in tensors:
            view = tensor[1:, ::2]
            with tensor.storage.share_fd() as handle:
                # Blocks are aligned to 64 bytes, so each block begins at a whole number of
                # elements.
                offset = handle.offset // view.itemsize + view.offset
            piece = PIECE.format(
                dtype=view.dtype, offset=offset, sizes=view.shape, strides=view.strides
            )
            assert peer.run(piece) == view.tolist()
        assert (
            peer.run(
                "value = len({t.data_ptr() - t.storage_offset() * t.element_size() for t in"
                " kept[1:]})"
            )
            == 1
        )
        peer.run("kept[1][0, 0] = -1")
        assert tensors[0][1, 0].item() == -1
        tensors[1].numpy()[1, 2] = 77
        assert peer.run("value = kept[2][0, 1].item()") == 77
