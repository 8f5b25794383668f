"""Reads a tensor's elements as Python numbers, for tenon.Tensor.

It has tolist, item, and the number protocol of a tensor of one element.
"""

from __future__ import annotations

from tenon import _dtype
from tenon._native import lib
from tenon.error import TenonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from numpy.typing import NDArray

    from tenon._decode import Decode

    # Tensor, the only class with this base, has TensorBase as its last base.
    from tenon._native_ext import TensorBase as _Base
    from tenon.storage import Storage
else:
    _Base = object

_INTEGERS = (lib.TENON_DTYPE_INT, lib.TENON_DTYPE_UINT)
_MATH_BITS = lib.TENON_TENSOR_CONJ | lib.TENON_TENSOR_NEG


def _nested(
    data: memoryview,
    decode: Decode,
    width: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    start: int,
) -> Any:
    """Nested lists of the elements. `width` is the number of bits of an element, and `start` counts
    elements.
    """
    if sizes:
        size, step = sizes[0], strides[0]
        return [
            _nested(data, decode, width, sizes[1:], strides[1:], start + i * step)
            for i in range(size)
        ]
    first = start * width
    # An element that is smaller than a byte may lie in two bytes. The first element has the lowest
    # bits.
    bits = int.from_bytes(data[first // 8 : (first + width + 7) // 8], "little")
    return decode(bits >> first % 8 & (1 << width) - 1)


class Elements(_Base):
    """The part of Tensor that reads elements. Elements on a device raise Unsupported.

    A tensor of one element acts as a number in int(), float(), complex(), bool(), round(),
    math.floor() and similar functions, whatever its dimensions. operator.index(), and so indexing,
    takes an integer tensor without dimensions. numpy's arrays behave the same. A tensor of more
    elements raises TypeError there.

    Tensors are compared and hashed by identity. A comparison with a number, and `in`, raise
    TypeError: use numpy().
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def dtype(self) -> str: ...
        @property
        def storage(self) -> Storage: ...
        def numpy(self) -> NDArray[Any]: ...
        def tobytes(self) -> bytes: ...

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers. A tensor without dimensions gives its one
        number.
        """
        number, flags = self._dtype_number, self._flags
        width = _dtype.bits_of(number)
        if not flags & _MATH_BITS:
            try:
                view = memoryview(self)
            except BufferError:
                # Buffers have no format letter for this element type. A device's memory raises
                # Unsupported, which is no BufferError.
                pass
            else:
                # memoryview cannot read these formats itself, and numpy is faster than the code
                # below.
                return self.numpy().tolist() if view.format in ("e", "Zf", "Zd") else view.tolist()
        # Imported late, because it needs further modules of Python.
        from tenon._decode import decoder

        decode = decoder(number)
        if flags & _MATH_BITS:
            decode = _resolved(decode, flags)
        return _nested(self.storage.data, decode, width, self.shape, self.strides, self.offset)

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.numel != 1:
            raise ValueError(
                f"a tensor of {self.numel} elements is no number: index one element first, or use"
                " tolist()"
            )
        value = self.tolist()
        while isinstance(value, list):
            value = value[0]
        return value

    def _number(self, what: str) -> Any:
        """The one element. `what` names the operation, for errors."""
        if self.numel != 1:
            raise TypeError(
                f"{what} takes a tensor of one element, and this one has {self.numel} (shape"
                f" {self.shape}): index one element, or use tolist() or numpy()"
            )
        return self.item()

    def _real(self, what: str) -> Any:
        value = self._number(what)
        if isinstance(value, complex):
            raise TypeError(
                f"{what} takes no complex number, and the tensor is {self.dtype}: use item().real,"
                " or abs(item())"
            )
        return value

    def __int__(self) -> int:
        return int(self._real("int()"))

    def __float__(self) -> float:
        return float(self._real("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __bool__(self) -> bool:
        if self.numel != 1:
            raise TypeError(
                f"whether a tensor of {self.numel} elements (shape {self.shape}) is true is not"
                " defined: use numpy().any(), numpy().all(), or len()"
            )
        return bool(self.item())

    def __index__(self) -> int:
        number = self._dtype_number
        if self.ndim or number & 0xFF not in _INTEGERS or number >> 16 != 1:
            raise TypeError(
                "only an integer tensor without dimensions is an index, and this one is"
                f" {self.dtype} of shape {self.shape}: use int(), or index numpy() if an array is"
                " to pick elements"
            )
        return int(self.item())

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self._real("round()"), ndigits)

    def __trunc__(self) -> int:
        return int(self._real("math.trunc()").__trunc__())

    def __floor__(self) -> int:
        return int(self._real("math.floor()").__floor__())

    def __ceil__(self) -> int:
        return int(self._real("math.ceil()").__ceil__())

    def __format__(self, spec: str) -> str:
        """The number of a tensor without dimensions, as in numpy and PyTorch.

        Any other tensor gives its repr, if the format is empty.
        """
        if not spec:
            if self.closed or self.ndim:
                return str(self)
            try:
                return format(self.item(), "")
            except (TenonError, TypeError):
                # An element that cannot be read here must not end a program in a log message.
                return str(self)
        return format(self._number(f"a format such as {spec!r}"), spec)

    def __bytes__(self) -> bytes:
        # Without this method, bytes() would take an integer tensor for the number of bytes to make.
        return self.tobytes()

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            "`in` does not look for a value in a tensor: use `value in tensor.numpy()`, or `value"
            " in tensor.tolist()`"
        )

    def _compare(self, other: object, sign: str) -> Any:
        """Refuse comparisons with numbers. NotImplemented leaves other objects, such as numpy's
        arrays, to their own comparison.
        """
        if isinstance(other, (int, float, complex)) or (
            sign not in ("==", "!=") and isinstance(other, Elements)
        ):
            raise TypeError(
                f"tensors are not compared by {sign}: compare what item(), tolist() or numpy()"
                " gives"
            )
        return NotImplemented

    def __eq__(self, other: object) -> Any:
        return True if self is other else self._compare(other, "==")

    def __ne__(self, other: object) -> Any:
        return False if self is other else self._compare(other, "!=")

    __hash__ = object.__hash__

    def __lt__(self, other: object) -> Any:
        return self._compare(other, "<")

    def __le__(self, other: object) -> Any:
        return self._compare(other, "<=")

    def __gt__(self, other: object) -> Any:
        return self._compare(other, ">")

    def __ge__(self, other: object) -> Any:
        return self._compare(other, ">=")


def _resolved(decode: Decode, flags: int) -> Decode:
    """Wrap a decoder for elements that are to be read conjugated or negated."""

    def value_of(bits: int) -> Any:
        value = decode(bits)
        if flags & lib.TENON_TENSOR_CONJ and isinstance(value, complex):
            value = value.conjugate()
        return -value if flags & lib.TENON_TENSOR_NEG else value

    return value_of
