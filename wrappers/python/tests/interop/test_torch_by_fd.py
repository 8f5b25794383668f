"""Storages travel by fd between Tenon here and a PyTorch process without Tenon, which uses its
private calls and raw SCM_RIGHTS.
"""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]
from tenon.torch import share_with_torch
from views import UNTYPED, VIEWS  # type: ignore[import-not-found]

MADE = """
import os
kept.append(t)
fd, nbytes = untyped(t)._share_fd_cpu_()[:2]
out_fds = [fd] if fd >= 0 else []
value = dict(nbytes=nbytes, offset=t.storage_offset(),
             sizes=list(t.shape), strides=list(t.stride()))
"""

OPEN = """
storage = torch.UntypedStorage._new_shared_fd_cpu(fds[0], {0})
__import__("os").close(fds[0])
t = torch.empty(0, dtype=torch.{4}).set_(storage, {1}, {2}, {3})
kept.append(t)
value = t.tolist()
"""


def made_by_torch(peer: Peer, expression: str, dtype: str) -> tenon.Tensor:
    spec, fds = peer.run_with_fds(f"{UNTYPED}\nt = {expression}\n{MADE}")
    with pytest.raises(tenon.PermissionDenied):
        tenon.open_fd(fds[0], spec["nbytes"])
    storage = tenon.open_fd(fds[0], spec["nbytes"], adopt=True, allow_unsealed=True)
    return tenon.Tensor.over(
        storage, spec["sizes"], dtype, strides=spec["strides"], offset=spec["offset"]
    )


@pytest.mark.parametrize(
    ("expression", "dtype", "expected"), VIEWS, ids=[view[0] for view in VIEWS]
)
def test_storage_made_by_torch(
    peer: Peer, expression: str, dtype: str, expected: np.ndarray
) -> None:  # type: ignore[type-arg]
    before = tenon.stats().bytes_copied
    tensor = made_by_torch(peer, expression, dtype)
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert not tensor.storage.is_sealed and not tensor.read_only
    assert tenon.stats().bytes_copied == before


def test_writes_are_seen_both_ways(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.zeros(4, 6)[1:, ::2]", "float32")
    tensor.numpy()[2, 1] = 5
    assert peer.run("value = kept[-1][2, 1].item()") == 5
    peer.run("kept[-1][0, 0] = 6")
    assert tensor[0, 0].item() == 6
    peer.run("kept.clear()")
    assert tensor.tolist() == [[6, 0, 0], [0, 0, 0], [0, 5, 0]]


def test_bfloat16_made_by_torch(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.tensor([1., 2.]).to(torch.bfloat16)", "bfloat16")
    assert tensor.view(dtype="uint16").tolist() == [0x3F80, 0x4000]


def test_storage_made_by_torch_that_it_cuts_short(peer: Peer) -> None:
    tensor = made_by_torch(peer, "torch.ones(100000)", "float32")
    peer.run(f"{UNTYPED}\n__import__('os').truncate(untyped(kept[-1])._share_fd_cpu_()[0], 0)")
    with pytest.raises(tenon.Corrupt):
        tensor.storage.read()


def opened_by_torch(peer: Peer, tensor: tenon.Tensor) -> object:
    with share_with_torch(tensor) as lend:
        fd, nbytes, offset, sizes, strides = lend
        return peer.run(OPEN.format(nbytes, offset, sizes, strides, tensor.dtype), fd)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_storage_made_by_tenon(peer: Peer, dtype: str, isolated: bool) -> None:
    neighbours = [tenon.zeros(10, "uint8") for _ in range(3)]
    tensor = tenon.from_numpy(np.arange(12).reshape(3, 4).astype(dtype), isolated=isolated)
    before = tenon.stats().bytes_copied
    assert opened_by_torch(peer, tensor) == tensor.tolist()
    assert opened_by_torch(peer, tensor[1:, ::2]) == tensor[1:, ::2].tolist()
    assert (
        opened_by_torch(peer, tensor.view(shape=(4, 3), strides=(1, 4)))
        == tensor.numpy().T.tolist()
    )
    assert tenon.stats().bytes_copied == before
    del neighbours


def test_torch_writes_into_tenons_storage(peer: Peer) -> None:
    tensor = tenon.zeros((3, 4))
    opened_by_torch(peer, tensor[:, 1:])
    peer.run("kept[-1][2, 0] = 7")
    assert tensor[2, 1].item() == 7
    tensor.numpy()[0, 1] = 8
    assert peer.run("value = kept[-1][0, 0].item()") == 8
    tensor.close()
    assert peer.run("value = kept[-1].sum().item()") == 15


def test_a_view_of_a_large_one(peer: Peer) -> None:
    tensor = tenon.zeros(1 << 22)
    tensor.numpy()[-1] = 3
    assert opened_by_torch(peer, tensor[-2:]) == [0, 3]


@pytest.mark.parametrize("mode", ["lender_writes", "frozen"])
def test_read_only_memory_is_refused(peer: Peer, mode: str) -> None:
    tensor = tenon.from_numpy(np.arange(8), mode=mode)  # type: ignore[arg-type]
    with pytest.raises(tenon.PermissionDenied):
        share_with_torch(tensor)
    # If a caller ignores the mode, the kernel refuses the write.
    with tensor.storage.share_fd() as handle, pytest.raises(PeerError) as caught:
        # PyTorch leaks its copy of the fd. The copy has the lowest number that was free.
        peer.run(
            f"""
import os
leak = os.dup(fds[0]); os.close(leak)
try:
    torch.UntypedStorage._new_shared_fd_cpu(fds[0], {handle.offset + 64})
finally:
    os.close(leak); os.close(fds[0])
""",
            handle.fd,
        )
    assert "RuntimeError" in caught.value.kinds


def test_what_torch_cannot_take() -> None:
    keep = tenon.zeros(1)
    with pytest.raises(tenon.Unsupported):
        share_with_torch(tenon.empty(4, "float4_e2m1fn"))
    with pytest.raises(tenon.Unsupported):
        share_with_torch(tenon.zeros(4)[::-1])
    with pytest.raises(tenon.Unsupported):
        share_with_torch(tenon.empty(4, private=True))
    odd = tenon.Tensor.over(tenon.Storage.new(24), (2,), "float32x3")
    with odd.storage.share_fd() as handle:
        begins_at_a_multiple = handle.offset % 12 == 0
    if begins_at_a_multiple:
        share_with_torch(odd).close()
    else:
        with pytest.raises(tenon.InvalidArgument, match="alignment"):
            share_with_torch(odd)
    del keep


def test_a_c_program_reads_and_writes_what_torch_made(peer: Peer) -> None:
    program = os.environ.get("TENON_TORCH_FD_PROGRAM")
    if not program:
        pytest.skip(
            "TENON_TORCH_FD_PROGRAM is not set: CTest sets it to the C program of"
            " tests/languages/python"
        )
    spec, fds = peer.run_with_fds(f"{UNTYPED}\nt = torch.arange(24.).reshape(4, 6)[2:]\n{MADE}")
    try:
        out = subprocess.run(
            [program, str(fds[0]), str(spec["nbytes"]), str(spec["offset"]), "12"],
            pass_fds=fds,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        os.close(fds[0])
    assert out.stdout == f"{sum(range(12, 24))}\n"
    assert peer.run("value = kept[-1].tolist()") == [
        [2.0 * i for i in range(12, 18)],
        [2.0 * i for i in range(18, 24)],
    ]
