"""Blocks of one allocation on a device go to a worker that is killed, and come back."""

import multiprocessing
import signal
import socket

import tenon


def work(end: socket.socket) -> None:
    lender = tenon.Connection(end)
    lender.set_stream(0, None)  # PyTorch's or CuPy's stream object; None is the default stream
    activations = lender.recv()["activations"]
    lender.send(user_bytes=activations.device.encode())
    signal.pause()


if __name__ == "__main__":
    tenon.require_cuda()
    ours, theirs = socket.socketpair()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    with tenon.CudaArena(2 << 20) as arena, tenon.Connection(ours, adopt=True) as connection:
        storage = arena.allocate(2 << 20)
        connection.set_stream(0, None)  # what is in the stream is done before the worker's work
        connection.send({"activations": tenon.Tensor.over(storage, (512, 1024), "float32")})
        storage.close()
        print(connection.recv(timeout=60).user_bytes.decode())  # prints: cuda:0
        try:
            arena.allocate(256)
        except tenon.ResourceExhausted as error:
            print("full", str(worker.pid) in error.details["holders"])  # prints: full True
        worker.kill()
        print(arena.allocate(256, timeout=60).nbytes)  # prints: 256
    worker.join()
