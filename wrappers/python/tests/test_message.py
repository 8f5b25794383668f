from __future__ import annotations

import gc

import numpy as np
import pytest
import tenon


def test_sequence_and_mapping() -> None:
    first, second = tenon.zeros(2), tenon.zeros((3, 3), "int8")
    message = tenon.Message([first, second, first], names=["a", None, "a"], user_bytes=b"\0more")
    assert len(message) == 3
    assert message.names == ["a", None, "a"] and message.keys() == ["a"]
    assert (
        message[1].dtype == "int8"
        and message[-1].shape == (2,)
        and message["a"].storage == first.storage
    )
    assert [t.shape for t in message] == [(2,), (3, 3), (2,)]
    assert message.user_bytes == b"\0more"
    assert "a" in message and "b" not in message and 3 not in message and "a\0" not in message
    assert message.get("b") is None
    assert [name for name, _ in message.items()] == ["a"] and len(message.values()) == 1
    with pytest.raises(KeyError):
        message["b"]
    with pytest.raises(IndexError):
        message[3]


def test_from_dict_and_one_tensor() -> None:
    tensor = tenon.zeros(2)
    message = tenon.Message({"x": tensor, "ä": tensor})
    assert message.keys() == ["x", "ä"]
    assert len(tenon.Message(tensor)) == 1
    assert len(tenon.Message()) == 0 and tenon.Message().user_bytes == b""
    assert len(tenon.Message(tenon.zeros(1) for _ in range(3))) == 3


def test_tensors_outlive_the_message() -> None:
    message = tenon.Message([tenon.from_numpy(np.arange(4))])
    tensor = message[0]
    message.close()
    gc.collect()
    assert tensor.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="already closed"):
        len(message)
    assert "closed" in repr(message)


def test_wrong_messages() -> None:
    tensor = tenon.zeros(1)
    with pytest.raises(tenon.Unsupported):
        tenon.Message([tenon.empty(1, private=True)])
    with pytest.raises(tenon.PermissionDenied):
        tenon.Message([tenon.empty(1, mode="frozen")])
    with pytest.raises(tenon.PermissionDenied):
        tenon.Message([tensor], access="read_only")
    for names in (["a", "b"], ["a\0b"], ["x" * 4097]):
        with pytest.raises(ValueError):
            tenon.Message([tensor], names)
    with pytest.raises(TypeError):
        tenon.Message([tensor], [3])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        tenon.Message([3])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        tenon.Message({"a": tensor}, ["a"])
    with pytest.raises(ValueError):
        tenon.Message((), None, bytes(65537))
    with pytest.raises(ValueError):
        tenon.Message([tensor], access="all")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        tenon.Message([tensor], ["\ud800"])


def test_limits_that_are_allowed() -> None:
    message = tenon.Message([tenon.zeros(1)], ["x" * 4096], bytes(65536))
    assert len(message.user_bytes) == 65536 and message.names == ["x" * 4096]
