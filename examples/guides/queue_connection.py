"""A child process gets a socket as an argument, and a connection on it: lends with leases."""

import multiprocessing
import socket

import tenon


def work(end: socket.socket) -> None:
    lender = tenon.Connection(end)
    while True:
        try:
            batch = lender.recv()["batch"]  # gives the batch before it back
        except tenon.PeerGone:
            return
        print(batch.numpy()[0], flush=True)


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    with tenon.Connection(ours, adopt=True) as connection, tenon.Arena(1 << 20) as arena:
        for number in range(3):
            connection.send({"batch": arena.full(1000, number)})
    worker.join()
    # prints: 0.0
    # prints: 1.0
    # prints: 2.0
