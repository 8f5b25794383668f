"""The base classes of all objects that hold an object of the C library: close, with, the error
"already closed", and the refusal of plain pickling.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn, Self


class Closing:
    """The base of classes that have a close method of their own."""

    __slots__ = ()
    # The part of the error that says what a user can do in place of pickling.
    _instead = (
        "only tensors, storages and CUDA events can be put on a multiprocessing Queue or Pipe"
        " (tenon.multiprocessing), and copy.copy and copy.deepcopy take tensors and storages"
    )

    if TYPE_CHECKING:

        def close(self) -> None: ...
        @property
        def closed(self) -> bool: ...

    def _shown(self) -> str:
        """What repr() says after the name of the class, while the object is open."""
        return ""

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<tenon.{name}, closed>" if self.closed else f"<tenon.{name}{self._shown()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        name = type(self).__name__
        article = "an" if name[0] in "AEIO" else "a"
        raise TypeError(f"{article} {name} has no pickled form of its own: {self._instead}")


SENDABLE = (
    "send it with tenon.Connection, encode it with tenon.Descriptor, or put it on a multiprocessing"
    " Queue or Pipe (tenon.multiprocessing); copy.copy and copy.deepcopy take tensors and storages"
)


class Managed(Closing):
    """Holds one cdata whose destructor releases the C object.

    A call takes the cdata into a local variable first. If another thread closes the object
    meanwhile, the last user releases it.
    """

    __slots__ = ("__weakref__", "_cdata")
    _cdata: Any

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._cdata is None

    def close(self) -> None:
        """Release the object. A further call does nothing."""
        self._cdata = None

    def _own(self) -> Any:
        cdata = self._cdata
        if cdata is None:
            raise ValueError(
                f"this {type(self).__name__} is already closed: use it before close() or the end of"
                " its with block"
            )
        return cdata


def own_of(thing: Any, kind: type[Managed], what: str) -> Any:
    """The cdata of an argument, whose type is checked.

    The check is needed because casts do not check the type of a pointer, and an object of another
    type would be misread.
    """
    if not isinstance(thing, kind):
        name = kind.__name__.removesuffix("Base")
        raise TypeError(f"{what} is a tenon.{name}, not {type(thing).__name__}")
    return thing._own()
