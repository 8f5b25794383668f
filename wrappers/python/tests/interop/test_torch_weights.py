"""Shared weights in PyTorch: a model runs over the memory that all processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import tenon
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Peer  # type: ignore[import-not-found]

# The peer attaches, makes a model of the weights, and keeps the model alone.
ATTACH = """
import tenon, tenon.torch
from tenon.torch import to_torch
with tenon.weights.open({path!r}, name="net", directory={folder!r}, timeout=60) as weights:
    loaded = weights.info().loaded
    state = {{name: to_torch(weights[name], "unsafe") for name in weights}}
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    assigns = torch.__version__ >= "2.1"
    if assigns:
        model.load_state_dict(state, assign=True)
        for name, tensor in model.state_dict().items():
            assert tensor.data_ptr() == state[name].data_ptr(), name
    else:
        model.load_state_dict(state)
        kept.append(state)
    kept.append(model)
    del state, model
with torch.no_grad():
    value = [loaded, kept[-1](torch.arange(8.0)).tolist()]
"""


@pytest.fixture(scope="module", autouse=True)
def warmed(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start the library's thread in the peer, which keeps fds, before fds are counted."""
    folder = tmp_path_factory.mktemp("weights")
    save_file({"a": np.zeros(1, np.float32)}, folder / "file")
    path, directory = str(folder / "file"), str(folder)
    peer.run(
        "import tenon, tenon.torch\n"
        f"tenon.weights.open({path!r}, name='net', directory={directory!r}).close()"
    )


@pytest.mark.parametrize("form", ["safetensors", "torch.save"])
def test_a_model_runs_over_shared_weights(peer: Peer, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "names"
    folder.mkdir()
    file = tmp_path / "net"
    random = np.random.default_rng(1)
    state = {
        "0.weight": random.random((16, 8), np.float32) - 0.5,
        "0.bias": random.random(16, np.float32),
        "2.weight": random.random((4, 16), np.float32) - 0.5,
        "2.bias": random.random(4, np.float32),
    }
    save_file(state, file)
    if form == "torch.save":
        with tenon.weights.open(file) as plain:
            whole = {name: plain[name].tolist() for name in plain}
        peer.run(f"torch.save({{n: torch.tensor(t) for n, t in {whole!r}.items()}}, {str(file)!r})")
    hidden = np.maximum(state["0.weight"] @ np.arange(8, dtype=np.float32) + state["0.bias"], 0)
    expected = state["2.weight"] @ hidden + state["2.bias"]

    with tenon.weights.open(file, name="net", directory=folder) as mine:
        assert mine.info().loaded and mine["2.bias"].storage.is_shared
        loaded, found = peer.run(ATTACH.format(path=str(file), folder=str(folder)))
        assert not loaded
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    # The model has the weights alone now, so PyTorch's process hands them on.
    with tenon.weights.open(name="net", directory=folder, timeout=60) as again:
        assert not again.info().loaded
        np.testing.assert_array_equal(again["0.weight"].numpy(), state["0.weight"])
    peer.let_go()
    assert not list(folder.iterdir())
