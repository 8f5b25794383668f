"""Loads pickles of plain data about torch tensors. verl.py and sglang.py use it. Imports torch."""

from __future__ import annotations

import io
import pickle

import torch

from tenon.error import Corrupt, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TorchUnpickler(pickle.Unpickler):
    """An unpickler that knows sizes and element types of PyTorch. All other names are refused, so
    a pickle can run no code.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch":
            found = getattr(torch, name, None)
            if found is torch.Size or isinstance(found, torch.dtype):
                return found
        raise make(
            Corrupt,
            f"the message names {module}.{name}, which is neither a size nor an element type:"
            " check that the sender is of a version that this page of the docs names",
        )

    @classmethod
    def loads(cls, data: bytes) -> Any:
        """Load a pickle. Raises Corrupt if it is broken, or has a name that is refused."""
        try:
            return cls(io.BytesIO(data)).load()
        except (pickle.UnpicklingError, EOFError, ValueError, IndexError, TypeError) as error:
            if isinstance(error, Corrupt):
                raise
            raise make(Corrupt, f"the message is no pickle of PyTorch's data: {error}") from error
