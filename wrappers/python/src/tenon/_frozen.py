"""The base class of small values that never change. dataclasses would do the same, but loads half
of the standard library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Self


class Frozen:
    """A value that is compared, hashed, printed and pickled by its slots. A subclass annotates them
    and then says `__slots__ = tuple(__annotations__)`. If it has an __init__ of its own, that takes
    the values in the same order.
    """

    __slots__: tuple[str, ...] = ()

    def __init__(self, *values: Any, **named: Any) -> None:
        slots = type(self).__slots__
        named.update(zip(slots, values, strict=False))
        if set(named) != set(slots) or len(values) > len(slots):
            raise TypeError(f"a {type(self).__name__} is made of {', '.join(slots)}")
        for name in slots:
            object.__setattr__(self, name, named[name])

    def _set(self, given: dict[str, Any], **converted: Any) -> None:
        """Set the fields to the arguments of an __init__, which are its locals(), or to what those
        were converted to.
        """
        Frozen.__init__(self, **{name: given[name] for name in type(self).__slots__} | converted)

    @classmethod
    def _of(cls, struct: Any, **converted: Any) -> Self:
        """Make the value of a C struct that has the same fields, some of which were converted."""
        taken = {name: getattr(struct, name) for name in cls.__slots__ if name not in converted}
        return cls(**taken, **converted)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in type(self).__slots__)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change")

    def __eq__(self, other: object) -> bool:
        return (
            self._values() == other._values() if isinstance(other, type(self)) else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__slots__)
        return f"tenon.{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()
