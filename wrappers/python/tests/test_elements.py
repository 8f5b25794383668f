"""A tensor's elements as Python numbers.

The expected values are numpy's for the types that numpy knows, and follow from the formats'
definitions for the other types.
"""

from __future__ import annotations

import cmath
import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tenon
from test_tensor import NUMPY_DTYPES, OTHER_DTYPES

TENON_CONJ, TENON_NEG = tenon._native.lib.TENON_TENSOR_CONJ, tenon._native.lib.TENON_TENSOR_NEG

ASKED: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "index": operator.index,
    "format": lambda x: f"{x}",
    "format_spec": lambda x: f"{x:>12}",
    "sqrt": lambda x: math.sqrt(abs(float(x))),
}


def outcome(ask: Callable[[Any], Any], of: Any) -> Any:
    try:
        value = ask(of)
    except Exception as error:
        return type(error)
    return type(value), repr(value)


def values_of(dtype: str) -> list[Any]:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return [False, True]
    if kind in "iu":
        limits = np.iinfo(dtype)
        return [0, 1, 49, limits.max, limits.min]
    if kind == "c":
        return [0, 1, 2.5 - 3j, complex(0, 1)]
    return [0.0, -0.0, 1.0, 2.5, -3.75, 49, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_as_numpy_has_it(dtype: str) -> None:
    for value in values_of(dtype):
        array = np.array(value, dtype)
        tensor = tenon.from_numpy(array)
        for name, ask in ASKED.items():
            if name in ("int", "float", "sqrt") and array.dtype.kind == "c":
                # numpy before 2 only warned that it dropped the imaginary part.
                assert outcome(ask, tensor) is TypeError
            else:
                assert outcome(ask, tensor) == outcome(ask, array), (name, value)
        # One element may also have dimensions. The newest numpy refuses such an array as a number.
        for shape in ((1,), (1, 1)):
            shaped = tensor.view(shape)
            assert outcome(complex, shaped) == outcome(complex, array)
            assert outcome(bool, shaped) == outcome(bool, array)
            assert outcome(operator.index, shaped) is TypeError
            if array.dtype.kind != "c":
                assert outcome(int, shaped) == outcome(int, array.item())
                assert outcome(float, shaped) == outcome(float, array.item())


@pytest.mark.parametrize(
    "dtype", [dtype for dtype in NUMPY_DTYPES if not dtype.startswith("complex")]
)
def test_rounding_as_the_python_number(dtype: str) -> None:
    for value in values_of(dtype):
        tensor = tenon.from_numpy(np.array([value], dtype))
        plain = tensor.numpy().item()
        for ask in (
            round,
            math.trunc,
            math.floor,
            math.ceil,
            lambda x: round(x, 1),
            lambda x: round(x, None),
        ):
            assert outcome(ask, tensor) == outcome(ask, plain)


def test_elements_of_bytes_are_no_digits() -> None:
    array = np.array([49, 50, 55], np.uint8)
    tensor = tenon.from_numpy(array)
    assert [int(x) for x in tensor] == [float(x) for x in tensor] == array.tolist()
    with pytest.raises(TypeError, match=r"3 \(shape \(3,\)\).*tolist"):
        int(tensor)
    storage = tenon.Storage.new_from(b"49")
    for ask in (int, float, complex, operator.index):
        with pytest.raises(TypeError):
            ask(storage)  # type: ignore[arg-type]


def test_strided_and_read_only() -> None:
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    for tensor in (
        tenon.from_numpy(array),
        tenon.from_numpy(array, mode="frozen"),
        tenon.from_dlpack(array),
    ):
        assert float(tensor[1, 2]) == float(tensor[:, 2][1]) == float(tensor[::-1][1:2, 2:3]) == 6
        assert [[int(x) for x in row] for row in tensor[::2, ::-2]] == array[::2, ::-2].astype(
            int
        ).tolist()


def flagged(array: np.ndarray[Any, Any], flags: int) -> tenon.Tensor:
    plain = tenon.from_numpy(array)
    return tenon.Tensor._new(plain.storage, plain._dtype_number, plain.shape, None, 0, flags)


def test_conjugated_and_negated() -> None:
    array = np.array([1 + 2j, 3 - 4j], np.complex64)
    for flags, expected in (
        (TENON_CONJ, array.conj()),
        (TENON_NEG, -array),
        (TENON_CONJ | TENON_NEG, -array.conj()),
    ):
        tensor = flagged(array, flags)
        assert tensor.tolist() == expected.tolist()
        assert [complex(x) for x in tensor] == expected.tolist()
        assert f"{tensor[0]}" == f"{expected[0].item()}"
        with pytest.raises(BufferError, match="conjugate"):
            bytes(tensor)
    assert int(flagged(np.array(5, np.int32), TENON_NEG)) == -5


# Bit patterns and their values, from the definitions of the formats.
PATTERNS: dict[str, dict[int, float]] = {
    "bfloat16": {0x3F80: 1.0, 0xC040: -3.0, 0x7F80: math.inf, 0x7FC0: math.nan, 0x0001: 2.0**-133},
    "float8_e3m4": {
        0x30: 1.0,
        0xC8: -3.0,
        0x01: 2.0**-6,
        0x70: math.inf,
        0xF1: math.nan,
        0x6F: 15.5,
    },
    "float8_e4m3": {
        0x38: 1.0,
        0x77: 240.0,
        0x78: math.inf,
        0xF8: -math.inf,
        0x79: math.nan,
        0x01: 2.0**-9,
    },
    "float8_e4m3b11fnuz": {0x58: 1.0, 0x80: math.nan, 0x7F: 30.0, 0x01: 2.0**-13},
    "float8_e4m3fn": {
        0x38: 1.0,
        0x7E: 448.0,
        0x7F: math.nan,
        0xFF: math.nan,
        0x80: -0.0,
        0x01: 2.0**-9,
    },
    "float8_e4m3fnuz": {0x40: 1.0, 0x7F: 240.0, 0x80: math.nan, 0x01: 2.0**-10},
    "float8_e5m2": {0x3C: 1.0, 0x7B: 57344.0, 0x7C: math.inf, 0x7D: math.nan, 0x01: 2.0**-16},
    "float8_e5m2fnuz": {0x40: 1.0, 0x7F: 57344.0, 0x80: math.nan, 0x01: 2.0**-17},
    "float8_e8m0fnu": {0x7F: 1.0, 0x00: 2.0**-127, 0xFE: 2.0**127, 0xFF: math.nan},
    "float6_e2m3fn": {0x08: 1.0, 0x1F: 7.5, 0x3F: -7.5, 0x01: 0.125},
    "float6_e3m2fn": {0x0C: 1.0, 0x1F: 28.0, 0x3F: -28.0, 0x01: 0.0625},
    "float4_e2m1fn": {0x2: 1.0, 0x7: 6.0, 0xF: -6.0, 0x1: 0.5},
    "int4": {0x7: 7, 0x8: -8, 0xF: -1},
    "uint4": {0x7: 7, 0x8: 8, 0xF: 15},
    "int7": {0x3F: 63, 0x40: -64},
    "uint1": {0: 0, 1: 1},
}


def packed(patterns: list[int], width: int) -> bytes:
    """The elements one after another, with the first one in the lowest bits."""
    whole = 0
    for index, pattern in enumerate(patterns):
        whole |= pattern << index * width
    return whole.to_bytes((len(patterns) * width + 7) // 8, "little")


@pytest.mark.parametrize("dtype", PATTERNS)
def test_types_that_numpy_lacks(dtype: str) -> None:
    patterns = list(PATTERNS[dtype])
    tensor = tenon.empty(len(patterns), dtype)
    width = tenon._dtype.bits_of(tensor._dtype_number)
    tensor.storage.write(packed(patterns, width))
    for found, expected in zip(tensor.tolist(), PATTERNS[dtype].values(), strict=True):
        assert type(found) is type(expected)
        assert repr(found) == repr(expected) or (math.isnan(found) and math.isnan(expected))
    for pattern, expected in PATTERNS[dtype].items():
        one = tenon.empty((), dtype)
        one.storage.write(packed([pattern], width))
        assert repr(float(one)) == repr(float(expected)) or math.isnan(expected)
        assert bool(one) is bool(expected)
        assert outcome(int, one) == outcome(int, expected)
        if isinstance(expected, int):
            assert operator.index(one) == expected
    if width % 8:
        with pytest.raises(ValueError, match=r"inside a byte.*the tensor that has them all"):
            tensor[1]


def test_half_complex_and_lanes() -> None:
    tensor = tenon.empty((), "complex32")
    tensor.storage.write(struct.pack("<2e", 1.5, -2))
    assert complex(tensor) == tensor.item() == 1.5 - 2j
    assert cmath.isclose(complex(tensor), 1.5 - 2j) and bool(tensor)
    with pytest.raises(TypeError, match=r'4 numbers.*view\(dtype="float32"\)'):
        float(tenon.zeros((), "float32x4"))


@pytest.mark.parametrize(
    "dtype", NUMPY_DTYPES + [dtype for dtype in OTHER_DTYPES if "x" not in dtype]
)
@pytest.mark.parametrize("shape", [(0,), (2,), (2, 2)])
def test_of_more_or_fewer_elements_it_is_a_type_error(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = tenon.zeros(shape, dtype)
    asked = [
        int,
        float,
        complex,
        bool,
        operator.index,
        round,
        math.trunc,
        math.floor,
        math.ceil,
        lambda x: f"{x:.2f}",
    ]
    for ask in asked:
        with pytest.raises(TypeError, match=r"shape|has no|no number|numpy\(\)"):
            ask(tensor)
    with pytest.raises(ValueError, match="tolist"):
        tensor.item()
    assert f"{tensor}" == repr(tensor)


def test_without_dimensions() -> None:
    tensor = tenon.from_numpy(np.array(3, np.int16))
    for ask in (len, iter):
        with pytest.raises(TypeError, match=r"item\(\)"):
            ask(tensor)
    assert (
        bytes(tensor) == b"\3\0"
        and [10, 20, 30, 40][tensor] == 40
        and list(range(tensor)) == [0, 1, 2]
    )
    closed = tenon.zeros(())
    closed.close()
    assert "closed" in f"{closed}"


def test_comparing_and_looking_for_values() -> None:
    tensor, other = tenon.zeros(2), tenon.zeros(2)
    assert (
        tensor == tensor
        and tensor != other
        and tensor in [other, tensor]
        and len({tensor, other, tensor}) == 2
    )
    assert tensor != None and tensor != "text"  # noqa: E711
    asked: list[Callable[[], Any]] = [
        lambda: tensor == 0,
        lambda: tensor != 0.0,
        lambda: tensor < 1,
        lambda: tensor >= other,
        lambda: max(tensor, other),  # type: ignore[type-var]
    ]
    for ask in asked:
        with pytest.raises(
            TypeError, match=r"compare what item\(\), tolist\(\) or numpy\(\) gives"
        ):
            ask()
    with pytest.raises(TypeError, match=r"in tensor\.numpy\(\)"):
        0 in tensor  # noqa: B015
    # numpy's array does this comparison.
    assert (tensor == np.zeros(2)).all() and (np.zeros(2) <= tensor).all()


def test_as_a_shape() -> None:
    for shape in (
        np.array([2, 3]),
        tenon.from_numpy(np.array([2, 3])),
        [tenon.from_numpy(np.array(2)), 3],
    ):
        assert tenon.zeros(shape).shape == (2, 3)
    assert tenon.zeros(tenon.from_numpy(np.array(4))).shape == (4,)
