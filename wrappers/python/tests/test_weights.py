"""Weights of torch.export's programs and of ExecuTorch's files. tests/peers/weights runs the
programs with new weights in PyTorch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tenon

GOLDEN = Path(__file__).resolve().parents[3] / "tests/peers/golden/weights"


@pytest.mark.parametrize("file", ["torch-2.15.0.pt2", "torch-2.6.0.pt2"])
def test_weights_are_replaced_and_written_again(tmp_path: Path, file: str) -> None:
    new = tmp_path / "new.pt2"
    with tenon.open_weights(GOLDEN / file) as weights:
        assert (
            weights.names() == tuple(weights) == ("weight", "tied", "columns", "shift")
            and len(weights) == 4
        )
        assert "tied" in weights and "none" not in weights and "columns" in repr(weights)
        old = weights["weight"]
        assert old.tolist() == [[0, 1, 2], [3, 4, 5]] and weights["columns"].tolist() == [
            [0, 2],
            [1, 3],
        ]
        weights.replace("tied", tenon.from_numpy(np.full((3, 2), 7, np.float32)).numpy().T)
        weights.replace("shift", tenon.from_numpy(np.array([8, 9], np.float32)))
        assert (
            old.tolist() == [[0, 1, 2], [3, 4, 5]] and weights["weight"].tolist() == [[7] * 3] * 2
        )
        weights.rewrite(new, durability="file")
    assert (
        repr(weights) == "<tenon.Weights, closed>"
        and new.stat().st_size == (GOLDEN / file).stat().st_size
    )
    with pytest.raises(ValueError, match="closed"):
        weights.names()
    again = tenon.open_weights(new, tensors="fill", check="all")
    assert again["weight"].tolist() == [[7] * 3] * 2 and again["shift"].tolist() == [8, 9]


def test_executorch() -> None:
    weights = tenon.open_weights(GOLDEN / "executorch-1.5.1.ptd")
    assert (
        weights["transposed"].tolist() == [[0, 3], [1, 4], [2, 5]]
        and bytes(weights["backend_blob"].numpy()) == b"packed bytes"
    )
    with pytest.raises(tenon.Unsupported, match="reads and does not write"):
        weights.rewrite("/nowhere")


def test_refusals(tmp_path: Path) -> None:
    weights = tenon.open_weights(GOLDEN / "torch-2.15.0.pt2")
    with pytest.raises(KeyError, match="did you mean weight"):
        weights["weigth"]
    with pytest.raises(KeyError, match="none"):
        weights.replace("none", tenon.zeros(2))
    with pytest.raises(
        tenon.InvalidArgument, match=r"float32 of the shape \[2, 3\].*float32 of the shape \[2\]"
    ):
        weights.replace("weight", tenon.zeros(2))
    (tmp_path / "text.pt2").write_text("no zip file")
    with pytest.raises(tenon.TenonError):
        tenon.open_weights(tmp_path / "text.pt2")
