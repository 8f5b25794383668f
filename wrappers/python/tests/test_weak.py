from __future__ import annotations

import threading

import pytest
import tenon


def test_lock_and_expire() -> None:
    storage = tenon.Storage.new(8)
    weak = storage.weak_ref()
    assert not weak.expired
    locked = weak.lock()
    assert locked == storage and weak.id == storage.id
    storage.close()
    assert not weak.expired
    assert locked is not None
    locked.close()
    assert weak.expired and weak.lock() is None
    assert "expired" in repr(weak)
    weak.close()
    with pytest.raises(ValueError, match="already closed"):
        weak.lock()


def test_views_hold_the_storage() -> None:
    tensor = tenon.zeros((4,))
    weak = tensor.storage.weak_ref()
    array = tensor.numpy()
    del tensor
    assert not weak.expired
    del array
    assert weak.expired


def test_lock_against_last_release() -> None:
    for _ in range(200):
        storage = tenon.Storage.new_from(b"whole")
        weak = storage.weak_ref()
        seen: list[bytes] = []

        def lock(weak: tenon.WeakRef = weak, seen: list[bytes] = seen) -> None:
            while (got := weak.lock()) is not None:
                seen.append(bytes(got.data))
                got.close()

        thread = threading.Thread(target=lock)
        thread.start()
        storage.close()
        thread.join()
        assert weak.expired
        assert set(seen) <= {b"whole"}
