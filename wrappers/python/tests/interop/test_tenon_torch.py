"""tenon.torch inside a PyTorch process: to_torch and from_torch, without a copy."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]


@pytest.fixture(scope="module", autouse=True)
def imported(peer: Peer) -> None:
    """Import tenon.torch before fds are counted. If multiprocessing is imported, which PyTorch
    does, Tenon keeps a socket for its family.
    """
    peer.run("import tenon.torch")


@pytest.fixture
def line(peer: Peer) -> Iterator[tenon.Connection]:
    """A connection to the peer, which has its end as kept[0]."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer.run("import tenon; kept.append(tenon.Connection(fds[0], adopt=True))", theirs.fileno())
    with tenon.Connection(ours, adopt=True) as connection:
        yield connection


RECEIVE = "from tenon.torch import to_torch; m = kept[0].recv(timeout=300); "
COPIED = "import tenon; value = tenon.stats().bytes_copied"

VIEWS = [
    np.arange(24, dtype=np.float32).reshape(4, 6)[1:, ::2],
    np.arange(24, dtype=np.int64).reshape(4, 6).T[2:],
    np.array([[True, False]]),
    np.array([1 + 2j]),
    np.array(3.0, np.float16),
    np.zeros((0, 3), np.int32),
]


@pytest.mark.parametrize("array", VIEWS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_to_torch(peer: Peer, line: tenon.Connection, array: np.ndarray) -> None:  # type: ignore[type-arg]
    # The tensor arrives with its own strides and offset over the whole base.
    base = array if array.base is None else array.base.reshape(-1)  # type: ignore[union-attr]
    whole = tenon.from_numpy(base)
    start = (array.ctypes.data - base.ctypes.data) // max(array.itemsize, 1) if array.size else 0
    tensor = whole.view(
        array.shape, strides=[s // array.itemsize for s in array.strides], offset=start
    )
    before = peer.run(COPIED)
    line.send(tensor)
    value = peer.run(
        RECEIVE + "t = to_torch(m[0]); kept.append(t); value = [str(t.dtype), list(t.shape),"
        " repr(t.tolist())]"
    )
    assert value == [f"torch.{array.dtype}", list(array.shape), repr(array.tolist())]
    assert peer.run(COPIED) == before


def test_writes_are_seen_both_ways_and_nobody_else_holds_it(
    peer: Peer, line: tenon.Connection
) -> None:
    tensor = tenon.zeros((2, 3))
    line.send({"w": tensor})
    peer.run(
        RECEIVE + "t = to_torch(m['w']); m.close(); del m; import gc; gc.collect(); t[1, 2] = 5;"
        " kept.append(t)"
    )
    assert tensor[1, 2].item() == 5
    tensor.numpy()[0, 0] = 4
    assert peer.run("value = kept[-1][0, 0].item()") == 4
    tensor.close()
    assert peer.run("value = kept[-1].sum().item()") == 9


@pytest.mark.parametrize("mode", ["lender_writes", "frozen"])
def test_read_only_by_default_is_an_error(peer: Peer, line: tenon.Connection, mode: str) -> None:
    line.send(tenon.from_numpy(np.arange(4), mode=mode))  # type: ignore[arg-type]
    with pytest.raises(PeerError) as caught:
        peer.run(RECEIVE + "t = to_torch(m[0]); t[0] = 1")
    assert "PermissionError" in caught.value.kinds and "PermissionDenied" in caught.value.kinds
    assert '"cow"' in str(caught.value) and '"unsafe"' in str(caught.value)


@pytest.mark.parametrize("mode", ["lender_writes", "frozen"])
def test_read_only_as_cow(peer: Peer, line: tenon.Connection, mode: str) -> None:
    tensor = tenon.from_numpy(np.arange(6).reshape(2, 3), mode=mode)  # type: ignore[arg-type]
    line.send(tensor[:, 1:])
    value = peer.run(
        RECEIVE
        + "t = to_torch(m[0], writable='cow'); t[0, 0] = 9; kept.append(t); value = t.tolist()"
    )
    assert value == [[9, 2], [4, 5]]
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_read_only_of_a_shared_segment_as_cow(peer: Peer) -> None:
    value = peer.run(
        "import tenon; from tenon.torch import to_torch; s = tenon.Storage.new_from(bytes(8))\nwith"
        " s.share_fd() as h: r = tenon.open_fd(h, access='read_only')\nt ="
        " to_torch(tenon.Tensor.over(r, (8,), 'uint8'), 'cow'); t[0] = 1; value = [t.tolist(),"
        " list(s.data)]"
    )
    assert value == [[1, 0, 0, 0, 0, 0, 0, 0], [0] * 8]


PROGRAM = """
import tenon
from tenon.torch import to_torch
tensor = tenon.Tensor.over(tenon.Storage.new_from(bytes(16), mode="frozen"), (4,), "float32")
try:
    t = to_torch(tensor{0})
    print(t.sum().item(), flush=True)
    t[0] = 1
    print("written")
except PermissionError:
    print("refused")
"""


def test_the_default_cannot_crash(peer: Peer) -> None:
    done = peer.alone(PROGRAM.format(""))
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
    done = peer.alone(PROGRAM.format(', "cow"'))
    assert (done.returncode, done.stdout) == (0, "0.0\nwritten\n"), done.stderr
    # With "unsafe" PyTorch writes, and the kernel kills the process.
    done = peer.alone(
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        + PROGRAM.format(', "unsafe"')
    )
    assert (done.returncode, done.stdout) == (-11, "0.0\n"), done.stderr


def test_what_torch_lacks(peer: Peer) -> None:
    for code in (
        "to_torch(tenon.zeros(4)[::-1])",
        "to_torch(tenon.empty(4, 'float4_e2m1fn'))",
        "to_torch(tenon.empty(4, 'float6_e2m3fn'))",
    ):
        with pytest.raises(PeerError) as caught:
            peer.run(f"import tenon; from tenon.torch import to_torch; {code}")
        assert "Unsupported" in caught.value.kinds, str(caught.value)
    with pytest.raises(PeerError, match="not one of"):
        peer.run("import tenon; from tenon.torch import to_torch; to_torch(tenon.zeros(1), 'yes')")


def test_requires_grad_travels(peer: Peer, line: tenon.Connection) -> None:
    line.send([tenon.zeros(2, requires_grad=True), tenon.zeros(2)])
    assert peer.run(RECEIVE + "value = [to_torch(t).requires_grad for t in m]") == [True, False]


def test_parameters_travel(peer: Peer, open_line: tenon.Connection) -> None:
    peer.run(
        "from tenon.torch import from_torch; p = torch.nn.Parameter(torch.ones(2));"
        " kept.append(p)\nkept[0].send([from_torch(p, share=True), from_torch(torch.ones(2),"
        " share=True)])"
    )
    message = open_line.recv(timeout=300)
    assert [(t.requires_grad, t.is_parameter) for t in message] == [(True, True), (False, False)]


@pytest.mark.parametrize(
    "expression",
    [
        "torch.arange(24.).reshape(4, 6)",
        "torch.arange(24.).reshape(4, 6)[1:, ::2]",
        "torch.arange(24.).reshape(4, 6).t()[2:]",
    ],
)
def test_from_torch(peer: Peer, line: tenon.Connection, expression: str) -> None:
    before, here = peer.run(COPIED), tenon.stats().bytes_copied
    expected = peer.run(
        f"from tenon.torch import from_torch; t = {expression}; t.share_memory_(); kept.append(t)\n"
        "kept[0].send({'t': from_torch(t)}); value = t.tolist()"
    )
    with pytest.raises(tenon.PermissionDenied):
        line.recv(timeout=300)
    assert peer.run(COPIED) == before and tenon.stats().bytes_copied == here
    assert expected


@pytest.fixture
def open_line(peer: Peer) -> Iterator[tenon.Connection]:
    """Like line(), but this end also takes memory whose size is not sealed."""
    ours, theirs = socket.socketpair()
    with theirs:
        peer.run("import tenon; kept.append(tenon.Connection(fds[0], adopt=True))", theirs.fileno())
    with tenon.Connection(ours, adopt=True, allow_unsealed=True) as connection:
        yield connection


@pytest.mark.parametrize(
    "expression",
    [
        "torch.arange(24.).reshape(4, 6)",
        "torch.arange(24.).reshape(4, 6)[1:, ::2]",
        "torch.arange(24.).reshape(4, 6).t()[2:]",
    ],
)
def test_from_torch_to_another_process(
    peer: Peer, open_line: tenon.Connection, expression: str
) -> None:
    before, here = peer.run(COPIED), tenon.stats().bytes_copied
    expected = peer.run(
        f"from tenon.torch import from_torch; t = {expression}; t.share_memory_(); kept.append(t)\n"
        "kept[0].send({'t': from_torch(t)}); value = t.tolist()"
    )
    tensor = open_line.recv(timeout=300)["t"]
    assert tensor.tolist() == expected
    tensor.numpy()[0, 1] = -1
    assert peer.run("value = kept[-1][0, 1].item()") == -1
    peer.run("kept[-1][1, 0] = -2")
    assert tensor[1, 0].item() == -2
    assert peer.run(COPIED) == before and tenon.stats().bytes_copied == here


def test_from_torch_in_one_process(peer: Peer) -> None:
    value = peer.run("""
import tenon, gc
from tenon.torch import from_torch, to_torch
t = torch.arange(6.).share_memory_()
a, b = from_torch(t), from_torch(t[2:])
assert a.storage == b.storage and b.offset == 2
del t; gc.collect()
back = to_torch(b); back[0] = 9
value = [a.tolist(), list(back.shape)]
""")
    assert value == [[0, 1, 9, 3, 4, 5], [4]]


def test_from_torch_of_private_memory(peer: Peer) -> None:
    with pytest.raises(PeerError) as caught:
        peer.run("from tenon.torch import from_torch; from_torch(torch.ones(3))")
    assert (
        "Unsupported" in caught.value.kinds
        and "share=True" in str(caught.value)
        and "copy=True" in str(caught.value)
    )
    value = peer.run("""
from tenon.torch import from_torch
t = torch.ones(3); view = t[1:]
shared = from_torch(t, share=True)
copied = from_torch(torch.ones(2, 2, dtype=torch.bfloat16).t(), copy=True)
view[0] = 5
value = [shared.tolist(), t.is_shared(), copied.dtype, copied.storage.is_sealed,
         copied.view(dtype="uint16").tolist(),
         from_torch(torch.empty(0, 3)).shape]
""")
    assert value == [[1, 5, 1], True, "bfloat16", True, [[0x3F80] * 2] * 2, [0, 3]]


def test_from_torch_of_what_it_cannot_take(peer: Peer) -> None:
    for code in (
        "t = torch.ones(3).to_sparse()",
        "t = torch.ones(3, 3).to_mkldnn()",
        "t = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])",
    ):
        with pytest.raises(PeerError) as caught:
            peer.run(f"from tenon.torch import from_torch; {code}; from_torch(t)")
        assert "Unsupported" in caught.value.kinds, str(caught.value)
    value = peer.run(
        "from tenon.torch import from_torch; value = from_torch(torch.tensor([1 + 2j]).conj(),"
        " share=True).is_conj"
    )
    assert value is True
    value = peer.run(
        "from tenon.torch import from_torch, to_torch\n"
        "value = str(to_torch(from_torch(torch.tensor([1 + 2j]).conj(), share=True)).tolist())"
    )
    assert value == "[(1-2j)]"
    value = peer.run(
        "from tenon.torch import from_torch; value = str(from_torch(torch.tensor([1 + 2j]).conj(),"
        " copy=True).tolist())"
    )
    assert value == "[(1-2j)]"


def test_dlpack_between_tenon_and_torch(peer: Peer) -> None:
    value = peer.run("""
import tenon
t = tenon.zeros((2, 3))
u = torch.from_dlpack(t); u[0, 0] = 5
w = torch.arange(6.)[1:]
x = tenon.from_dlpack(w); w[0] = 7
value = [t.tolist(), x.tolist(), x.storage.is_shared]
""")
    assert value == [[[5, 0, 0], [0, 0, 0]], [7, 2, 3, 4, 5], False]


def test_dlpack_has_less_than_torch(peer: Peer) -> None:
    """DLPack has no conjugate or negative bit, and each version lacks some element types."""
    value = peer.run("""
import tenon
from tenon.torch import to_torch
x = torch.tensor([1 + 2j, 3 - 1j])
bits = []
for t in (x, x.conj(), x.conj().imag, torch._neg_view(x), torch._neg_view(x.conj())):
    taken = tenon.from_dlpack(t)
    back = to_torch(taken)
    assert torch.equal(back, t), (back, t)
    assert torch.equal(to_torch(tenon.Value(t).get()), t)
    bits.append([taken.is_conj, taken.is_neg, back.is_conj(), back.is_neg()])
    x[1] += 1j  # the same bytes
    assert torch.equal(to_torch(taken), t)
for name in ("bool", "complex32", "uint16", "uint32", "float8_e4m3fn", "float8_e5m2",
             "float8_e8m0fnu"):
    dtype = getattr(torch, name, None)
    if dtype is None:
        continue
    raw = torch.arange(24, dtype=torch.uint8).reshape(2, 12) % 2
    t = raw.view(dtype)[1:]
    taken = tenon.from_dlpack(t)
    assert taken.dtype == name and str(to_torch(taken).dtype) == f"torch.{name}", name
    raw += 1
    assert torch.equal(to_torch(taken).view(torch.uint8), t.view(torch.uint8)), name
value = bits
""")
    assert value == [
        [False] * 4,
        [True, False] * 2,
        [False, True] * 2,
        [False, True] * 2,
        [True] * 4,
    ]


def _rows(heading: str) -> list[tuple[str, ...]]:
    """The rows of a table of docs/concepts/element_types.md by their first cells."""
    page = Path(os.environ["TENON_SOURCE_DIR"], "docs/concepts/element_types.md").read_text()
    lines = page.split(heading)[1].split("\n## ")[0].splitlines()
    return [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in lines
        if line.startswith("| `")
    ]


def _names(cell: str) -> list[str]:
    """The names in a cell: of "`int1` to `int7`, `bits8`" there are eight."""
    names = []
    for part in cell.split(", "):
        first, *last = part.replace("`", "").split(" to ")
        count = int(last[0].removeprefix(first[:-1])) if last else 0
        names += [first[:-1] + str(number) for number in range(1, count + 1)] or [first]
    return names


TABLE = """
import tenon
from tenon.torch import from_torch, to_torch
every = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
known, refused = ROWS
told = set()
for name, theirs in known:
    tensor = tenon.zeros((8,), name)
    dtype = getattr(torch, theirs, None) if theirs else None
    told.add(dtype)
    if dtype is None:
        try:
            to_torch(tensor)
        except tenon.Unsupported as error:
            assert name in str(error), error
        else:
            raise AssertionError(name)
        continue
    t = to_torch(tensor)
    assert t.dtype is dtype and from_torch(t).dtype == tenon.from_dlpack(t).dtype == name, name
for name in refused:
    dtype = getattr(torch, name, None)
    told.add(dtype)
    if dtype is None:
        continue
    raw = torch.zeros(8, dtype=torch.uint8)
    if name[0] == "q":
        t = torch._empty_affine_quantized([8], scale=1.0, zero_point=0, dtype=dtype)
    elif name == "bcomplex32":
        t = torch.empty(8, dtype=dtype)
    else:
        t = raw.view(dtype)
    takes = [lambda: tenon.from_dlpack(t)]
    if name[0] == "q":
        assert isinstance(from_torch(t, copy=True), tenon.QuantizedTensor), name
    else:
        takes.append(lambda: from_torch(t, copy=True))
    for take in takes:
        try:
            take()
        except tenon.Unsupported as error:
            assert name in str(error), error
        else:
            raise AssertionError(name)
value = sorted(map(str, every - told))
"""


def test_table_of_element_types(peer: Peer) -> None:
    """The tables of docs/concepts/element_types.md agree with this PyTorch and leave no dtype
    out.
    """
    known = []
    for row in _rows("# Element types"):
        theirs = "" if row[3] == "no" else _names(row[3])[0]
        known += [(name, theirs) for name in _names(row[0])]
    refused = [name for row in _rows("## What PyTorch has") for name in _names(row[0])]
    assert len(known) > 40 and len(refused) > 20
    for row in _rows("# Element types"):
        for number, name in enumerate(_names(row[0]), 1):
            nbytes = number if " to " in row[1] else int(row[1])
            assert tenon.zeros((8,), name).nbytes == nbytes, name
            if row[2] not in ("no", "`ml_dtypes`"):
                assert tenon.zeros((8,), name).numpy().dtype == row[2].strip("`")
    assert peer.run(TABLE.replace("ROWS", repr((known, refused)))) == []


def test_the_lenders_death_takes_nothing(peer: Peer, line: tenon.Connection) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            line.send(tenon.from_numpy(np.arange(4)))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    # A child of fork cannot send on its parent's connections. The parent still can.
    line.send(tenon.from_numpy(np.arange(4)))
    line.close()
    assert peer.run(RECEIVE + "value = to_torch(m[0]).tolist()") == [0, 1, 2, 3]


# malloc gives 4 MiB back to the kernel at once, so a numpy array over moved memory would crash.
BORN_SHARED = """
import tenon.torch
from tenon.torch._storage import find, untyped_of
known = torch.zeros(1 << 20)
view = known.numpy()
with tenon.torch.born_shared():
    made = [torch.zeros(3), torch.arange(4), torch.clone(known), torch.tensor([1.0])]
    returned = [torch.as_tensor(known), torch.ones(1 << 20, out=known)]
view[0] = 7
after = [torch.zeros(3)]
value = [[find(untyped_of(t)) is not None for t in ts] for ts in (made, returned, after)]
value.append(known[:2].tolist())
"""


def test_born_shared_moves_only_new_tensors(peer: Peer) -> None:
    assert peer.run(BORN_SHARED) == [[True] * 4, [False] * 2, [False], [7.0, 1.0]]
    peer.let_go()
