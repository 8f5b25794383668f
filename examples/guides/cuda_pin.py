"""Host memory that two processes share and that the devices of both reach."""

import multiprocessing
import socket

import tenon


def borrow(end: socket.socket) -> None:
    results = tenon.Connection(end).recv()["results"]
    results.storage.pin()  # each process pins for itself
    print(results.storage.is_pinned, results.numpy()[0], flush=True)  # prints: True 42.0


if __name__ == "__main__":
    tenon.require_cuda()
    ours, theirs = socket.socketpair()
    borrower = multiprocessing.get_context("spawn").Process(target=borrow, args=(theirs,))
    borrower.start()
    results = tenon.zeros((1000,), "float32", isolated=True)  # a segment of its own
    address = results.storage.pin()  # where the device finds the first byte
    results.numpy()[...] = 42  # or a copy from the device, beside the host
    tenon.Connection(ours).send({"results": results})
    borrower.join()
