"""Storage.at: the storage that lies at an address. interop/test_torch_rules.py tests it with
PyTorch.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest
import tenon


def address_of(array: Any) -> int:
    return int(array.ctypes.data)


def test_every_byte_of_an_array_is_found() -> None:
    tensors = [tenon.zeros(16) for _ in range(100)]
    arrays = [tensor.numpy() for tensor in tensors]
    for tensor, array in zip(tensors, arrays, strict=True):
        for offset in (0, 1, 63):
            assert tenon.Storage.at(address_of(array) + offset) == (tensor.storage, offset)
        assert tenon.Storage.at(address_of(array[3:]), 52) == (tensor.storage, 12)
        with pytest.raises(tenon.NotFound):
            tenon.Storage.at(address_of(array[3:]), 53)


def test_dlpack_and_buffers_give_addresses_out() -> None:
    tensor, storage = tenon.zeros(4), tenon.Storage.new(4)
    assert tenon.Storage.at(address_of(np.from_dlpack(tensor)))[0] == tensor.storage
    assert tenon.Storage.at(address_of(np.frombuffer(storage.data, "uint8")))[0] == storage


def test_what_is_not_found() -> None:
    private = tenon.zeros(4, private=True).numpy()
    for address in (0, address_of(private), address_of(np.zeros(4)), 2**64 - 1):
        with pytest.raises(tenon.NotFound, match="no storage of this process has the 1 bytes"):
            tenon.Storage.at(address)
    for bad in ((-1,), (2**64,), (0, -1)):
        with pytest.raises(ValueError):
            tenon.Storage.at(*bad)


def test_a_storage_that_ended_is_not_found() -> None:
    tensor = tenon.zeros(16, isolated=True)
    array = tensor.numpy()
    address, weak = address_of(array), tensor.storage.weak_ref()
    del tensor
    assert tenon.Storage.at(address)[0] == weak.lock()
    del array
    gc.collect()
    assert weak.expired
    with pytest.raises(tenon.NotFound):
        tenon.Storage.at(address)


def test_a_part_that_is_open_beside_the_whole() -> None:
    whole = tenon.zeros(4096, "uint8")
    with whole.storage.share_fd() as handle:
        part = tenon.open_fd(handle.fd, 256, handle.offset + 512)
    array, of_part = whole.numpy(), tenon.Tensor.over(part, (256,), "uint8").numpy()
    assert address_of(of_part) == address_of(array) + 512
    assert tenon.Storage.at(address_of(of_part), 256) == (part, 0)
    assert tenon.Storage.at(address_of(of_part), 257) == (whole.storage, 512)


def test_a_child_of_fork_finds_it() -> None:
    tensor = tenon.zeros(4)
    array = tensor.numpy()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tenon.Storage.at(address_of(array))[0] == tensor.storage else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
