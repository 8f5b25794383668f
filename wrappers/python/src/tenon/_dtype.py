"""Element types: names such as "float32" to and from DLPack's code, bits and lanes."""

from __future__ import annotations

from tenon._native import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Python's own types, as numpy reads them.
_PYTHON: dict[object, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def pack(code: int, bits: int, lanes: int = 1) -> int:
    return code | bits << 8 | lanes << 16


def split(number: int) -> tuple[int, int, int]:
    """The code, the bits and the lanes."""
    return number & 0xFF, number >> 8 & 0xFF, number >> 16


def bits_of(number: int) -> int:
    """Bits of one element, all lanes."""
    return (number >> 8 & 0xFF) * (number >> 16)


def name_of(number: int) -> str:
    try:
        return _names[number]
    except KeyError:
        pass
    text = ffi.new("char[]", lib.TENON_DTYPE_MAX_NAME_NBYTES)
    lib.tenon_dtype_name(split(number), text, len(text))
    name: str = ffi.string(text).decode()
    if len(_names) < 256:
        _names[number] = name
    return name


def _parse(name: str) -> int | None:
    # torch writes float4_e2m1fn_x2, with an underscore.
    base, mark, lanes = name.rpartition("_x")
    raw = (f"{base}x{lanes}" if mark else name).encode()
    out = ffi.new("tenon_dtype *")
    if b"\0" in raw or lib.tenon_dtype_parse(raw, out, ffi.NULL) != lib.TENON_OK:
        return None
    return pack(out.code, out.bits, out.lanes)


_names: dict[int, str] = {}

# The dtypes of numpy and torch that were looked up. They are few, and live as long as their module.
_met: dict[Any, int] = {}


def number_of(dtype: Any) -> int:
    """The number of an element type, given as a name, a numpy dtype or scalar type, a torch dtype,
    or one of bool, int, float, complex.
    """
    try:
        return _met[dtype]
    except (KeyError, TypeError):
        pass
    number = _find(dtype)
    if not isinstance(dtype, str) and len(_met) < 256:
        _met[dtype] = number
    return number


# numpy's letters and names of C's long double. It has 80 bits on x86, whatever its name says.
_LONG_DOUBLE = frozenset({"g", "longdouble", "longfloat", "float96", "float128"})
_LONG_COMPLEX = frozenset({"G", "clongdouble", "clongfloat", "complex192", "complex256"})


def _refuse_long_double(name: str) -> None:
    """Refuse numpy's long double by its letter or name.

    The string "float128" still names a tensor's own float128, because this function sees only
    numpy's types.
    """
    for names, own, other in (
        (_LONG_DOUBLE, "longdouble", "float64"),
        (_LONG_COMPLEX, "clongdouble", "complex128"),
    ):
        if name in names:
            raise TypeError(
                f"numpy's {own}, C's long double, differs from machine to machine, and no tensor"
                " has such elements: use "
                f'array.astype("{other}")'
            )


def _find(dtype: Any) -> int:
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):
        # numpy 1 calls its own bool "bool_".
        name = _PYTHON.get(dtype) or dtype.__name__.rstrip("_")
        _refuse_long_double(name)
    else:
        _refuse_long_double(str(getattr(dtype, "char", "")))
        if getattr(dtype, "isnative", True) is False:
            raise ValueError(f"dtype {dtype!s} is not in this machine's byte order")
        found = getattr(dtype, "name", None)
        name = found if isinstance(found, str) else str(dtype).removeprefix("torch.")
    number = _parse(name)
    if number is None:
        raise TypeError(
            f'there is no dtype {name!r}: use a name such as "float32", "bfloat16" or'
            ' "float8_e4m3fn", or a numpy dtype'
        )
    return number
