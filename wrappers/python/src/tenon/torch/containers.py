"""Containers that exist in memory once for all processes: SharedList, SharedDict, SharedTensor, and
to_shared_dataset.

Python objects in a dataset are copied into every worker of a DataLoader: by spawn and forkserver
when the worker starts, and under fork by and by, because reading an object changes its reference
count. These containers keep packed bytes in frozen shared memory instead. A worker maps that
memory, and reads one item at a time.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import zlib
from collections.abc import ItemsView, Mapping, Sequence, ValuesView
from hashlib import blake2b
from itertools import islice

from tenon import _torch_rules
from tenon.error import Unsupported, make
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.torch._packed import Packed, pack
from tenon.torch._packed_format import encode, numpy_bytes, torch_bytes
from tenon.torch._packed_memory import Growing, Memory, corrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn, Self, TypeVar

    Dataset = TypeVar("Dataset")
    Hash = Callable[[bytes], int]

__all__ = ["SharedDict", "SharedList", "SharedTensor", "shared_attributes", "to_shared_dataset"]


def _is_array(item: Any) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy is not None and isinstance(item, numpy.ndarray)) or (
        torch is not None and isinstance(item, torch.Tensor)
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two items are equal.

    Arrays are equal if they have one type, dtype and shape, and all their elements are equal.
    """
    if _is_array(one) or _is_array(other):
        if (
            type(one) is not type(other)
            or one.dtype != other.dtype
            or tuple(one.shape) != tuple(other.shape)
        ):
            return False
        return bool((one == other).all())
    if isinstance(one, (list, tuple)) and type(one) is type(other):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same(item, other[key]) for key, item in one.items()
        )
    return bool(one == other)


class _Immutable:
    """The base of containers that nobody can change. A copy in the same process is the container
    itself.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


# ---- lists


class SharedList(_Immutable, Sequence):  # type: ignore[type-arg]
    """A list of objects that exists in memory once for all processes that have it. Nobody can
    change it.

    It is made of any iterable, which is read once. Reading an item makes a new object. The arrays
    and tensors in it can be written, and no other process sees the writes. A slice is a SharedList
    over the same memory. A SharedList equals a list or SharedList with equal items.

    Items are None, bool, int, float, str, bytes, tuple, list, dict, numpy arrays and scalars, torch
    tensors of the CPU, and any object that pickle can pickle. An object that occurs twice in one
    item comes out as two objects.

    A SharedList goes to other processes as an argument of a Process, in the dataset of a
    DataLoader, or through a queue: by fork, spawn and forkserver, without a copy of the items.
    """

    __slots__ = ("_get", "_indices", "_packed")

    def __init__(self, iterable: Iterable[Any] = ()) -> None:
        self._set(pack(iterable), None)

    def _set(self, packed: Packed, indices: range | None) -> Self:
        self._packed = packed
        self._get = packed.get
        self._indices = range(packed.count) if indices is None else indices
        return self

    @classmethod
    def _over(cls, packed: Packed, indices: range | None = None) -> Self:
        if indices is not None and indices:
            low, high = sorted((indices[0], indices[-1]))
            if low < 0 or high >= packed.count:
                corrupt(f"{indices} of {packed.count} items")
        return cls.__new__(cls)._set(packed, indices)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._over, (self._packed, self._indices)

    @property
    def nbytes(self) -> int:
        """The bytes of the packed items. A slice counts the bytes of the whole list."""
        return self._packed.nbytes

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        try:
            at = self._indices[index]
        except (IndexError, TypeError) as error:
            self._refuse(index, error)
        if type(at) is range:
            return self._over(self._packed, at)
        return self._get(at)

    def _refuse(self, index: Any, error: Exception) -> NoReturn:
        if isinstance(error, IndexError):
            raise IndexError(
                f"index {index} is out of range of a {type(self).__name__} of {len(self)} items"
            ) from None
        raise TypeError(
            f"the index of a {type(self).__name__} is an integer or a slice, not"
            f" {type(index).__name__}"
        ) from None

    def __iter__(self) -> Iterator[Any]:
        return map(self._get, self._indices)

    def __reversed__(self) -> Iterator[Any]:
        return map(self._get, reversed(self._indices))

    def __contains__(self, value: object) -> bool:
        return any(_same(item, value) for item in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (SharedList, list)):
            return NotImplemented
        return len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:3]]
        if len(self) > 3:
            shown.append("…")
        return (
            f"<tenon.torch.SharedList of {len(self)} items in {self.nbytes} bytes:"
            f" [{', '.join(shown)}]>"
        )


# ---- dictionaries
#
# The table has open addressing. An entry is a uint64, which is 0 if the slot is free. Its low 32
# bits are the number of the item + 1, and its high 32 bits are the hash. The slot of a key is a
# part of the hash times a constant, so that the hash may be as weak as a CRC.

_PROBE_LIMIT = 128
_MAX_ITEMS = (1 << 32) - 2
_LOW = (1 << 32) - 1
_SPREAD = 0x9E3779B97F4A7C15
_KEY_TYPES = (str, int, bytes, tuple)


def _strong_hash(raw: bytes) -> int:
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


# A CRC is ten times as fast. Keys that were chosen to collide under the CRC get the strong hash.
_HASHES: tuple[Hash, ...] = (zlib.crc32, _strong_hash)


def _canonical(key: Any, is_part: bool = False) -> Any:
    """The str, int, bytes or tuple that is equal to a key. A part of a tuple may also be a float or
    None. Raises LookupError if there is none.
    """
    kind = type(key)
    if kind is str or kind is int or kind is bytes:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return bytes(key)
    if isinstance(key, tuple):
        return tuple(_canonical(part, True) for part in key)
    if isinstance(key, int):
        return int(key)
    if is_part and key is None:
        return None
    if not _is_array(key):
        if hasattr(key, "__index__"):
            return key.__index__()
        if hasattr(key, "is_integer"):  # a float, of Python's or numpy's
            if key.is_integer():
                return int(key)
            if is_part:
                return float(key)
    raise LookupError


def _key_bytes(key: Any) -> bytes:
    """The bytes that are hashed. Equal keys have equal bytes."""
    if type(key) is str:
        return key.encode("utf-8", "surrogatepass")
    out = bytearray()
    encode(key, out, 0)
    return bytes(out)


def _build_table(numbers: memoryview, keys: Iterable[Any], hash_of: Hash) -> bool:
    """Fill the table. Returns False if too many keys compete for a slot."""
    mask = len(numbers) - 1
    for item, key in enumerate(keys, 1):
        hashed = hash_of(_key_bytes(_canonical(key)))
        slot = (hashed * _SPREAD >> 32) & mask
        probes = 0
        while numbers[slot]:
            slot = (slot + 1) & mask
            probes += 1
            if probes > _PROBE_LIMIT and hash_of is not _strong_hash:
                return False
        numbers[slot] = (hashed & _LOW) << 32 | item
    return True


def _make_table(keys: Packed) -> tuple[Storage, int]:
    """The hash table for keys, and the number of its hash."""
    count = keys.count
    if count > _MAX_ITEMS:
        raise ValueError(f"a SharedDict has at most {_MAX_ITEMS} items, not {count}: split it")
    slots = 1 << max(count * 3 // 2, 1).bit_length()
    for number, hash_of in enumerate(_HASHES):
        table = Growing()
        try:
            with table.numbers(8 * slots) as numbers:
                is_done = _build_table(numbers, map(keys.get, range(count)), hash_of)
            if is_done:
                return table.freeze(), number
        finally:
            table.close()
    raise AssertionError("the last hash takes all keys")


class _Keys:
    """The keys of a mapping, for pack().

    It refuses the keys that a SharedDict cannot have.
    """

    __slots__ = ("_mapping",)

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self._mapping = mapping

    def __iter__(self) -> Iterator[Any]:
        for key in self._mapping:
            if type(key) not in _KEY_TYPES:
                try:
                    key = _canonical(key)
                except LookupError:
                    raise TypeError(
                        "a key of a SharedDict is a str, int, bytes or tuple, not"
                        f" {type(key).__name__}: convert it"
                    ) from None
            if type(key) is tuple:
                self._check(key)
            yield key

    def _check(self, key: tuple[Any, ...]) -> None:
        try:
            _canonical(key)
        except LookupError:
            raise TypeError(
                "a tuple that is a key of a SharedDict holds str, int, float, bytes, None and"
                f" tuples: {key!r}"
            ) from None


class _Values(ValuesView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return iter(self._mapping._values)  # type: ignore[attr-defined]


class _Items(ItemsView):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return zip(self._mapping._keys, self._mapping._values, strict=True)  # type: ignore[attr-defined]


class SharedDict(_Immutable, Mapping):  # type: ignore[type-arg]
    """A dict that exists in memory once for all processes that have it. Nobody can change it.

    Keys are str, int, bytes, or tuples of these, of float and of None. Values are the items that a
    SharedList can hold, and are read in the same way. The order is the mapping's.
    """

    __slots__ = ("_get", "_hash_number", "_key", "_keys", "_mask", "_numbers", "_table", "_values")

    def __init__(self, mapping: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        source: Any = mapping if isinstance(mapping, Mapping) else dict(mapping)
        keys, values = pack(_Keys(source)), pack(source.values())
        self._set(keys, values, *_make_table(keys))

    def _set(self, keys: Packed, values: Packed, table: Storage, hash_number: int) -> Self:
        slots = table.nbytes // 8
        if (
            keys.count != values.count
            or slots & (slots - 1)
            or slots <= keys.count
            or hash_number not in range(len(_HASHES))
        ):
            corrupt(f"{keys.count} keys and {values.count} values have {slots} slots")
        self._keys, self._values = SharedList._over(keys), SharedList._over(values)
        self._table, self._hash_number = table, hash_number
        self._numbers, self._mask = table.data.cast("Q"), slots - 1
        self._key, self._get = keys.get, values.get
        return self

    @classmethod
    def _over(cls, keys: Packed, values: Packed, table: Storage, hash_number: int) -> Self:
        return cls.__new__(cls)._set(keys, values, table, hash_number)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._over, (
            self._keys._packed,
            self._values._packed,
            self._table,
            self._hash_number,
        )

    @property
    def nbytes(self) -> int:
        """The bytes of the packed keys and values and of their table."""
        return self._keys.nbytes + self._values.nbytes + self._table.nbytes

    def _find(self, key: Any) -> int:
        """The number of the item with a key, or -1 if there is none."""
        try:
            raw = _key_bytes(_canonical(key))
        except LookupError:
            hash(key)  # raises if no dict could have the key
            return -1
        hashed = _HASHES[self._hash_number](raw)
        numbers, mask, count = self._numbers, self._mask, len(self._keys)
        slot = (hashed * _SPREAD >> 32) & mask
        hashed &= _LOW
        for _ in range(mask + 1):
            entry = numbers[slot]
            if not entry:
                return -1
            if entry >> 32 == hashed:
                item = (entry & _LOW) - 1
                if not 0 <= item < count:
                    corrupt(f"slot {slot} has item {item} of {count}")
                if self._key(item) == key:
                    return item
            slot = (slot + 1) & mask
        corrupt("the table has no free slot")

    def __getitem__(self, key: Any) -> Any:
        item = self._find(key)
        if item < 0:
            raise KeyError(key)
        return self._get(item)

    def __contains__(self, key: object) -> bool:
        return self._find(key) >= 0

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._keys)

    def values(self) -> ValuesView[Any]:
        """A view of the values, which reads them one after the other."""
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """A view of the pairs, which reads them one after the other."""
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(key in other and _same(value, other[key]) for key, value in self.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{key!r}: {value!r}" for key, value in islice(self.items(), 3)]
        if len(self) > 3:
            shown.append("…")
        return (
            f"<tenon.torch.SharedDict of {len(self)} items in {self.nbytes} bytes:"
            f" {{{', '.join(shown)}}}>"
        )


# ---- tensors


def _frozen(data: Any) -> Storage:
    # new_from copies once, from the tensor into the memory that becomes frozen.
    return Storage.new_from(data, mode="frozen")


class SharedTensor(_Immutable):
    """A torch tensor of the CPU, or a numpy array, that exists in memory once for all processes
    that have it. Nobody can change it.

    Indexing gives copies, as tensors or, for a numpy array, as arrays. The copies can be written,
    and no other process sees the writes. tensor() and numpy() give the whole tensor as
    copy-on-write memory. Gradients and requires_grad are not kept.
    """

    __slots__ = ("_base", "_dtype", "_family", "_memory", "shape")
    shape: Any
    """The sizes. They are a torch.Size for a tensor, and a tuple for a numpy array."""

    def __init__(self, tensor: Any) -> None:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        if numpy is not None and isinstance(tensor, numpy.ndarray):
            if tensor.dtype.hasobject:
                raise TypeError(
                    "an array of Python objects has no bytes that can be shared: make a SharedList"
                    " of it"
                )
            self._set("numpy", tensor.dtype, tuple(tensor.shape), _frozen(numpy_bytes(tensor)))
        elif torch is not None and isinstance(tensor, torch.Tensor):
            if not _torch_rules.is_strided_on_cpu(tensor):
                raise make(
                    Unsupported,
                    f"a SharedTensor is made of a strided tensor of the CPU, not of {tensor.layout}"
                    f" on {tensor.device}: convert it first",
                )
            _torch_rules.element_type(tensor)
            self._set(
                "torch",
                str(tensor.dtype).removeprefix("torch."),
                tuple(tensor.shape),
                _frozen(torch_bytes(tensor)),
            )
        else:
            raise TypeError(
                "a SharedTensor is made of a torch tensor or a numpy array, not of"
                f" {type(tensor).__name__}"
            )

    def _set(self, family: str, dtype: Any, shape: tuple[int, ...], storage: Storage) -> Self:
        self._family, self._dtype, self._memory = family, dtype, Memory(storage)
        self._base: Any = None
        if family == "torch":
            import torch

            self.shape = torch.Size(shape)
        else:
            self.shape = shape
        return self

    @classmethod
    def _over(cls, family: str, dtype: Any, shape: tuple[int, ...], storage: Storage) -> Self:
        return cls.__new__(cls)._set(family, dtype, shape, storage)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._over, (
            self._family,
            self._dtype,
            tuple(self.shape),
            self._memory.storage,
        )

    def _tenon(self, dtype: Any) -> Tensor:
        return Tensor.over(self._memory.storage, tuple(self.shape), dtype)

    def _read_only(self) -> Any:
        """A tensor or array over the frozen memory itself.

        It is not given to callers, because a write to the tensor would kill the process.
        """
        if self._base is None:
            if self._family == "torch":
                from tenon.torch._exchange import to_torch

                self._base = to_torch(self._tenon(self._dtype), writable="unsafe")
            else:
                import numpy

                if self.nbytes:
                    self._base = numpy.frombuffer(self._memory.view, self._dtype).reshape(
                        self.shape
                    )
                else:
                    self._base = numpy.empty(self.shape, self._dtype)
        return self._base

    @property
    def dtype(self) -> Any:
        """The element type, torch's or numpy's."""
        return self._read_only().dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self._memory.view.nbytes

    @property
    def size(self) -> Any:
        """The size, as the tensor or the array has it. A torch tensor's size is a method, and
        numpy's is the number of elements.
        """
        return self._read_only().size

    def tensor(self) -> Any:
        """The whole as a torch tensor that is copy-on-write: writes to it stay in it."""
        import torch

        if self._family == "torch":
            from tenon.torch._exchange import to_torch

            return to_torch(self._tenon(self._dtype), writable="cow")
        return torch.from_numpy(self.numpy())

    def numpy(self) -> Any:
        """The whole as a numpy array that is copy-on-write: writes to it stay in it."""
        if self._family == "torch":
            return self.tensor().numpy()
        import numpy

        if not self.nbytes:
            return numpy.empty(self.shape, self._dtype)
        return numpy.frombuffer(self._memory.writable(0, self.nbytes), self._dtype).reshape(
            self.shape
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a SharedTensor without dimensions has no length: use tensor()")
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, SharedTensor):
            index = index._read_only()
        base = self._read_only()
        found = base[index]
        if self._family == "torch":
            # An index that is a list or a tensor has made a copy already.
            is_view = 0 <= found.data_ptr() - base.data_ptr() <= self.nbytes
            return found.clone() if is_view else found
        return found if found.flags.owndata else found.copy()

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedTensor):
            return self._family == other._family and _same(self._read_only(), other._read_only())
        return _same(self._read_only(), other) if _is_array(other) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<tenon.torch.SharedTensor of {self.dtype} {tuple(self.shape)} in {self.nbytes} bytes>"
        )


# ---- datasets

_SAMPLES = 64
_FEW = 16
_MANY = 64  # each container that replaces a part needs fds while it is sent
_DEPTH = 8
_PACKED = (list, tuple, dict)


def _estimate(item: Any, depth: int = 4) -> int:
    """Estimate the bytes of an object, from a sample of its contents."""
    if _is_array(item):
        return (
            int(item.nbytes) if hasattr(item, "nbytes") else int(item.numel() * item.element_size())
        )
    try:
        nbytes = sys.getsizeof(item)
    except TypeError:
        return 0
    if not depth:
        return nbytes
    kind = type(item)
    if kind is list or kind is tuple:
        sample: list[Any] = (
            item[:: max(len(item) // _SAMPLES, 1)] if len(item) > _SAMPLES else list(item)
        )
    elif kind is dict:
        # Reaching the middle of a dict means walking to it, so the first items stand for all of
        # them.
        sample = list(islice(item.items(), _SAMPLES))
    else:
        return nbytes
    if not sample:
        return nbytes
    return nbytes + sum(_estimate(part, depth - 1) for part in sample) * len(item) // len(sample)


def _is_walked(item: Any) -> bool:
    """Whether the attributes of an object are inspected: it is a dataclass or a dataset."""
    if isinstance(item, type):
        return False
    data = sys.modules.get("torch.utils.data")
    return dataclasses.is_dataclass(item) or (data is not None and isinstance(item, data.Dataset))


def _names(item: Any) -> list[str]:
    names = list(getattr(item, "__dict__", ()))
    if dataclasses.is_dataclass(item):
        names.extend(
            field.name
            for field in dataclasses.fields(item)
            if field.name not in names and hasattr(item, field.name)
        )
    return names


def _parts_of(item: Any) -> list[Any]:
    return list(item.values() if type(item) is dict else item)


def _is_taken_apart(item: Any, threshold_bytes: int) -> bool:
    """Whether the parts of a list, tuple or dict are inspected one by one: there are few of them,
    or reading one would copy a large container.
    """
    if len(item) <= _FEW:
        return True
    if len(item) > _MANY:
        return False
    return any(
        _is_walked(part) or (type(part) in _PACKED and _estimate(part) > threshold_bytes)
        for part in _parts_of(item)
    )


class _Sharer:
    """One walk of to_shared_dataset."""

    def __init__(self, threshold_bytes: int) -> None:
        self._threshold = threshold_bytes
        # The objects that were inspected, so that two names of one object become one shared
        # container. The table keeps the objects alive, because their ids are its keys.
        self._seen: dict[int, tuple[Any, Any]] = {}

    def convert(self, item: Any, depth: int) -> Any:
        """The replacement of an object. It is the object itself if it contains nothing large."""
        seen = self._seen.get(id(item))
        if seen is None:
            self._seen[id(item)] = item, item  # an object may contain itself
            seen = self._seen[id(item)] = item, self._convert(item, depth)
        return seen[1]

    def _convert(self, item: Any, depth: int) -> Any:
        if _is_array(item):
            return self._array(item)
        if type(item) in _PACKED:
            if _is_taken_apart(item, self._threshold):
                return self._parts(item, depth)
            return self._pack(item) if _estimate(item) > self._threshold else item
        if depth and _is_walked(item):
            return self.attributes(item, depth)
        return item

    def _array(self, item: Any) -> Any:
        if _estimate(item) <= self._threshold:
            return item
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(item) is numpy.ndarray:
            return item if item.dtype.hasobject else SharedTensor(item)
        torch = sys.modules.get("torch")
        if torch is None or type(item) is not torch.Tensor or item.requires_grad:
            return item
        try:
            return SharedTensor(item)
        except Unsupported:
            return item

    def _pack(self, item: Any) -> Any:
        try:
            return SharedDict(item) if type(item) is dict else SharedList(item)
        except (TypeError, AttributeError, pickle.PicklingError):
            return item  # a key that a SharedDict cannot have, or an item that cannot be pickled

    def _parts(self, item: Any, depth: int) -> Any:
        if not depth:
            return item
        parts = _parts_of(item)
        changed = [self.convert(part, depth - 1) for part in parts]
        if all(new is old for new, old in zip(changed, parts, strict=True)):
            return item
        if type(item) is dict:
            return dict(zip(item, changed, strict=True))
        return changed if type(item) is list else tuple(changed)

    def attributes(self, item: Any, depth: int) -> Any:
        """A shallow copy of an object whose large attributes are shared, or the object itself if it
        has none.
        """
        changed = {}
        for name in _names(item):
            value = getattr(item, name)
            new = self.convert(value, depth - 1)
            if new is not value:
                changed[name] = new
        if not changed:
            return item
        result = copy.copy(item)
        for name, value in changed.items():
            # the only way to set an attribute of a frozen dataclass
            object.__setattr__(result, name, value)
        return result


def to_shared_dataset(dataset: Dataset, threshold_bytes: int = 1 << 20) -> Dataset:
    """Make a shallow copy of a map-style dataset whose large parts exist in memory once for all
    workers.

    The call inspects the dataset's attributes, those of nested datasets and dataclasses, and the
    parts of lists, tuples and dicts with few parts. A longer list, tuple or dict of more than
    threshold_bytes, estimated from a sample, becomes a SharedList or SharedDict. A numpy array or
    torch tensor of that size becomes a SharedTensor. Objects that cannot be shared stay as they
    are: instances of subclasses, arrays of Python objects, tensors that require grad, dicts with
    other keys. The given dataset is not changed. shared_attributes lists the replacements.

    The dataset's own code must not change a replaced object. An item that it reads is a copy.
    """
    if threshold_bytes < 0:
        raise ValueError(f"threshold_bytes {threshold_bytes} is negative")
    sharer = _Sharer(threshold_bytes)
    result: Dataset = sharer.attributes(dataset, _DEPTH)
    return copy.copy(dataset) if result is dataset else result


def shared_attributes(dataset: Any) -> dict[str, Any]:
    """The shared containers in a dataset, by their places: {"samples": <SharedList>,
    "parts[0].labels": <SharedTensor>}.
    """
    found: dict[str, Any] = {}
    seen: dict[int, Any] = {}

    def look(item: Any, path: str, depth: int) -> None:
        if isinstance(item, (SharedList, SharedDict, SharedTensor)):
            found[path] = item
            return
        if id(item) in seen or depth < 0:
            return
        seen[id(item)] = item
        if type(item) is dict and len(item) <= _MANY:
            for key, part in item.items():
                look(part, f"{path}[{key!r}]", depth - 1)
        elif type(item) in (list, tuple) and len(item) <= _MANY:
            for number, part in enumerate(item):
                look(part, f"{path}[{number}]", depth - 1)
        elif not path or _is_walked(item):
            for name in _names(item):
                look(getattr(item, name), f"{path}.{name}" if path else name, depth - 1)

    look(dataset, "", _DEPTH)
    return found
