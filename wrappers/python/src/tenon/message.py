"""Messages: tensors that travel together, with names and bytes of the user's own."""

from __future__ import annotations

from tenon import _native_ext
from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon._options import ACCESSES, number_of
from tenon.error import call
from tenon.tensor import Tensor
from tenon.wait import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from typing_extensions import Buffer, TypeIs

    from tenon._options import Access
    from tenon.wait import Cancel

    Tensors = Tensor | Iterable[Tensor] | Mapping[str, Tensor]


def _is_mapping(tensors: Tensors) -> TypeIs[Mapping[str, Tensor]]:
    return hasattr(tensors, "keys")


def _release_in(out: Any) -> None:
    lib.tenon_message_release(out[0])


class Message(Managed):
    """A sequence of tensors (message[0]) and a mapping of those that have a name (message["weight"])."""

    __slots__ = ("_tensors",)
    _tensors: list[Tensor] | None

    def __init__(
        self,
        tensors: Tensors = (),
        names: Sequence[str | None] | None = None,
        user_bytes: Buffer = b"",
        *,
        access: Access = "auto",
    ) -> None:
        """Take references to tensors: a list, one tensor, or a dict by name. Whether each can be lent is checked here."""
        self._cdata = self._tensors = None
        out = ffi.new("tenon_message **")
        call(lib.tenon_message_new, out)
        own = ffi.gc(out[0], lib.tenon_message_release)
        if isinstance(tensors, Tensor):
            items: tuple[Tensor, ...] = (tensors,)
        elif _is_mapping(tensors):
            if names is not None:
                raise TypeError("a dict has its own names")
            names, items = tuple(tensors.keys()), tuple(tensors.values())
        else:
            items = tuple(tensors)
        if names is not None and not isinstance(names, tuple):
            names = tuple(names)
        number = number_of(ACCESSES, access, "access")
        _native_ext.message_add(int(ffi.cast("uintptr_t", own)), items, names, number)
        with memoryview(user_bytes) as view:
            if view.nbytes:
                with ffi.from_buffer(view) as source:
                    call(lib.tenon_message_set_user_bytes, own, source, view.nbytes)
        self._cdata = own

    @classmethod
    def _adopt(cls, pointer: Any) -> Self:
        self = cls.__new__(cls)
        self._tensors = None
        self._cdata = ffi.gc(pointer, lib.tenon_message_release)
        return self

    @classmethod
    def _arrive(cls, step: Callable[[Any, Any, Any], int], timeout: float | None, cancel: Cancel | None, *, whole: bool = False) -> Self:
        """Wait for the message that step(wait, out, error) receives.

        A signal handler may raise at any moment after the call, as DataLoader's does when a worker dies. So out has an owner.
        """
        out = ffi.gc(ffi.new("tenon_message **"), _release_in)
        self = cls.__new__(cls)
        self._tensors = self._cdata = None
        run(lambda wait, error: step(wait, out, error), timeout, cancel, whole=whole)
        pointer = out[0]
        out[0] = ffi.NULL
        self._cdata = ffi.gc(pointer, lib.tenon_message_release)
        return self

    def close(self) -> None:
        """Give the message back. Tensors taken from it stay valid."""
        self._tensors = None
        super().close()

    def _address(self) -> tuple[int, Any]:
        own = self._own()
        return int(ffi.cast("uintptr_t", own)), own

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order in which they were added."""
        return list(self._all())

    def _all(self) -> list[Tensor]:
        address, _own = self._address()
        if self._tensors is None:
            self._tensors = _native_ext.message_tensors(address, Tensor)
        return self._tensors

    @property
    def names(self) -> list[str | None]:
        """The name of each tensor, or None."""
        address, _own = self._address()
        return _native_ext.message_names(address)

    @property
    def user_bytes(self) -> bytes:
        """The user's own bytes."""
        own = self._own()
        size = ffi.new("size_t *")
        data = lib.tenon_message_user_bytes(own, size)
        return b"" if data == ffi.NULL else bytes(ffi.buffer(data, size[0]))

    def __len__(self) -> int:
        return int(lib.tenon_message_count(self._own()))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __getitem__(self, key: int | str) -> Tensor:
        if isinstance(key, str):
            tensor = self.get(key)
            if tensor is None:
                raise KeyError(key)
            return tensor
        return self._all()[key]

    def get(self, name: str) -> Tensor | None:
        """The first tensor of that name, or None."""
        own = self._own()
        raw = name.encode()
        if b"\0" in raw:
            return None
        pointer = lib.tenon_message_find(own, raw)
        if pointer == ffi.NULL:
            return None
        return Tensor._adopt(int(ffi.cast("uintptr_t", lib.tenon_tensor_retain(pointer))))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def keys(self) -> list[str]:
        """The names that there are, each once."""
        return list(dict.fromkeys(name for name in self.names if name is not None))

    def items(self) -> list[tuple[str, Tensor]]:
        """Names and tensors, of those that have a name; the first of each name."""
        found: dict[str, Tensor] = {}
        for name, tensor in zip(self.names, self._all(), strict=True):
            if name is not None:
                found.setdefault(name, tensor)
        return list(found.items())

    def values(self) -> list[Tensor]:
        """The tensors that have a name."""
        return [tensor for _, tensor in self.items()]

    def __repr__(self) -> str:
        if self.closed:
            return "<tenon.Message, closed>"
        return f"<tenon.Message of {len(self)} tensors, {len(self.user_bytes)} user bytes>"
