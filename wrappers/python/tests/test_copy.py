"""copy.copy and copy.deepcopy of Tenon's objects, or an error that names the right call."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import tenon


def test_a_copy_is_over_the_same_bytes() -> None:
    tensor = tenon.from_numpy(np.arange(12).reshape(3, 4))[1:, ::2]
    again = copy.copy(tensor)
    assert again is not tensor and again.storage == tensor.storage
    assert (again.shape, again.strides, again.offset, again.dtype) == (
        tensor.shape,
        tensor.strides,
        tensor.offset,
        tensor.dtype,
    )
    tensor.close()
    assert again.tolist() == [[4, 6], [8, 10]]
    storage = again.storage
    second = copy.copy(storage)
    storage.close()
    assert second == again.storage


def test_a_deep_copy_has_its_own_bytes_and_keeps_what_is_shared() -> None:
    base = tenon.from_numpy(np.arange(12, dtype=np.float32))
    left, right = base[2:8:2], base.view((3, 4))
    flagged = tenon.Tensor.over(base.storage, (12,), requires_grad=True, is_parameter=True)
    other = tenon.zeros(3)
    found = copy.deepcopy({"left": left, "more": [right, flagged, other], "storage": base.storage})
    again, (whole, kept, apart) = found["left"], found["more"]
    assert again.storage == whole.storage == kept.storage == found["storage"] != base.storage
    assert apart.storage not in (base.storage, again.storage, other.storage)
    assert (again.tolist(), again.strides, again.offset) == ([2, 4, 6], left.strides, left.offset)
    assert kept.requires_grad and kept.is_parameter
    whole.numpy()[0, 2] = 99
    assert again[0].item() == 99 and left[0].item() == 2
    # Two deepcopies share nothing with each other.
    assert copy.deepcopy(left).storage != again.storage


@pytest.mark.parametrize("mode", ["shared", "lender_writes", "frozen"])
def test_the_mode_is_kept(mode: str) -> None:
    again = copy.deepcopy(tenon.from_numpy(np.arange(3), mode=mode))  # type: ignore[arg-type]
    assert again.storage.mode == mode and again.storage.is_shared and again.tolist() == [0, 1, 2]
    assert again.read_only is (mode == "frozen")


def test_private_named_and_empty() -> None:
    private = copy.deepcopy(tenon.from_dlpack(np.arange(3)))
    assert not private.storage.is_shared and private.tolist() == [0, 1, 2]
    assert copy.deepcopy(tenon.zeros((0, 3))).shape == (0, 3)
    nibbles = tenon.zeros(3, "int4")
    assert copy.deepcopy(nibbles).tolist() == [0, 0, 0]


def test_values() -> None:
    item = tenon.Object("__torch__.A", {"x": [1], "t": tenon.zeros(2)})
    item.attributes["again"] = item
    shallow, deep = copy.copy(item), copy.deepcopy(item)
    assert shallow.attributes is item.attributes and deep.attributes["again"] is deep
    assert deep.attributes["x"] == [1] and deep.attributes["x"] is not item.attributes["x"]
    assert deep.attributes["t"].storage != item.attributes["t"].storage
    for value in (
        tenon.NamedTuple("__torch__.P", [1, (2,)]),
        tenon.Enum("__torch__.E", 1),
        tenon.Device("cpu"),
        tenon.ScalarType("int8"),
        tenon.TensorSpec.meta((2, 3)),
    ):
        assert copy.copy(value) == copy.deepcopy(value) == value and type(
            copy.deepcopy(value)
        ) is type(value)
    tensor = tenon.zeros(4, "int8")
    spec = tenon.TensorSpec.quantized(tensor, 0.5)
    copied, beside = copy.deepcopy((spec, tensor))
    assert copied.storage == beside.storage != tensor.storage
    value = tenon.Value([1, 2], "List[int]")
    assert copy.copy(value) is value
    with pytest.raises(TypeError, match=r"copy\.deepcopy\(value\.get\(\)\)"):
        copy.deepcopy(value)


def test_modules_say_what_to_do() -> None:
    for ask in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"export_module.*import_module"):
            ask(tenon.Module("M"))


def test_what_a_module_gave() -> None:
    module = tenon.Module("M")
    module.add_attribute("d", "Dict[str, List[int]]", {"a": [1]})
    found = module["d"]
    for again in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(again) is dict and again == {"a": [1]}
    plain = copy.deepcopy(found)
    plain["a"].append(2)
    module["d"] = plain
    assert module["d"] == {"a": [1, 2]} and found == {"a": [1]}
