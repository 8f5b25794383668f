"""Another process doubles a batch in place: the first example of README.md."""

import multiprocessing
import socket

import tenon


def work(end: socket.socket) -> None:
    batch = tenon.Connection(end).recv()["batch"]  # mapped, not copied
    batch.numpy()[:] *= 2


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    batch = tenon.from_numpy([[1.0, 2.0], [3.0, 4.0]])
    tenon.Connection(ours).send({"batch": batch})
    worker.join()
    print(batch.numpy().tolist())
