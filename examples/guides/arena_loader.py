"""A loader that waits for its consumer: the arena bounds what the slow consumer may hold."""

import multiprocessing
import socket
import time

import tenon

SHAPE = (256, 1024)
NBYTES = 256 * 1024 * 4


def load(end: socket.socket) -> None:
    with tenon.Connection(end) as consumer, tenon.Arena(4 * NBYTES) as arena:
        for number in range(12):
            batch = arena.empty(SHAPE, timeout=60)  # waits until the consumer gave one back
            batch.numpy()[...] = number
            consumer.send({"batch": batch}, user_bytes=str(arena.stats().blocks_lent).encode())


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    loader = multiprocessing.get_context("spawn").Process(target=load, args=(theirs,))
    loader.start()
    theirs.close()
    total, most_lent = 0.0, 0
    with tenon.Connection(ours, adopt=True) as connection:
        for _ in range(12):
            message = connection.recv()
            total += float(message["batch"].numpy()[0, 0])
            most_lent = max(most_lent, int(message.user_bytes))
            time.sleep(0.01)  # slower than the loader
            message.close()  # gives the batch back
    loader.join()
    print(total, most_lent <= 4)  # prints: 66.0 True
