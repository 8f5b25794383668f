"""Composites: sparse, nested and quantised tensors, which consist of several tensors, and tensors
on meta, which have no memory.

Each part is a tenon.Tensor that can be viewed and lent by itself. A composite travels in a message
as a tensor does.
"""

from __future__ import annotations

from tenon import _dtype
from tenon._managed import Managed
from tenon._native import Struct, address_of, ffi, lib
from tenon._options import names_of, numbers, tensor_flags, words
from tenon.error import Unsupported, UnsupportedBuffer, filled, given, make
from tenon.tensor import Tensor, from_numpy
from tenon.tensor_spec import COALESCED, COALESCED_WORDS, LAYOUTS, QUANTIZER_NAMES, QUANTIZERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn, Self

    from tenon._options import Mode, Shape

_LAYOUT_NUMBERS = LAYOUTS | words("TENSOR_LAYOUT", "jagged nested meta quantized")
LAYOUT_NAMES = names_of(_LAYOUT_NUMBERS)

# The fields of the struct that are tensors.
PARTS = (
    "values",
    "indices",
    "plain_indices",
    "offsets",
    "lengths",
    "component_sizes",
    "component_strides",
    "scales",
    "zero_points",
)

# The fields of the struct that are numbers and tie the parts together.
_NUMBERS = ("axis", "ragged_dim", "quantizer", "coalesced", "scale", "zero_point", "offset")

_TWO_DIMENSIONS = 2


def _part(source: Any, mode: Mode = "shared") -> Tensor:
    """Give a tensor over the source. A tensor is returned as it is. An array that lies in Tenon's
    memory gives a tensor over that memory, and any other source gives a copy that can be lent.
    """
    if isinstance(source, Tensor):
        return source
    import numpy

    array = numpy.asarray(source)
    if (
        array.size
        and array.dtype.isnative
        and not any(step % array.itemsize for step in array.strides)
    ):
        strides = tuple(step // array.itemsize for step in array.strides)
        own = Tensor._at(array.ctypes.data, _dtype.number_of(array.dtype), array.shape, strides, 0)
        if own is not None:
            return own
    return from_numpy(array, mode=mode)


class Composite(Managed):
    """A composite is a tensor of several parts. It never changes.

    It has neither numpy() nor `__dlpack__`, because no array has its layout. Its parts have both.
    """

    __slots__ = ("_parts", "_spec")
    _spec: Any
    _parts: dict[str, Tensor] | None

    def __init__(self) -> None:
        raise TypeError(f"a {type(self).__name__} is made by one of its class methods")

    @classmethod
    def _make(
        cls,
        layout: str,
        parts: dict[str, Any],
        bits: int,
        *,
        shape: Shape | None = None,
        strides: Sequence[int] | None = None,
        dtype: Any = None,
        **fields: Any,
    ) -> Self:
        number = _LAYOUT_NUMBERS[layout]
        spec = Struct("tenon_composite_spec", layout=number, flags=bits, **fields)
        if shape is not None:
            sizes = numbers(shape)
            spec.cdata.ndim = len(sizes)
            spec.point(sizes=ffi.new("int64_t[]", sizes or [0]))
        if strides is not None:
            spec.point(strides=ffi.new("int64_t[]", numbers(strides) or [0]))
        if dtype is not None:
            spec.cdata.dtype = _dtype.split(_dtype.number_of(dtype))
        for name, part in parts.items():
            if part is not None:
                pointer = ffi.cast("tenon_tensor *", _part(part)._retained())
                spec.point(**{name: ffi.gc(pointer, lib.tenon_tensor_release)})
        made: Self = _adopt(given("tenon_composite *", lib.tenon_composite_new, spec.cdata))
        return made

    def _filled(self) -> Any:
        """The struct of the C library. Its pointers live as long as this object."""
        self._own()
        return self._spec

    @property
    def parts(self) -> dict[str, Tensor]:
        """The tensors of which the composite consists, by name, as in tenon/composite.h."""
        spec = self._filled()
        if self._parts is None:
            self._parts = {
                name: Tensor._adopt(address_of(lib.tenon_tensor_retain(getattr(spec, name))))
                for name in PARTS
                if getattr(spec, name) != ffi.NULL
            }
        return dict(self._parts)

    @property
    def layout(self) -> str:
        """PyTorch's name of the layout, such as "sparse_csr", "nested", "meta" or "quantized"."""
        return LAYOUT_NAMES[self._filled().layout]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes. -1 stands for a size that can differ from component to component."""
        spec = self._filled()
        return tuple(spec.sizes[0 : spec.ndim]) if spec.ndim else ()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._filled().ndim)

    @property
    def dtype(self) -> str:
        """The element type of the values by name. For quantised values it is the type of the stored
        integers.
        """
        found = self._filled().dtype
        return _dtype.name_of(_dtype.pack(found.code, found.bits, found.lanes))

    @property
    def device(self) -> str:
        """The device of the values: "cpu", "cuda:0" and so on, or "meta"."""
        values = self.parts.get("values")
        return "meta" if values is None else values.device

    @property
    def requires_grad(self) -> bool:
        """Whether the composite requires a gradient. The flag travels with it and means nothing to
        Tenon.
        """
        return bool(self._filled().flags & lib.TENON_TENSOR_REQUIRES_GRAD)

    @property
    def is_parameter(self) -> bool:
        """Whether the composite is a parameter. The flag travels with it and means nothing to
        Tenon.
        """
        return bool(self._filled().flags & lib.TENON_TENSOR_IS_PARAMETER)

    @property
    def values(self) -> Tensor:
        """The stored elements."""
        return self._named("values")

    def _named(self, name: str) -> Tensor:
        found = self.parts.get(name)
        if found is None:
            raise AttributeError(f"a {self.layout} tensor has no {name.replace('_', ' ')}")
        return found

    def check(self) -> Self:
        """Check the indices, offsets and component sizes against the sizes of the composite, and
        give the checked composite. Raises Corrupt if one of them is wrong.

        Frameworks do not check these numbers. A part that another process could still change is
        copied first, and the result has the copy. to_scipy and tenon.torch.to_torch call this,
        unless the caller says that the sender is trusted. The check reads each number once.
        """
        made: Self = _adopt(given("tenon_composite *", lib.tenon_composite_check, self._own()))
        return made

    def close(self) -> None:
        """Release the composite. Parts taken from it stay valid."""
        self._spec = self._parts = None
        super().close()

    def __dlpack__(self, **_options: Any) -> NoReturn:
        raise make(
            UnsupportedBuffer,
            f"DLPack has strided arrays only, and a {self.layout} tensor is none: export its parts"
            f" ({', '.join(self.parts)})",
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            f"numpy has strided arrays only, and a {self.layout} tensor is none: use its parts"
            f" ({', '.join(self.parts)})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The parts are pickled as tensors are: with tenon.multiprocessing, and not without it.
        return rebuild, self._state()

    def _state(self) -> tuple[Any, ...]:
        """The arguments of rebuild()."""
        spec = self._filled()
        meta = not self.parts
        fields = {name: getattr(spec, name) for name in _NUMBERS}
        shape = self.shape if meta or self.layout in LAYOUTS else None
        strides = tuple(spec.strides[0 : spec.ndim]) if meta else None
        dtype = self.dtype if meta else None
        return self.layout, self.parts, shape, strides, int(spec.flags), dtype, fields

    def _shown(self) -> str:
        return f" {self.layout} {list(self.shape)} of {self.dtype} on {self.device}"


def rebuild(
    layout: str,
    parts: dict[str, Tensor | None],
    shape: Shape | None,
    strides: Sequence[int] | None,
    flags: int,
    dtype: Any,
    fields: dict[str, Any],
) -> Composite:
    """Make a composite from what _state() gave. The arguments may come from an untrusted sender."""
    if not (
        set(parts) <= set(PARTS)
        and all(isinstance(part, Tensor) for part in parts.values())
        and set(fields) <= set(_NUMBERS)
    ):
        raise ValueError(
            "the parts of a composite are tensors, and its fields are those of tenon_composite_spec"
        )
    return Composite._make(
        layout, parts, flags, shape=shape, strides=strides, dtype=dtype, **fields
    )


class SparseTensor(Composite):
    """A sparse tensor stores the elements that are not zero, and their indices.

    An array that is no tensor is copied, unless it lies in Tenon's memory.
    """

    __slots__ = ()

    @classmethod
    def coo(
        cls,
        indices: Any,
        values: Any,
        shape: Shape,
        *,
        coalesced: bool | None = None,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> SparseTensor:
        """Make a COO tensor. indices has a row for each sparse dimension and a column for each
        element.

        coalesced says whether the indices are sorted and distinct. None means that this is not
        known.
        """
        parts, bits = (
            {"values": values, "indices": indices},
            tensor_flags(requires_grad, is_parameter),
        )
        return cls._make("sparse_coo", parts, bits, shape=shape, coalesced=COALESCED[coalesced])

    @classmethod
    def _compressed(
        cls, layout: str, pointers: Any, plain: Any, values: Any, shape: Shape, bits: int = 0
    ) -> SparseTensor:
        parts = {"values": values, "indices": pointers, "plain_indices": plain}
        return cls._make(layout, parts, bits, shape=shape)

    @classmethod
    def csr(
        cls,
        crow_indices: Any,
        col_indices: Any,
        values: Any,
        shape: Shape,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> SparseTensor:
        """Make a CSR tensor. Both kinds of indices have one type, int64 or int32."""
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._compressed("sparse_csr", crow_indices, col_indices, values, shape, bits)

    @classmethod
    def csc(
        cls,
        ccol_indices: Any,
        row_indices: Any,
        values: Any,
        shape: Shape,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> SparseTensor:
        """Make a CSC tensor."""
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._compressed("sparse_csc", ccol_indices, row_indices, values, shape, bits)

    @classmethod
    def bsr(
        cls,
        crow_indices: Any,
        col_indices: Any,
        values: Any,
        shape: Shape,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> SparseTensor:
        """Make a BSR tensor. values has two block dimensions after the dimension of the
        elements.
        """
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._compressed("sparse_bsr", crow_indices, col_indices, values, shape, bits)

    @classmethod
    def bsc(
        cls,
        ccol_indices: Any,
        row_indices: Any,
        values: Any,
        shape: Shape,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> SparseTensor:
        """Make a BSC tensor. values has two block dimensions after the dimension of the
        elements.
        """
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._compressed("sparse_bsc", ccol_indices, row_indices, values, shape, bits)

    @classmethod
    def from_scipy(cls, array: Any, *, mode: Mode = "shared") -> SparseTensor:
        """Make a sparse tensor of one of scipy's sparse arrays, in the format coo, csr, csc or bsr.

        Arrays that do not lie in Tenon's memory are copied into storages of this mode.
        """
        kind = getattr(array, "format", None)
        if kind == "coo":
            import numpy

            axes = getattr(array, "coords", None) or (array.row, array.col)
            indices = numpy.stack([numpy.asarray(axis) for axis in axes])
            coalesced = True if array.has_canonical_format else None
            return cls.coo(
                _part(indices, mode), _part(array.data, mode), array.shape, coalesced=coalesced
            )
        if kind not in ("csr", "csc", "bsr"):
            raise TypeError(
                "a sparse array of scipy's in format coo, csr, csc or bsr, not"
                f" {kind or type(array).__name__}: use its asformat()"
            )
        # scipy allows unsorted and duplicate indices, and PyTorch allows neither.
        if not array.has_canonical_format:
            array = array.copy()
            array.sum_duplicates()
        pointers, plain, values = (
            _part(each, mode) for each in (array.indptr, array.indices, array.data)
        )
        return cls._compressed(f"sparse_{kind}", pointers, plain, values, array.shape)

    @property
    def indices(self) -> Tensor:
        """The indices of the elements in a COO tensor, the row pointers in CSR and BSR, and the
        column pointers in CSC and BSC.
        """
        return self._named("indices")

    @property
    def plain_indices(self) -> Tensor:
        """The column indices in a CSR or BSR tensor, and the row indices in CSC and BSC."""
        return self._named("plain_indices")

    @property
    def is_coalesced(self) -> bool | None:
        """Whether the indices of a COO tensor are sorted and distinct, or None if that is not
        known.
        """
        return COALESCED_WORDS[self._filled().coalesced]

    def to_scipy(self, *, trusted: bool = False) -> Any:
        """Give a scipy.sparse array over the same values: coo_array, csr_array, csc_array or
        bsr_array.

        The indices are checked first, and those that another process can still change are copied.
        With trusted they are neither checked nor copied: a wrong index then lets scipy read memory
        outside the tensor.
        """
        import scipy.sparse

        layout = self.layout.removeprefix("sparse_")
        if layout == "bsc":
            raise make(
                Unsupported, "scipy has no array in BSC: use values, indices and plain_indices"
            )
        own: SparseTensor = self if trusted else self.check()
        values, indices = own.values.numpy(), own.indices.numpy()
        if (
            own.ndim != _TWO_DIMENSIONS
            or indices.ndim != (2 if layout == "coo" else 1)
            or values.ndim != (3 if layout == "bsr" else 1)
        ):
            raise make(
                Unsupported,
                f"scipy's arrays have two sparse dimensions, and this tensor of {list(own.shape)}"
                " has others",
            )
        if layout == "coo":
            found = scipy.sparse.coo_array(
                (values, (indices[0], indices[1])), shape=own.shape, copy=False
            )
            found.has_canonical_format = bool(own.is_coalesced)
            return found
        kind = getattr(scipy.sparse, f"{layout}_array")
        return kind((values, own.plain_indices.numpy(), indices), shape=own.shape, copy=False)


class JaggedTensor(Composite):
    """A jagged tensor has components that differ in one dimension. They lie one after another in
    `values`.
    """

    __slots__ = ()

    @classmethod
    def of(
        cls,
        values: Any,
        offsets: Any,
        lengths: Any = None,
        *,
        ragged_dim: int = 1,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> JaggedTensor:
        """Make a jagged tensor. Along dimension `ragged_dim - 1` of values, offsets says where each
        component begins, and where the last one ends.

        lengths has the length of each component. It is needed if there are gaps between the
        components.
        """
        parts = {"values": values, "offsets": offsets, "lengths": lengths}
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._make("jagged", parts, bits, ragged_dim=ragged_dim)

    @property
    def offsets(self) -> Tensor:
        """The offset at which each component begins, and the one at which the last component
        ends.
        """
        return self._named("offsets")

    @property
    def lengths(self) -> Tensor | None:
        """The length of each component, or None if each component ends where the next one
        begins.
        """
        return self.parts.get("lengths")

    @property
    def ragged_dim(self) -> int:
        """The dimension in which components differ."""
        return int(self._filled().ragged_dim)


class NestedTensor(Composite):
    """A nested tensor has components of any sizes in one buffer."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        values: Any,
        component_sizes: Any,
        component_strides: Any,
        offsets: Any,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> NestedTensor:
        """Make a nested tensor over a buffer of one dimension. Each component has a row of sizes, a
        row of strides, and an offset at which it begins.
        """
        parts = {
            "values": values,
            "component_sizes": component_sizes,
            "component_strides": component_strides,
            "offsets": offsets,
        }
        return cls._make("nested", parts, tensor_flags(requires_grad, is_parameter))

    @property
    def component_sizes(self) -> Tensor:
        """The sizes, with a row for each component and a column for each dimension."""
        return self._named("component_sizes")

    @property
    def component_strides(self) -> Tensor:
        """The strides, with a row for each component and a column for each dimension."""
        return self._named("component_strides")

    @property
    def offsets(self) -> Tensor:
        """The offset at which each component begins in the values."""
        return self._named("offsets")


class QuantizedTensor(Composite):
    """A quantised tensor stores integers that stand for numbers: (integer - zero_point) * scale.
    One scale holds for the whole tensor, or for each channel.
    """

    __slots__ = ()

    @classmethod
    def per_tensor(
        cls,
        values: Any,
        scale: float,
        zero_point: int = 0,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> QuantizedTensor:
        """Make a quantised tensor of int8, uint8, int32, uint4 or uint2 with one scale."""
        fields: dict[str, Any] = {"scale": scale, "zero_point": zero_point}
        quantizer, bits = QUANTIZERS["per_tensor_affine"], tensor_flags(requires_grad, is_parameter)
        return cls._make("quantized", {"values": values}, bits, quantizer=quantizer, **fields)

    @classmethod
    def per_channel(
        cls,
        values: Any,
        scales: Any,
        zero_points: Any,
        axis: int,
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> QuantizedTensor:
        """Make a quantised tensor with a float64 scale and an int64 zero point for each index of
        one axis. If both are float32, the tensor has float parameters.
        """
        zero_points = _part(zero_points)
        with_floats = "_float_qparams" if zero_points.dtype.startswith("float") else ""
        quantizer = QUANTIZERS[f"per_channel_affine{with_floats}"]
        parts = {"values": values, "scales": scales, "zero_points": zero_points}
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._make("quantized", parts, bits, quantizer=quantizer, axis=axis)

    @property
    def quantizer(self) -> str:
        """The rule by which the integers stand for numbers, such as "per_tensor_affine"."""
        return QUANTIZER_NAMES[self._filled().quantizer]

    @property
    def scale(self) -> float:
        """The scale of a tensor that is quantised as a whole."""
        return float(self._filled().scale)

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor that is quantised as a whole."""
        return int(self._filled().zero_point)

    @property
    def scales(self) -> Tensor | None:
        """The scale of each channel, or None for a tensor that is quantised as a whole."""
        return self.parts.get("scales")

    @property
    def zero_points(self) -> Tensor | None:
        """The zero point of each channel, or None for a tensor that is quantised as a whole."""
        return self.parts.get("zero_points")

    @property
    def axis(self) -> int:
        """The dimension of the channels."""
        return int(self._filled().axis)


class MetaTensor(Composite):
    """A meta tensor has sizes and an element type, and no memory."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        shape: Shape,
        dtype: Any = "float32",
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        requires_grad: bool = False,
        is_parameter: bool = False,
    ) -> MetaTensor:
        """Make a meta tensor. Strides and offset count elements. Without strides the tensor is
        contiguous.
        """
        bits = tensor_flags(requires_grad, is_parameter)
        return cls._make("meta", {}, bits, shape=shape, strides=strides, dtype=dtype, offset=offset)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements."""
        spec = self._filled()
        return tuple(spec.strides[0 : spec.ndim]) if spec.ndim else ()

    @property
    def offset(self) -> int:
        """The offset in elements, from the start of a storage that does not exist."""
        return int(self._filled().offset)


_CLASSES: dict[int, type[Composite]] = {
    lib.TENON_TENSOR_LAYOUT_JAGGED: JaggedTensor,
    lib.TENON_TENSOR_LAYOUT_NESTED: NestedTensor,
    lib.TENON_TENSOR_LAYOUT_META: MetaTensor,
    lib.TENON_TENSOR_LAYOUT_QUANTIZED: QuantizedTensor,
}


def _adopt(pointer: Any) -> Any:
    """Make an object of the class of the pointer's layout. The object owns this reference."""
    own = ffi.gc(pointer, lib.tenon_composite_release)
    spec = filled("tenon_composite_spec", lib.tenon_composite_get_spec, own)
    cls = _CLASSES.get(spec.layout, SparseTensor)
    self = cls.__new__(cls)
    self._cdata, self._spec, self._parts = own, spec, None
    return self


def borrowed(pointer: Any) -> Composite:
    """Make an object that takes a reference of its own."""
    found: Composite = _adopt(lib.tenon_composite_retain(pointer))
    return found
