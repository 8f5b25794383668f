"""Messages: tensors that travel together, with names and user bytes."""

from __future__ import annotations

from tenon import _native_ext
from tenon._managed import Managed
from tenon._native import address_of, ffi, lib, new_struct
from tenon._options import ACCESSES, number_of
from tenon._text import bytes_by, encoded
from tenon.composite import Composite, borrowed
from tenon.error import call, owned
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from typing_extensions import Buffer, TypeIs

    from tenon._options import Access

    Sendable = Tensor | Composite
    Tensors = Sendable | Iterable[Sendable] | Mapping[str, Sendable]


def _is_mapping(tensors: Tensors) -> TypeIs[Mapping[str, Sendable]]:
    return hasattr(tensors, "keys")


def _add(
    own: Any, items: tuple[Sendable, ...], names: tuple[str | None, ...] | None, access: int
) -> None:
    """Add tensors and composites to a message, in their order."""
    address = address_of(own)
    try:
        # message_add checks the type of each item, so a message of tensors alone needs no second
        # pass.
        _native_ext.message_add(address, items, names, access)
        return
    except TypeError:
        # message_add adds all items or none.
        if not any(isinstance(item, Composite) for item in items):
            raise
    for i, item in enumerate(items):
        name = None if names is None else names[i]
        if not isinstance(item, Composite):
            _native_ext.message_add(address, (item,), (name,), access)
            continue
        options = new_struct("tenon_share_options", access=access)
        text = ffi.NULL if name is None else ffi.new("char[]", encoded(name, "the name"))
        arrays = ffi.new("tenon_composite *[]", [item._own()]), ffi.new("char *[]", [text])
        call(lib.tenon_message_add_composites, own, *arrays, 1, options)


class Message(Managed):
    """A message is a sequence of tensors (message[0]), and a mapping of its named tensors
    (message["weight"]).

    Composites (sparse, nested and quantised tensors) are not in the sequence: composites lists
    them, and contents lists everything as it was sent.
    """

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
        """Make a message that refers to tensors and composites: a list of them, a single one, or a
        dict by name.

        The call checks whether each of them can be lent.
        """
        self._cdata = self._tensors = None
        own = owned("tenon_message", lib.tenon_message_new)
        if isinstance(tensors, (Tensor, Composite)):
            items: tuple[Sendable, ...] = (tensors,)
        elif _is_mapping(tensors):
            if names is not None:
                raise TypeError("a dict has its own names")
            names, items = tuple(tensors.keys()), tuple(tensors.values())
        else:
            items = tuple(tensors)
        if names is not None and not isinstance(names, tuple):
            names = tuple(names)
        _add(own, items, names, number_of(ACCESSES, access, "access"))
        with memoryview(user_bytes) as view:
            if view.nbytes:
                with ffi.from_buffer(view) as source:
                    call(lib.tenon_message_set_user_bytes, own, source, view.nbytes)
        self._cdata = own

    @classmethod
    def _over(cls, own: Any) -> Self:
        """The message of a cdata that owns a reference."""
        self = cls.__new__(cls)
        self._tensors, self._cdata = None, own
        return self

    def close(self) -> None:
        """Release the message. Tensors taken from it stay valid."""
        self._tensors = None
        super().close()

    def _address(self) -> tuple[int, Any]:
        own = self._own()
        return address_of(own), own

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that are not parts of composites, in the order in which they were added."""
        return list(self._all())

    def _all(self) -> list[Tensor]:
        address, own = self._address()
        if self._tensors is None:
            tensors = _native_ext.message_tensors(address, Tensor)
            parts = self._parts(own)
            self._tensors = (
                [tensor for i, tensor in enumerate(tensors) if i not in parts] if parts else tensors
            )
        return self._tensors

    def _parts(self, own: Any) -> set[int]:
        """The indices of the C library's tensors that are parts of composites."""
        parts: set[int] = set()
        count = lib.tenon_message_composite_count(own)
        if not count:
            return parts
        n_parts = ffi.new("size_t *")
        for i in range(count):
            first = lib.tenon_message_composite_parts(own, i, n_parts)
            parts.update(range(first, first + n_parts[0]))
        return parts

    @property
    def names(self) -> list[str | None]:
        """The name of each tensor, or None for a tensor without a name."""
        address, own = self._address()
        names = _native_ext.message_names(address)
        parts = self._parts(own)
        return [name for i, name in enumerate(names) if i not in parts] if parts else names

    @property
    def composites(self) -> list[Composite]:
        """All composites, in the order in which they were added."""
        own = self._own()
        return [
            borrowed(lib.tenon_message_composite(own, i))
            for i in range(lib.tenon_message_composite_count(own))
        ]

    def contents(self) -> list[tuple[str | None, Sendable]]:
        """All tensors and composites, each with its name or None, in the order in which they were
        added.
        """
        own = self._own()
        tensors: list[tuple[str | None, Sendable]] = list(zip(self.names, self._all(), strict=True))
        n_parts = ffi.new("size_t *")
        before = 0
        for i, composite in enumerate(self.composites):
            first = lib.tenon_message_composite_parts(own, i, n_parts)
            name = lib.tenon_message_composite_name(own, i)
            # `first` counts the tensors and the parts before this composite. Without the parts of
            # earlier composites it is the number of tensors before it.
            tensors.insert(
                first - before + i,
                (None if name == ffi.NULL else ffi.string(name).decode(), composite),
            )
            before += n_parts[0]
        return tensors

    def composite(self, name: str) -> Composite:
        """The first composite of that name. Raises KeyError if there is none."""
        pointer = self._find(lib.tenon_message_find_composite, name)
        if pointer is None:
            raise KeyError(name)
        return borrowed(pointer)

    def _find(self, find: Callable[[Any, bytes], Any], name: str) -> Any:
        own = self._own()
        raw = name.encode()
        pointer = ffi.NULL if b"\0" in raw else find(own, raw)
        return None if pointer == ffi.NULL else pointer

    @property
    def redelivered(self) -> int:
        """How often this message had been delivered before (Queue's option redeliver)."""
        return int(lib.tenon_queue_redelivered(self._own()))

    @property
    def user_bytes(self) -> bytes:
        """The user bytes of the message."""
        return bytes_by(lib.tenon_message_user_bytes, self._own())

    def __len__(self) -> int:
        own = self._own()
        return int(lib.tenon_message_count(own)) - len(self._parts(own))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __getitem__(self, key: int | str) -> Tensor:
        if isinstance(key, str):
            tensor = self.get(key)
            if tensor is not None:
                return tensor
            if self._find(lib.tenon_message_find_composite, key) is not None:
                raise KeyError(f"{key} is the name of a composite: use composite({key!r})")
            raise KeyError(key)
        return self._all()[key]

    def get(self, name: str) -> Tensor | None:
        """The first tensor of that name, or None."""
        pointer = self._find(lib.tenon_message_find, name)
        if pointer is None:
            return None
        return Tensor._adopt(address_of(lib.tenon_tensor_retain(pointer)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def keys(self) -> list[str]:
        """The names in the message, each once."""
        return list(dict.fromkeys(name for name in self.names if name is not None))

    def items(self) -> list[tuple[str, Tensor]]:
        """The named tensors with their names. Of several tensors with one name, the first
        counts.
        """
        found: dict[str, Tensor] = {}
        for name, tensor in zip(self.names, self._all(), strict=True):
            if name is not None:
                found.setdefault(name, tensor)
        return list(found.items())

    def values(self) -> list[Tensor]:
        """The named tensors, as items gives them."""
        return [tensor for _, tensor in self.items()]

    def _shown(self) -> str:
        composites = f"{len(self.composites)} composites, " if self.composites else ""
        return f" of {len(self)} tensors, {composites}{len(self.user_bytes)} user bytes"
