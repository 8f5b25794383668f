"""Splits an object graph into pickled bytes and the storages of its tensors. No byte of a storage
is copied.

    data, storages, dtypes = tenon.pickle.dumps(model.state_dict())
    same = tenon.pickle.loads(data, storages, dtypes)

The storages are passed on as they are: to another thread as Python objects, to another process over
a connection (Connection.send_object and recv_object). Tenon's tensors and storages are always
recognised, and PyTorch's if torch has been imported. Every other object is pickled by Python's
pickle.

docs/format/object.md describes the bytes.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
import sys
import threading
from collections import OrderedDict
from importlib import import_module
from typing import ClassVar, NamedTuple

from tenon import _pickle_scan
from tenon._native import lib
from tenon.composite import Composite, rebuild
from tenon.error import Corrupt, Incompatible, PermissionDenied, make
from tenon.storage import Storage
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from typing_extensions import Buffer

    from tenon.message import Message

__all__ = ["Pickled", "clear", "dumps", "loads"]

_MODULE = __name__
_MOST_KEPT = 1024

# The start of a message's user bytes: magic, version, number of storages. The pickle follows. If it
# is too large for the user bytes, it is one more tensor after the storages.
_HEAD = struct.Struct("<8sII")
_MAGIC = b"tenonobj"
_INLINE = 1
_APART = 2

# Built-in values for which pickle has no opcode. No code of a program runs to make them.
_SAFE = frozenset(
    {
        ("builtins", "complex"),
        ("builtins", "range"),
        ("builtins", "slice"),
        ("collections", "OrderedDict"),
    }
)


class Pickled(NamedTuple):
    """The result of dumps: the pickle, the storages to which it refers by number, and the element
    type of each storage.
    """

    data: bytes
    storages: list[Any]
    dtypes: list[str]


# ---- functions that a split pickle names. _Unpickler maps each name to a method of _Parts.


def _apart(name: str) -> Callable[..., Any]:
    """A function that a split pickle names, and that is called only when Python's own unpickler
    loads such a pickle.
    """

    def function(*arguments: Any) -> NoReturn:
        raise pickle.UnpicklingError(
            "this pickle has its storages apart: load it with tenon.pickle.loads"
        )

    function.__name__ = function.__qualname__ = name
    return function


_storage = _apart("_storage")  # (number)
_tensor = _apart("_tensor")  # (number, dtype, shape, strides, offset, flags)
_composite = _apart("_composite")  # what Composite._state() gives
_torch_storage = _apart("_torch_storage")  # (number, dtype)
_torch_tensor = _apart("_torch_tensor")  # as _tensor
_torch_composite = _apart("_torch_composite")
_imported = _apart("_imported")  # (module, name)
_reduced = _apart("_reduced")  # (key, with_importer, function, arguments)
_OWN = frozenset(
    {"_storage", "_tensor", "_composite", "_torch_storage", "_torch_tensor", "_torch_composite"}
    | {"_imported", "_reduced"}
)

# ---- importers


class _Importers:
    """Finds classes and functions: first with the importers in their order, then in Python's own
    modules.

    An importer has import_module(name) and, for dumps, get_name(object, name) -> (module, name).
    torch.package's importers have both.
    """

    def __init__(self, importer: Any) -> None:
        many = isinstance(importer, (list, tuple))
        self._all: tuple[Any, ...] = (
            () if importer is None else tuple(importer) if many else (importer,)
        )

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def first(self) -> Any:
        return self._all[0] if self._all else None

    def name_of(self, thing: Any) -> tuple[str, str] | None:
        """The name by which an importer has a class or function, or None if no importer has it."""
        for each in self._all:
            try:
                module, name = each.get_name(thing, None)
            # such as torch.package's ObjNotFoundError: this importer does not have it
            except Exception:
                continue
            return str(module), str(name)
        return None

    def find(self, module: str, name: str) -> Any:
        for each in self._all:
            try:
                return _walk(each.import_module(module), name)
            except (ImportError, AttributeError):
                continue
        return _walk(import_module(module), name)


def _walk(thing: Any, name: str) -> Any:
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


# ---- the caches: objects with a reduce hook and the results of their hooks, and the packages of
# tenon.torch


class Kept:
    """A cache of the most recently used values by key, with a limit, until clear().

    A value keeps the objects alive from which its key was made. Any thread may use it. A forked
    child keeps the values.
    """

    _all: ClassVar[list[Kept]] = []

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._all.append(self)

    @classmethod
    def clear_all(cls) -> None:
        for each in cls._all:
            each.clear()

    @classmethod
    def in_child(cls) -> None:
        for each in cls._all:
            each._lock = threading.Lock()  # another thread may have held it

    def get(self, key: Any) -> Any:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Any, value: Any) -> Any:
        """Keep the value, and give the one that is kept for the key: the first one that was put."""
        with self._lock:
            value = self._values.setdefault(key, value)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


_made = Kept(_MOST_KEPT)  # id of an object: (the object, the result of its hook)
_loaded = Kept(_MOST_KEPT)  # key of such an object: the object that was made here
_numbers = itertools.count()
os.register_at_fork(after_in_child=Kept.in_child)


def clear() -> None:
    """Forget the objects with a reduce hook that dumps and loads have met, and the packages of
    tenon.torch.open_package.

    Without this call the last 1,024 objects of each kind, and the last 16 packages, stay alive.
    """
    Kept.clear_all()


def _hook_of(obj: Any) -> tuple[bool, Callable[[Any], tuple[Any, Any]]] | None:
    for name, with_importer in (("__reduce_tenon__", False), ("__reduce_deploy__", True)):
        hook = getattr(obj, name, None)
        if hook is not None and not isinstance(obj, type):
            return with_importer, hook
    return None


# ---- the sender


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, protocol: int | None, importers: _Importers) -> None:
        super().__init__(file, protocol)
        self.storages: list[Any] = []
        self.dtypes: list[str] = []
        self.tensors: dict[int, Any] = {}  # the first of PyTorch's tensors over each storage
        self._numbers: dict[Any, int] = {}
        self._importers = importers
        self.torch = _torch_side()

    def number(self, key: Any, storage: Any, dtype: str) -> int:
        """The number of a storage. All storages with the same key have one number."""
        number = self._numbers.setdefault(key, len(self.storages))
        if number == len(self.storages):
            self.storages.append(storage)
            self.dtypes.append(dtype)
        return number

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            storage = obj.storage
            number = self.number(storage.id, storage, obj.dtype)
            return _tensor, (number, *obj._layout())
        if isinstance(obj, Composite):
            return _composite, obj._state()
        if isinstance(obj, Storage):
            return _storage, (self.number(obj.id, obj, "uint8"),)
        if self.torch is not None:
            reduced = self.torch.reduce(obj, self)
            if reduced is not NotImplemented:
                return reduced
        hook = _hook_of(obj)
        if hook is not None:
            return self._by_hook(obj, *hook)
        if (
            self._importers
            and (isinstance(obj, type) or callable(obj))
            and hasattr(obj, "__qualname__")
        ):
            name = self._importers.name_of(obj)
            if name is not None:
                return _imported, name
        return NotImplemented

    def _by_hook(
        self, obj: Any, with_importer: bool, hook: Callable[[Any], tuple[Any, Any]]
    ) -> tuple[Any, ...]:
        kept = _made.get(id(obj))
        if kept is None:
            function, args = hook(self._importers.first)
            key = b"%d.%d.%s" % (os.getpid(), next(_numbers), os.urandom(8).hex().encode())
            kept = _made.put(id(obj), (obj, (key, with_importer, function, args)))
        return _reduced, kept[1]


def _torch_side() -> Any:
    if "torch" not in sys.modules:
        return None
    from tenon.torch import _split

    return _split


def _split(obj: Any, importer: Any, protocol: int | None) -> tuple[bytes, _Pickler]:
    file = io.BytesIO()
    pickler = _Pickler(file, protocol, _Importers(importer))
    pickler.dump(obj)
    return file.getvalue(), pickler


def dumps(obj: Any, *, importer: Any = None, protocol: int = pickle.HIGHEST_PROTOCOL) -> Pickled:
    """Pickle an object, and give the storages of its tensors as they are.

    Each storage is in the list once, however many tensors lie over it. Do not resize or free it
    before the object is loaded.

    importer is an object with get_name and import_module, such as a torch.package.PackageImporter,
    or a sequence of such objects. The first importer that knows a class or function names it. An
    object with `__reduce_tenon__(importer) -> (function, args)` is made by function(*args), and one
    with `__reduce_deploy__` by function(importer, *args). Such an object is made once, and loading
    it again gives the same object, until clear() is called.

    Any thread may call this. Raises what pickle.dumps raises, and Unsupported for a torch tensor
    that cannot be taken, such as one that requires grad and is no leaf.
    """
    data, pickler = _split(obj, importer, protocol)
    return Pickled(data, pickler.storages, pickler.dtypes)


def message_of(obj: Any, importer: Any) -> tuple[list[Tensor], bytes]:
    """The storages of an object as tensors, and the user bytes of the message that carries the
    object.

    Private memory of torch tensors moves to Tenon's shared memory. Raises what dumps raises,
    Unsupported for a torch storage on a device, and ResourceExhausted.
    """
    data, pickler = _split(obj, importer, pickle.HIGHEST_PROTOCOL)
    tensors = []
    for number, storage in enumerate(pickler.storages):
        if isinstance(storage, Storage):
            tensors.append(Tensor.over(storage, (storage.nbytes,), "uint8"))
        else:
            tensors.append(pickler.torch.lendable(storage, pickler.tensors.get(number)))
    if _HEAD.size + len(data) <= lib.TENON_MESSAGE_MAX_USER_NBYTES:
        return tensors, _HEAD.pack(_MAGIC, _INLINE, len(tensors)) + data
    head = _HEAD.pack(_MAGIC, _APART, len(tensors))
    tensors.append(Tensor.over(Storage.new_from(data), (len(data),), "uint8"))
    return tensors, head


# ---- the receiver


def names_of(allow: Iterable[Any] | None) -> frozenset[tuple[str, str]] | None:
    """The names on an allow-list, each with its module. None means that every name is allowed."""
    if allow is None:
        return None
    names = set()
    for each in allow:
        if isinstance(each, str):
            module, _, name = each.rpartition(".")
            if not module:
                raise ValueError(
                    f"{each!r} on the allow-list is no name with its module, such as"
                    " 'datetime.date'"
                )
            names.add((module, name))
        elif hasattr(each, "__qualname__"):
            names.add((each.__module__, each.__qualname__))
        else:
            raise TypeError(
                f"{each!r} on the allow-list is neither a class nor a function, nor the name of one"
            )
    return frozenset(names)


class _Parts:
    """The parts of a split pickle: its storages, and the classes and functions that it may name.

    The unpickler's memo refers to this object's methods. If the unpickler itself had these methods,
    there would be a reference cycle, and the storages would live until the garbage collector runs.
    """

    def __init__(
        self,
        storages: Sequence[Any],
        importers: _Importers,
        allow: frozenset[tuple[str, str]] | None,
    ) -> None:
        self._all = storages
        self._importers = importers
        self.allow = allow
        # A Settled, once there is a torch tensor, unless the sender is trusted.
        self._settled: Any = None

    def find(self, module: str, name: str) -> Any:
        if module == _MODULE and name in _OWN:
            return getattr(self, name)
        return self._imported(module, name)

    def _imported(self, module: str, name: str) -> Any:
        if (
            self.allow is not None
            and (module, name) not in self.allow
            and (module, name) not in _SAFE
        ):
            raise make(
                PermissionDenied,
                f"the object is made of {module}.{name}, which is not on the allow-list: if any"
                f" sender may have it called here, add it (allow=[{name}, …])",
                field=f"{module}.{name}",
            )
        return self._importers.find(module, name)

    def _at(self, number: int) -> Any:
        if not isinstance(number, int) or not 0 <= number < len(self._all):
            raise make(
                Corrupt,
                f"the object names storage {number!r}, and {len(self._all)} came with it",
                field="storage",
            )
        return self._all[number]

    def _storage(self, number: int) -> Storage:
        found = self._at(number)
        if isinstance(found, Tensor) and found.nbytes == found.storage.nbytes:
            found = found.storage
        if not isinstance(found, Storage):
            raise make(
                Corrupt,
                f"storage {number} of the object is {type(found).__name__}, no storage of Tenon's",
                field="storage",
            )
        return found

    def _tensor(
        self, number: int, dtype: int, shape: Any, strides: Any, offset: int, flags: int
    ) -> Tensor:
        return Tensor._new(self._storage(number), dtype, shape, strides, offset, flags)

    _composite = staticmethod(rebuild)

    def _torch_storage(self, number: int, dtype: str | None) -> Any:
        return _need_torch().storage_of(None if number == -1 else self._at(number), dtype)

    def _torch_tensor(
        self, number: int, dtype: str, shape: Any, strides: Any, offset: int, flags: int
    ) -> Any:
        found = None if number == -1 else self._at(number)
        side = _need_torch()
        tensor = side.tensor_of(found, dtype, shape, strides, offset, flags)
        settled = self._settled_parts(side)
        if settled is not None:
            settled.note(tensor, found)
        return tensor

    def _torch_composite(self, *state: Any) -> Any:
        side = _need_torch()
        return side.composite_of(self._settled_parts(side), *state)

    def _settled_parts(self, side: Any) -> Any:
        if self.allow is not None and self._settled is None:
            self._settled = side.Settled()
        return self._settled

    def _reduced(self, key: bytes, with_importer: bool, function: Any, args: Any) -> Any:
        # A sender that is not trusted could send the key of another sender.
        kept = _loaded.get(key) if self.allow is None else None
        if kept is None:
            first = (self._importers.first,) if with_importer else ()
            kept = function(*first, *args)
            if self.allow is None:
                kept = _loaded.put(key, kept)
        return kept


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, parts: _Parts) -> None:
        super().__init__(file)
        self._parts = parts

    def find_class(self, module: str, name: str) -> Any:
        return self._parts.find(module, name)


def object_of(message: Message, names: frozenset[tuple[str, str]] | None, importer: Any) -> Any:
    """The object that a message carries.

    Raises Corrupt if it carries none, and Incompatible if a newer Tenon wrote it. The other errors
    are those of loads. The tensors of the object keep the message's storages alive.
    """
    data = message.user_bytes
    magic, version, count = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0, 0)
    if magic != _MAGIC:
        raise make(
            Corrupt,
            f"the message carries {len(message)} tensors and no object: receive with recv() what"
            " was sent with send()",
            field="user_bytes",
        )
    if version not in (_INLINE, _APART):
        raise make(
            Incompatible,
            f"the object is of version {version}, and this Tenon reads {_INLINE} and {_APART}:"
            " update it in this process",
            field="version",
        )
    if count + (version == _APART) != len(message):
        raise make(
            Corrupt,
            f"the object has {count} storages, and the message {len(message)} tensors",
            field="storages",
        )
    storages = message.tensors
    pickled = storages.pop().tobytes() if version == _APART else data[_HEAD.size :]
    return _load(pickled, _Parts(storages, _Importers(importer), names))


def _need_torch() -> Any:
    import_module("torch")  # the object has torch tensors, so torch is needed
    return _torch_side()


def loads(
    data: Buffer,
    storages: Sequence[Any],
    dtypes: Sequence[str] = (),
    *,
    importer: Any = None,
    allow: Iterable[Any] | None = None,
) -> Any:
    """Load the object of a split pickle. Its tensors lie over the given storages.

    allow lists the classes and functions that the pickle may name, or their names with the module.
    Without it every name is allowed, as with pickle.loads, so data must come from a sender that may
    run code here. With it, PermissionDenied names the first one that is not on the list, and
    Corrupt says that the data is no pickle. allow=[] permits dicts, lists, tuples, sets, numbers,
    text, bytes and tensors. An allowed class is called with the sender's arguments, and so are its
    `__setstate__` and `__init__`. dtypes is the list from dumps. It is not needed, because data
    contains the element types.

    Any thread may call this. The tensors keep the storages alive. Without allow, exceptions of
    pickle.loads and of the called functions are passed on. With it, they become Corrupt, except
    MemoryError and RecursionError.
    """
    names = names_of(allow)
    return _load(bytes(data), _Parts(storages, _Importers(importer), names))


def _load(data: bytes, parts: _Parts) -> Any:
    unpickler = _Unpickler(io.BytesIO(data), parts)
    if parts.allow is None:
        return unpickler.load()
    _pickle_scan.check(data)
    try:
        return unpickler.load()
    except (PermissionDenied, Corrupt, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise make(
            Corrupt, f"the object cannot be made of its {len(data)} bytes: {error}", field="data"
        ) from error
