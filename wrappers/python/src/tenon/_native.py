"""Loads the C library: cffi's bindings of its header, and the C extension of this package."""

from __future__ import annotations

import atexit

try:
    from tenon import _cffi, _native_ext
except ImportError as error:
    if "libtenon" not in str(error):
        raise
    import os

    raise ImportError(
        f"{error}: this package brings libtenon.so.1 in"
        f" {os.path.dirname(os.path.abspath(__file__))}; install it again (pip install"
        " --force-reinstall libtenon)"
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ffi: Any = _cffi.ffi
lib: Any = _cffi.lib

if lib.tenon_abi_version() != lib.TENON_ABI_VERSION:
    raise ImportError(
        f"libtenon has ABI {lib.tenon_abi_version()}, but this package was built for ABI"
        f" {lib.TENON_ABI_VERSION}: install it again (pip install --force-reinstall libtenon), and"
        " take other builds of libtenon out of LD_LIBRARY_PATH"
    )

# A deleter that runs after this must not take the interpreter's lock any more.
atexit.register(_native_ext.mark_finalizing)

__version__: str = ffi.string(lib.tenon_version_string()).decode()


def address_of(cdata: Any) -> int:
    """The address in a pointer, for the C extension."""
    return int(ffi.cast("uintptr_t", cdata))


def new_struct(kind: str, **fields: Any) -> Any:
    """A struct of options or results whose first field says its size."""
    return ffi.new(f"{kind} *", {"struct_size": ffi.sizeof(kind), **fields})


class Struct:
    """A struct, together with the memory to which its pointers lead."""

    __slots__ = ("_memory", "cdata")

    def __init__(self, kind: str, **fields: Any) -> None:
        self.cdata = new_struct(kind, **fields)
        self._memory: list[Any] = []

    def point(self, **pointers: Any) -> None:
        """Set pointers to memory, which lives as long as this object. None leaves the field."""
        for name, memory in pointers.items():
            if memory is not None:
                setattr(self.cdata, name, memory)
                self._memory.append(memory)
