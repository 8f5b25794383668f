"""A device tensor goes to a PyTorch process without Tenon, and one of PyTorch's comes back."""

import multiprocessing
import sys
from multiprocessing.connection import Connection
from typing import Any

import tenon
import torch


def pytorch(pipe: "Connection[Any, Any]") -> None:
    # PyTorch opens what Tenon lends.
    items, dtype, sizes, strides, offset = pipe.recv()
    torch.cuda.init()
    storage = torch.UntypedStorage._new_shared_cuda(*items)
    empty = torch.empty(0, dtype=getattr(torch, dtype), device=storage.device)
    weight = empty.set_(storage, offset, sizes, strides)
    # PyTorch lends.
    result = weight * 2
    items = result.untyped_storage()._share_cuda_()
    dtype = str(result.dtype).removeprefix("torch.")
    pipe.send((items, dtype, tuple(result.shape), result.stride(), result.storage_offset()))
    pipe.recv()  # PyTorch's process stays as long as Tenon has the memory


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(77)  # a test that was skipped
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=pytorch, args=(theirs,)).start()
    weight = tenon.from_dlpack(torch.full((2, 3), 21.0, device="cuda"))
    items = weight.storage.share_cuda().torch_tuple()
    ours.send((items, weight.dtype, weight.shape, weight.strides, weight.offset))
    items, dtype, sizes, strides, offset = ours.recv()
    storage = tenon.open_cuda(tenon.CudaHandle.from_torch_tuple(items))
    result = tenon.Tensor.over(storage, sizes, dtype, strides=strides, offset=offset)
    print(torch.from_dlpack(result)[0, 0].item())  # prints: 42.0
    del result, storage
    ours.send(None)
