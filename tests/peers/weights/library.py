"""Calls tenon/weights.h of the library TENON_TEST_LIBRARY, without the Python package.

torch_cases.py uses this module.
"""

from __future__ import annotations

import ctypes as c
import os
import unittest
from pathlib import Path


class Spec(c.Structure):
    """Mirrors tenon_value_tensor_spec."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("scalar_type", c.c_int32),
        ("layout", c.c_int32),
        ("ndim", c.c_int32),
        ("flags", c.c_uint32),
        ("sizes", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("offset", c.c_int64),
        ("storage", c.c_void_p),
        ("storage_offset", c.c_uint64),
        ("storage_numel", c.c_uint64),
        ("device", c.c_char_p),
        ("scale", c.c_double),
        ("zero_point", c.c_int64),
        ("axis", c.c_int64),
        ("quantizer", c.c_int32),
        ("coalesced", c.c_int32),
        ("parts", c.c_void_p * 5),
    ]


class ImportOptions(c.Structure):
    """Mirrors the beginning of tenon_import_options. The rest stays zero."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("tensors", c.c_int32),
        ("check", c.c_int32),
        ("rest", c.c_uint64 * 7),
    ]


_LIBRARY = c.CDLL(os.environ["TENON_TEST_LIBRARY"])
for _name in (
    "tenon_storage_data",
    "tenon_error_message",
    "tenon_name_list_get",
    "tenon_status_name",
):
    getattr(_LIBRARY, _name).restype = c.c_void_p if _name == "tenon_storage_data" else c.c_char_p
_LIBRARY.tenon_name_list_count.restype = c.c_size_t
_LIBRARY.tenon_storage_nbytes.restype = c.c_uint64


SAFETENSORS, TORCH_SAVE, NPZ = range(3)


class SaveOptions(c.Structure):
    """Mirrors tenon_save_weights_options. The pointers stay NULL."""

    _fields_ = [
        ("struct_size", c.c_size_t),
        ("form", c.c_int32),
        ("durability", c.c_int32),
        ("flags", c.c_uint32),
        ("reserved", c.c_uint32),
        ("pointers", c.c_size_t * 5),
    ]


class TenonError(Exception):
    """Carries the name of the error's code, and its message."""


def _call(name: str, *arguments: object) -> None:
    error = c.c_void_p()
    status = getattr(_LIBRARY, name)(*arguments, c.byref(error))
    if status != 0:
        message = _LIBRARY.tenon_error_message(error).decode()
        _LIBRARY.tenon_error_release(error)
        raise TenonError(_LIBRARY.tenon_status_name(status).decode(), message)


def _numbers(values: tuple[int, ...]) -> c.Array[c.c_int64]:
    return (c.c_int64 * max(len(values), 1))(*values)


class Tensor:
    """Wraps a value of kind tensor."""

    def __init__(self, handle: c.c_void_p):
        self.handle = handle
        spec = Spec(struct_size=c.sizeof(Spec))
        _call("tenon_value_get_tensor_spec", handle, c.byref(spec))
        self.scalar_type = spec.scalar_type
        self.sizes = tuple(spec.sizes[i] for i in range(spec.ndim))
        self.strides = tuple(spec.strides[i] for i in range(spec.ndim))
        self.offset = spec.offset
        self.requires_grad = spec.flags & 1 != 0
        self.storage = spec.storage
        self.storage_offset = spec.storage_offset

    @classmethod
    def of(
        cls,
        data: bytes,
        scalar_type: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
    ) -> Tensor:
        storage = c.c_void_p()
        _call("tenon_storage_new_from", None, data, c.c_uint64(len(data)), c.byref(storage))
        spec = Spec(
            c.sizeof(Spec),
            scalar_type,
            0,
            len(sizes),
            0,
            _numbers(sizes),
            _numbers(strides),
            offset,
            storage,
        )
        value = c.c_void_p()
        _call("tenon_value_new_tensor_from_spec", c.byref(spec), c.byref(value))
        _LIBRARY.tenon_storage_release(storage)
        return cls(value)

    def address(self) -> int:
        return int(_LIBRARY.tenon_storage_data(c.c_void_p(self.storage)) or 0) + self.storage_offset

    def data(self) -> bytes:
        """Returns the bytes from the beginning of the tensor's storage on."""
        nbytes = _LIBRARY.tenon_storage_nbytes(c.c_void_p(self.storage)) - self.storage_offset
        return c.string_at(self.address(), nbytes)

    def __del__(self) -> None:
        _LIBRARY.tenon_value_release(self.handle)


def save(
    path: Path, tensors: dict[str, Tensor], form: int, *, duplicate_shared: bool = False
) -> None:
    options = SaveOptions(c.sizeof(SaveOptions), form, flags=int(duplicate_shared))
    count = len(tensors)
    names = (c.c_char_p * count)(*(name.encode() for name in tensors))
    handles = (c.c_void_p * count)(*(tensor.handle.value for tensor in tensors.values()))
    arguments = names, handles, c.c_size_t(count), c.byref(options)
    _call("tenon_save_weights", os.fsencode(path), *arguments)


class Weights:
    """Wraps a tenon_weights."""

    def __init__(self, path: Path, tensors: int = 0, check: int = 0):
        self.handle = c.c_void_p()
        options = ImportOptions(c.sizeof(ImportOptions), tensors, check)
        _call("tenon_open_weights", os.fsencode(path), c.byref(options), c.byref(self.handle))

    def names(self) -> list[str]:
        return self._list("tenon_weights_names")

    def skipped(self) -> list[str]:
        return self._list("tenon_weights_skipped")

    def values(self) -> dict[str, bool | int | float | str | None]:
        """Returns the values that are no tensors, by name."""
        return {name: self._value(name) for name in self._list("tenon_weights_value_names")}

    def _value(self, name: str) -> bool | int | float | str | None:
        value = c.c_void_p()
        _call("tenon_weights_value", self.handle, name.encode(), c.byref(value))
        kinds = [("bool", c.c_int), ("int", c.c_int64), ("float", c.c_double), ("str", c.c_char_p)]
        kind = _LIBRARY.tenon_value_kind(value)
        found = None
        if kind != 0:
            word, ctype = kinds[kind - 1] if kind < 4 else kinds[3]
            out, more = ctype(), [c.byref(c.c_size_t())] if word == "str" else []
            _call(f"tenon_value_get_{word}", value, c.byref(out), *more)
            found = bool(out.value) if word == "bool" else out.value
        _LIBRARY.tenon_value_release(value)
        return found.decode() if isinstance(found, bytes) else found

    def _list(self, function: str) -> list[str]:
        names = c.c_void_p()
        _call(function, self.handle, c.byref(names))
        found = [
            _LIBRARY.tenon_name_list_get(names, c.c_size_t(i)).decode()
            for i in range(_LIBRARY.tenon_name_list_count(names))
        ]
        _LIBRARY.tenon_name_list_release(names)
        return found

    def __getitem__(self, name: str) -> Tensor:
        value = c.c_void_p()
        _call("tenon_weights_tensor", self.handle, name.encode(), c.byref(value))
        return Tensor(value)

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        _call("tenon_weights_replace", self.handle, name.encode(), tensor.handle)

    def rewrite(self, path: Path) -> None:
        _call("tenon_weights_rewrite", self.handle, os.fsencode(path), None)

    def __del__(self) -> None:
        _LIBRARY.tenon_weights_release(self.handle)


def check_broken_bytes(case: unittest.TestCase, path: Path, good: bytes, places: range) -> None:
    """Changes one byte at a time. The file is then read or refused, and nothing crashes."""
    for at in places:
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            weights = Weights(path)
            for name in weights.names():
                weights[name].data()
        except TenonError as error:
            case.assertIn(error.args[0], ("CORRUPT", "UNSUPPORTED", "RESOURCE_EXHAUSTED"))
