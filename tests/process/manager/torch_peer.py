"""A nursery that imports PyTorch once and forks peers, which obey lines of JSON. interop_test.py
starts it.

The nursery takes orders from the socket whose number is the first argument. {"fork": ENVIRONMENT}
comes with two fds, which become the peer's stdin and stdout, and the answer is the peer's pid. The
answer to {"wait": PID} is the peer's exit code (negative: a signal), once the peer has ended.

A peer answers {"do": NAME, ...} with {"value": ...} or {"error": TEXT}. It keeps storages under
names that the other side chooses. It ends as any Python program does, and its storages are released
then.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import tempfile
from typing import Any

import torch
import torch.multiprocessing as mp

kept: dict[str, Any] = {}


def untyped(tensor: Any) -> Any:
    return (
        tensor.untyped_storage()
        if hasattr(tensor, "untyped_storage")
        else tensor.storage()._storage
    )


def as_tensor(storage: Any) -> Any:
    return torch.tensor([], dtype=torch.uint8).set_(storage)


def share(keep: str, values: list[int]) -> list[Any]:
    """Move a new storage into shared memory, and return PyTorch's tuple as text."""
    storage = untyped(torch.tensor(values, dtype=torch.uint8))
    manager, name, nbytes = storage._share_filename_cpu_()
    kept[keep] = storage
    return [manager.decode(), name.decode(), nbytes]


def open_(keep: str, handle: list[Any]) -> None:
    manager, name, nbytes = handle
    kept[keep] = torch.UntypedStorage._new_shared_filename_cpu(
        manager.encode(), name.encode(), nbytes
    )


def read(keep: str) -> list[int]:
    return as_tensor(kept[keep]).tolist()


def write(keep: str, at: int, value: int) -> None:
    as_tensor(kept[keep])[at] = value


def drop(keep: str) -> None:
    del kept[keep]


def incref(keep: str) -> None:
    kept[keep]._shared_incref()


def decref(keep: str) -> None:
    kept[keep]._shared_decref()


def produce(queue: Any, done: Any, count: int) -> None:
    mp.set_sharing_strategy("file_system")
    tensors = [torch.full((1000,), float(i)) for i in range(count)]
    for tensor in tensors:
        queue.put(tensor)
    done.wait(60)
    sys.exit(0 if all(float(tensor[0]) == -1.0 for tensor in tensors) else 3)


def queue(method: str, count: int) -> dict[str, Any]:
    """Receive tensors from a child through a queue. Each side must see what the other one writes.

    This checks PyTorch's own multiprocessing from end to end.
    """
    mp.set_sharing_strategy("file_system")
    context = mp.get_context(method)
    channel, done = context.Queue(), context.Event()
    child = context.Process(target=produce, args=(channel, done, count))
    child.start()
    tensors = [channel.get(timeout=300) for _ in range(count)]
    right = all(float(tensor.sum()) == 1000.0 * i for i, tensor in enumerate(tensors))
    for tensor in tensors:
        tensor[0] = -1.0
    manager, _, _ = untyped(tensors[0])._share_filename_cpu_()
    done.set()
    child.join(60)
    return {"right": right, "exit": child.exitcode, "manager": manager.decode()}


def version() -> str:
    return torch.__version__


def serve() -> None:
    functions = (share, open_, read, write, drop, incref, decref, queue, version)
    actions = {each.__name__.rstrip("_"): each for each in functions}
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"value": actions[request.pop("do")](**request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def becomes_peer(orders: socket.socket) -> bool:
    """Take orders.

    Return True in each forked peer, and False in the nursery when its orders end.
    """
    while True:
        data, fds, _, _ = socket.recv_fds(orders, 1 << 16, 2)
        if not data:
            return False
        order = json.loads(data)
        if "wait" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                orders.close()
                for target, fd in enumerate(fds):
                    os.dup2(fd, target)
                    os.close(fd)
                os.environ.update(order["fork"])
                tempfile.tempdir = None  # tempfile must read TMPDIR again, which has changed
                return True
        for fd in fds:
            os.close(fd)
        orders.send(str(answer).encode())


if __name__ == "__main__":
    # Each peer's exit would look at all objects of PyTorch, and copy their pages.
    gc.collect()
    gc.freeze()
    if becomes_peer(socket.socket(fileno=int(sys.argv[1]))):
        serve()
