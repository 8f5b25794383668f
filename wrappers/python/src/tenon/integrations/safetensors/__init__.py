"""The reading half of the package safetensors over Tenon's memory: safe_open here, and load_file
and load in the modules numpy and torch of this package.

A program changes one import, and adds a name if its processes shall share one copy:

from tenon.integrations.safetensors import safe_open

with safe_open("model.safetensors", framework="pt", name="llama") as file:
    state = {key: file.get_tensor(key) for key in file.keys()}
"""

from __future__ import annotations

import contextlib
import operator
import os

from tenon import _dtype, weights
from tenon.error import Corrupt, Unsupported
from tenon.tensor import Tensor

try:
    # A program that has the package catches its class of errors.
    from safetensors import SafetensorError
except ImportError:

    class SafetensorError(Exception):  # type: ignore[no-redef]
        """The file is no safetensors file, or does not have what was asked for."""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self

    from tenon._text import Path

__all__ = ["SafetensorError", "safe_open"]

_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fnx2": "F4",
}
"""The element types as a tensor and as a file spells them."""

_FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "pytorch": "torch"}

_METADATA = "__metadata__."

_UINT8 = _dtype.number_of("uint8")


class _Private(Tensor):
    """Bytes that this process may write, over those of a shared tensor. Each view of these bytes
    keeps the shared tensor, so that this process hands the weights on.
    """

    __slots__ = ("shared",)
    shared: Tensor


@contextlib.contextmanager
def _their_errors() -> Iterator[None]:
    try:
        yield
    except (Corrupt, Unsupported) as error:
        raise SafetensorError(str(error)) from error


def _writable(tensor: Tensor) -> memoryview:
    """The bytes of a weight, which are a storage of their own. A write to them stays in this
    process.
    """
    storage = tensor.storage
    if not storage.read_only:
        return storage.data
    from tenon.torch._exchange import copy_on_write

    private = copy_on_write(storage)
    view = _Private._new(private, _UINT8, (private.nbytes,), None, 0, 0)
    view.shared = tensor
    return memoryview(view)


def _numpy_array(tensor: Tensor) -> Any:
    import numpy

    try:
        dtype = numpy.dtype(tensor.dtype)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"numpy knows no {tensor.dtype}: install ml_dtypes") from None
        dtype = numpy.dtype(getattr(ml_dtypes, tensor.dtype))
    if not tensor.nbytes:
        return numpy.empty(tensor.shape, dtype)
    return numpy.frombuffer(_writable(tensor), dtype).reshape(tensor.shape)


def _torch_tensor(tensor: Tensor) -> Any:
    import torch

    from tenon.torch._exchange import torch_dtype

    dtype = torch_dtype(tensor.dtype)
    if not tensor.nbytes:
        return torch.empty(tensor.shape, dtype=dtype)
    flat = torch.frombuffer(_writable(tensor), dtype=torch.uint8)
    return flat.view(dtype).reshape(tensor.shape)


def _numpy_maker(device: Any) -> Callable[[Tensor], Any]:
    if device != "cpu":
        raise SafetensorError(f"Device {device} is not supported for framework numpy")
    return _numpy_array


def _torch_maker(device: Any) -> Callable[[Tensor], Any]:
    from tenon.torch._exchange import require_torch

    require_torch()
    import torch

    try:
        torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise SafetensorError(f"device {device} is invalid") from error
    return _torch_tensor if device == "cpu" else lambda tensor: _torch_tensor(tensor).to(device)


_MAKERS = {"numpy": _numpy_maker, "torch": _torch_maker}


class safe_open:
    """An opened safetensors file, with the methods of safetensors.safe_open.

    The arrays and tensors are writable, and nothing is copied when they are made. The kernel copies
    a page when this process first writes it. Neither the file nor another process sees the write.
    Without a name, all tensors that one safe_open gives for a key are the same memory, as those of
    PyTorch are in the original.

    - framework: "np" and "numpy", or "pt", "torch" and "pytorch".
    - device: Where PyTorch's tensors go. numpy's arrays are on the "cpu".
    - backend: "mmap" and "pread" are accepted, and mean the same here.
    - name: Share the file with all processes that open this name, as tenon.weights.open does, with
      its errors. One process loads the file into memory, and the others map it. This process hands
      the file on as long as it has one of the tensors.
    - directory, timeout: As for tenon.weights.open.

    A type of elements that numpy lacks needs ml_dtypes, and raises TypeError without it. The types
    of 6 bits raise SafetensorError.
    """

    def __init__(
        self,
        filename: Path,
        framework: str,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
        name: str | None = None,
        directory: Path | None = None,
        timeout: float | None = None,
    ) -> None:
        self._framework = _FRAMEWORKS.get(framework)
        if self._framework is None:
            raise SafetensorError(f'framework {framework} is invalid: use "np" or "pt"')
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f'backend "{backend}" is invalid: use "mmap"')
        self._make = _MAKERS[self._framework]("cpu" if device is None else device)
        self._filename = os.fspath(filename)
        with open(self._filename, "rb") as file:
            # tenon.open_weights reads other forms of files too.
            if file.read(9)[8:] != b"{":
                raise SafetensorError(f"{self._filename!r} is no safetensors file")
        with _their_errors():
            self._weights: Any = (
                weights.open_weights(self._filename, tensors="map_private")
                if name is None
                else weights.open(self._filename, name=name, directory=directory, timeout=timeout)
            )

    def __enter__(self) -> Self:
        self._opened()
        return self

    def __exit__(self, *_: object) -> None:
        if self._weights is not None:
            self._weights.close()
            self._weights = None

    def _opened(self) -> Any:
        if self._weights is None:
            raise SafetensorError("File is closed")
        return self._weights

    def _tensor(self, name: str) -> Tensor:
        try:
            with _their_errors():
                tensor: Tensor = self._opened()[name]
                return tensor
        except KeyError:
            raise SafetensorError(f"File does not contain tensor {name}") from None

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._opened().names())

    def offset_keys(self) -> list[str]:
        """The names of the tensors in the order of their bytes in the file."""
        return list(self._opened().names())

    def metadata(self) -> dict[str, str] | None:
        """The texts of the file's __metadata__, or None if there are none."""
        opened = self._opened()
        names = opened.value_names()
        return {name.removeprefix(_METADATA): opened.value(name) for name in names} or None

    def get_tensor(self, name: str) -> Any:
        """A tensor as the framework's."""
        return self._make(self._tensor(name))

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by their names, in the order of offset_keys."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        """What can be indexed to get a part of a tensor. Only the pages of the part are read."""
        return Slice(self._tensor(name), self._make, self._framework == "numpy")


class Slice:
    """A tensor of a file of which an index gives a part. get_slice makes it."""

    def __init__(self, tensor: Tensor, make: Callable[[Tensor], Any], is_numpy: bool) -> None:
        self._tensor, self._make, self._is_numpy = tensor, make, is_numpy

    def get_shape(self) -> list[int]:
        """The shape in the file. In a shape of F4, PyTorch counts pairs of numbers."""
        shape = list(self._tensor.shape)
        if self.get_dtype() == "F4":
            shape[-1] *= 2
        return shape

    def get_dtype(self) -> str:
        """The element type as the file spells it, such as "F32"."""
        return _DTYPES[self._tensor.dtype]

    def __getitem__(self, index: Any) -> Any:
        """A part of the tensor. The index for numpy consists of integers, slices with a positive
        step, and one Ellipsis. An index for PyTorch is anything that a tensor takes.
        """
        if not self._is_numpy:
            return self._make(self._tensor)[index]
        parts = _parts_of(index)
        try:
            part = self._make(self._tensor)[parts]
        except IndexError as error:
            raise SafetensorError(f"Error during slicing {index}: {error}") from error
        # The original gives arrays that lie packed.
        return part if part.flags.c_contiguous else part.copy()


def _parts_of(index: Any) -> tuple[Any, ...]:
    if isinstance(index, list) and not index:
        index = slice(0, 0)
    parts = list(index) if isinstance(index, tuple) else [index]
    for at, part in enumerate(parts):
        if isinstance(part, slice):
            if part.step is not None and part.step <= 0:
                raise SafetensorError(f"Slice step must be a positive integer, got {part.step}")
        elif part is not ...:
            try:
                parts[at] = operator.index(part)
            except TypeError:
                raise SafetensorError(
                    f"Unsupported slice index {part!r}: use slice, int, or ellipsis"
                ) from None
    # Without an Ellipsis numpy gives one element as a scalar, which is no view.
    return (*parts,) if ... in parts else (*parts, ...)


def _load_bytes(data: bytes, framework: str) -> dict[str, Any]:
    """All tensors of a safetensors file that the program has as bytes, which are copied once."""
    with os.fdopen(os.memfd_create("safetensors"), "wb") as file:
        file.write(data)
        file.flush()
        with safe_open(f"/proc/self/fd/{file.fileno()}", framework) as opened:
            return opened.get_tensors()
