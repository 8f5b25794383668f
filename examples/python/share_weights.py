"""A borrower of a model's weights, in Python or with PyTorch. usage: share_weights.py FD
numpy|torch

FD is one end of a connected AF_UNIX socket. The borrower says "ready". Then the first message
brings the tensors. After that each message asks for something in its user bytes, and gets an
answer:
    sum      read every weight in place
    add N    add 1 to weight N of the first tensor, in place
It ends when the lender closes its end.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tenon


def arrays_of(message: tenon.Message, kind: str) -> list[Any]:
    if kind == "numpy":
        return [tensor.numpy() for tensor in message]
    import tenon.torch

    return [tenon.torch.to_torch(tensor) for tensor in message]


def sum_of(arrays: list[Any], kind: str) -> float:
    if kind == "numpy":
        return float(sum(array.sum(dtype="float64") for array in arrays))
    return float(sum(array.double().sum().item() for array in arrays))


def main() -> int:
    fd, kind = int(sys.argv[1]), sys.argv[2]
    # PyTorch is loaded before the time of the lend is measured.
    __import__(kind)
    with tenon.Connection(fd) as connection:
        connection.send(user_bytes=b"ready")
        weights = connection.recv()
        arrays = arrays_of(weights, kind)
        first = arrays[0].reshape(-1)
        first[0].item()
        first_byte_ns = time.monotonic_ns()
        command = b""
        while True:
            if command.startswith(b"add "):
                first[int(command[4:])] += 1
            result = {
                "sum": sum_of(arrays, kind) if command == b"sum" else 0.0,
                "first_byte_ns": first_byte_ns,
                "bytes_copied": tenon.stats().bytes_copied,
            }
            connection.send(user_bytes=json.dumps(result).encode())
            try:
                command = connection.recv().user_bytes
            except tenon.PeerGone:
                return 0


if __name__ == "__main__":
    sys.exit(main())
