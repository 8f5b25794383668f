"""A handle leads another process to a storage on a device."""

import multiprocessing
from multiprocessing.connection import Connection

import tenon


def borrow(pipe: "Connection[tenon.CudaHandle, tenon.CudaHandle]") -> None:
    with tenon.open_cuda(pipe.recv()) as storage:  # once: a handle is for one opening
        tensor = tenon.Tensor.over(storage, (1024,), "float32")
        print(tensor.device, tensor.shape, flush=True)  # prints: cuda:0 (1024,)
        storage.record_stream(None)  # used in that stream, too: goes back when it has passed


if __name__ == "__main__":
    tenon.require_cuda()
    ours, theirs = multiprocessing.Pipe()
    borrower = multiprocessing.get_context("spawn").Process(target=borrow, args=(theirs,))
    borrower.start()
    with tenon.CudaArena(2 << 20) as arena:
        storage = arena.allocate(4096)
        ours.send(storage.share_cuda(stream=None))  # what is in the stream comes first
        storage.close()
        borrower.join()
        print(tenon.cuda_collect(), arena.stats().blocks_used)  # prints: 0 0
