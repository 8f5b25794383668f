"""Describes Python values that no kind of object has (tenon/object.h) by plain ones, and restores
them. The C extension calls describe and restore for a queue.

The sender of a value is not trusted: restore calls no function that a sender names, and makes
instances only of NamedTuple classes that this process has imported itself.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple

from tenon._native import address_of, ffi
from tenon.composite import Composite, borrowed
from tenon.error import Corrupt, TenonError, make
from tenon.tensor import Tensor, from_numpy
from tenon.value import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Described = tuple[Any, Any, bool]

_MOST_STAND_INS = 256
_SCALAR_KINDS = "biufc"  # numpy's letters for bools, integers, floats and complex numbers


def describe(value: Any) -> Described:
    """The plain value that travels in place of this one, the note with which restore makes the
    value again, and False. For a composite: its address, the composite itself, and True.

    Raises TypeError for a value of a type that cannot travel.
    """
    if isinstance(value, Composite):
        return address_of(value._own()), value, True
    if isinstance(value, tuple):
        return (tuple(value), _note_of_tuple(value), False)
    how = _BY_TYPE.get(type(value))
    if how is not None:
        return how(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if type(value) is numpy.ndarray:
            return (_tensor_of(value), ("array",), False)
        if isinstance(value, numpy.generic) and value.dtype.kind in _SCALAR_KINDS:
            return (value.tobytes(), ("scalar", value.dtype.str), False)
    raise _refusal(value)


def _note_of_tuple(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    if kind is NamedTuple:
        return ("tenon.NamedTuple", value.class_name)
    fields = getattr(kind, "_fields", None)
    if not isinstance(fields, tuple) or len(fields) != len(value):
        raise _refusal(value)
    return ("NamedTuple", kind.__module__, kind.__qualname__, *fields)


def _describe_int(value: int) -> Described:
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return (data, ("int",), False)


_BY_TYPE: dict[type, Callable[[Any], Described]] = {
    int: _describe_int,
    str: lambda value: (value.encode("utf-8", "surrogatepass"), ("str",), False),
    bytearray: lambda value: (bytes(value), ("bytearray",), False),
    frozenset: lambda value: (set(value), ("frozenset",), False),
    OrderedDict: lambda value: (dict(value), ("OrderedDict",), False),
}


def _tensor_of(array: Any) -> Tensor:
    try:
        return from_numpy(array)
    except TypeError as error:
        raise TypeError(
            f"no tensor has elements of numpy's type {array.dtype}: convert the array, or make the"
            " queue with pickled=True"
        ) from error


def _refusal(value: Any) -> TypeError:
    kind = type(value)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    tensor = "make a tensor of it (tenon.torch.from_torch), " if place == "torch." else ""
    return TypeError(
        f"a value of type {place}{kind.__qualname__} cannot go through this queue: put plain"
        " values, tenon.Tensor, numpy arrays, and lists, dicts, sets, tuples and NamedTuples of"
        f" them, {tensor}or make the queue with pickled=True"
    )


def restore(plain: Any, note: Any) -> Any:
    """The value that describe has described. Without a note, `plain` is the address of a
    composite.
    """
    if note is None:
        return borrowed(ffi.cast("tenon_composite *", plain))
    how = _BY_NOTE.get(note[0]) if isinstance(note, tuple) and note else None
    if how is None or type(plain) is not how[0]:
        raise _corrupt(f"{note!r} is no note of a {type(plain).__name__}")
    return how[1](plain, *note[1:])


def _restore_tuple(plain: tuple[Any, ...], module: str, name: str, *fields: str) -> Any:
    names = (module, name, *fields)
    if len(fields) != len(plain) or any(type(each) is not str for each in names):
        raise _corrupt(f"{names!r} are not the names of {len(plain)} fields and their class")
    found: Any = vars(sys.modules[module]) if module in sys.modules else {}
    for part in name.split("."):
        # No attribute is looked up, because a module or a class can run code for it.
        found = found.get(part) if isinstance(found, dict) else vars(found).get(part)
        if not isinstance(found, type):
            break
    if isinstance(found, type) and issubclass(found, tuple):
        if getattr(found, "_fields", None) == fields:
            return tuple.__new__(found, plain)
    return _stand_in(name.rpartition(".")[2], fields)._make(plain)


_stand_ins: dict[tuple[str, tuple[str, ...]], Any] = {}


def _stand_in(name: str, fields: tuple[str, ...]) -> Any:
    """A class with the fields of one that this process has not imported."""
    key = name, fields
    made = _stand_ins.get(key)
    if made is None:
        if len(_stand_ins) >= _MOST_STAND_INS:
            _stand_ins.clear()
        made = _stand_ins[key] = namedtuple(name, fields)
    return made


def _restore_int(plain: bytes) -> int:
    return int.from_bytes(plain, "little", signed=True)


def _restore_scalar(plain: bytes, name: str) -> Any:
    import numpy

    dtype = numpy.dtype(name)
    if dtype.kind not in _SCALAR_KINDS or dtype.itemsize != len(plain):
        raise _corrupt(f"{name!r} is no type of a number of {len(plain)} bytes")
    return numpy.frombuffer(plain, dtype)[0]


# By the first item of a note: the type of the plain value, and the function that takes the plain
# value and the rest of the note.
_BY_NOTE: dict[str, tuple[type, Callable[..., Any]]] = {
    "array": (Tensor, lambda plain: plain.numpy()),
    "scalar": (bytes, _restore_scalar),
    "NamedTuple": (tuple, _restore_tuple),
    "tenon.NamedTuple": (tuple, lambda plain, name: NamedTuple(name, plain)),
    "int": (bytes, _restore_int),
    "str": (bytes, lambda plain: plain.decode("utf-8", "surrogatepass")),
    "bytearray": (bytes, bytearray),
    "frozenset": (set, frozenset),
    "OrderedDict": (dict, OrderedDict),
}


def _corrupt(why: str) -> TenonError:
    return make(Corrupt, f"a message of the queue has a value that cannot be made: {why}")


def corrupt(error: BaseException) -> BaseException:
    """The error of a message whose value could not be made because of `error`."""
    if isinstance(error, TenonError):
        return error
    found = _corrupt(str(error))
    found.__cause__ = error
    return found
