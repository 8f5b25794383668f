from __future__ import annotations

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

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


def test_two_of_one_storage_are_equal() -> None:
    storage, other = tenon.Storage.new(8), tenon.Storage.new(8)
    first, second = storage.weak_ref(), storage.weak_ref()
    assert (
        first == second
        and hash(first) == hash(second)
        and first != other.weak_ref()
        and first != storage
    )
    storage.close()
    del storage
    assert first.expired and first == second


def test_it_does_not_travel() -> None:
    weak = tenon.Storage.new(8).weak_ref()
    for dumps in (pickle.dumps, ForkingPickler.dumps):
        with pytest.raises(
            TypeError,
            match=r"a WeakRef has no pickled form of its own: it keeps nothing alive.*weak\.lock",
        ):
            dumps(weak)
