"""Tensors: strided elements over one storage."""

from __future__ import annotations

from tenon import _dtype
from tenon._elements import Elements
from tenon._managed import SENDABLE, Closing
from tenon._native import lib
from tenon._native_ext import TensorBase, exchange_api, packed_nbytes
from tenon._options import CPU, CUDA, device_name, numbers, tensor_flags, unsigned
from tenon.by_cuda import consumer_stream
from tenon.error import InvalidArgument, UnsupportedBuffer, make
from tenon.storage import Place, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from tenon._options import Mode, Shape
    from tenon.arena import Arena
    from tenon.by_filename import Filename
    from tenon.wait import Cancel

# numpy's names, in this machine's byte order, of the element types that numpy has. numpy knows
# neither int4 nor complex32, and its "f16" is not float128.
_TYPESTRS: dict[int, str] = {
    _dtype.pack(code, bits): f"{'|' if bits == 8 else '<'}{kind}{bits // 8}"
    for code, kind, sizes in (
        (lib.TENON_DTYPE_INT, "i", (8, 16, 32, 64)),
        (lib.TENON_DTYPE_UINT, "u", (8, 16, 32, 64)),
        (lib.TENON_DTYPE_FLOAT, "f", (16, 32, 64)),
        (lib.TENON_DTYPE_COMPLEX, "c", (64, 128)),
        (lib.TENON_DTYPE_BOOL, "b", (8,)),
    )
    for bits in sizes
}


def _first_asarray(buffer: Any) -> NDArray[Any]:
    """numpy.asarray, which later calls use at once: an import takes as long as the array."""
    global _asarray
    from numpy import asarray

    _asarray = asarray
    return asarray(buffer)


_asarray: Callable[[Any], NDArray[Any]] = _first_asarray


class Tensor(Closing, Elements, TensorBase):
    """A tensor is a view of one storage: an element type, a shape, strides and an offset. It never
    changes its shape. A view of a tensor is another tensor over the same storage.

    numpy(), memoryview(), __dlpack__ and indexing give views without a copy. Each view keeps the
    storage alive by itself. The methods that read elements refuse a tensor on a device. A consumer
    of such a tensor uses __dlpack__ or __cuda_array_interface__. A tensor of one element acts as a
    number in int(), float(), bool() and so on, as numpy's arrays do.
    """

    __slots__ = ("__weakref__",)
    _instead = SENDABLE

    @classmethod
    def over(
        cls,
        storage: Storage,
        shape: Shape,
        dtype: Any = "float32",
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> Tensor:
        """Make a tensor over a storage.

        Strides and offset count elements. Without strides the tensor is contiguous.
        """
        flags = tensor_flags(requires_grad, is_parameter)
        steps = None if strides is None else numbers(strides)
        number, start = _dtype.number_of(dtype), unsigned(offset, "offset")
        return cls._new(storage, number, numbers(shape), steps, start, flags)

    @property
    def dtype(self) -> str:
        """The element type by name, such as "float32" or "bfloat16"."""
        return _dtype.name_of(self._dtype_number)

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes, or 0 if an element is smaller than a byte."""
        return _dtype.bits_of(self._dtype_number) // 8

    @property
    def storage(self) -> Storage:
        """The storage under the tensor. Each read gives a reference of its own."""
        return self._storage_as(Storage)

    @property
    def device(self) -> str:
        """The device of the elements: "cpu", or "cuda:0" and so on, in this process's numbering."""
        return device_name(self._device_numbers)

    @property
    def requires_grad(self) -> bool:
        """Whether the tensor requires a gradient. The flag travels with the tensor and means
        nothing to Tenon.
        """
        return bool(self._flags & lib.TENON_TENSOR_REQUIRES_GRAD)

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter. The flag travels with the tensor and means nothing to
        Tenon.
        """
        return bool(self._flags & lib.TENON_TENSOR_IS_PARAMETER)

    @property
    def is_conj(self) -> bool:
        """Whether a reader must conjugate the elements."""
        return bool(self._flags & lib.TENON_TENSOR_CONJ)

    @property
    def is_neg(self) -> bool:
        """Whether a reader must negate the elements."""
        return bool(self._flags & lib.TENON_TENSOR_NEG)

    def view(
        self,
        shape: Shape | None = None,
        dtype: Any = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int | None = None,
    ) -> Tensor:
        """Make another tensor over the same storage, with another shape, strides or offset, or with
        the same bytes read as another dtype.

        The offset counts elements from the start of the storage. An argument that is not given
        keeps the tensor's own value, except that a new shape without strides is contiguous if an
        offset is given. One size of the shape may be -1 if neither strides nor offset are given.
        """
        number, own = self._dtype_number, self
        if dtype is not None:
            number = _dtype.number_of(dtype)
            if shape is None or offset is None:
                own = self._view_dtype(number)
        if strides is None and offset is None:
            if shape is not None:
                return own._reshape(numbers(shape))
            return self.__copy__() if own is self else own
        sizes, steps = (own.shape, own.strides) if shape is None else (numbers(shape), None)
        if strides is not None:
            steps = numbers(strides)
        start = own.offset if offset is None else unsigned(offset, "offset")
        return type(self)._new(self.storage, number, sizes, steps, start, self._flags)

    def reshape(self, *shape: Any) -> Tensor:
        """Give the same elements in another shape. One size may be -1. A tensor that would have to
        be copied raises InvalidArgument.
        """
        return self._reshape(numbers(shape[0] if len(shape) == 1 else shape))

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            # PyTorch 1's torch.as_tensor takes every tensor for a list, and so calls this method.
            raise TypeError(
                "a tensor without dimensions has no length: use item(), or tenon.torch.to_torch in"
                " place of torch.as_tensor"
            )
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError(
                "a tensor without dimensions cannot be iterated: item() is its one element"
            )
        return (self[i] for i in range(len(self)))

    def numpy(self) -> NDArray[Any]:
        """Give a numpy array over the same bytes. It is read-only if the tensor is."""
        try:
            return _asarray(memoryview(self))
        except BufferError:
            number = self._dtype_number
            bits = _dtype.bits_of(number)
            if self.is_conj or self.is_neg or bits % 8 or number >> 16 != 1:
                raise
        name = _dtype.name_of(number)
        way_out = f'view(dtype="uint{bits if bits in (8, 16, 32, 64) else 8}").numpy()'
        if number & 0xFF in (lib.TENON_DTYPE_FLOAT, lib.TENON_DTYPE_COMPLEX):
            raise TypeError(
                f"numpy has no {name} that lies in memory as a tensor's does: use {way_out}"
            )
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"numpy knows no {name}: install ml_dtypes, or use {way_out}") from None
        kind = getattr(ml_dtypes, name, None)
        if kind is None:
            raise TypeError(f"neither numpy nor this ml_dtypes knows {name}: use {way_out}")
        return self.view(dtype=f"uint{bits}").numpy().view(kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.dtype} cannot be read as {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The protocol of Numba, CuPy and others, version 3. Only a tensor on a CUDA device whose
        dtype numpy knows has this attribute.

        The consumer is told to wait for the default stream, which Storage.order_stream has put
        behind the streams in which the storage is used.
        """
        device, number = self._device_numbers, self._dtype_number
        typestr = _TYPESTRS.get(number)
        if device[0] != CUDA or typestr is None or self.is_conj or self.is_neg:
            raise AttributeError(
                f"a tensor of {self.dtype} on {device_name(device)} has no __cuda_array_interface__"
            )
        size = self.itemsize
        self.storage.order_stream(1)
        return {
            "shape": self.shape,
            "strides": None if self.is_contiguous else tuple(step * size for step in self.strides),
            "typestr": typestr,
            "data": (self._address if self.numel else 0, self.read_only),
            "version": 3,
            "stream": 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device_numbers

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the tensor as the array API standard defines it.

        A stream is for CUDA only: None or 1 is the default stream, 2 is the default stream of the
        calling thread, a number above 2 is a pointer, and -1 is no stream. The consumer's stream is
        ordered behind the streams in which the storage is used (Storage.order_stream). The storage
        then counts as used in the consumer's stream too, so that stream must exist until the
        storage's last reference has gone.

        An export that is not possible raises BufferError, as the standard says. A tensor on the CPU
        takes no stream.
        """
        device = self._device_numbers
        if device[0] != CUDA and stream is not None:
            raise make(
                InvalidArgument,
                f"stream {stream} is given, and the tensor lies on the CPU: only None goes there",
                option="stream",
            )
        used = consumer_stream(stream)
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != device:
            where = "the CPU" if device[0] == CPU else f"CUDA device {device[1]}"
            raise BufferError(f"the tensor lies on {where}, not on DLPack device {dl_device}")
        if self.is_conj or self.is_neg:
            raise make(
                UnsupportedBuffer,
                "DLPack has no conjugate and no negative bit, and one of the tensor's is set",
            )
        versioned = max_version is not None and max_version[0] >= 1
        if copy:
            if device[0] != CPU:
                raise make(
                    UnsupportedBuffer,
                    f"the tensor lies on CUDA device {device[1]}, where Tenon copies nothing: take"
                    " it as it is and copy that",
                    option="copy",
                )
            return self.clone(private=True)._to_dlpack(versioned, True)
        if not versioned and self.read_only:
            raise BufferError(
                "the tensor is read-only, and DLPack before version 1.0 cannot say so: ask with"
                " max_version=(1, 0), or with copy=True"
            )
        if device[0] == CUDA and used >= 0:
            self.storage.order_stream(used)
            self.storage.record_stream(used)
        return self._to_dlpack(versioned, False)

    def tobytes(self) -> bytes:
        """Give a copy of the elements, packed, with the last dimension fastest."""
        if self.is_conj or self.is_neg:
            raise BufferError(
                "the tensor's conjugate or negative bit is set: its bytes are not its values"
            )
        return bytes(self._packed_bytes())

    def clone(
        self,
        *,
        mode: Mode = "shared",
        isolated: bool = False,
        private: bool = False,
        filename: Filename | None = None,
        arena: Arena | None = None,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Tensor:
        """Make a contiguous copy in a storage of its own.

        filename puts the copy into a named file, and arena puts it into that arena. timeout is as
        in empty.
        """
        place = Place(mode, isolated, private, filename, arena, timeout, cancel)
        storage = place.copy_of(self._packed_bytes())
        return type(self)._new(storage, self._dtype_number, self.shape, None, 0, self._flags)

    def __copy__(self) -> Tensor:
        """Make another tensor over the same elements."""
        return self._over(self.storage)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """Make a tensor of the same layout over a copy of the whole storage. All tensors of one
        deepcopy that share a storage share its copy.
        """
        return self._over(self.storage.__deepcopy__(memo))

    def _layout(self, more_flags: int = 0) -> tuple[Any, ...]:
        """The arguments of _new after the storage."""
        flags = self._flags | more_flags
        return self._dtype_number, self.shape, self.strides, self.offset, flags

    def _over(self, storage: Storage, more_flags: int = 0) -> Tensor:
        return type(self)._new(storage, *self._layout(more_flags))

    def _packed_bytes(self) -> memoryview | bytes:
        """The bytes of the elements. They are a view if the elements lie packed in the storage, and
        else a packed copy.
        """
        bits = _dtype.bits_of(self._dtype_number)
        if self.is_contiguous:
            start = self.offset * bits // 8
            return self.storage.data[start : start + self.nbytes]
        # The strides below count bytes, because an element smaller than a byte is always
        # contiguous.
        size = bits // 8
        shape, strides = (*self.shape, size), (*(step * size for step in self.strides), 1)
        return memoryview(
            type(self)._new(
                self.storage, _dtype.number_of("uint8"), shape, strides, self.offset * size, 0
            )
        ).tobytes()

    def _shown(self) -> str:
        parts = [f"shape={self.shape}", f"dtype={self.dtype}"]
        if not self.is_contiguous:
            parts.append(f"strides={self.strides}")
        if self.offset:
            parts.append(f"offset={self.offset}")
        parts.append(self.storage._place())
        if self.read_only:
            parts.append("read-only")
        return f" {', '.join(parts)}"


# Libraries that know DLPack 1.3 take tensors by the functions of this table, and call no Python
# method.
_exchange = exchange_api(Tensor)
if _exchange is not None:
    Tensor.__dlpack_c_exchange_api__ = _exchange  # type: ignore[attr-defined]


def empty(
    shape: Shape,
    dtype: Any = "float32",
    *,
    mode: Mode = "shared",
    isolated: bool = False,
    private: bool = False,
    alignment: int = 0,
    requires_grad: bool = False,
    filename: Filename | None = None,
    arena: Arena | None = None,
    timeout: float | None = 0,
    cancel: Cancel | None = None,
) -> Tensor:
    """Make a tensor whose bytes are not initialised.

    - mode: In mode "shared" lender and borrowers write. In mode "lender_writes" the kernel refuses
      every write of a borrower. A "frozen" tensor is filled with storage.write and closed with
      storage.freeze; after that nobody writes.
    - filename: The tensor lies in a named file of its own (Storage.new_filename). Under the sharing
      strategy "file_system" of tenon.multiprocessing every tensor of mode "shared" does, unless it
      is private, empty, in an arena or aligned to more than 64 bytes.
    - arena: The tensor lies in this arena, in the arena's mode. A full arena raises
      ResourceExhausted, whose details["holders"] says which processes hold the memory.
    - timeout: The seconds to wait for room in the arena, after which the call raises Timeout. None
      waits for ever.
    - cancel: This object ends the wait from another thread or a signal handler.
    """
    place = Place(mode, isolated, private, filename, arena, timeout, cancel)
    return new_tensor(shape, dtype, False, alignment, requires_grad, place)


def zeros(
    shape: Shape,
    dtype: Any = "float32",
    *,
    mode: Mode = "shared",
    isolated: bool = False,
    private: bool = False,
    alignment: int = 0,
    requires_grad: bool = False,
    filename: Filename | None = None,
    arena: Arena | None = None,
    timeout: float | None = 0,
    cancel: Cancel | None = None,
) -> Tensor:
    """Make a tensor whose bytes are all zero. The options are those of empty."""
    place = Place(mode, isolated, private, filename, arena, timeout, cancel)
    return new_tensor(shape, dtype, True, alignment, requires_grad, place)


def new_tensor(
    shape: Shape, dtype: Any, zeroed: bool, alignment: int, requires_grad: bool, place: Place
) -> Tensor:
    """Make a contiguous tensor in a new storage."""
    sizes = numbers(shape)
    number = _dtype.number_of(dtype)
    storage = place.new(packed_nbytes(number, sizes), zeroed, alignment)
    return Tensor._new(storage, number, sizes, None, 0, tensor_flags(requires_grad))


def from_numpy(
    array: Any,
    *,
    mode: Mode = "shared",
    isolated: bool = False,
    private: bool = False,
    filename: Filename | None = None,
    arena: Arena | None = None,
    timeout: float | None = 0,
    cancel: Cancel | None = None,
) -> Tensor:
    """Make a tensor that holds a copy of a numpy array, or of an object that numpy can make into
    one.

    With mode "frozen" the result is frozen. The other options are those of empty.
    """
    import numpy

    source = array if type(array) is numpy.ndarray else numpy.asarray(array)
    dtype = source.dtype
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    number = _dtype.number_of(dtype)
    # ml_dtypes' int4 takes a whole byte for each element.
    if _dtype.bits_of(number) != 8 * dtype.itemsize:
        raise TypeError(
            f"numpy keeps {dtype} in {dtype.itemsize} bytes, which is not how a tensor does"
        )
    if dtype is not source.dtype or not source.flags.c_contiguous:
        source = numpy.ascontiguousarray(source, dtype).reshape(source.shape)
    data: Any = source
    if dtype.kind not in "biufc":
        # numpy exports no buffer of an element type that another library added to numpy.
        data = source.reshape(-1).view(numpy.uint8) if source.size else b""
    place = Place(mode, isolated, private, filename, arena, timeout, cancel)
    return Tensor._new(place.copy_of(data), number, source.shape, None, 0, 0)
