from __future__ import annotations

import copy
import gc
import math
import pickle

import numpy as np
import pytest
import tenon
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "kind", "type_"),
    [
        (None, "none", "NoneType"),
        (True, "bool", "bool"),
        (-(1 << 63), "int", "int"),
        (1.5, "float", "float"),
        (1 - 2j, "complex", "complex"),
        ("ä\0b", "str", "str"),
        ("", "str", "str"),
        (tenon.Device("cuda:0"), "device", "Device"),
        ((), "tuple", "Tuple[()]"),
        ((1, "a", None), "tuple", "Tuple[int, str, NoneType]"),
        ([1, 2], "list", "List[Any]"),
        ({"b": 1, "a": 2}, "dict", "Dict[Any, Any]"),
        (tenon.NamedTuple("__torch__.P", (1, 2.0)), "tuple", "__torch__.P"),
        (tenon.Enum("__torch__.Color", "red"), "enum", "__torch__.Color"),
    ],
    ids=repr,
)
def test_plain_values_come_back(value: object, kind: str, type_: str) -> None:
    handle = tenon.Value(value)
    assert (handle.kind, handle.type) == (kind, type_)
    back = handle.get()
    assert back == value and type(back) is type(value)
    if isinstance(value, dict):
        assert list(back) == list(value)


def test_floats_to_the_bit() -> None:
    for number in (math.inf, -math.inf, -0.0, 5e-324):
        assert repr(tenon.Value(number).get()) == repr(number)
    assert math.isnan(tenon.Value(math.nan).get())


numbers = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text()
)
values = st.recursive(
    numbers,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_any_nesting(value: object) -> None:
    assert tenon.Value(value).get() == value


def test_types_of_lists_and_dicts() -> None:
    assert tenon.Value([], "List[Optional[int]]").type == "List[Optional[int]]"
    assert tenon.Value({}, "Dict[str, List[int]]").type == "Dict[str, List[int]]"
    assert tenon.Value([[1], []], "List[List[int]]").items[1].kind == "list"
    with pytest.raises(tenon.InvalidArgument) as caught:
        tenon.Value([1, 2.0], "List[int]")
    assert (caught.value.details["wanted"], caught.value.details["found"]) == ("int", "float")
    with pytest.raises(tenon.InvalidArgument) as caught:
        tenon.Value([], "List[")
    assert caught.value.details["column"]
    with pytest.raises(tenon.InvalidArgument, match="NUL"):
        tenon.Value([], "List[int]\0")


def test_check() -> None:
    handle = tenon.Value({"a": [1, 2]})
    handle.check("Dict[str, List[int]]")
    with pytest.raises(tenon.InvalidArgument) as caught:
        handle.check("Dict[str, List[float]]")
    assert caught.value.details["found"] == "int" and caught.value.details["where"]
    assert tenon.Value(3, "Optional[int]").get() == 3
    with pytest.raises(tenon.InvalidArgument):
        tenon.Value(3, "float")


def test_type_text() -> None:
    assert tenon.type_text("Union[str, None]") == "Optional[str]"
    nested = "List[" * 60 + "int" + "]" * 60
    assert tenon.type_text(nested) == nested  # longer than the first buffer
    with pytest.raises(tenon.InvalidArgument) as caught:
        tenon.type_text("Dict[str]")
    assert caught.value.details["column"]


@pytest.mark.parametrize(
    "value",
    [b"bytes", {1, 2}, object(), range(3), 1 << 63, -(1 << 63) - 1, "\ud800", np.longdouble(1)],
    ids=repr,
)
def test_what_can_be_no_value(value: object) -> None:
    with pytest.raises((TypeError, OverflowError, ValueError)):
        tenon.Value(value)
    with pytest.raises((TypeError, OverflowError, ValueError)):
        tenon.Value([1, {"a": (value,)}])


def test_what_contains_itself() -> None:
    inner: list[object] = [1]
    inner.append({"a": inner})
    with pytest.raises(ValueError, match="contains itself"):
        tenon.Value(inner)
    item = tenon.Object("__torch__.Node")
    item.attributes["next"] = item
    with pytest.raises(ValueError, match="contains itself"):
        tenon.Value(item)


def test_numpys_numbers() -> None:
    assert tenon.Value(np.int64(-3)).kind == "int" and tenon.Value(np.int64(-3)).get() == -3
    assert tenon.Value(np.uint8(3)).kind == "int"
    assert (
        tenon.Value(np.float32(0.5)).kind == "float"
        and tenon.Value(np.float64(0.5)).kind == "float"
    )
    assert tenon.Value(np.bool_(True)).get() is True
    assert tenon.Value(np.complex64(1j)).get() == 1j


def test_one_object_in_two_places_is_one_value() -> None:
    inner = [1]
    tensor = tenon.zeros(2)
    handle = tenon.Value((inner, inner, [1], tensor, tensor))
    items = handle.items
    assert items[0] is items[1] and items[0] is not items[2] and items[3] is items[4]
    back = handle.get()
    assert back[0] is back[1] and back[0] is not back[2] and back[3] is back[4]
    # A handle may stand for its value.
    both = tenon.Value([items[0], items[0]])
    assert both.items[0] is items[0]
    assert tenon.Value(items[0]) is items[0]


def test_handles_are_interned_and_go() -> None:
    from tenon.value import _living

    gc.collect()
    before = len(_living)
    handle = tenon.Value([[1], [2]])
    first = handle.items[0]
    assert handle.items[0] is first and {handle.items[0]: 1}[first] == 1
    assert len(_living) == before + 2
    del handle, first
    gc.collect()
    assert len(_living) == before


def test_looking_into_a_dict() -> None:
    handle = tenon.Value({"a": 1, "b": [2]})
    assert [key.get() for key in handle.keys] == ["a", "b"] and handle.find("b").get() == [2]
    assert handle.names == []
    with pytest.raises(tenon.NotFound):
        handle.find("c")
    assert tenon.Value({1: 2}, "Dict[int, int]").get() == {1: 2}
    with pytest.raises(tenon.InvalidArgument):
        tenon.Value({(1, 2): 3, 4: {}}, "Dict[int, int]")


def test_objects() -> None:
    point = tenon.Object("__torch__.Point", {"x": 1, "where": [1.5]})
    handle = tenon.Value((point, point))
    assert (
        handle.items[0].names == ["x", "where"] and handle.items[0].class_name == "__torch__.Point"
    )
    assert handle.items[0].find("x").get() == 1 and not handle.items[0].is_opaque
    back = handle.get()
    assert (
        back[0] is back[1]
        and back[0].attributes == {"x": 1, "where": [1.5]}
        and not back[0].is_opaque
    )
    assert "Point" in repr(back[0]) and "where" in repr(back[0])
    packed = tenon.Object.opaque(
        "__torch__.torch.classes.quantized.LinearPackedParamsBase", (1, None)
    )
    handle = tenon.Value(packed)
    assert (
        handle.is_opaque
        and handle.names == []
        and [item.get() for item in handle.items] == [(1, None)]
    )
    back = handle.get()
    assert back.is_opaque and back.state == (1, None) and back.attributes == {}
    assert "state" in repr(back)


def test_named_tuples_and_enums() -> None:
    pair = tenon.NamedTuple("__torch__.Pair", [1, 2])
    assert (
        pair == (1, 2)
        and hash(pair) == hash((1, 2))
        and pair != tenon.NamedTuple("__torch__.Other", (1, 2))
        and pair[1] == 2
    )
    assert (
        pickle.loads(pickle.dumps(pair)).class_name
        == copy.copy(pair).class_name
        == "__torch__.Pair"
    )
    assert "__torch__.Pair" in repr(pair) and "(1, 2)" in repr(pair)
    red = tenon.Enum("__torch__.Color", 1)
    assert red == tenon.Enum("__torch__.Color", 1) != tenon.Enum("__torch__.Color", 2)
    assert tenon.Value(red).class_name == "__torch__.Color"
    with pytest.raises(tenon.InvalidArgument):
        tenon.Value(tenon.Enum("__torch__.Color", None))
    assert str(tenon.Device("cpu")) == "cpu"


def test_handles_have_no_pickled_form() -> None:
    with pytest.raises(TypeError, match="no pickled form"):
        pickle.dumps(tenon.Value(1))
    assert "kind list" in repr(tenon.Value([1]))


def test_tensors_are_not_copied() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3)
    before = tenon.stats().bytes_copied
    handle = tenon.Value(array)
    back = handle.get()
    assert isinstance(back, tenon.Tensor) and (back.shape, back.dtype, handle.type) == (
        (2, 3),
        "float32",
        "Tensor",
    )
    array[1, 2] = 50
    assert back[1, 2].item() == 50 and tenon.stats().bytes_copied == before
    own = tenon.from_numpy(array)
    assert tenon.Value(own).get().storage == own.storage
    del array, handle
    gc.collect()
    assert back[1, 2].item() == 50


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5)[::-1],
        np.arange(4, dtype=">i4"),
        np.frombuffer(b"\1\2\3", np.uint8),
        np.array([True, False]),
        np.arange(12).reshape(3, 4).T[1:],
        np.array(2.5),
        np.zeros((0, 3), np.int16),
    ],
    ids=str,
)
def test_tensors_of_numpy(array: np.ndarray) -> None:  # type: ignore[type-arg]
    back = tenon.Value(array).get()
    assert back.shape == array.shape and back.tolist() == array.tolist()


def test_tensors_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    back = tenon.Value(np.arange(3).astype(ml_dtypes.bfloat16)).get()
    assert back.dtype == "bfloat16" and back.view(dtype="uint16").tolist() == [0, 0x3F80, 0x4000]


def test_what_a_module_takes_no_tensor_of() -> None:
    with pytest.raises(TypeError):
        tenon.Value(np.array(["text"]))
    with pytest.raises(tenon.Unsupported):
        tenon.Value(tenon.Tensor.over(tenon.Storage.new(16), (2,), "float32x2"))


class Foreign:
    """A framework's tensor with requires_grad, which gives its memory only when detached."""

    def __init__(self, array: np.ndarray, requires_grad: bool = True) -> None:  # type: ignore[type-arg]
        self.array, self.requires_grad = array, requires_grad

    def detach(self) -> Foreign:
        return Foreign(self.array, False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **keywords: object) -> object:
        if self.requires_grad:
            raise RuntimeError("detach it")
        if "max_version" in keywords:
            raise TypeError("from before DLPack 1.0")
        return self.array.__dlpack__()


def test_gradients_of_another_framework() -> None:
    array = np.zeros(3, "float32")
    back = tenon.Value(Foreign(array)).get()
    array[0] = 7
    assert back.requires_grad and back.tolist() == [7, 0, 0]
    assert not tenon.Value(Foreign(array, False)).get().requires_grad


def test_another_device_is_refused() -> None:
    class Rocm(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0  # ROCm

    with pytest.raises(tenon.Unsupported, match="10:0"):
        tenon.Value(Rocm(np.zeros(1), False))


def test_meta() -> None:
    spec = tenon.TensorSpec.meta((2, 3), "bfloat16", requires_grad=True)
    back = tenon.Value(spec).get()
    assert isinstance(back, tenon.TensorSpec)
    assert (back.shape, back.device, back.scalar_type.name, back.requires_grad) == (
        (2, 3),
        "meta",
        "bfloat16",
        True,
    )
    assert back.storage is None and tenon.Value(back).get() == back


def test_quantized() -> None:
    numbers = tenon.from_numpy(np.arange(6, dtype=np.int8).reshape(2, 3))
    back = tenon.Value(tenon.TensorSpec.quantized(numbers, 0.5, 2)).get()
    assert (back.scalar_type.name, back.quantizer, back.scale, back.zero_point) == (
        "qint8",
        "per_tensor_affine",
        0.5,
        2,
    )
    assert (back.shape, back.strides, back.storage, back.storage_numel) == (
        (2, 3),
        (3, 1),
        numbers.storage,
        6,
    )
    spec = tenon.TensorSpec.quantized_per_channel(
        np.zeros((2, 3), np.uint8), np.array([0.5, 0.25]), np.array([1, 2]), 0
    )
    back = tenon.Value(spec).get()
    assert (back.scalar_type.name, back.quantizer, back.axis) == ("quint8", "per_channel_affine", 0)
    assert (back.scales.tolist(), back.zero_points.tolist()) == ([0.5, 0.25], [1, 2])
    with pytest.raises(TypeError, match="float32"):
        tenon.TensorSpec.quantized(tenon.zeros(2), 1.0)


def test_sparse() -> None:
    spec = tenon.TensorSpec.sparse_coo(
        np.array([[0, 1], [1, 0]]), np.array([1.5, 2.5], "float32"), (2, 2), coalesced=True
    )
    handle = tenon.Value(spec)
    back = handle.get()
    assert (back.layout, back.shape, back.coalesced, back.strides, back.storage) == (
        "sparse_coo",
        (2, 2),
        True,
        None,
        None,
    )
    assert (
        back.indices.tolist() == [[0, 1], [1, 0]]
        and back.values.tolist() == [1.5, 2.5]
        and back.plain_indices is None
    )
    assert handle.tensor_spec().values.tolist() == [1.5, 2.5]
    spec = tenon.TensorSpec.sparse_compressed(
        "sparse_csr", np.array([0, 1, 2]), np.array([1, 0]), np.array([1.0, 2.0]), (2, 2)
    )
    back = tenon.Value(spec).get()
    assert (back.layout, back.scalar_type.name) == ("sparse_csr", "float64")
    assert back.indices.tolist() == [0, 1, 2] and back.plain_indices.tolist() == [1, 0]


def test_element_types_without_a_dtype() -> None:
    storage = tenon.Storage.new_from(bytes(8))
    back = tenon.Value(
        tenon.TensorSpec("bits16", (2,), offset=1, storage=storage, storage_offset=2)
    ).get()
    assert (back.scalar_type.name, back.storage, back.storage_offset, back.offset) == (
        "bits16",
        storage,
        2,
        1,
    )
    with pytest.raises(tenon.InvalidArgument):
        tenon.Value(tenon.TensorSpec("bits16", (3,), offset=1, storage=storage, storage_offset=2))


def test_the_spec_of_a_plain_tensor() -> None:
    tensor = tenon.zeros((4, 4), requires_grad=True)
    spec = tenon.Value(tensor[1:, ::2]).tensor_spec()
    assert (spec.shape, spec.strides, spec.offset, spec.storage) == (
        (3, 2),
        (4, 2),
        4,
        tensor.storage,
    )
    assert (
        spec.requires_grad
        and spec.device == "cpu"
        and spec.layout == "strided"
        and spec.quantizer == "none"
    )
    with pytest.raises(tenon.InvalidArgument):
        tenon.Value(1).tensor_spec()


@pytest.mark.parametrize(
    "spec",
    [
        lambda: tenon.TensorSpec("float32", (2,), layout="dense"),  # type: ignore[arg-type]
        lambda: tenon.TensorSpec("float32", (2,), quantizer="linear"),  # type: ignore[arg-type]
        lambda: tenon.TensorSpec("float32", (2,), (1, 1), storage=tenon.Storage.new(8)),
        lambda: tenon.TensorSpec("float32", (2,), storage=tenon.Storage.new(8), storage_offset=-1),
        lambda: tenon.TensorSpec("float32", (3,), storage=tenon.Storage.new(8)),
        lambda: tenon.TensorSpec("float32", (2,)),
        lambda: tenon.TensorSpec("float33", (2,)),
        lambda: tenon.TensorSpec("float32", (2,), device="cuda:0", storage=tenon.Storage.new(8)),
    ],
)
def test_wrong_specs(spec: object) -> None:
    with pytest.raises((ValueError, tenon.Unsupported)):
        tenon.Value(spec())  # type: ignore[operator]


def test_scalar_types() -> None:
    assert [tenon.ScalarType(name) for name in ("float32", "Float", "FloatStorage")] == [6, 6, 6]
    assert (
        tenon.ScalarType(np.float32)
        == tenon.ScalarType(np.dtype("float32"))
        == tenon.ScalarType(float) - 1
        == 6
    )
    quantized = tenon.ScalarType(12)
    assert (quantized.name, quantized.storage_name, quantized.nbytes) == (
        "qint8",
        "QInt8Storage",
        1,
    )
    assert repr(quantized) == "tenon.ScalarType('qint8')" and quantized == 12
    assert (
        tenon.ScalarType("bfloat16").dtype == "bfloat16"
        and tenon.ScalarType("float8_e5m2").since == "2.1"
    )
    assert tenon.Value(tenon.ScalarType("float32")).get() == 6
    for wrong in (-1, 1000, "float33", "a\0b"):
        with pytest.raises(tenon.InvalidArgument):
            tenon.ScalarType(wrong)
    with pytest.raises(tenon.Unsupported):
        _ = quantized.dtype
