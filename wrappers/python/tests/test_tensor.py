from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tenon
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

NUMPY_DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
OTHER_DTYPES = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn",
    "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "float32x4",
]  # fmt: skip


def test_empty_and_zeros() -> None:
    tensor = tenon.zeros((2, 3), "int16")
    assert (tensor.shape, tensor.strides, tensor.offset, tensor.ndim) == ((2, 3), (3, 1), 0, 2)
    assert (tensor.dtype, tensor.itemsize, tensor.nbytes, tensor.numel, len(tensor)) == (
        "int16",
        2,
        12,
        6,
        2,
    )
    assert tensor.is_contiguous and not tensor.read_only
    assert tensor.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert tenon.empty(5).shape == (5,)
    assert tenon.empty(()).shape == () and tenon.zeros(()).item() == 0.0
    assert tenon.empty((0, 3)).numel == 0


@pytest.mark.parametrize("dtype", NUMPY_DTYPES + OTHER_DTYPES)
def test_every_dtype_by_name(dtype: str) -> None:
    tensor = tenon.zeros((4, 2), dtype)
    assert tensor.dtype == dtype
    assert tensor.view(dtype=dtype).dtype == dtype
    assert tensor.clone().tobytes() == bytes(tensor.nbytes)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_dtypes(dtype: str) -> None:
    for given_dtype in (dtype, np.dtype(dtype), np.dtype(dtype).type):
        assert tenon.empty(1, given_dtype).dtype == dtype
    tensor = tenon.zeros((2, 3), dtype)
    array = tensor.numpy()
    assert array.dtype == np.dtype(dtype) and array.shape == (2, 3)
    array[1, 2] = 1
    assert tensor.numpy()[1, 2] == 1 and tensor[1, 2].item() == 1
    assert np.shares_memory(array, tensor.numpy())


def test_python_types_as_dtypes() -> None:
    assert [tenon.empty(1, t).dtype for t in (bool, int, float, complex)] == [
        "bool",
        "int64",
        "float64",
        "complex128",
    ]


@pytest.mark.parametrize(
    "dtype",
    [
        "float33",
        "object",
        "",
        "dtype_1_2_3",
        np.dtype("U3"),
        np.dtype("M8[s]"),
        object,
        None,
        3,
        np.longdouble,
    ],
)
def test_unknown_dtypes(dtype: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        tenon.empty(1, dtype)


def test_long_doubles_are_refused_by_their_name() -> None:
    for kind, name, remedy in (
        (np.longdouble, "longdouble", "float64"),
        (np.clongdouble, "clongdouble", "complex128"),
    ):
        array = np.ones(3, kind)
        asked: list[Callable[[], object]] = [
            lambda: tenon.empty(1, kind),  # noqa: B023
            lambda: tenon.empty(1, np.dtype(kind)),  # noqa: B023
            lambda: tenon.from_numpy(array),  # noqa: B023
            lambda: tenon.Value(array),  # noqa: B023
        ]
        for ask in asked:
            with pytest.raises(TypeError, match=rf"numpy's {name}.*{remedy}"):
                ask()
    # Tenon has element types of these names. numpy has no equivalent of either on any machine.
    for dtype in ("float128", "complex32"):
        with pytest.raises(TypeError, match=rf"no {dtype}.*uint"):
            tenon.zeros(2, dtype).numpy()


def test_byte_order() -> None:
    with pytest.raises(ValueError, match="byte order"):
        tenon.empty(1, np.dtype(">f4"))
    assert tenon.from_numpy(np.array([1.5, 2], ">f4")).tolist() == [1.5, 2]


@given(
    hnp.arrays(
        hnp.scalar_dtypes().filter(lambda d: d.name in NUMPY_DTYPES),
        hnp.array_shapes(min_dims=0, min_side=0, max_dims=4, max_side=4),
    )
)
def test_from_numpy_is_a_copy_that_is_equal(array: np.ndarray[Any, Any]) -> None:
    tensor = tenon.from_numpy(array)
    assert tensor.shape == array.shape and tensor.is_contiguous
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert not np.shares_memory(tensor.numpy(), array)
    assert tensor.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def test_from_numpy_of_strided_arrays() -> None:
    base = np.arange(24.0).reshape(4, 6)
    for array in (base[::2, ::-1], base.T, np.broadcast_to(base[0], (3, 6)), base[1:1]):
        np.testing.assert_array_equal(tenon.from_numpy(array).numpy(), array)
    assert tenon.from_numpy([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        tenon.from_numpy(np.array(["a"]))


def test_from_numpy_frozen() -> None:
    tensor = tenon.from_numpy(np.arange(5), mode="frozen")
    assert tensor.read_only and not tensor.numpy().flags.writeable
    with pytest.raises(ValueError):
        tensor.numpy()[0] = 1
    with pytest.raises(ValueError):
        np.frombuffer(tensor, np.int64).flags.writeable = True  # type: ignore[call-overload]


@given(st.data())
def test_indexing_as_numpy_does(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    array = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    tensor = tenon.from_numpy(array)
    if any(
        isinstance(i, slice) and i.step == 0
        for i in (index if isinstance(index, tuple) else (index,))
    ):
        return
    picked = tensor[index]
    np.testing.assert_array_equal(picked.numpy(), array[index])
    assert picked.storage == tensor.storage
    assert picked.tobytes() == array[index].tobytes()
    if picked.ndim:
        again = picked[::-1]
        np.testing.assert_array_equal(again.numpy(), np.asarray(array[index])[::-1])
        np.testing.assert_array_equal(again.clone().numpy(), np.asarray(array[index])[::-1])


def test_wrong_indices() -> None:
    tensor = tenon.empty((2, 3))
    for index in (2, -3, (0, 3), (0, 0, 0), (..., ...), 1 << 64, -(1 << 64)):
        with pytest.raises(IndexError):
            tensor[index]
    with pytest.raises(IndexError, match="index 3 is outside dimension 1 of size 3"):
        tensor[0, 3]
    with pytest.raises(TypeError, match="not of str"):
        tensor["a"]  # type: ignore[index]
    with pytest.raises(ValueError, match="step"):
        tensor[::0]
    # More items than the C extension keeps on the stack.
    assert tensor[(None,) * 9].shape == (1,) * 9 + (2, 3)
    with pytest.raises(TypeError, match="not of str"):
        tensor[(*(None,) * 9, "a")]
    with pytest.raises(TypeError):
        len(tenon.empty(()))
    assert [row.tolist() for row in tenon.from_numpy(np.eye(2))] == [[1, 0], [0, 1]]


def test_views() -> None:
    tensor = tenon.from_numpy(np.arange(12, dtype=np.int32))
    assert tensor.reshape(3, 4).tolist()[1] == [4, 5, 6, 7]
    assert tensor.reshape((3, -1)).shape == (3, 4)
    assert tensor.view(shape=(2, 2), strides=(1, 2), offset=3).tolist() == [[3, 5], [4, 6]]
    assert tensor.view(strides=(-1,), offset=11).tolist() == list(range(11, -1, -1))
    assert tensor.view(dtype="uint8").shape == (48,)
    assert tensor.reshape(3, 4)[1:].view(dtype="int64").shape == (2, 2)
    assert tensor.view(dtype="float32").dtype == "float32"
    assert tensor.view().strides == (1,) and tensor.view().storage == tensor.storage
    # As in PyTorch, strided elements have another shape if it needs no copy.
    assert tensor[::2].reshape(3, 2).tolist() == [[0, 2], [4, 6], [8, 10]]
    assert tensor.view((2, 2), "int64", strides=(1, 2), offset=1).strides == (1, 2)
    for wrong in (
        lambda: tensor.reshape(5, 2),
        lambda: tensor.reshape(5, -1),
        lambda: tensor.reshape(0, -1),
        lambda: tensor.view(shape=(13,), offset=0),
        lambda: tensor.view(offset=1),
        lambda: tensor.view(strides=(2,)),
        lambda: tensor.view(strides=(1, 1)),
        lambda: tensor.view(offset=-1),
        lambda: tensor[1:2].view(dtype="int64"),
        lambda: tensor[::2].view(dtype="int64"),
        lambda: tensor.reshape(3, 4)[:, :3].reshape(9),
        lambda: tensor.view((-1,), strides=(1,)),
        lambda: tensor[0].view(dtype="int8"),
    ):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((1 << 62, 1 << 62), None, 0),
        ((4,), (1 << 62,), 0),
        ((4,), (-1,), 0),
        ((4,), None, 1 << 63),
        ((4,), None, 1),
        ((-1,), None, 0),
    ],
)
def test_over_checks_its_range(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int
) -> None:
    storage = tenon.Storage.new(16)
    with pytest.raises(ValueError):
        tenon.Tensor.over(storage, shape, "float32", strides=strides, offset=offset)
    with pytest.raises((OverflowError, ValueError, MemoryError)):
        tenon.empty((1 << 70,))


def test_the_library_counts_bytes_and_dimensions() -> None:
    for wrong in ((2, -1), (0, -1), (1 << 62, 1 << 62), (1,) * 65):
        with pytest.raises(tenon.InvalidArgument) as caught:
            tenon.empty(wrong)
        assert caught.value.code == "INVALID_ARGUMENT"
    for dtype, shape, nbytes in (
        ("float32", (), 4),
        ("float32", (1,) * 64, 4),
        ("float32", (3, 0, 1 << 40), 0),
        ("float4_e2m1fn", (3,), 2),
        ("float6_e2m3fn", (3,), 3),
        ("uint8x4", (3, 5), 60),
    ):
        made = tenon.empty(shape, dtype)
        assert (made.storage.nbytes, made.nbytes, made.shape) == (nbytes, nbytes, shape)
    # The library raises these errors, as in every other language. The wrapper adds no ValueError.
    tensor = tenon.zeros(4)
    for too_many in (
        lambda: tenon.Tensor.over(tensor.storage, (1,) * 65, "float32"),
        lambda: tenon.Tensor.over(tensor.storage, (1,) * 65, "float32", strides=(1,) * 65),
        lambda: tensor.view(shape=(4, *(1,) * 64)),
        lambda: tensor[(*(None,) * 64, slice(None))],
    ):
        with pytest.raises(tenon.InvalidArgument) as caught:
            too_many()
        assert caught.value.code == "INVALID_ARGUMENT" and "64" in str(caught.value)
    assert tensor[(*(None,) * 63, slice(None))].ndim == 64


def test_buffer_protocol() -> None:
    tensor = tenon.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    view = memoryview(tensor)
    assert (view.format, view.shape, view.strides, view.itemsize, view.nbytes, view.readonly) == (
        "f",
        (2, 3),
        (12, 4),
        4,
        24,
        False,
    )
    view[1, 1] = 9.0
    assert tensor[1, 1].item() == 9.0
    assert bytes(tensor) == tensor.tobytes()
    strided = tensor[:, ::2]
    assert memoryview(strided).strides == (12, 8)
    with pytest.raises(BufferError):
        np.frombuffer(strided, np.float32)  # type: ignore[call-overload]
    transposed = tensor.view(shape=(3, 2), strides=(1, 3))
    assert memoryview(transposed).f_contiguous
    assert bytes(memoryview(tenon.empty((0, 2)))) == b""


def test_buffer_outlives_its_tensor() -> None:
    tensor = tenon.from_numpy(np.arange(1000))
    view, array = memoryview(tensor), tensor.numpy()
    part = tensor[5:7].numpy()
    tensor.close()
    assert tensor.closed and "closed" in repr(tensor)
    tensor.close()
    del tensor
    gc.collect()
    keep = [
        tenon.zeros(1000, "int64") for _ in range(20)
    ]  # would take over the block if it were free
    assert view[999] == array[999] == 999 and part.tolist() == [5, 6]
    del keep


def test_closed_says_so() -> None:
    with tenon.empty(3) as tensor:
        pass
    for use in (
        lambda: tensor.shape,
        lambda: tensor.dtype,
        lambda: tensor.nbytes,
        lambda: tensor.storage,
        tensor.numpy,
        lambda: tensor[0],
        lambda: memoryview(tensor),
        tensor.__dlpack__,
        lambda: tenon.Message([tensor]),
    ):
        with pytest.raises(ValueError, match="already closed"):
            use()


def test_array_protocol() -> None:
    tensor = tenon.from_numpy(np.arange(3, dtype=np.float32))
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert np.shares_memory(tensor.__array__(), tensor.numpy())
    assert not np.shares_memory(tensor.__array__(copy=True), tensor.numpy())
    assert tensor.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        tensor.__array__(np.float64, copy=False)
    assert float(np.sum(tensor)) == 3.0  # type: ignore[call-overload]


def test_dtypes_that_numpy_lacks() -> None:
    tensor = tenon.from_numpy(np.array([0x3F80, 0x4000], np.uint16)).view(dtype="bfloat16")
    with pytest.raises(BufferError, match="uint16"):
        memoryview(tensor)
    try:
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        with pytest.raises(TypeError, match="ml_dtypes"):
            tensor.numpy()
    else:
        assert tensor.numpy().dtype == ml_dtypes.bfloat16
    assert tensor.view(dtype="uint16").tolist() == [0x3F80, 0x4000]
    with pytest.raises(BufferError):
        tenon.empty(4, "float4_e2m1fn").numpy()
    assert tenon.zeros(5, "uint4").nbytes == 3


def test_flags_travel_with_views() -> None:
    storage = tenon.Storage.new(16)
    tensor = tenon.Tensor.over(storage, (4,), requires_grad=True, is_parameter=True)
    assert tensor.requires_grad and tensor.is_parameter and not tensor.is_conj and not tensor.is_neg
    assert tensor[1:].requires_grad and tensor.clone().is_parameter
    assert tenon.zeros(1, requires_grad=True).requires_grad


def test_clone_modes() -> None:
    tensor = tenon.from_numpy(np.arange(10, dtype=np.int64))[2:8:2]
    for mode in ("shared", "lender_writes", "frozen"):
        clone = tensor.clone(mode=mode)  # type: ignore[arg-type]
        assert clone.tolist() == [2, 4, 6] and clone.storage.mode == mode and clone.is_contiguous
    assert not tensor.clone(private=True).storage.is_shared


def test_truth_value_and_item() -> None:
    with pytest.raises(TypeError):
        bool(tenon.zeros(2))
    with pytest.raises(ValueError):
        tenon.zeros(2).item()
    assert tenon.zeros((1, 1), "complex64").item() == 0j


def test_no_plain_pickle() -> None:
    import copy
    import pickle

    for thing in (tenon.zeros(1), tenon.Storage.new(1), tenon.Message()):
        with pytest.raises(TypeError, match=r"tenon\.multiprocessing"):
            pickle.dumps(thing)
    with pytest.raises(TypeError, match=r"tensors and storages"):
        copy.deepcopy(tenon.Message())


def test_bases_cannot_be_made() -> None:
    with pytest.raises(TypeError, match=r"tenon\.empty"):
        tenon.Tensor()
    with pytest.raises(TypeError):
        tenon.Storage()


def test_repr() -> None:
    tensor = tenon.empty((4, 4), "bfloat16", mode="frozen")
    assert repr(tensor) == "<tenon.Tensor shape=(4, 4), dtype=bfloat16, frozen, read-only>"
    assert "offset=1" in repr(tensor[0, 1:]) and "strides=(8, 1)" in repr(tensor[::2])
    assert "private" in repr(tenon.empty(1, private=True))
