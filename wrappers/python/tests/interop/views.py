"""Tensors that PyTorch makes and Tenon opens. The tests by fd and by name share them."""

from __future__ import annotations

import numpy as np

UNTYPED = """
def untyped(t):
    if hasattr(t, "untyped_storage"): return t.untyped_storage()
    s = t.storage()
    return s.untyped() if hasattr(s, "untyped") else s._untyped()
"""

# The expression that PyTorch evaluates, its element type, and the array that must arrive.
VIEWS = [
    ("torch.arange(24.).reshape(4, 6)", "float32", np.arange(24.0, dtype=np.float32).reshape(4, 6)),
    ("torch.arange(24).reshape(4, 6)[1:, ::2]", "int64", np.arange(24).reshape(4, 6)[1:, ::2]),
    (
        "torch.arange(24, dtype=torch.int16).reshape(4, 6).t()[2:]",
        "int16",
        np.arange(24, dtype=np.int16).reshape(4, 6).T[2:],
    ),
    (
        "torch.arange(5, dtype=torch.float64).expand(3, 5)",
        "float64",
        np.broadcast_to(np.arange(5.0), (3, 5)),
    ),
    ("torch.tensor(7, dtype=torch.uint8)", "uint8", np.array(7, np.uint8)),
    ("torch.tensor([True, False])", "bool", np.array([True, False])),
    ("torch.tensor([1+2j, 3-4j])", "complex64", np.array([1 + 2j, 3 - 4j], np.complex64)),
    ("torch.arange(4).to(torch.float16)", "float16", np.arange(4, dtype=np.float16)),
]
