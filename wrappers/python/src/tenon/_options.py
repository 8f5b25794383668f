"""Maps the words of Python's options to the C library's constants."""

from __future__ import annotations

from tenon import _strategy
from tenon._native import lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, SupportsIndex

    Mode = Literal["shared", "lender_writes", "frozen"]
    Access = Literal["auto", "read_only", "writable"]
    LenderGone = Literal["keep", "drop"]
    CudaForm = Literal["A", "B", "C", "D", "E"]
    CudaTransport = Literal["auto", "none", "ipc", "fd", "fabric", "pool"]

MODES: dict[str, int] = {
    "shared": lib.TENON_MODE_SHARED,
    "lender_writes": lib.TENON_MODE_LENDER_WRITES,
    "frozen": lib.TENON_MODE_FROZEN,
}
MODE_NAMES = {number: name for name, number in MODES.items()}

ACCESSES: dict[str, int] = {
    "auto": lib.TENON_ACCESS_AUTO,
    "read_only": lib.TENON_ACCESS_READ_ONLY,
    "writable": lib.TENON_ACCESS_WRITABLE,
}
ACCESS_NAMES = {number: name for name, number in ACCESSES.items()}

LENDER_GONE: dict[str, int] = {
    "keep": lib.TENON_LENDER_GONE_KEEP,
    "drop": lib.TENON_LENDER_GONE_DROP,
}

CUDA_FORMS: dict[str, int] = {
    letter: getattr(lib, f"TENON_CUDA_FORM_{letter}") for letter in "ABCDE"
}
CUDA_TRANSPORTS: dict[str, int] = {
    "auto": lib.TENON_CUDA_NO_MEMORY,
    **{
        name: getattr(lib, f"TENON_CUDA_{name.upper()}") for name in ("ipc", "fd", "fabric", "pool")
    },
}
CUDA_TRANSPORT_NAMES = {number: name for name, number in CUDA_TRANSPORTS.items()} | {
    lib.TENON_CUDA_NO_MEMORY: "none"
}

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


def open_flags(
    private_copy: bool, private_cow: bool, adopt: bool, allow_unsealed: bool | None
) -> int:
    """The C flags of an opening. If allow_unsealed is None, the sharing strategy decides:
    "file_system" needs named files, which have no seals.
    """
    if allow_unsealed is None:
        allow_unsealed = _strategy.current == _strategy.FILE_SYSTEM
    flags: int = 0
    if private_copy:
        flags |= lib.TENON_OPEN_PRIVATE_COPY
    if private_cow:
        flags |= lib.TENON_OPEN_PRIVATE_COW
    if adopt:
        flags |= lib.TENON_OPEN_ADOPT_FD
    if allow_unsealed:
        flags |= lib.TENON_OPEN_ALLOW_UNSEALED
    return flags


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
