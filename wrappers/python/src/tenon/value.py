"""Values: what an attribute of a module, a constant or an example input can be.

A module takes plain Python values: None, bool, int, float, complex, str, tuples, lists, dicts, and,
as tensors, tenon.Tensor, numpy arrays and any object with `__dlpack__`. It gives them back in the
same form. The classes here are for values that Python lacks, and for programs that need to see
identity.
"""

from __future__ import annotations

from _weakref import ref

from tenon._frozen import Frozen
from tenon._native import address_of, ffi, lib
from tenon._options import names_of, words
from tenon._text import decoded, encoded, sized
from tenon.error import call, owned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn, Self

    from tenon.tensor_spec import TensorSpec

KINDS = words("VALUE", "none bool int float complex str device tensor tuple list dict enum object")
_KIND_NAMES = names_of(KINDS)


class Device(Frozen):
    """A device as a value: "cpu", "cuda:0"."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return self.name


class Enum(Frozen):
    """A member of an enum: the enum's qualified name, and the member's value, which is an int, a
    float or a str.
    """

    __slots__ = ("class_name", "value")
    class_name: str
    value: Any

    def __init__(self, class_name: str, value: Any) -> None:
        super().__init__(class_name, value)


class NamedTuple(tuple["Any", ...]):
    """A tuple of a NamedTuple class. It knows the qualified name of the class. The names of the
    fields are in that class's code.
    """

    class_name: str

    def __new__(cls, class_name: str, items: Iterable[Any] = ()) -> Self:
        self = super().__new__(cls, items)
        self.class_name = class_name
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedTuple) and other.class_name != self.class_name:
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __getnewargs__(self) -> tuple[str, tuple[Any, ...]]:
        return self.class_name, tuple(self)

    def __repr__(self) -> str:
        return f"tenon.NamedTuple({self.class_name!r}, {tuple(self)!r})"


class Object:
    """An object of a class that is no module. It has a qualified class name and attributes. An
    object of a class with `__getstate__`, or of a custom C++ class, has a state in place of
    attributes. Two names for the same object in a module give one Object.
    """

    __slots__ = ("__weakref__", "attributes", "class_name", "is_opaque", "state")
    class_name: str
    attributes: dict[str, Any]
    is_opaque: bool
    """Whether the object has a state and no attributes."""
    state: Any

    def __init__(
        self, class_name: str, attributes: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
    ) -> None:
        self.class_name = class_name
        self.attributes = dict(attributes)
        self.is_opaque = False
        self.state = None

    @classmethod
    def opaque(cls, class_name: str, state: Any) -> Self:
        """Make an object that has a state."""
        self = cls(class_name)
        self._make_opaque(state)
        return self

    def _add(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def _make_opaque(self, state: Any) -> None:
        self.is_opaque = True
        self.state = state

    def __repr__(self) -> str:
        # The contents are not shown, because an object may contain itself.
        inside = (
            "with a state"
            if self.is_opaque
            else f"with {', '.join(self.attributes) or 'no attributes'}"
        )
        return f"<tenon.Object {self.class_name} {inside}>"


# The living handles by the address of the C value, so that one C value has one handle. A handle
# keeps its value alive, so no address occurs twice.
_living: dict[int, _Living] = {}


class _Living(ref["Value"]):
    __slots__ = ("address",)
    address: int


def _forget(gone: Any) -> None:
    address = gone.address
    if _living.get(address) is gone:
        del _living[address]


class Value:
    """A value as the C library has it. A value never changes, except for an object's attributes
    while a module is edited.

    A Value is made from a plain Python value. type is the type of a list or dict ("List[int]"), or
    the type that the value must have. One C value has one handle: two names for one object in a
    module give the same handle (is), and a value that is put in two places stays one object in
    archives.
    """

    __slots__ = ("__weakref__", "_cdata")
    _cdata: Any

    def __new__(cls, source: Any, type: str | None = None) -> Value:
        from tenon._to_value import Maker

        return cls._over(Maker().typed(source, type))

    @classmethod
    def _over(cls, own: Any) -> Value:
        """The handle of a cdata that owns a reference."""
        address = address_of(own)
        known = _living.get(address)
        found = None if known is None else known()
        if found is not None:
            return found
        self = super().__new__(cls)
        self._cdata = own
        living = _Living(self, _forget)
        living.address = address
        _living[address] = living
        return self

    @classmethod
    def _borrow(cls, pointer: Any) -> Value:
        return cls._over(ffi.gc(lib.tenon_value_retain(pointer), lib.tenon_value_release))

    @property
    def kind(self) -> str:
        """The kind of the value: "none", "bool", "int", "float", "complex", "str", "device",
        "tensor", "tuple", "list", "dict", "enum" or "object".
        """
        return _KIND_NAMES[lib.tenon_value_kind(self._cdata)]

    @property
    def type(self) -> str:
        """The type that the value shows by itself, such as "List[Any]" for a list that was made
        without a type.
        """
        return sized(lib.tenon_value_type, self._cdata)

    @property
    def class_name(self) -> str:
        """The qualified name of a NamedTuple, an enum or an object. Other values give ""."""
        return decoded(lib.tenon_value_class_name(self._cdata))

    @property
    def is_opaque(self) -> bool:
        """Whether the value is an object that has a state and no attributes."""
        return bool(lib.tenon_value_is_opaque(self._cdata))

    @property
    def items(self) -> list[Value]:
        """The items of a tuple or a list, the values of a dict, the attributes or the state of an
        object, or the value of an enum. Other values have none.
        """
        return self._all(lib.tenon_value_item)

    @property
    def keys(self) -> list[Value]:
        """The keys of a dict, in the order of its items."""
        is_dict = lib.tenon_value_kind(self._cdata) == lib.TENON_VALUE_DICT
        return self._all(lib.tenon_value_key) if is_dict else []

    @property
    def names(self) -> list[str]:
        """The names of an object's attributes, in the order of its items."""
        found: list[str] = []
        while (name := lib.tenon_value_attribute_name(self._cdata, len(found))) != ffi.NULL:
            found.append(decoded(name))
        return found

    def find(self, name: str) -> Value:
        """An attribute of an object, or the value of a dict under that str."""
        return self._fetched(lib.tenon_value_find, encoded(name, "the name"))

    def get(self) -> Any:
        """Give the plain Python value. A value that occurs twice in it is one Python object. A
        tensor that tenon.Tensor cannot express is a TensorSpec.

        The result belongs to the caller, who may change it. No module changes with it.
        """
        return self._read(False)

    def _read(self, of_module: bool) -> Any:
        from tenon._from_value import Reader

        return Reader(of_module).read(self._cdata)

    def tensor_spec(self) -> TensorSpec:
        """The full description of a tensor."""
        from tenon._from_value import Reader

        return Reader().tensor_spec(self._cdata)

    def check(self, type: str) -> None:
        """Raise InvalidArgument unless the value and all values in it fit a type. An int is no
        float.
        """
        call(lib.tenon_value_check, self._cdata, encoded(type, "the type"))

    def _all(self, function: Any) -> list[Value]:
        count = lib.tenon_value_count(self._cdata)
        return [self._fetched(function, index) for index in range(count)]

    def _fetched(self, function: Any, which: Any) -> Value:
        return Value._over(owned("tenon_value", function, self._cdata, which))

    def __copy__(self) -> Self:
        # A Value never changes, and a copy would break identity.
        return self

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError(
            "a Value is not copied: use tenon.Value(copy.deepcopy(value.get()), value.type)"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Value has no pickled form of its own: pickle what get() gives")

    def __repr__(self) -> str:
        return f"<tenon.Value of kind {self.kind}, type {self.type}>"


def type_text(type: str) -> str:
    """A type in PyTorch's own spelling: "Union[str, None]" becomes "Optional[str]"."""
    return sized(lib.tenon_type_text, encoded(type, "the type"))
