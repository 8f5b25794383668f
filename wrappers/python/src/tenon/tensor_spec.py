"""Descriptions of module tensors that tenon.Tensor cannot express: quantised, sparse, on meta, or
of element types that DLPack lacks.
"""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._native import Struct, ffi, lib
from tenon._options import flags, names_of, number_of, numbers, unsigned, words
from tenon._storage_of import storage_of
from tenon._text import decoded, stored
from tenon.scalar_type import ScalarType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from tenon._options import Shape
    from tenon.storage import Storage
    from tenon.tensor import Tensor

    Layout = Literal[
        "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"
    ]
    Quantizer = Literal[
        "none", "per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams"
    ]

LAYOUTS = words("TENSOR_LAYOUT", "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc")
_LAYOUT_NAMES = names_of(LAYOUTS)
QUANTIZERS = words(
    "QUANTIZER", "none per_tensor_affine per_channel_affine per_channel_affine_float_qparams"
)
QUANTIZER_NAMES = names_of(QUANTIZERS)
COALESCED: dict[bool | None, int] = {
    None: lib.TENON_COALESCED_UNKNOWN,
    False: lib.TENON_COALESCED_NO,
    True: lib.TENON_COALESCED_YES,
}
COALESCED_WORDS = {number: word for word, number in COALESCED.items()}

# The parts of a tensor, by the attribute here, which is also the field in C.
PARTS = words("TENSOR_PART", "indices plain_indices values scales zero_points")

# Fields that have the same name in the C struct and are copied without conversion.
_PLAIN = ("offset", "scale", "zero_point", "axis")

# The quantised element type for the integer type that is stored.
_QUANTISED = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}


def _tensor_of(source: Any) -> Tensor:
    from tenon._to_value import tensor_of  # it imports this module

    return tensor_of(source)


class TensorSpec(Frozen):
    """The full description that PyTorch has of a tensor. Sizes, strides and offset count elements.
    storage_offset counts bytes.

    - scalar_type: The element type, or anything from which ScalarType can be made.
    - strides: None means contiguous. A sparse tensor has None too, and a spec that Tenon gives has
      None for sparse tensors only.
    - offset: It counts from the first element of PyTorch's storage of the tensor.
    - storage, storage_offset and storage_numel: PyTorch's storage of the tensor begins
      storage_offset bytes into `storage` and has storage_numel elements. A storage_numel of 0 means
      the rest of `storage`, and on meta as many elements as are needed. `storage` is None for a
      sparse tensor and on meta. The spec keeps `storage` alive.
    - device: "cpu", "cuda:0" or "meta". It must be the device of `storage`.
    - is_conj and is_neg: The elements are conjugated or negated when they are read.
    - quantizer: "none" for elements that are not quantised. "per_tensor_affine" goes with scale and
      zero_point. The two quantizers per channel go with scales, zero_points and axis, which is the
      dimension of the channels.
    - indices, plain_indices and values: The parts of sparse layouts.
    - coalesced: For "sparse_coo". None means that it is not known.

    scales, zero_points, indices, plain_indices and values are tensors: a tenon.Tensor, a numpy
    array, or any object with __dlpack__.

    A spec is checked when a module or a value is made of it. Only an unknown element type, and
    a shape or strides that are no numbers, are refused at once.
    """

    scalar_type: ScalarType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    offset: int
    storage: Storage | None
    storage_offset: int
    storage_numel: int
    device: str
    layout: str
    requires_grad: bool
    is_conj: bool
    is_neg: bool
    quantizer: str
    scale: float
    zero_point: int
    axis: int
    scales: Any
    zero_points: Any
    indices: Any
    plain_indices: Any
    values: Any
    coalesced: bool | None
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        scalar_type: Any,
        shape: Shape,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        storage: Storage | None = None,
        storage_offset: int = 0,
        storage_numel: int = 0,
        device: str = "cpu",
        layout: Layout = "strided",
        requires_grad: bool = False,
        is_conj: bool = False,
        is_neg: bool = False,
        quantizer: Quantizer = "none",
        scale: float = 0.0,
        zero_point: int = 0,
        axis: int = 0,
        scales: Any = None,
        zero_points: Any = None,
        indices: Any = None,
        plain_indices: Any = None,
        values: Any = None,
        coalesced: bool | None = None,
    ) -> None:
        self._set(
            locals(),
            scalar_type=ScalarType(scalar_type),
            shape=numbers(shape),
            strides=None if strides is None else numbers(strides),
        )

    @classmethod
    def meta(
        cls, shape: Shape, dtype: Any = "float32", *, requires_grad: bool = False
    ) -> TensorSpec:
        """Describe a tensor without memory."""
        return cls(dtype, shape, device="meta", requires_grad=requires_grad)

    @classmethod
    def quantized(cls, source: Any, scale: float, zero_point: int = 0) -> TensorSpec:
        """Describe int8, uint8 or int32 integers that stand for (integer - zero_point) * scale."""
        return cls._quantized(
            source, quantizer="per_tensor_affine", scale=scale, zero_point=zero_point
        )

    @classmethod
    def quantized_per_channel(
        cls, source: Any, scales: Any, zero_points: Any, axis: int
    ) -> TensorSpec:
        """Describe quantised integers with a float64 scale and an int64 zero point for each index
        of one axis. Zero points of a floating-point type mean float_qparams.
        """
        scales, zero_points = _tensor_of(scales), _tensor_of(zero_points)
        with_floats = "_float_qparams" if zero_points.dtype.startswith("float") else ""
        quantizer = f"per_channel_affine{with_floats}"
        return cls._quantized(
            source, quantizer=quantizer, scales=scales, zero_points=zero_points, axis=axis
        )

    @classmethod
    def _quantized(cls, source: Any, **fields: Any) -> TensorSpec:
        tensor = _tensor_of(source)
        kind = _QUANTISED.get(tensor.dtype)
        if kind is None:
            raise TypeError(f"quantised elements are {', '.join(_QUANTISED)}, not {tensor.dtype}")
        layout = (tensor.shape, tensor.strides, tensor.offset, tensor.storage)
        return cls(kind, *layout, device=tensor.device, **fields)

    @classmethod
    def sparse_coo(
        cls, indices: Any, values: Any, shape: Shape, *, coalesced: bool | None = None
    ) -> TensorSpec:
        """Describe a COO tensor. indices has a column of int64 for each value."""
        parts: dict[str, Any] = {"indices": indices, "values": _tensor_of(values)}
        dtype = parts["values"].dtype
        return cls(dtype, shape, layout="sparse_coo", coalesced=coalesced, **parts)

    @classmethod
    def sparse_compressed(
        cls, layout: Layout, indices: Any, plain_indices: Any, values: Any, shape: Shape
    ) -> TensorSpec:
        """Describe a compressed sparse tensor. For "sparse_csr" and "sparse_bsr" indices are the
        row pointers and plain_indices the columns. For "sparse_csc" and "sparse_bsc" they are the
        column pointers and the rows. For "sparse_bsr" and "sparse_bsc" values has two dimensions
        of the block behind that of the elements.
        """
        values = _tensor_of(values)
        parts: dict[str, Any] = {"indices": indices, "plain_indices": plain_indices}
        return cls(values.dtype, shape, layout=layout, values=values, **parts)


def to_c(spec: TensorSpec, part: Callable[[Any], Any]) -> Struct:
    """Make the C struct, which keeps alive all that it points to. `part` makes the handle of a
    tenon_value from one of the spec's tensors. ValueError for a word that does not exist, or a
    wrong number of strides.
    """
    out = Struct(
        "tenon_value_tensor_spec",
        scalar_type=int(spec.scalar_type),
        layout=number_of(LAYOUTS, spec.layout, "layout"),
        ndim=len(spec.shape),
        quantizer=number_of(QUANTIZERS, spec.quantizer, "quantizer"),
        coalesced=COALESCED[spec.coalesced],
        storage_offset=unsigned(spec.storage_offset, "storage_offset"),
        storage_numel=unsigned(spec.storage_numel, "storage_numel"),
        **{name: getattr(spec, name) for name in _PLAIN},
    )
    out.cdata.flags = flags(
        "TENSOR", requires_grad=spec.requires_grad, conj=spec.is_conj, neg=spec.is_neg
    )
    strides = spec.strides
    if strides is not None and len(strides) != len(spec.shape):
        raise ValueError(f"{len(strides)} strides for {len(spec.shape)} dimensions")
    tensors = {name: getattr(spec, name) for name in PARTS}
    out.point(
        sizes=ffi.new("int64_t[]", spec.shape),
        strides=None if strides is None else ffi.new("int64_t[]", strides),
        storage=None if spec.storage is None else spec.storage._own(),
        device=stored(spec.device, "the device"),
        **{name: part(tensor) for name, tensor in tensors.items() if tensor is not None},
    )
    return out


def from_c(found: Any, part: Callable[[int], Any]) -> TensorSpec:
    """Make a TensorSpec of the C struct, with a reference of its own on the storage. `part` gives
    the tensor of a TENON_TENSOR_PART_*, or None if there is no such part.
    """
    storage = None
    if found.storage != ffi.NULL:
        storage = storage_of(found.storage)

    def numbers_at(pointer: Any) -> tuple[int, ...]:
        return tuple(pointer[0 : found.ndim]) if found.ndim else ()

    packed = found.ndim and found.strides == ffi.NULL
    return TensorSpec._of(
        found,
        shape=numbers_at(found.sizes),
        strides=None if packed else numbers_at(found.strides),
        storage=storage,
        device=decoded(found.device),
        layout=_LAYOUT_NAMES[found.layout],
        requires_grad=bool(found.flags & lib.TENON_TENSOR_REQUIRES_GRAD),
        is_conj=bool(found.flags & lib.TENON_TENSOR_CONJ),
        is_neg=bool(found.flags & lib.TENON_TENSOR_NEG),
        quantizer=QUANTIZER_NAMES[found.quantizer],
        coalesced=COALESCED_WORDS[found.coalesced],
        **{name: part(number) for name, number in PARTS.items()},
    )
