"""One tensor on a device goes to another process by PyTorch's tuple of eight."""

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import tenon


def tenon_lends(weight: tenon.Tensor, pipe: "Connection[Any, Any]") -> None:
    items = weight.storage.share_cuda().torch_tuple()
    pipe.send((items, weight.dtype, weight.shape, weight.strides, weight.offset))


def tenon_opens(pipe: "Connection[Any, Any]") -> tenon.Tensor:
    items, dtype, sizes, strides, offset = pipe.recv()
    storage = tenon.open_cuda(tenon.CudaHandle.from_torch_tuple(items))
    return tenon.Tensor.over(storage, sizes, dtype, strides=strides, offset=offset)


def borrow(pipe: "Connection[Any, Any]") -> None:
    result = tenon_opens(pipe)
    print(result.device, result.shape, flush=True)  # prints: cuda:0 (32, 32)


if __name__ == "__main__":
    tenon.require_cuda()
    ours, theirs = multiprocessing.Pipe()
    borrower = multiprocessing.get_context("spawn").Process(target=borrow, args=(theirs,))
    borrower.start()
    with tenon.CudaArena(2 << 20) as arena:
        tenon_lends(tenon.Tensor.over(arena.allocate(4096), (32, 32), "float32"), ours)
        borrower.join()
