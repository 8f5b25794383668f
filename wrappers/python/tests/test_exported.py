"""How from_torch finds the storage under an address. interop/test_torch_rules.py has PyTorch too."""

from __future__ import annotations

import gc
import os

import pytest
import tenon
from tenon import _exported


@pytest.fixture(autouse=True)
def empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_noted", {}), ("_addresses", []), ("_sweep_at", 256)):
        monkeypatch.setattr(_exported, name, value)


def test_every_byte_is_found_and_no_other() -> None:
    tensors = [tenon.zeros(16) for _ in range(100)]
    for tensor in tensors[::-1]:
        tensor.numpy()
        tensor[3:].numpy()  # of the same storage
    assert len(_exported._addresses) == len(_exported._noted) == 100 and _exported._addresses == sorted(_exported._noted)
    for tensor in tensors:
        for offset in (0, 1, 63):
            found = _exported.find(tensor._address + offset)
            assert found is not None and found[0] == tensor.storage and found[1] == offset
    first, last = _exported._addresses[0], _exported._addresses[-1]
    assert _exported.find(first - 1) is None and _exported.find(last + 64) is None and _exported.find(0) is None


def test_dlpack_notes_and_private_memory_is_not_noted() -> None:
    shared, private, empty = tenon.zeros(4), tenon.zeros(4, private=True), tenon.zeros(0)
    for tensor in (shared, private, empty):
        tensor.__dlpack__()
        tensor.numpy()
    assert _exported._addresses == [shared._address]


def test_dead_storages_are_not_found_and_go() -> None:
    address = 0
    for _ in range(2000):
        tensor = tenon.zeros(16, isolated=True)
        tensor.numpy()
        address = tensor._address
    assert len(_exported._noted) <= 512
    del tensor
    gc.collect()
    assert _exported.find(address) is None
    # Another storage at the address of a dead one takes its place.
    again = tenon.zeros(16)
    _exported._noted.clear()
    _exported._addresses.clear()
    _exported._noted[again._address] = 0, 1 << 20, tenon.zeros(1).storage.weak_ref()
    _exported._addresses.append(again._address)
    again.numpy()
    found = _exported.find(again._address + 4)
    assert found is not None and found[0] == again.storage and len(_exported._addresses) == 1


def test_parts_that_are_open_beside_the_whole() -> None:
    whole = tenon.zeros(64, "uint8")
    whole.storage.write(bytes(range(64)))
    with whole.storage.share_fd() as handle:
        parts = [tenon.open_fd(handle.fd, 16, handle.offset + start) for start in (0, 32)]
    for tensor in (whole, *(tenon.Tensor.over(part, (16,), "uint8") for part in parts)):
        tensor.numpy()
    for number in (0, 15, 16, 32, 47, 63):
        found = _exported.find(whole._address + number)
        assert found is not None and found[0].data[found[1]] == number


def test_a_child_of_fork_can_note() -> None:
    tensor = tenon.zeros(4)
    with _exported._lock:
        pid = os.fork()
        if pid == 0:
            tensor.numpy()
            os._exit(0 if _exported.find(tensor._address) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
