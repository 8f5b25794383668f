"""Decodes the bits of one element into a Python number, for every element type. _elements extracts
the bits.
"""

from __future__ import annotations

import math
import struct

from tenon import _dtype
from tenon._native import lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Number = bool | int | float | complex
    Decode = Callable[[int], Number]

# The meaning of the largest exponent of a small float. The names come from OCP's specifications of
# 8-bit floats and of microscaling formats. "fn" is finite with one NaN. "fnuz" also has no negative
# zero, whose bits are the NaN.
_IEEE, _FN, _FNUZ, _FINITE = range(4)

# By DLPack's code: bits of the exponent, bits of the mantissa, bias, meaning of the largest
# exponent.
_SMALL_FLOATS: dict[int, tuple[int, int, int, int]] = {
    lib.TENON_DTYPE_FLOAT8_E3M4: (3, 4, 3, _IEEE),
    lib.TENON_DTYPE_FLOAT8_E4M3: (4, 3, 7, _IEEE),
    lib.TENON_DTYPE_FLOAT8_E4M3B11FNUZ: (4, 3, 11, _FNUZ),
    lib.TENON_DTYPE_FLOAT8_E4M3FN: (4, 3, 7, _FN),
    lib.TENON_DTYPE_FLOAT8_E4M3FNUZ: (4, 3, 8, _FNUZ),
    lib.TENON_DTYPE_FLOAT8_E5M2: (5, 2, 15, _IEEE),
    lib.TENON_DTYPE_FLOAT8_E5M2FNUZ: (5, 2, 16, _FNUZ),
    lib.TENON_DTYPE_FLOAT6_E2M3FN: (2, 3, 1, _FINITE),
    lib.TENON_DTYPE_FLOAT6_E3M2FN: (3, 2, 3, _FINITE),
    lib.TENON_DTYPE_FLOAT4_E2M1FN: (2, 1, 1, _FINITE),
}

_FLOAT_FORMATS = {16: "<e", 32: "<f", 64: "<d"}


def _unpack(bits: int, nbytes: int, form: str) -> float:
    value: float = struct.unpack(form, bits.to_bytes(nbytes, "little"))[0]
    return value


def _float(width: int) -> Decode:
    form = _FLOAT_FORMATS[width]
    return lambda bits: _unpack(bits, width // 8, form)


def _complex(width: int) -> Decode:
    half = width // 2
    part, mask = _FLOAT_FORMATS[half], (1 << half) - 1
    return lambda bits: complex(
        _unpack(bits & mask, half // 8, part), _unpack(bits >> half, half // 8, part)
    )


def _signed(width: int) -> Decode:
    sign = 1 << (width - 1)
    return lambda bits: (bits ^ sign) - sign


def _small_float(exponent_bits: int, mantissa_bits: int, bias: int, special: int) -> Decode:
    sign_bit = 1 << (exponent_bits + mantissa_bits)
    last_exponent, last_mantissa = (1 << exponent_bits) - 1, (1 << mantissa_bits) - 1

    def decode(bits: int) -> float:
        if special == _FNUZ and bits == sign_bit:
            return math.nan
        exponent, mantissa = bits >> mantissa_bits & last_exponent, bits & last_mantissa
        if exponent == last_exponent:
            if special == _IEEE:
                value = math.nan if mantissa else math.inf
                return -value if bits & sign_bit else value
            if special == _FN and mantissa == last_mantissa:
                return math.nan
        if exponent:
            mantissa += last_mantissa + 1
        value = math.ldexp(mantissa, max(exponent, 1) - bias - mantissa_bits)
        return -value if bits & sign_bit else value

    return decode


def _power_of_two(bits: int) -> float:
    """Decode float8_e8m0fnu, which consists of an exponent alone."""
    return math.nan if bits == 0xFF else math.ldexp(1.0, bits - 127)


_decoders: dict[int, Decode] = {}


def decoder(dtype: int) -> Decode:
    """The function from an element's bits, as an unsigned number, to its value.

    Raises TypeError for a type whose values no Python number can hold.
    """
    try:
        return _decoders[dtype]
    except KeyError:
        pass
    made = _make(dtype)
    if len(_decoders) < 256:
        _decoders[dtype] = made
    return made


def _make(dtype: int) -> Decode:
    code, width, lanes = _dtype.split(dtype)
    name = _dtype.name_of(dtype)
    if lanes != 1:
        base = _dtype.name_of(_dtype.pack(code, width))
        raise TypeError(
            f'one element of {name} is {lanes} numbers: read them with view(dtype="{base}")'
        )
    if code == lib.TENON_DTYPE_BOOL:
        return bool
    if code == lib.TENON_DTYPE_UINT:
        return int
    if code == lib.TENON_DTYPE_INT:
        return _signed(width)
    if code == lib.TENON_DTYPE_FLOAT and width in _FLOAT_FORMATS:
        return _float(width)
    if code == lib.TENON_DTYPE_COMPLEX:
        return _complex(width)
    if code == lib.TENON_DTYPE_BFLOAT:
        return lambda bits: _unpack(bits << 16, 4, "<f")
    if code == lib.TENON_DTYPE_FLOAT8_E8M0FNU:
        return _power_of_two
    if code in _SMALL_FLOATS:
        return _small_float(*_SMALL_FLOATS[code])
    raise TypeError(f'Python has no number for {name}: read its bytes with view(dtype="uint8")')
