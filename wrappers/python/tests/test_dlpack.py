from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
import tenon
from dlpack_kit import DLTensor  # type: ignore[import-not-found]
from tenon._native import lib


def test_round_trip_through_numpy() -> None:
    tensor = tenon.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    array = np.from_dlpack(tensor)
    assert np.shares_memory(array, tensor.numpy())
    back = tenon.from_dlpack(tensor)
    assert back.tolist() == tensor.tolist() and not back.storage.is_shared
    back.numpy()[0, 0] = 7
    assert tensor[0, 0].item() == 7


def test_from_numpy_array_by_dlpack() -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)[:, 1:]
    tensor = tenon.from_dlpack(array)
    assert tensor.strides == (4, 1) and tensor.tolist() == array.tolist()
    tensor.numpy()[0, 0] = -1
    assert array[0, 0] == -1
    with pytest.raises(tenon.Unsupported):
        tensor.storage.share_fd()
    assert tensor.clone().storage.is_shared


def test_the_source_lives_as_long_as_a_view() -> None:
    array = np.arange(100_000)
    tensor = tenon.from_dlpack(array)
    view = tensor[500:].numpy()
    del array, tensor
    gc.collect()
    junk = [np.zeros(100_000, int) for _ in range(5)]
    assert view[0] == 500 and view[-1] == 99_999
    del junk


def test_lent_capsule_keeps_the_storage() -> None:
    tensor = tenon.from_numpy(np.arange(10))
    weak = tensor.storage.weak_ref()
    capsule = tensor.__dlpack__(max_version=(1, 0))
    del tensor
    assert not weak.expired
    del capsule
    assert weak.expired

    tensor = tenon.zeros(10)
    weak = tensor.storage.weak_ref()
    legacy = tensor.__dlpack__()
    del tensor
    assert not weak.expired
    del legacy
    assert weak.expired


class Offers:
    def __init__(self, capsule: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self) -> Any:
        return self.capsule


def test_both_forms_and_only_once() -> None:
    tensor = tenon.zeros(3)
    for capsule in (
        tensor.__dlpack__(),
        tensor.__dlpack__(max_version=(0, 8)),
        tensor.__dlpack__(max_version=(1, 0)),
        tensor.__dlpack__(max_version=(2, 0)),
    ):
        assert tenon.from_dlpack(Offers(capsule)).shape == (3,)
        with pytest.raises(ValueError, match="consumed"):
            tenon.from_dlpack(Offers(capsule))
    assert '"dltensor"' in repr(tensor.__dlpack__()) and '"dltensor_versioned"' in repr(
        tensor.__dlpack__(max_version=(1, 1))
    )
    with pytest.raises(ValueError):
        tenon.from_dlpack(Offers(object()))


def test_read_only_is_never_handed_out_unsaid() -> None:
    tensor = tenon.from_numpy(np.arange(3), mode="frozen")
    for version in (None, (0, 8)):
        with pytest.raises(BufferError, match="read-only"):
            tensor.__dlpack__(max_version=version)
    back = tenon.from_dlpack(tensor)
    assert back.read_only and back.tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        np.from_dlpack(tensor)[0] = 1
    copied = tenon.from_dlpack(Offers(tensor.__dlpack__(copy=True)))
    assert not copied.read_only


def test_keywords() -> None:
    tensor = tenon.zeros(3)
    assert tensor.__dlpack_device__() == (1, 0)
    tensor.__dlpack__(stream=None, dl_device=(1, 0), copy=False)
    for stream in (-1, 0, 1, 5, "x", True):
        with pytest.raises(ValueError, match="CPU"):
            tensor.__dlpack__(stream=stream)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    copied = tenon.from_dlpack(Offers(tensor.__dlpack__(max_version=(1, 0), copy=True)))
    copied.numpy()[0] = 1
    assert tensor.tolist() == [0, 0, 0]


def test_bits_that_dlpack_has_not_are_never_lost() -> None:
    plain = tenon.zeros(2, "complex64")
    ways: tuple[dict[str, Any], ...] = ({}, {"max_version": (1, 0)}, {"copy": True})
    for flag in (lib.TENON_TENSOR_CONJ, lib.TENON_TENSOR_NEG):
        tensor = tenon.Tensor._new(plain.storage, plain._dtype_number, (2,), None, 0, flag)
        assert tensor.is_conj or tensor.is_neg
        for more in ways:
            with pytest.raises(BufferError, match="conjugate") as caught:
                tensor.__dlpack__(**more)
            assert (
                isinstance(caught.value, tenon.Unsupported) and caught.value.code == "UNSUPPORTED"
            )


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Pinned:
    """Host memory under DLPack's name for pinned memory, as PyTorch's pin_memory() and CuPy give
    it.
    """

    def __init__(self, tensor: tenon.Tensor, versioned: bool) -> None:
        self.tensor, self.versioned = tensor, versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return 3, 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        assert max_version is not None and max_version >= (1, 0)
        capsule = self.tensor.__dlpack__(max_version=max_version if self.versioned else None)
        # The device type follows the data pointer. In the versioned form the version, manager_ctx,
        # deleter and flags come first.
        name, offset = (b"dltensor_versioned", 40) if self.versioned else (b"dltensor", 8)
        kind = ctypes.c_int32.from_address(pointer_of(capsule, name) + offset)
        assert kind.value == 1
        kind.value = 3
        return capsule


@pytest.mark.parametrize("versioned", [True, False])
def test_pinned_memory_is_the_hosts(versioned: bool) -> None:
    tensor = tenon.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    taken = tenon.from_dlpack(Pinned(tensor, versioned))
    assert (
        taken.device == "cpu"
        and taken.__dlpack_device__() == (1, 0)
        and taken.tolist() == [[0, 1, 2], [3, 4, 5]]
    )
    taken.numpy()[0, 0] = 7
    assert tensor[0, 0].item() == 7
    with pytest.raises(tenon.InvalidArgument, match="stream"):
        tenon.from_dlpack(Pinned(tensor, versioned), stream=1)
    assert tenon.Value(Pinned(tensor[1:], versioned)).get().tolist() == [[3, 4, 5]]
    empty = tenon.from_dlpack(Pinned(tensor[:0], versioned))
    assert empty.device == "cpu" and empty.shape == (0, 3)


def test_other_devices_are_refused() -> None:
    with pytest.raises(tenon.Unsupported, match="10:3"):
        tenon.from_dlpack(Offers(None, (10, 3)))
    with pytest.raises(NotImplementedError):
        tenon.from_dlpack(Offers(None, (10, 3)))


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex64", "uint8", "int64"])
def test_dtypes(dtype: str) -> None:
    array = np.ones(4, dtype)
    assert tenon.from_dlpack(array).dtype == dtype
    assert np.from_dlpack(tenon.from_numpy(array)).dtype == np.dtype(dtype)


def test_deleters_during_interpreter_exit(child: Any) -> None:
    program = """
import numpy, tenon
keep = [tenon.zeros(10).__dlpack__(max_version=(1, 0)), tenon.zeros(10).__dlpack__(),
        tenon.from_dlpack(numpy.arange(5)), tenon.Storage.wrap(bytearray(10)),
        memoryview(tenon.zeros(4)), numpy.from_dlpack(tenon.zeros(5))]
cycle = [keep]; cycle.append(cycle)
import sys; sys.keep = keep
print("ok")
"""
    process = child(program)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"ok\n")


class Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI of DLPack 1.3."""

    _fields_ = (
        ("version", Version),
        ("prev_api", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        (
            "managed_from_object",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p)),
        ),
        (
            "managed_to_object",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object)),
        ),
        ("view_of_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("current_stream", ctypes.c_void_p),
    )


@pytest.fixture
def exchange() -> Exchange:
    capsule = getattr(tenon.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        pytest.skip("the DLPack header of this build is older than 1.3")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return Exchange.from_address(pointer(capsule, b"dlpack_exchange_api"))


def test_exchange_api_views_a_tensor(exchange: Exchange) -> None:
    assert exchange.version.major == 1 and exchange.version.minor >= 3
    tensor = tenon.from_numpy(np.arange(24, dtype="float32").reshape(4, 6))[1:, ::2]
    view = DLTensor()
    assert exchange.view_of_object(tensor, ctypes.addressof(view)) == 0
    assert (view.device_type, view.ndim, view.code, view.bits, view.lanes) == (1, 2, 2, 32, 1)
    assert view.shape[:2] == [3, 3] and view.strides[:2] == [6, 2]
    assert ctypes.cast(view.data, ctypes.POINTER(ctypes.c_float))[0] == 6.0
    for refused in (tenon.from_numpy(np.zeros(3), mode="frozen"), np.zeros(3)):
        with pytest.raises((BufferError, TypeError)):
            exchange.view_of_object(refused, ctypes.addressof(view))


def test_exchange_api_keeps_the_storage(exchange: Exchange) -> None:
    tensor = tenon.from_numpy(np.arange(5))
    weak = tensor.storage.weak_ref()
    managed, back = ctypes.c_void_p(), ctypes.py_object()
    assert exchange.managed_from_object(tensor, ctypes.byref(managed)) == 0
    del tensor
    assert not weak.expired
    assert exchange.managed_to_object(managed, ctypes.byref(back)) == 0
    taken = back.value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(taken))  # the reference that the function gave
    assert taken.tolist() == [0, 1, 2, 3, 4]
    del back, taken
    gc.collect()
    assert weak.expired


def test_from_dlpack_uses_the_exchange_api() -> None:
    if not hasattr(tenon.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("the DLPack header of this build is older than 1.3")
    tensor = tenon.from_numpy(np.arange(6))
    calls = []

    class Watched(tenon.Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            calls.append(options)
            return super().__dlpack__(**options)

    watched = Watched._new(tensor.storage, tensor._dtype_number, (6,), None, 0, 0)
    assert tenon.from_dlpack(watched).tolist() == [0, 1, 2, 3, 4, 5]
    assert not calls
