from __future__ import annotations

import mmap
import os
import select
import tempfile

import pytest
import tenon


def test_share_and_open_give_the_same_storage() -> None:
    storage = tenon.Storage.new_from(b"abcdef")
    with storage.share_fd() as handle:
        assert (handle.nbytes, handle.access) == (6, "writable")
        assert handle.segment_nbytes >= handle.offset + 6
        assert not os.get_inheritable(handle.fd)
        same = tenon.open_fd(handle)
        also = tenon.open_fd(handle.fd, 6, handle.offset)
    assert same == storage == also
    assert handle.closed
    handle.close()
    assert "closed" in repr(handle)


def test_handle_owns_its_fd() -> None:
    handle = tenon.Storage.new(8).share_fd()
    fd = handle.fd
    os.fstat(fd)
    assert handle.fileno() == fd
    handle.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    with pytest.raises(ValueError, match="already closed"):
        handle.fd  # noqa: B018


def test_detach() -> None:
    handle = tenon.Storage.new(8).share_fd()
    fd = handle.detach()
    assert handle.fd == -1
    handle.close()
    os.close(fd)


def test_empty_storage_has_no_fd() -> None:
    with tenon.Storage.new(0).share_fd() as handle:
        assert (handle.fd, handle.nbytes) == (-1, 0)
        assert tenon.open_fd(handle).nbytes == 0


def test_adopt() -> None:
    storage = tenon.Storage.new(8)
    with storage.share_fd() as handle:
        fd = handle.fd
        opened = tenon.open_fd(handle, adopt=True)
        assert handle.fd == -1
    assert opened == storage
    with storage.share_fd() as handle:
        number = os.dup(handle.fd)
        offset = handle.offset
    assert tenon.open_fd(number, 8, offset, adopt=True) == storage
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)
    del fd


def test_failed_adopt_leaves_the_fd() -> None:
    read, write = os.pipe()
    with pytest.raises(ValueError):
        tenon.open_fd(read, 8, adopt=True)
    os.fstat(read)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("mode", ["lender_writes", "frozen"])
def test_read_only_lend(mode: str) -> None:
    storage = tenon.Storage.new_from(b"weights!", mode=mode, isolated=True)  # type: ignore[arg-type]
    with pytest.raises(tenon.PermissionDenied):
        storage.share_fd("writable")
    with storage.share_fd() as handle:
        assert handle.access == "read_only"
        with pytest.raises(PermissionError):
            mmap.mmap(handle.fd, 8, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with pytest.raises(OSError):
            os.pwrite(handle.fd, b"x", handle.offset)
        with pytest.raises(tenon.PermissionDenied) as caught:
            tenon.open_fd(handle, access="writable")
        assert caught.value.errno and caught.value.details["option"]
        cow = tenon.open_fd(handle, private_cow=True)
        copy = tenon.open_fd(handle, private_copy=True)
    for private in (cow, copy):
        assert not private.is_shared
        private.data[0] = ord("W")
        assert private.data == b"Weights!"
    assert storage.data == b"weights!"


def test_read_only_lend_of_shared_is_refused() -> None:
    with pytest.raises(tenon.PermissionDenied) as caught:
        tenon.Storage.new(8).share_fd("read_only")
    assert "LENDER_WRITES" in caught.value.details["option"]


def test_access_of_an_opener() -> None:
    storage = tenon.Storage.new(8)
    with storage.share_fd() as handle:
        read_only = tenon.open_fd(handle, access="read_only")
    assert read_only.read_only
    with pytest.raises(TypeError):
        read_only.data[0] = 1
    assert read_only != storage and read_only.same_memory(storage)


def test_unsealed_only_on_request() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 4096)
        file.flush()
        with pytest.raises(tenon.PermissionDenied) as caught:
            tenon.open_fd(file, 4096)
        assert "UNSEALED" in caught.value.details["option"]
        storage = tenon.open_fd(file, 4096, allow_unsealed=True)
        assert not storage.is_sealed
        assert storage.read(0, 3) == b"xxx"
        os.truncate(file.fileno(), 0)
        with pytest.raises(tenon.Corrupt):
            storage.read(0, 3)


def test_wrong_fds() -> None:
    directory = os.open("/", os.O_RDONLY)
    read, write = os.pipe()
    try:
        for fd in (directory, read, write, -1, 1 << 20):
            with pytest.raises((ValueError, tenon.TenonError)) as caught:
                tenon.open_fd(fd, 8, allow_unsealed=True)
            assert isinstance(caught.value, tenon.TenonError)
    finally:
        for fd in (directory, read, write):
            os.close(fd)


def test_wrong_ranges() -> None:
    storage = tenon.Storage.new(8, isolated=True)
    with storage.share_fd() as handle:
        for nbytes, offset in ((1 << 60, 0), (8, 1 << 60), (1 << 63, 1 << 63), ((1 << 64) - 1, 1)):
            with pytest.raises(ValueError):
                tenon.open_fd(handle.fd, nbytes, offset)
        with pytest.raises(ValueError):
            tenon.open_fd(handle.fd, -1)
        with pytest.raises(TypeError):
            tenon.open_fd(handle.fd)
        with pytest.raises(TypeError):
            tenon.open_fd(handle, 8)
    with pytest.raises(ValueError):
        tenon.open_fd(1 << 40, 8)


def test_handle_is_selectable() -> None:
    with tenon.Storage.new(8).share_fd() as handle:
        assert select.select([handle], [], [], 0)[0] == [handle]
        assert str(handle.fd) in repr(handle)
