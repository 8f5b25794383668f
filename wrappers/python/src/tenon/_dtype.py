"""Element types: names such as "float32" to and from DLPack's code, bits and lanes."""

from __future__ import annotations

from tenon._native import lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMED: dict[str, tuple[int, int]] = {
    "bool": (lib.TENON_DTYPE_BOOL, 8),
    "bfloat16": (lib.TENON_DTYPE_BFLOAT, 16),
    "float8_e3m4": (lib.TENON_DTYPE_FLOAT8_E3M4, 8),
    "float8_e4m3": (lib.TENON_DTYPE_FLOAT8_E4M3, 8),
    "float8_e4m3b11fnuz": (lib.TENON_DTYPE_FLOAT8_E4M3B11FNUZ, 8),
    "float8_e4m3fn": (lib.TENON_DTYPE_FLOAT8_E4M3FN, 8),
    "float8_e4m3fnuz": (lib.TENON_DTYPE_FLOAT8_E4M3FNUZ, 8),
    "float8_e5m2": (lib.TENON_DTYPE_FLOAT8_E5M2, 8),
    "float8_e5m2fnuz": (lib.TENON_DTYPE_FLOAT8_E5M2FNUZ, 8),
    "float8_e8m0fnu": (lib.TENON_DTYPE_FLOAT8_E8M0FNU, 8),
    "float6_e2m3fn": (lib.TENON_DTYPE_FLOAT6_E2M3FN, 6),
    "float6_e3m2fn": (lib.TENON_DTYPE_FLOAT6_E3M2FN, 6),
    "float4_e2m1fn": (lib.TENON_DTYPE_FLOAT4_E2M1FN, 4),
    **{f"int{bits}": (lib.TENON_DTYPE_INT, bits) for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": (lib.TENON_DTYPE_UINT, bits) for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"float{bits}": (lib.TENON_DTYPE_FLOAT, bits) for bits in (16, 32, 64)},
    **{f"complex{bits}": (lib.TENON_DTYPE_COMPLEX, bits) for bits in (32, 64, 128)},
}
_NAMES = {pair: name for name, pair in _NAMED.items()}

# Python's own types, as numpy reads them.
_PYTHON: dict[object, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def pack(code: int, bits: int, lanes: int = 1) -> int:
    return code | bits << 8 | lanes << 16


def bits_of(number: int) -> int:
    """Bits of one element, all lanes."""
    return (number >> 8 & 0xFF) * (number >> 16)


def name_of(number: int) -> str:
    code, bits, lanes = number & 0xFF, number >> 8 & 0xFF, number >> 16
    name = _NAMES.get((code, bits)) or f"dtype_{code}_{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


def _parse(name: str) -> int | None:
    pair = _NAMED.get(name)
    if pair is not None:
        return pack(*pair)
    base, _, lanes = name.rpartition("x")
    pair = _NAMED.get(base.rstrip("_"))
    if pair is not None and lanes.isdecimal() and 0 < int(lanes) < 1 << 16:
        return pack(*pair, int(lanes))
    if name.startswith("dtype_"):
        parts = name.split("_")[1:]
        if len(parts) == 2 and all(part.isdecimal() and int(part) < 256 for part in parts):
            return pack(int(parts[0]), int(parts[1]))
    return None


# numpy's and torch's dtypes, once met: there are few, and they live as long as their module.
_met: dict[Any, int] = {}


def number_of(dtype: Any) -> int:
    """From a name, a numpy dtype or scalar type, a torch dtype, or one of bool, int, float, complex."""
    try:
        return _met[dtype]
    except (KeyError, TypeError):
        pass
    number = _find(dtype)
    if not isinstance(dtype, str) and len(_met) < 256:
        _met[dtype] = number
    return number


def _find(dtype: Any) -> int:
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):
        # numpy 1 calls its own bool "bool_".
        name = _PYTHON.get(dtype) or dtype.__name__.rstrip("_")
    else:
        if getattr(dtype, "isnative", True) is False:
            raise ValueError(f"dtype {dtype!s} is not in this machine's byte order")
        found = getattr(dtype, "name", None)
        name = found if isinstance(found, str) else str(dtype).removeprefix("torch.")
    number = _parse(name)
    if number is None:
        raise TypeError(f'no dtype {name!r}: use a name such as "float32", "bfloat16" or "float8_e4m3fn", or a numpy dtype')
    return number
