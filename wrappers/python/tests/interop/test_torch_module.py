"""Modules go to and from PyTorch: built here and run there, saved there and changed here."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tenon
from conftest import Peer, PeerError  # type: ignore[import-not-found]

LINEAR = (
    "def forward(self, x: Tensor) -> Tensor:\n  return torch.linear(x, self.weight, self.bias)\n"
)


@pytest.fixture(scope="module", autouse=True)
def warm(peer: Peer) -> None:
    """Import Tenon before fds are counted: it keeps fds beside multiprocessing."""
    try:
        peer.run("torch.jit.script(torch.nn.ReLU())")
    except PeerError as error:
        pytest.skip(f"this PyTorch has no TorchScript: {error}")
    peer.run("import tenon")


def quoted(path: Path) -> str:
    return repr(str(path))


def linear(weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> tenon.Module:
    module = tenon.Module("layers.Linear")
    module.add_parameter("weight", weight)
    module.add_parameter("bias", bias)
    module.define(LINEAR)
    return module


def test_an_mlp_of_numpys_weights(peer: Peer, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    weights = [
        random.standard_normal(shape, dtype="float32") for shape in ((8, 4), (8,), (3, 8), (3,))
    ]
    module = tenon.Module("MLP")
    module.add_submodule("fc1", linear(weights[0], weights[1]))
    module.add_submodule("fc2", linear(weights[2], weights[3]))
    module.define(
        "def forward(self, x: Tensor) -> Tensor:\n  return"
        " self.fc2.forward(torch.relu(self.fc1.forward(x)))\n"
    )
    module.extra_files["labels.txt"] = "a,b,c"
    report = tenon.export_module(module, tmp_path / "mlp.pt")
    inputs = random.standard_normal((5, 4), dtype="float32")
    value = peer.run(
        f"files = {{'labels.txt': ''}}; m = torch.jit.load({quoted(tmp_path / 'mlp.pt')},"
        " _extra_files=files)\nnames = [n for n, _ in m.named_parameters()]\nvalue ="
        f" [m(torch.tensor({inputs.tolist()})).tolist(), names, m.original_name,"
        " str(files['labels.txt'])]"
    )
    hidden = np.maximum(inputs @ weights[0].T + weights[1], 0)
    np.testing.assert_allclose(value[0], hidden @ weights[2].T + weights[3], rtol=1e-5)
    assert value[1:3] == [["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"], "MLP"]
    assert value[3] in ("a,b,c", "b'a,b,c'")
    assert report.oldest_pytorch.startswith("1.")


def test_values_arrive(peer: Peer, tmp_path: Path) -> None:
    module = tenon.Module("Values")
    module.define_types(
        "__torch__", "class Pair(NamedTuple):\n  left : int\n  right : Optional[str]\n"
    )
    module.add_attribute("pair", "__torch__.Pair", tenon.NamedTuple("__torch__.Pair", (3, "x")))
    module.add_attribute("table", "Dict[str, List[Tuple[int, float]]]", {"b": [(1, 2.5)], "a": []})
    module.add_attribute("nothing", "Optional[Tensor]", None)
    module.add_attribute("device", "Device", tenon.Device("cpu"))
    module.add_constant("depth", "int", 4)
    module.add_buffer(
        "sparse",
        tenon.TensorSpec.sparse_coo(np.array([[0, 2]]), np.array([1.5, 2.5], "float32"), (4,)),
    )
    module.add_buffer("quantized", tenon.TensorSpec.quantized(np.arange(4, dtype=np.uint8), 0.5, 1))
    module.define("def forward(self) -> int:\n  return torch.add(self.depth, self.pair.left)\n")
    tenon.export_module(module, tmp_path / "values.pt")
    value = peer.run(
        f"m = torch.jit.load({quoted(tmp_path / 'values.pt')})\nvalue = [m(), list(m.pair),"
        " m.table, m.nothing, str(m.device), m.sparse.to_dense().tolist(),"
        " m.quantized.dequantize().tolist()]"
    )
    table = {"b": [[1, 2.5]], "a": []}
    assert value == [7, [3, "x"], table, None, "cpu", [1.5, 0, 2.5, 0], [-0.5, 0, 0.5, 1]]


def test_a_socket_carries_an_archive(peer: Peer) -> None:
    module = linear(np.eye(2, dtype="float32"), np.ones(2, "float32"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tenon.export_module(module, ours)
        ours.shutdown(socket.SHUT_WR)
        value = peer.run(
            "import io, socket; s = socket.socket(fileno=fds[0]); f = s.makefile('rb'); data ="
            " f.read(); f.close(); s.close()\nvalue ="
            " torch.jit.load(io.BytesIO(data))(torch.ones(1, 2)).tolist()",
            theirs.fileno(),
        )
    assert value == [[2, 2]]


SAVE = """
torch.manual_seed(3)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.norm = torch.nn.BatchNorm2d(2)
        self.head = torch.nn.Linear(8, 2)
        self.tied = torch.nn.Linear(8, 2)
        self.tied.weight = self.head.weight
    def forward(self, x: torch.Tensor, twice: bool = False):
        y = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.head(y) + self.tied(y) if twice else self.head(y)
torch.jit.save(torch.jit.script(Net().eval()), PATH, _extra_files={'note': 'kept'})
value = {n: p.tolist() for n, p in torch.jit.load(PATH).state_dict().items()}
"""


@pytest.mark.parametrize("tensors", ["map", "fill"])
def test_new_weights_in_an_archive_of_torch(peer: Peer, tmp_path: Path, tensors: str) -> None:
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    # torch.jit.script reads a class from its source, so the program must be a file.
    program = tmp_path / "save.py"
    program.write_text(
        f"import json, torch\nPATH = {quoted(old)}\n{SAVE}\nprint(json.dumps(value))\n"
    )
    done = peer.program(program)
    assert done.returncode == 0, done.stderr
    with tenon.import_module(old, tensors=tensors) as module:  # type: ignore[arg-type]
        found = module.tensors()
        assert found["head.weight"] is found["tied.weight"] and found["conv.weight"].requires_grad
        assert module["norm.num_batches_tracked"].item() == 0 and dict(module.extra_files) == {
            "note": b"kept"
        }
        fresh = {
            name: tensor.numpy() * 0 + 0.5
            for name, tensor in found.items()
            if tensor.dtype == "float32"
        }
        assert module.load(fresh, allow_missing=True).missing == ("norm.num_batches_tracked",)
        tenon.export_module(module, new)
        same = tenon.import_module(new)
        assert same.code == module.code and same.version == module.version
    value = peer.run(
        f"m = torch.jit.load({quoted(new)}); x = torch.ones(1, 1, 4, 4); y = m(x, True)\nvalue ="
        " [m(x).tolist(), y.tolist(), m.conv.weight.tolist(), m.norm.num_batches_tracked.item(),"
        " m.training]"
    )
    convolved = 9 * 0.5 + 0.5
    normed = (convolved - 0.5) / np.sqrt(0.5 + 1e-5) * 0.5 + 0.5
    head = 8 * normed * 0.5 + 0.5
    np.testing.assert_allclose(value[0], [[head, head]], rtol=1e-5)
    np.testing.assert_allclose(value[1], [[2 * head, 2 * head]], rtol=1e-5)
    assert value[2] == [[[[0.5] * 3] * 3]] * 2 and value[3:] == [0, False]


def test_a_method_is_replaced(peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    peer.run(
        f"torch.jit.save(torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)), {quoted(path)})"
    )
    module = tenon.import_module(path)
    module.define(
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(torch.linear(x, self.weight,"
        " None), 0)\n"
    )
    module.define("def size(self) -> int:\n  return 42\n")
    tenon.export_module(module, path)
    assert peer.run(
        f"m = torch.jit.load({quoted(path)}); value = [m(torch.ones(1, 3)).tolist(), m.size()]"
    ) == [[[0, 0]], 42]


def test_tensors_of_torch_are_taken_without_a_copy(peer: Peer, tmp_path: Path) -> None:
    value = peer.run(
        "import tenon; m = tenon.Module('M'); w = torch.nn.Parameter(torch.arange(4.));"
        " m.add_parameter('w', w)\nm.add_buffer('flags', torch.tensor([True, False]));"
        " m.add_buffer('brain', torch.ones(2, dtype=torch.bfloat16))\nwith torch.no_grad(): w[0] ="
        " 9\nm.define('def forward(self, x: Tensor) -> Tensor:\\n  return torch.add(x,"
        f" self.w)\\n')\ntenon.export_module(m, {quoted(tmp_path / 'a.pt')}); t ="
        f" torch.jit.load({quoted(tmp_path / 'a.pt')})\nvalue = [t(torch.zeros(4)).tolist(),"
        " t.w.requires_grad, t.flags.tolist(), str(t.brain.dtype), m['w'].storage.is_shared]"
    )
    assert value == [[9, 1, 2, 3], True, [True, False], "torch.bfloat16", False]


def silero() -> Path:
    found = importlib.util.find_spec("silero_vad")
    if found is None or found.origin is None:
        pytest.skip("silero-vad is not installed")
    return Path(found.origin).parent / "data" / "silero_vad.jit"


RUN = """
torch.manual_seed(1); m = torch.jit.load({path}); x = torch.randn(2, 512) * 0.1
with torch.no_grad():
    value = [m(x, 16000).tolist(), m(x, 16000).tolist(), m(x[:, :256], 8000).tolist()]
"""


def test_silero_exported_again(peer: Peer, tmp_path: Path) -> None:
    path = silero()
    with tenon.import_module(path) as module:
        assert module.version == 3
        tenon.export_module(module, tmp_path / "again.pt")
        assert tenon.import_module(tmp_path / "again.pt").code == module.code
    assert peer.run(RUN.format(path=quoted(tmp_path / "again.pt"))) == peer.run(
        RUN.format(path=quoted(path))
    )


def test_silero_with_other_weights(peer: Peer, tmp_path: Path) -> None:
    path, other = silero(), tmp_path / "other.pt"
    with tenon.import_module(path) as module:
        changed = {
            name: tensor.numpy() * np.float32(0.5)
            for name, tensor in module.tensors().items()
            if name.endswith("weight")
        }
        assert len(changed) == 10
        missing = module.load(changed, allow_missing=True).missing
        assert missing and not any(name.endswith("weight") for name in missing)
        tenon.export_module(module, other)
    # PyTorch makes the same change by itself.
    theirs = peer.run(
        f"torch.manual_seed(1); m = torch.jit.load({quoted(path)}); x = torch.randn(2, 512) * 0.1\n"
        "with torch.no_grad():\n"
        "    for n, t in list(m.named_parameters()) + list(m.named_buffers()):\n"
        "        if n.endswith('weight'): t.mul_(0.5)\n"
        "    value = [m(x, 16000).tolist(), m(x, 16000).tolist(), m(x[:, :256], 8000).tolist()]"
    )
    ours = peer.run(RUN.format(path=quoted(other)))
    assert ours == theirs != peer.run(RUN.format(path=quoted(path)))
