"""Programs that test_cuda_torch.py runs on the fake driver. Each is a process: python
cuda_torch_programs.py PROGRAM.

PyTorch itself does not run on that driver. A module in its place has those rules of PyTorch that
tenon.torch must keep. The module hands out only memory of its current device, no conjugated
tensors, and not every element type, and it ignores the negative bit. The module takes tensors under
the same rules.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import types
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tenon
import tenon.torch
from cuda_kit import (
    DATA,
    Array,
    check,
    collected,
    cuda,
    new_stream,
    nothing_left,
    read,
    take_time,
    use_device,
)

ALONE = types.SimpleNamespace(device=1, stream=0, unversioned=False)
LACKS = {"bool", "float8_e4m3fn"}


class dtype:
    def __init__(self, name: str) -> None:
        self.name, self.itemsize = name, np.dtype(name).itemsize if name != "float8_e4m3fn" else 1

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Stream:
    def __init__(self, number: int) -> None:
        self.cuda_stream = number


class Tensor:
    """A tensor over an array of cuda_kit, or over the memory of a capsule."""

    layout, requires_grad, _backward_hooks = "torch.strided", False, None
    is_cpu, is_cuda, is_nested, is_quantized, is_meta = False, True, False, False, False

    def __init__(
        self, array: Any, name: str = "uint8", conj: bool = False, neg: bool = False
    ) -> None:
        self.array, self.dtype, self._conj, self._neg = array, getattr(torch, name), conj, neg
        self.device = types.SimpleNamespace(type="cuda", index=0)

    def _like(self, **more: Any) -> Tensor:
        return Tensor(
            self.array, **{"name": self.dtype.name, "conj": self._conj, "neg": self._neg, **more}
        )

    def is_conj(self) -> bool:
        return self._conj

    def is_neg(self) -> bool:
        return self._neg

    def conj(self) -> Tensor:
        return self._like(conj=not self._conj)

    def view(self, kind: dtype) -> Tensor:
        assert kind.itemsize == self.dtype.itemsize
        return self._like(name=kind.name)

    def detach(self) -> Tensor:
        return self

    def is_floating_point(self) -> bool:
        return False

    is_complex = is_floating_point

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        if ALONE.device != 0:
            raise BufferError("Can't export tensors on a different CUDA device index")
        if self._conj or self.dtype.name in LACKS:
            raise BufferError(f"conjugated, or {self.dtype}")
        return self.array.__dlpack__(stream=stream, max_version=max_version)


@contextmanager
def on_device(device: Any) -> Any:
    before, ALONE.device = ALONE.device, device.index
    yield
    ALONE.device = before


def from_dlpack(source: Any) -> Tensor:
    assert source.dtype not in LACKS
    version = {} if ALONE.unversioned else {"max_version": (1, 0)}
    capsule = source.__dlpack__(stream=ALONE.stream or 1, **version)
    del capsule
    return Tensor(source, source.dtype)


torch: Any = types.ModuleType("torch")
torch.Tensor, torch.dtype, torch.__version__, torch.from_dlpack = (
    Tensor,
    dtype,
    "of this test",
    from_dlpack,
)
torch.strided = Tensor.layout
torch._neg_view = lambda tensor: tensor._like(neg=not tensor._neg)
torch.cuda = types.SimpleNamespace(
    device=on_device, current_stream=lambda device: Stream(ALONE.stream)
)
for each in ("uint8", "bool", "float8_e4m3fn", "int16", "float16", "int32", "float32", "complex64"):
    setattr(torch, each, dtype(each))
sys.modules["torch"] = torch

# ---- programs


class Typed(Array):
    """An array whose capsule names an element type."""

    def __init__(self, data: bytes, code: int, size: int, **more: Any) -> None:
        super().__init__(data, **more)
        self.code, self.size = code, size

    def __dlpack__(self, **more: Any) -> Any:
        capsule = super().__dlpack__(**more)
        self.shape[0] = self.nbytes // self.size
        self.managed.tensor.code, self.managed.tensor.bits = self.code, 8 * self.size
        return capsule


def takes() -> None:
    """Takes tensors of a device that is not the current one, with their conjugate and negative
    bits, and of types that capsules lack.
    """
    use_device()
    for conj, neg in ((False, False), (True, False), (False, True), (True, True)):
        for make in (tenon.torch.from_torch, tenon.from_dlpack):
            array = Typed(DATA, 5, 8)
            tensor = make(Tensor(array, "complex64", conj=conj, neg=neg))
            assert (tensor.is_conj, tensor.is_neg, tensor.dtype) == (conj, neg, "complex64")
            assert ALONE.device == 1
            back = tenon.torch.to_torch(tensor)
            assert (back.is_conj(), back.is_neg(), str(back.dtype)) == (
                conj,
                neg,
                "torch.complex64",
            )
            del tensor, back
            assert collected() and array.freed == 1
    for name in ("bool", "float8_e4m3fn"):
        for make in (tenon.torch.from_torch, tenon.from_dlpack):
            tensor = make(Tensor(Array(DATA), name))
            assert tensor.dtype == name and read(tensor.view(dtype="uint8")) == DATA
            assert str(tenon.torch.to_torch(tensor).dtype) == f"torch.{name}"
            del tensor
    # A value does not pass through numpy, which would raise another error.
    value = tenon.Value(Tensor(Array(DATA)))
    assert value.get().device == "cuda:0"
    with pytest.raises(BufferError, match="of its own reasons"):
        tenon.Value(Tensor(types.SimpleNamespace(__dlpack__=refuse)))
    del value
    nothing_left()


def refuse(**_: Any) -> Any:
    raise BufferError("of its own reasons")


def gives_read_only() -> None:
    use_device()
    for ALONE.unversioned in (False, True):
        array = Array(DATA, read_only=True)
        tensor = tenon.from_dlpack(array)
        with pytest.raises(tenon.PermissionDenied, match="read-only"):
            tenon.torch.to_torch(tensor)
        with pytest.raises(tenon.Unsupported, match=r'writable="unsafe"\)\.clone'):
            tenon.torch.to_torch(tensor, "cow")
        there = tenon.torch.to_torch(tensor, "unsafe")
        assert not there.array.read_only and there.array._address == tensor._address
        tensor.close()
        assert not array.freed
        del there
        assert collected() and array.freed == 1
    nothing_left()


def counts_as_used() -> None:
    """A stream that the caller names in any form keeps the memory. The default stream, if no caller
    named it, does not.
    """
    use_device()
    ALONE.stream = stream = new_stream()
    ways: dict[str, Any] = {
        "named": lambda array: tenon.from_dlpack(array, stream=stream),
        "an object": lambda array: tenon.from_dlpack(array, stream=Stream(stream)),
        "PyTorch's current one": lambda array: tenon.torch.from_torch(Tensor(array)),
    }
    for name, make in ways.items():
        array = Array(DATA)
        tensor = make(array)
        take_time(stream)
        check(
            cuda.cuMemsetD8Async(
                ctypes.c_uint64(array.pointer),
                ctypes.c_ubyte(7),
                ctypes.c_size_t(len(DATA)),
                ctypes.c_void_p(stream),
            )
        )
        tensor.close()
        assert not array.freed and tenon.cuda_collect() == 1, name
        assert collected() and array.freed == 1
    array = Array(DATA)
    tenon.from_dlpack(array).close()
    assert array.freed == 1
    tenon.from_dlpack(Array(b""), stream=stream).close()
    nothing_left()


if __name__ == "__main__":
    signal.alarm(100)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if not tenon.cuda_available():
        sys.exit(77)
    globals()[sys.argv[1]]()
