"""The read-only types in which a module's values are returned.

A change to one of them would not reach the module, so each refuses it. They are equal to plain
lists, dicts and Objects, and copies of them are plain: copy.copy(), list(), dict().
"""

from __future__ import annotations

from tenon.value import Object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def _refuse(what: str, copied: str) -> NoReturn:
    raise TypeError(
        f"{what} was read from a module, and a change to it would not reach the module: change"
        f" {copied} of it, and put that in with module[path] = ..."
    )


class ReadList(list["Any"]):
    """A list that was read from a module."""

    __slots__ = ()

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        _refuse("this list", "a copy, list(),")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


_OBJECT = "a copy, tenon.Object(o.class_name, o.attributes),"


class ReadDict(dict["Any", "Any"]):
    """A dict that was read from a module."""

    __slots__ = ()
    _copied = "a copy, dict(),"

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        _refuse("this dict", self._copied)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ReadAttributes(ReadDict):
    """The attributes of an Object that was read from a module."""

    __slots__ = ()
    _copied = _OBJECT


class ReadObject(Object):
    """An Object that was read from a module."""

    __slots__ = ()

    def __init__(self, class_name: str) -> None:
        for name, value in (
            ("class_name", class_name),
            ("attributes", ReadAttributes()),
            ("is_opaque", False),
            ("state", None),
        ):
            object.__setattr__(self, name, value)

    def _add(self, name: str, value: Any) -> None:
        """Set an attribute while the Object is read."""
        dict.__setitem__(self.attributes, name, value)

    def _make_opaque(self, state: Any) -> None:
        object.__setattr__(self, "is_opaque", True)
        object.__setattr__(self, "state", state)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        _refuse("this Object", _OBJECT)

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # The attributes are pickled as a state, because one of them may refer to this object.
        state = {
            "attributes": dict(self.attributes),
            "is_opaque": self.is_opaque,
            "state": self.state,
        }
        return Object, (self.class_name,), (None, state)
