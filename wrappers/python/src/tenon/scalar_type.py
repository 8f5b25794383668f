"""PyTorch's element types. It has more of them than DLPack."""

from __future__ import annotations

from tenon import _dtype
from tenon._native import ffi, lib
from tenon._text import decoded, encoded
from tenon.error import InvalidArgument, given, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ScalarType(int):
    """An element type by PyTorch's number. It is an int, as archives store it, and knows its name.

    Make it from that number, from a name ("float32", "qint8", "QInt8", "QInt8Storage"), or from a
    numpy or torch dtype.
    """

    __slots__ = ()

    def __new__(cls, which: Any) -> ScalarType:
        kind = "tenon_scalar_type"
        if isinstance(which, int):
            found = ffi.new(f"{kind} *", which)[0]
        elif isinstance(which, str) or str(which).startswith("torch."):
            text = which if isinstance(which, str) else str(which).removeprefix("torch.")
            name = encoded(text, "the element type")
            found = given(kind, lib.tenon_scalar_type_parse, name)
        else:
            dtype = _dtype.split(_dtype.number_of(which))
            found = given(kind, lib.tenon_scalar_type_from_dtype, dtype)
        self = super().__new__(cls, found)
        if lib.tenon_scalar_type_name(found) == ffi.NULL:
            raise make(InvalidArgument, f"{int(self)} is no element type")
        return self

    @property
    def name(self) -> str:
        """The name as in torch.dtype: "float32", "qint8", "bits16"."""
        return decoded(lib.tenon_scalar_type_name(int(self)))

    @property
    def storage_name(self) -> str:
        """The name of PyTorch's storage class: "FloatStorage"."""
        return decoded(lib.tenon_scalar_type_storage_name(int(self)))

    @property
    def nbytes(self) -> int:
        """The bytes of one element of a storage. For quint4x2 and quint2x4 it is the byte that 2 or
        4 elements of a tensor share.
        """
        return int(lib.tenon_scalar_type_nbytes(int(self)))

    @property
    def since(self) -> str:
        """The oldest PyTorch that is known to read the type, such as "2.1". "1.4" stands for all
        versions up to 1.4.
        """
        return decoded(lib.tenon_scalar_type_since(int(self)))

    @property
    def dtype(self) -> str:
        """Tenon's name of the type, as in Tensor.dtype. Raises Unsupported for a type that DLPack
        lacks.
        """
        found = given("tenon_dtype", lib.tenon_scalar_type_to_dtype, int(self))
        return _dtype.name_of(_dtype.pack(found.code, found.bits, found.lanes))

    def __repr__(self) -> str:
        return f"tenon.ScalarType({self.name!r})"
