from __future__ import annotations

import gc

import numpy as np
import pytest
import tenon


def test_new_is_shared_writable_memory() -> None:
    storage = tenon.Storage.new(100, zeroed=True)
    assert (storage.nbytes, len(storage), storage.mode, storage.read_only) == (
        100,
        100,
        "shared",
        False,
    )
    assert storage.is_shared and storage.is_sealed
    assert storage.data.tobytes() == bytes(100)
    storage.data[3] = 7
    assert storage.read(2, 3) == b"\0\7\0"


@pytest.mark.parametrize("mode", ["shared", "lender_writes", "frozen"])
def test_modes(mode: str) -> None:
    storage = tenon.Storage.new(64, mode=mode)  # type: ignore[arg-type]
    assert storage.mode == mode
    assert storage.read_only == (mode == "frozen")
    storage.write(b"abc", 1)
    assert storage.read(1, 3) == b"abc"


def test_frozen_ends_writing() -> None:
    storage = tenon.Storage.new(8, mode="frozen")
    storage.write(b"12345678")
    with pytest.raises(tenon.PermissionDenied) as caught:
        storage.share_fd()
    assert caught.value.details["option"] == "tenon_storage_freeze"
    assert storage.freeze() is storage
    storage.freeze()
    with pytest.raises(tenon.PermissionDenied):
        storage.write(b"x")
    with pytest.raises(TypeError):
        storage.data[0] = 1
    assert storage.data == b"12345678"


def test_freeze_of_another_mode() -> None:
    with pytest.raises(tenon.InvalidArgument):
        tenon.Storage.new(8).freeze()


def test_new_from_copies() -> None:
    source = bytearray(b"hello")
    for mode in ("shared", "lender_writes", "frozen"):
        before = tenon.stats().bytes_copied
        storage = tenon.Storage.new_from(source, mode=mode)  # type: ignore[arg-type]
        assert tenon.stats().bytes_copied - before == 5
        assert storage.data == b"hello"
        assert storage.read_only == (mode == "frozen")
    source[0] = 0
    assert storage.data == b"hello"


def test_empty_storages() -> None:
    for storage in (
        tenon.Storage.new(0),
        tenon.Storage.new_from(b""),
        tenon.Storage.new(0, private=True),
        tenon.Storage.wrap(b""),
    ):
        assert storage.nbytes == 0
        assert storage.data.nbytes == 0
        assert storage.read() == b""
        storage.readinto(bytearray())


def test_private_cannot_be_lent() -> None:
    storage = tenon.Storage.new(16, private=True)
    assert not storage.is_shared
    with pytest.raises(tenon.Unsupported):
        storage.share_fd()


def test_wrap_keeps_the_buffer() -> None:
    source = bytearray(b"0123456789")
    storage = tenon.Storage.wrap(source)
    storage.data[0] = ord("x")
    assert source[0] == ord("x")
    with pytest.raises(BufferError):
        source.append(1)  # exported while the storage lives
    storage.close()
    source.append(1)


def test_wrap_of_read_only() -> None:
    storage = tenon.Storage.wrap(b"abc")
    assert storage.read_only
    with pytest.raises(tenon.PermissionDenied):
        storage.write(b"x")
    with pytest.raises(TypeError):
        storage.data[0] = 1


def test_wrap_of_strided_memory_is_refused() -> None:
    with pytest.raises((BufferError, ValueError)):
        tenon.Storage.wrap(np.arange(10)[::2])


def test_view_outlives_the_storage() -> None:
    storage = tenon.Storage.new_from(b"stays")
    view = storage.data
    storage.close()
    storage.close()
    assert storage.closed
    del storage
    gc.collect()
    assert view == b"stays"
    view[0] = ord("S")
    assert bytes(view) == b"Stays"


def test_closed_says_so() -> None:
    with tenon.Storage.new(4) as storage:
        assert not storage.closed
    for use in (
        lambda: storage.data,
        lambda: storage.nbytes,
        lambda: storage.mode,
        storage.share_fd,
        storage.weak_ref,
        lambda: storage.write(b""),
        lambda: tenon.Tensor.over(storage, (1,), "uint8"),
    ):
        with pytest.raises(ValueError, match="already closed"):
            use()
    assert "closed" in repr(storage)


def test_identity() -> None:
    first, second = tenon.Storage.new(8), tenon.Storage.new(8)
    assert first != second and first.id != second.id
    tensor = tenon.Tensor.over(first, (8,), "uint8")
    assert tensor.storage == first
    assert {first: 1}[tensor.storage] == 1
    assert first.use_count == 2
    assert first.same_memory(tensor.storage) and not first.same_memory(second)
    assert first != 3


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.write(b"123456789"),
        lambda s: s.write(b"1", 8),
        lambda s: s.write(b"", 9),
        lambda s: s.write(b"1", -1),
        lambda s: s.read(0, 9),
        lambda s: s.read(9, 0),
        lambda s: s.read(0, -1),
        lambda s: s.readinto(bytearray(9)),
        lambda s: tenon.Storage.new(-1),
        lambda s: tenon.Storage.new(1 << 64),
        lambda s: tenon.Storage.new(8, alignment=3),
        lambda s: tenon.Storage.new(8, mode="open"),
        lambda s: tenon.Storage.new(8, zeroed=True, will_fill=True),
    ],
)
def test_wrong_arguments(use: object) -> None:
    storage = tenon.Storage.new(8, zeroed=True)
    with pytest.raises(ValueError):
        use(storage)  # type: ignore[operator]
    assert storage.read() == bytes(8)


@pytest.mark.parametrize("nbytes", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("mode", ["shared", "lender_writes", "frozen"])
def test_impossible_sizes(nbytes: int, mode: str) -> None:
    with pytest.raises((tenon.ResourceExhausted, tenon.InvalidArgument)) as caught:
        tenon.Storage.new(nbytes, mode=mode)  # type: ignore[arg-type]
    if isinstance(caught.value, tenon.ResourceExhausted):
        assert caught.value.details["limit"]
        assert isinstance(caught.value, OSError) and caught.value.errno


def test_isolated_and_alignment() -> None:
    with tenon.Storage.new(10, isolated=True) as storage, storage.share_fd() as handle:
        assert handle.offset == 0
    view = np.frombuffer(tenon.Storage.new(10, alignment=4096).data, np.uint8)
    assert view.ctypes.data % 4096 == 0


def test_repr() -> None:
    assert "64 bytes, frozen, read-only" in repr(tenon.Storage.new(64, mode="frozen"))
    assert "private" in repr(tenon.Storage.new(64, private=True))
