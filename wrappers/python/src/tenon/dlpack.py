"""Takes tensors of other frameworks in this process by DLPack."""

from __future__ import annotations

import sys

from tenon._options import CPU, CUDA, CUDA_HOST
from tenon.by_cuda import producer_stream
from tenon.error import InvalidArgument, Unsupported, make
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.by_cuda import Stream

MAX_VERSION = (1, 3)


def from_dlpack(source: Any, *, stream: Stream = None) -> Tensor:
    """Take a tensor from another framework, without a copy. Its storage is private. To lend it,
    copy it with clone.

    Pinned memory of the host counts as the CPU's. A tensor on a CUDA device stays there, and its
    storage can be lent with share_cuda. stream is the one in which the tensor will be used next.
    The framework makes it wait for its own work. If a stream is given, the storage counts as used
    in it, as by Storage.record_stream.
    """
    device = source.__dlpack_device__()
    kind = int(device[0])
    if kind not in (CPU, CUDA, CUDA_HOST):
        raise make(
            Unsupported,
            f"the tensor lies on DLPack device {kind}:{int(device[1])}; only the CPU and CUDA are"
            " supported",
        )
    if kind != CUDA and stream is not None:
        raise make(
            InvalidArgument, "a stream is given, and the tensor lies on the CPU", option="stream"
        )
    more = {"stream": producer_stream(stream)} if kind == CUDA else {}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, getattr(torch, "Tensor", ())):
        from tenon._torch_dlpack import through_dlpack

        tensor = through_dlpack(source, more)
    else:
        tensor = take(source, more)
    if stream is not None and tensor.numel:
        tensor.storage.record_stream(stream)
    return tensor


def take(source: Any, more: dict[str, int]) -> Tensor:
    """Take the tensor that the framework hands out, unchanged. `more` has the arguments for its
    `__dlpack__`.
    """
    if not more:
        # Use the table of DLPack 1.3, if the framework has it. PyTorch's table does not check
        # whether gradients would be lost.
        exchange = getattr(type(source), "__dlpack_c_exchange_api__", None)
        if exchange is not None and not getattr(source, "requires_grad", False):
            tensor = Tensor._from_exchange(exchange, source)
            if tensor is not None:
                return tensor
    try:
        capsule = source.__dlpack__(max_version=MAX_VERSION, **more)
    except TypeError:
        # The framework is older than DLPack 1.0.
        capsule = source.__dlpack__(**more)
    return Tensor._from_dlpack(capsule)
