"""Sparse tensors in device memory, sent to another process.

test_cuda_composite.py runs these programs on the fake driver, and tests/process/gpu runs them on a
real one. Each program is a process: python cuda_composite_programs.py PROGRAM.
"""

from __future__ import annotations

import gc
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import tenon
from cuda_kit import Array, collected, nothing_left, read, use_device
from tenon import SparseTensor

CROW_INDICES, COL_INDICES, VALUES = (
    np.array([0, 2, 2, 3]),
    np.array([0, 3, 1]),
    np.array([1, 2, 3], "float32"),
)
# The array on the device holds the values, four bytes of padding, the row pointers and the column
# indices.
DATA = VALUES.tobytes() + bytes(4) + CROW_INDICES.tobytes() + COL_INDICES.tobytes()


def csr_over(whole: tenon.Tensor) -> SparseTensor:
    storage = whole.storage
    return SparseTensor.csr(
        tenon.Tensor.over(storage, 4, "int64", offset=2),
        tenon.Tensor.over(storage, 3, "int64", offset=6),
        tenon.Tensor.over(storage, 3, "float32"),
        (3, 4),
    )


def check_refusals(sparse: SparseTensor) -> None:
    for call in (sparse.check, sparse.to_scipy):
        with pytest.raises(
            tenon.Unsupported, match=r"the indices are on a device.*copy them to the host"
        ) as caught:
            call()
        assert caught.value.details["part"] == "indices"
    with pytest.raises(
        tenon.InvalidArgument, match="the indices are on another device than the values"
    ) as mixed:
        SparseTensor.csr(CROW_INDICES, sparse.plain_indices, sparse.values, (3, 4))
    assert mixed.value.details["part"] == "indices"
    # The remedy that the first refusal names: the parts lie in the host's memory.
    host = [
        np.frombuffer(read(part), part.dtype)
        for part in (sparse.indices, sparse.plain_indices, sparse.values)
    ]
    assert SparseTensor.csr(*host, (3, 4)).check().to_scipy().toarray().tolist() == [
        [1, 0, 0, 2],
        [0, 0, 0, 0],
        [0, 3, 0, 0],
    ]


# ---- the other process


def receives() -> None:
    use_device()
    with tenon.Connection(int(sys.argv[2]), adopt=True) as connection:
        message = connection.recv(timeout=60)
        sparse = message.composite("features")
        assert isinstance(sparse, SparseTensor)
        assert (sparse.layout, sparse.shape, sparse.dtype, sparse.device) == (
            "sparse_csr",
            (3, 4),
            "float32",
            "cuda:0",
        )
        assert sparse.values.storage == sparse.indices.storage == sparse.plain_indices.storage
        check_refusals(sparse)
        connection.send()
        connection.recv(timeout=60)
        del message
        assert read(sparse.values) == VALUES.tobytes()
        sparse.close()
        gc.collect()
        assert collected()


# ---- programs


def sends() -> None:
    use_device()
    array = Array(DATA)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receiver = subprocess.Popen(
        [sys.executable, "-B", sys.argv[0], "receives", str(there.fileno())],
        pass_fds=[there.fileno()],
    )
    there.close()
    with tenon.Connection(here, adopt=True) as connection:
        connection.send({"features": csr_over(tenon.from_dlpack(array))}, timeout=60)
        connection.recv(timeout=60)
        gc.collect()
        tenon.cuda_collect()
        assert array.freed == 0
        connection.send(timeout=60)
        assert receiver.wait() == 0
    assert collected()
    assert array.freed == 1
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    if not tenon.cuda_available():
        sys.exit(77)
    globals()[sys.argv[1]]()
