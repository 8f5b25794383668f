"""Converts C values into plain Python values. tenon.value and tenon.module use it."""

from __future__ import annotations

from tenon._native import address_of, ffi, lib
from tenon._snapshot import ReadDict, ReadList, ReadObject
from tenon._text import decoded
from tenon.error import NotFound, Unsupported, call, filled, given, owned
from tenon.tensor import Tensor
from tenon.tensor_spec import TensorSpec, from_c
from tenon.value import Device, Enum, NamedTuple, Object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Reader:
    """One reading. A value that occurs twice becomes one Python object. With `of_module` the
    results refuse changes.
    """

    __slots__ = ("_known", "_of_module")
    _known: dict[int, tuple[Any, Any]]
    _of_module: bool

    def __init__(self, of_module: bool = False) -> None:
        # By address. Each entry has the value, which keeps its address in use, and its Python
        # object.
        self._known = {}
        self._of_module = of_module

    def read(self, own: Any) -> Any:
        """Read a value. `own` is a cdata that owns a reference."""
        kind = lib.tenon_value_kind(own)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(own)
        address = address_of(own)
        known = self._known.get(address)
        if known is not None:
            return known[1]
        if kind == lib.TENON_VALUE_OBJECT:
            return self._object(own, address)
        result = _SHARED[kind](self, own)
        self._known[address] = own, result
        return result

    def _item(self, own: Any, which: Any, function: Any = lib.tenon_value_item) -> Any:
        return self.read(owned("tenon_value", function, own, which))

    def _items(self, own: Any) -> list[Any]:
        return [self._item(own, index) for index in range(lib.tenon_value_count(own))]

    def _tensor(self, own: Any) -> Tensor | TensorSpec:
        try:
            found = given("tenon_tensor *", lib.tenon_value_get_tensor, own)
        except Unsupported:
            return self.tensor_spec(own)
        return Tensor._adopt(address_of(found))

    def tensor_spec(self, own: Any) -> TensorSpec:
        found = filled("tenon_value_tensor_spec", lib.tenon_value_get_tensor_spec, own)

        def part(number: int) -> Any:
            try:
                return self._item(own, number, lib.tenon_value_tensor_part)
            except NotFound:
                return None

        return from_c(found, part)

    def _tuple(self, own: Any) -> tuple[Any, ...]:
        name = decoded(lib.tenon_value_class_name(own))
        items = self._items(own)
        return NamedTuple(name, items) if name else tuple(items)

    def _list(self, own: Any) -> list[Any]:
        items = self._items(own)
        return ReadList(items) if self._of_module else items

    def _dict(self, own: Any) -> dict[Any, Any]:
        count = range(lib.tenon_value_count(own))
        items = {
            self._item(own, index, lib.tenon_value_key): self._item(own, index) for index in count
        }
        return ReadDict(items) if self._of_module else items

    def _enum(self, own: Any) -> Enum:
        return Enum(decoded(lib.tenon_value_class_name(own)), self._item(own, 0))

    def _object(self, own: Any, address: int) -> Object:
        name = decoded(lib.tenon_value_class_name(own))
        found = ReadObject(name) if self._of_module else Object(name)
        # The object is known before its attributes are read, because one of them may refer to it.
        self._known[address] = own, found
        if lib.tenon_value_is_opaque(own):
            found._make_opaque(self._item(own, 0))
        else:
            index = 0
            while (text := lib.tenon_value_attribute_name(own, index)) != ffi.NULL:
                try:
                    item = self._item(own, text, lib.tenon_value_find)
                except NotFound:
                    continue  # another thread removed it, and another attribute has its index
                found._add(decoded(text), item)
                index += 1
        return found


def _complex(own: Any) -> complex:
    out = ffi.new("double[2]")
    call(lib.tenon_value_get_complex, own, out, out + 1)
    return complex(out[0], out[1])


def _str(own: Any) -> str:
    out, nbytes = ffi.new("char **"), ffi.new("size_t *")
    call(lib.tenon_value_get_str, own, out, nbytes)
    return decoded(out[0], nbytes[0])


_PLAIN: dict[int, Callable[[Any], Any]] = {
    lib.TENON_VALUE_NONE: lambda own: None,
    lib.TENON_VALUE_BOOL: lambda own: bool(given("int", lib.tenon_value_get_bool, own)),
    lib.TENON_VALUE_INT: lambda own: given("int64_t", lib.tenon_value_get_int, own),
    lib.TENON_VALUE_FLOAT: lambda own: given("double", lib.tenon_value_get_float, own),
    lib.TENON_VALUE_COMPLEX: _complex,
    lib.TENON_VALUE_STR: _str,
    lib.TENON_VALUE_DEVICE: lambda own: Device(
        decoded(given("char *", lib.tenon_value_get_device, own))
    ),
}

_SHARED: dict[int, Callable[[Reader, Any], Any]] = {
    lib.TENON_VALUE_TENSOR: Reader._tensor,
    lib.TENON_VALUE_TUPLE: Reader._tuple,
    lib.TENON_VALUE_LIST: Reader._list,
    lib.TENON_VALUE_DICT: Reader._dict,
    lib.TENON_VALUE_ENUM: Reader._enum,
}
