"""What tenon.torch keeps, deduplicates and refuses, by the rules of PyTorch's own reducers."""

from __future__ import annotations

import socket

import pytest
import tenon
from conftest import Peer  # type: ignore[import-not-found]


@pytest.fixture(scope="module", autouse=True)
def imported(peer: Peer) -> None:
    """Import Tenon before fds are counted: the family's socket and the library's thread stay."""
    peer.run("import tenon.torch; tenon.Arena(4096, prefault_nbytes=1).close()")


def test_elements_have_torchs_values(peer: Peer) -> None:
    """Checks every bit pattern of the element types that numpy lacks."""
    value = peer.run("""
import tenon
compared = []
for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
             "float8_e8m0fnu"):
    dtype = getattr(torch, name, None)
    if dtype is None:
        continue
    size = torch.empty(0, dtype=dtype).element_size()
    raw = torch.arange(-32768, 32767, 7).to(torch.int16)
    if size == 1: raw = torch.arange(256, dtype=torch.uint8)
    theirs = raw.view(dtype)
    ours = tenon.from_dlpack(theirs).tolist()
    assert repr(ours) == repr(theirs.to(torch.float64).tolist()), name
    compared.append(name)
value = compared
""")
    assert value[0] == "bfloat16"


def test_from_torch_over_tenons_own_memory(peer: Peer) -> None:
    """The torch tensor's memory is Tenon's, given by to_torch, numpy or DLPack.

    from_torch lends that memory without a copy, also through views.
    """
    value = peer.run("""
import gc, tenon
from tenon.torch import from_torch, to_torch
before = tenon.stats().bytes_copied
with tenon.Arena(1 << 20) as arena:
    base = arena.zeros((4, 4))
    u = to_torch(base)
    for t in (u, u[1:3], u.t()[:, 1:], u.view(-1)[5], torch.from_numpy(base.numpy())[2:],
              torch.from_dlpack(base)[1:, 1:]):
        for found in (from_torch(t), from_torch(t, share=True)):
            assert found.storage == base.storage
            assert found.shape == tuple(t.shape) and found.strides == tuple(t.stride())
            t.fill_(t.sum().item() + 1)
            assert found.tolist() == t.tolist()
    assert from_torch(torch.nn.Parameter(u[0])).is_parameter
    left, right = tenon.pair()
    left.send(from_torch(u[1]))
    assert right.recv()[0].storage == base.storage
    left.close(), right.close()
    copied = from_torch(u, copy=True)
    assert copied.storage != base.storage and copied.tolist() == u.tolist()
    # What lies there later is somebody else's.
    address = u.data_ptr()
    del u, t, found, base, copied; gc.collect()
    try:
        tenon.Storage.at(address)
        raise AssertionError("a storage that is gone was found")
    except tenon.NotFound:
        pass
private = tenon.empty(4, private=True)
try:
    from_torch(to_torch(private))
except tenon.Unsupported as error:
    value = str(error)
""")
    assert "share=True" in value and "copy=True" in value


def test_from_torch_of_elements_that_lie_otherwise(peer: Peer) -> None:
    """PyTorch stores each integer of less than a byte in a whole byte, and Tenon has no element
    type of plain bits.
    """
    value = peer.run("""
import tenon
from tenon.torch import from_torch
bytes_of, refused = torch.arange(4, dtype=torch.uint8), []
for name in ("int1", "int4", "int7", "uint1", "uint4", "uint7", "bits8", "bits1x8"):
    if hasattr(torch, name):
        refused.append(bytes_of.view(getattr(torch, name)))
texts = []
for t in refused:
    for take in (from_torch, lambda t: from_torch(t, share=True),
                 lambda t: from_torch(t, copy=True), tenon.from_dlpack, tenon.Value):
        try:
            take(t)
        except tenon.Unsupported as error:
            texts.append(str(error))
        else:
            raise AssertionError(f"{t.dtype} was taken")
assert len(texts) == 5 * len(refused)
value = texts
""")
    assert all("torch.uint8" in text for text in value)


def test_from_torch_keeps_the_rules_of_torchs_reducers(peer: Peer) -> None:
    value = peer.run("""
import warnings, tenon
from tenon.torch import from_torch, to_torch
leaf = torch.ones(3, requires_grad=True)
for how in ({}, {"share": True}, {"copy": True}):
    for of in (leaf * 2, leaf[1:], torch.nn.Parameter(torch.ones(2))[0]):
        try:
            from_torch(of, **how)
        except RuntimeError as error:  # what the reference raises
            assert isinstance(error, tenon.Unsupported)
            assert "requires_grad" in str(error) and "detach()" in str(error)
        else:
            raise AssertionError("taken")
assert not from_torch((leaf * 2).detach(), share=True).requires_grad
with torch.no_grad():
    assert not from_torch(leaf * 2, share=True).requires_grad
# Named dimensions, where this PyTorch has them.
if hasattr(leaf, "refine_names"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = torch.ones(2, 3, names=("a", None))
        try:
            from_torch(named, share=True)
        except RuntimeError as error:
            assert "rename(None)" in str(error)
        else:
            raise AssertionError("taken")
        assert from_torch(named.rename(None), share=True).shape == (2, 3)
# Hooks are left out, with PyTorch's own warning.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from_torch(leaf, share=True)
    assert not caught
    leaf.register_hook(lambda grad: grad)
    from_torch(leaf, share=True)
    assert len(caught) == 1 and "hook" in str(caught[0].message)
kinds = []
for parameter in (
    torch.nn.Parameter(torch.ones(2)),
    torch.nn.Parameter(torch.ones(2), requires_grad=False),
    torch.nn.Parameter(torch.ones(2, dtype=torch.int32), requires_grad=False),
):
    back = to_torch(from_torch(parameter, share=True))
    assert torch.equal(back, parameter) and back.is_leaf
    parameter.data[0] = 5
    assert back.data[0] == 5
    kinds.append([type(back).__name__, back.requires_grad])
plain = to_torch(from_torch(torch.ones(2, requires_grad=True), share=True))
value = [*kinds, [type(plain).__name__, plain.requires_grad, plain.is_leaf]]
""")
    assert value == [
        ["Parameter", True],
        ["Parameter", False],
        ["Parameter", False],
        ["Tensor", True, True],
    ]


def test_parameters_arrive_as_parameters(peer: Peer) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer.run("import tenon; kept.append(tenon.Connection(fds[0], adopt=True))", theirs.fileno())
    with tenon.Connection(ours, adopt=True) as line:
        storage = tenon.Storage.new(8)
        line.send(
            [
                tenon.Tensor.over(storage, (2,), requires_grad=True, is_parameter=True),
                tenon.Tensor.over(storage, (2,)),
            ]
        )
        code = (
            "from tenon.torch import to_torch; value = [type(to_torch(t)).__name__ for t in"
            " kept[0].recv(timeout=300)]"
        )
        assert peer.run(code) == ["Parameter", "Tensor"]


def test_torchs_own_ways_to_take_a_scalar(peer: Peer) -> None:
    """PyTorch 2 takes a scalar tensor by DLPack.

    PyTorch 1 takes every tensor for a list, and Tenon's error names to_torch.
    """
    value = peer.run("""
import numpy, tenon
results = []
for dtype in ("float32", "float64", "int64", "uint8", "bool", "complex64"):
    scalar = tenon.from_numpy(numpy.array(3).astype(dtype))
    for take in (torch.as_tensor, torch.tensor):
        try:
            taken = take(scalar)
        except TypeError as error:
            assert "tenon.torch.to_torch" in str(error) and torch.__version__.startswith("1.")
            taken = tenon.torch.to_torch(scalar)
        assert taken.shape == () and taken.item() == scalar.item()
        assert str(taken.dtype) == f"torch.{dtype}"
value = True
""")
    assert value is True
