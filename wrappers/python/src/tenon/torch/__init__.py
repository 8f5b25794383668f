"""Exchanges tensors with PyTorch without a copy, in this process and with others. Imports torch
when first used.

install() adds the sharing strategy "tenon" to torch.multiprocessing. `import
tenon.torch.multiprocessing as mp` does the same, and replaces `import torch.multiprocessing as mp`.
"""

from __future__ import annotations

from tenon.torch._exchange import (
    TorchFilename,
    TorchHandle,
    from_torch,
    share_filename,
    share_with_torch,
    to_torch,
)
from tenon.torch._factories import (
    born_shared,
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from tenon.torch._home import reserve
from tenon.torch._package import open_package
from tenon.torch._pinned import pin
from tenon.torch._strategy import install, installed, uninstall
from tenon.torch.containers import (
    SharedDict,
    SharedList,
    SharedTensor,
    shared_attributes,
    to_shared_dataset,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.torch import multiprocessing as multiprocessing

__all__ = [
    "SharedDict",
    "SharedList",
    "SharedTensor",
    "TorchFilename",
    "TorchHandle",
    "born_shared",
    "empty",
    "empty_like",
    "from_torch",
    "full",
    "full_like",
    "install",
    "installed",
    "ones",
    "ones_like",
    "open_package",
    "pin",
    "reserve",
    "share_filename",
    "share_with_torch",
    "shared_attributes",
    "to_shared_dataset",
    "to_torch",
    "uninstall",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name == "multiprocessing":
        from importlib import import_module

        return import_module("tenon.torch.multiprocessing")
    raise AttributeError(f"module 'tenon.torch' has no attribute {name!r}")
