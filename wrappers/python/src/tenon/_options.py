"""Makes numbers for the C library of the words, flags, shapes and numbers that callers give."""

from __future__ import annotations

from tenon import _strategy
from tenon._native import lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, SupportsIndex

    Shape = SupportsIndex | Sequence[SupportsIndex]

    Mode = Literal["shared", "lender_writes", "frozen"]
    Access = Literal["auto", "read_only", "writable"]
    LenderGone = Literal["keep", "drop"]
    CudaForm = Literal["A", "B", "C", "D", "E"]
    CudaTransport = Literal["auto", "none", "ipc", "fd", "fabric", "pool"]


def words(prefix: str, names: str) -> dict[str, int]:
    """The constants TENON_<prefix>_<NAME> of the C header by their names in small letters. `names`
    has the names with spaces between them.
    """
    return {name: getattr(lib, f"TENON_{prefix}_{name.upper()}") for name in names.split()}


def names_of(table: dict[str, int]) -> dict[int, str]:
    """The words of a table by their numbers."""
    return {number: name for name, number in table.items()}


def flags(prefix: str, **chosen: bool) -> int:
    """The flags TENON_<prefix>_<NAME> whose arguments are true."""
    found: int = 0
    for name, is_chosen in chosen.items():
        if is_chosen:
            found |= getattr(lib, f"TENON_{prefix}_{name.upper()}")
    return found


def tensor_flags(requires_grad: bool, is_parameter: bool = False) -> int:
    """As flags("TENSOR", ...), but faster: each new tensor asks for them."""
    bits: int = lib.TENON_TENSOR_REQUIRES_GRAD if requires_grad else 0
    return bits | lib.TENON_TENSOR_IS_PARAMETER if is_parameter else bits


MODES = words("MODE", "shared lender_writes frozen")
MODE_NAMES = names_of(MODES)
ACCESSES = words("ACCESS", "auto read_only writable")
ACCESS_NAMES = names_of(ACCESSES)
LENDER_GONE = words("LENDER_GONE", "keep drop")
CUDA_TRANSPORTS = {"auto": lib.TENON_CUDA_NO_MEMORY} | words("CUDA", "ipc fd fabric pool")
CUDA_TRANSPORT_NAMES = names_of(CUDA_TRANSPORTS) | {lib.TENON_CUDA_NO_MEMORY: "none"}

# DLPack's numbers of device types.
CPU = 1
CUDA = 2
CUDA_HOST = 3  # pinned host memory, as a framework reports it. Tenon treats it as the CPU's


def device_name(numbers: tuple[int, int]) -> str:
    """ "cpu", or "cuda:0" and so on."""
    return "cpu" if numbers[0] == CPU else f"cuda:{numbers[1]}"


def number_of(table: dict[str, int], word: str, what: str) -> int:
    number = table.get(word)
    if number is None:
        raise ValueError(f"{what} {word!r} is not one of {', '.join(table)}")
    return number


def open_flags(allow_unsealed: bool | None, **chosen: bool) -> int:
    """The C flags of an opening. If allow_unsealed is None, the sharing strategy decides:
    "file_system" needs named files, which have no seals.
    """
    if allow_unsealed is None:
        allow_unsealed = _strategy.current == _strategy.FILE_SYSTEM
    return flags("OPEN", allow_unsealed=allow_unsealed, **chosen)


def small(number: int, what: str) -> int:
    if not 0 <= number < 1 << 32:
        raise ValueError(f"{what} {number} is not between 0 and 2**32 - 1")
    return number


def unsigned(number: SupportsIndex, what: str) -> int:
    """Check that a number fits into a C uint64. The C library checks the rest."""
    value = number.__index__()
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{what} {value} is not between 0 and 2**64 - 1")
    return value


def numbers(values: Shape) -> tuple[int, ...]:
    """The numbers of a shape, or of strides."""
    # Arrays and tensors have an __index__ too, which works only for those without dimensions.
    if hasattr(values, "__index__") and not getattr(values, "shape", ()):
        return (values.__index__(),)
    return tuple(value.__index__() for value in values)  # type: ignore[union-attr]
