"""A sparse matrix goes to another process, which checks its indices and reads it where it lies."""

import multiprocessing
import socket

import numpy as np
import tenon


def work(end: socket.socket) -> None:
    connection = tenon.Connection(end, adopt=True)
    message = connection.recv()
    features = message.composite("features").check()  # tenon.Corrupt if an index leads out of it
    rows, columns = features.indices.numpy(), features.plain_indices.numpy()
    # prints: row 0 has columns [0, 3]
    print("row 0 has columns", columns[rows[0] : rows[1]].tolist())
    features.values.numpy()[:] *= 2  # the sender sees it
    connection.send(user_bytes=b"done")
    connection.close()


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    # [[1, 0, 0, 2],
    #  [0, 3, 0, 0]]
    features = tenon.SparseTensor.csr(
        crow_indices=np.array([0, 2, 3]),
        col_indices=np.array([0, 3, 1]),
        values=np.array([1.0, 2.0, 3.0]),
        shape=(2, 4),
    )
    with tenon.Connection(ours, adopt=True) as connection:
        connection.send({"features": features, "labels": tenon.zeros(2)})
        connection.recv()
    print(features.values.tolist())  # prints: [2.0, 4.0, 6.0]
    worker.join()
