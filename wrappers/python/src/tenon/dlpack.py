"""Tensors to and from other frameworks in this process."""

from __future__ import annotations

from tenon.error import Unsupported, make
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CPU = 1
MAX_VERSION = (1, 3)


def from_dlpack(source: Any) -> Tensor:
    """Take a tensor from another framework, without a copy. Its storage is private: copy it with clone to lend it."""
    device = source.__dlpack_device__()
    if int(device[0]) != CPU:
        raise make(Unsupported, f"the tensor lies on DLPack device {int(device[0])}:{int(device[1])}; only the CPU is supported")
    try:
        capsule = source.__dlpack__(max_version=MAX_VERSION)
    except TypeError:
        # A framework from before DLPack 1.0.
        capsule = source.__dlpack__()
    return Tensor._from_dlpack(capsule)
