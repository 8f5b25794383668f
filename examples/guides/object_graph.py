"""A state with tensors goes to another process as one object. Its tensors are lent, and the object
may name no functions or classes.
"""

import multiprocessing
import socket

import tenon


def work(end: socket.socket) -> None:
    connection = tenon.Connection(end, adopt=True)
    state = connection.recv_object()
    state["weights"]["layer1"].numpy()[0] = 42  # the sender sees it
    connection.send_object({"step": state["step"] + 1, "losses": [0.5, 0.25]})
    connection.close()


if __name__ == "__main__":
    ours, theirs = socket.socketpair()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    weights = {"layer1": tenon.zeros((1000,), "float32"), "layer2": tenon.zeros((1000,), "float32")}
    with tenon.Connection(ours, adopt=True) as connection:
        connection.send_object({"step": 1, "weights": weights})
        print(connection.recv_object())  # prints: {'step': 2, 'losses': [0.5, 0.25]}
    print(weights["layer1"].numpy()[0])  # prints: 42.0
    worker.join()
