"""tenon.integrations.safetensors in PyTorch, against the package safetensors in one process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors
import tenon
from conftest import Peer  # type: ignore[import-not-found]

# Each type of elements that a PyTorch has is 48 bytes of ones and zeros.
ENTRIES = [
    *((f"x.{dtype}", dtype, [48]) for dtype in ("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2")),
    *((f"x.{dtype}", dtype, [48]) for dtype in ("F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")),
    *((f"x.{dtype}", dtype, [24]) for dtype in ("I16", "U16", "F16", "BF16")),
    *((f"x.{dtype}", dtype, [3, 4]) for dtype in ("I32", "U32", "F32")),
    *((f"x.{dtype}", dtype, [2, 3]) for dtype in ("I64", "U64", "F64", "C64")),
    ("x.F4", "F4", [4, 24]),
    ("cube", "I32", [2, 3, 2]),
    ("empty", "F32", [0, 3]),
]
SCALAR = b"\0\0\x80\x3f"

BEGIN = """
import sys
if {folder!r} not in sys.path:
    sys.path.append({folder!r})
import safetensors, safetensors.torch
import tenon.integrations.safetensors.torch
from tenon.integrations.safetensors import SafetensorError, safe_open
path, more = {path!r}, {more!r}

def same(found, wanted):
    assert (found.dtype, found.shape, found.stride()) == (
        wanted.dtype, wanted.shape, wanted.stride())
    assert not found.requires_grad and found.device == wanted.device
    raw = [t.contiguous().reshape(-1).view(torch.uint8) for t in (found, wanted)]
    assert torch.equal(*raw)

def error_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error
"""

COMPARE = """
value = []
with safe_open(path, "pt", **more) as mine, safetensors.safe_open(path, "pt") as theirs:
    assert mine.keys() == theirs.keys() and mine.offset_keys() == theirs.offset_keys()
    assert mine.metadata() == theirs.metadata() == {"format": "pt"}
    for key in mine.keys():
        part, their_part = mine.get_slice(key), theirs.get_slice(key)
        assert part.get_shape() == their_part.get_shape()
        assert part.get_dtype() == their_part.get_dtype()
        try:
            wanted = theirs.get_tensor(key)
        except AttributeError:  # this PyTorch has no such type
            assert type(error_of(mine.get_tensor, key)) is tenon.Unsupported
            continue
        same(mine.get_tensor(key), wanted)
        if wanted.numel() > 1 and part.get_dtype() != "F4":  # of which the original gives no part
            same(part[:1], their_part[:1])
        value.append(key)
    for index in (0, -1, slice(None), slice(0, 2, 2), (0, 1), (..., 1), [1, 0], None, (),
                  (slice(None), slice(1, 3)), (1, slice(None), 0), torch.tensor([1, 0])):
        same(mine.get_slice("cube")[index], theirs.get_slice("cube")[index])
    for opened in (mine, theirs):
        assert type(error_of(lambda: opened.get_slice("cube")[5])) is IndexError
        assert type(error_of(opened.get_tensor, "none")) is SafetensorError
    for module in (tenon.integrations.safetensors, safetensors):
        assert type(error_of(module.safe_open, path, "pt", "bogus")) is SafetensorError
"""

WRITE = """
with safe_open(path, "pt", **more) as file:
    copied = tenon.stats().bytes_copied
    tensor = file.get_tensor("cube")
    assert tenon.stats().bytes_copied == copied
tensor[1] = 7
with safe_open(path, "pt", **more) as file:
    value = [file.get_slice("cube")[1].flatten()[:2].tolist(), tensor[1].flatten().tolist()]
kept.append(tensor)
"""

FILES = """
ours = tenon.integrations.safetensors.torch
mine, theirs = ours.load_file(path, **more), safetensors.torch.load_file(path)
assert list(mine) == list(theirs)
with open(path, "rb") as file:
    loaded = ours.load(file.read())
for key, tensor in theirs.items():
    same(mine[key], tensor)
    same(loaded[key], tensor)
value = len(mine)
assert ours.load_file(path, device="meta")["x.F32"].device.type == "meta"
"""


@pytest.fixture(scope="module", autouse=True)
def warmed(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start the library's thread in the peer, which keeps fds, before fds are counted."""
    folder = tmp_path_factory.mktemp("weights")
    path = write(folder / "file")
    name = {"name": "net", "directory": str(folder)}
    peer.run(f"import tenon.torch\ntenon.weights.open({str(path)!r}, **{name!r}).close()")


def write(path: Path, dtypes: tuple[str, ...] = ()) -> Path:
    """Write a file of these types of elements, or of all."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, dtype, shape in ENTRIES:
        if dtypes and dtype not in dtypes:
            continue
        end = at + (0 if name == "empty" else 48)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    header["scalar"] = {"dtype": "F32", "shape": [], "data_offsets": [at, at + len(SCALAR)]}
    text = json.dumps(header).encode()
    body = bytes([1, 0] * (at // 2)) + SCALAR
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that has only the package safetensors, which every version of Python can load."""
    folder = tmp_path_factory.mktemp("safetensors")
    shutil.copytree(Path(safetensors.__file__).parent, folder / "safetensors")
    return str(folder)


@pytest.mark.parametrize("shared", [False, True])
def test_every_tensor_is_that_of_the_original(
    peer: Peer, theirs: str, tmp_path: Path, shared: bool
) -> None:
    path, more = write(tmp_path / "all"), shared_in(tmp_path) if shared else {}
    begin = BEGIN.format(folder=theirs, path=str(path), more=more)
    compared = peer.run(begin + COMPARE)
    assert {"cube", "empty", "scalar", "x.BF16", "x.C64", "x.BOOL"} <= set(compared)
    assert len(compared) == len(ENTRIES) + 1 or peer.version < "2"


def shared_in(folder: Path) -> dict[str, str]:
    return {"name": "net", "directory": str(folder)}


@pytest.mark.parametrize("shared", [False, True])
def test_a_write_stays_in_the_tensor(peer: Peer, theirs: str, tmp_path: Path, shared: bool) -> None:
    path, more = write(tmp_path / "all"), shared_in(tmp_path) if shared else {}
    begin = BEGIN.format(folder=theirs, path=str(path), more=more)
    found = peer.run(begin + WRITE)
    one, seven = int.from_bytes(b"\1\0\1\0", "little"), [7] * 6
    assert found == [[one, one], seven]
    if shared:
        # The tensor alone keeps the weights in the peer, which hands them on.
        with tenon.weights.open(**more, timeout=60) as weights:
            assert not weights.info().loaded and weights["cube"].numpy()[1, 0, 0] == one
    peer.let_go()
    assert not list(tmp_path.glob("net.*"))


@pytest.mark.parametrize("shared", [False, True])
def test_whole_files(peer: Peer, theirs: str, tmp_path: Path, shared: bool) -> None:
    path = write(tmp_path / "some", ("F32", "I32", "BF16", "BOOL", "C64"))
    more = shared_in(tmp_path) if shared else {}
    assert peer.run(BEGIN.format(folder=theirs, path=str(path), more=more) + FILES) == 8
