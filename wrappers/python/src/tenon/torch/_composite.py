"""Takes PyTorch's sparse, nested, meta and quantised tensors apart, and makes them again, without
copying their values.

The parts of take_apart and assemble are strided torch tensors, which tenon.pickle and the drop-in
strategy carry. from_torch and to_torch convert them further, into the composites of
tenon.composite.
"""

from __future__ import annotations

from typing import NamedTuple

from tenon import _dtype, _torch_rules
from tenon._native import lib
from tenon._torch_dlpack import MATH_BITS, math_bits, with_math_bits
from tenon.composite import Composite, rebuild
from tenon.error import Corrupt, Unsupported, make
from tenon.tensor import Tensor
from tenon.tensor_spec import COALESCED, QUANTIZERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The integer type that a quantised dtype stores. _PACKED has the number of elements in a byte.
_ELEMENTS = {
    "qint8": "int8",
    "quint8": "uint8",
    "qint32": "int32",
    "quint4x2": "uint4",
    "quint2x4": "uint2",
}
_QUANTISED = {element: name for name, element in _ELEMENTS.items()}
_PACKED = {"uint4": 2, "uint2": 4}

_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}

SPARSE = frozenset({"sparse_coo", *_COMPRESSED})

# The parts that from_torch copies.
_SMALL = frozenset(
    {"offsets", "lengths", "component_sizes", "component_strides", "scales", "zero_points"}
)


class TakenApart(NamedTuple):
    """The parts of a torch tensor. The fields are those of Composite._state(), and the parts are
    strided torch tensors.

    PyTorch has no tensors of elements that are packed in bytes. So the values of a packed quantised
    tensor are all bytes of its storage. Its shape, strides, dtype and the field offset say where
    the elements are.
    """

    layout: str
    parts: dict[str, Any]
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    flags: int
    dtype: str | None
    fields: dict[str, Any]


def layout_name(tensor: Any) -> str:
    """The layout of a tensor by PyTorch's name."""
    return str(tensor.layout).removeprefix("torch.")


def _untyped(tensor: Any) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()


def take_apart(tensor: Any) -> TakenApart:
    """The parts of a torch tensor that is not strided, over the same memory.

    Raises Unsupported if this PyTorch gives no access to the parts, for an element type that Tenon
    does not have, and for a tensor that _torch_rules.check refuses.
    """
    import torch

    _torch_rules.check(tensor)
    flags = _torch_rules.flags_of(tensor)
    tensor = tensor.detach()
    layout = layout_name(tensor)
    if tensor.is_meta and layout == "strided" and not tensor.is_nested and not tensor.is_quantized:
        dtype = _dtype.name_of(_torch_rules.element_type(tensor))
        flags |= math_bits(tensor)
        return TakenApart(
            "meta",
            {},
            tuple(tensor.shape),
            tuple(tensor.stride()),
            flags,
            dtype,
            {"offset": tensor.storage_offset()},
        )
    if layout == "sparse_coo":
        parts = {"values": tensor._values(), "indices": tensor._indices()}
        return TakenApart(
            layout,
            parts,
            tuple(tensor.shape),
            None,
            flags,
            None,
            {"coalesced": COALESCED[bool(tensor.is_coalesced())]},
        )
    if layout in _COMPRESSED:
        pointers, plain = (getattr(tensor, name)() for name in _COMPRESSED[layout])
        parts = {"values": tensor.values(), "indices": pointers, "plain_indices": plain}
        return TakenApart(layout, parts, tuple(tensor.shape), None, flags, None, {})
    if layout == "jagged":
        parts = {"values": tensor.values(), "offsets": tensor.offsets()}
        if tensor.lengths() is not None:
            parts["lengths"] = tensor.lengths()
        return TakenApart(
            layout, parts, None, None, flags, None, {"ragged_dim": tensor._ragged_idx}
        )
    if (
        tensor.is_nested
        and layout == "strided"
        and hasattr(tensor, "_nested_tensor_storage_offsets")
    ):
        parts = {
            "values": tensor.values(),
            "component_sizes": tensor._nested_tensor_size(),
            "component_strides": tensor._nested_tensor_strides(),
            "offsets": tensor._nested_tensor_storage_offsets(),
        }
        return TakenApart("nested", parts, None, None, flags, None, {})
    if tensor.is_quantized and layout == "strided":
        return _quantized_apart(tensor, flags)
    kind = "a nested tensor" if tensor.is_nested else "a tensor"
    raise make(
        Unsupported,
        f"{kind} of layout {tensor.layout} on {tensor.device}, which this PyTorch"
        f" ({torch.__version__}) does not take apart",
    )


def _quantized_apart(tensor: Any, flags: int) -> TakenApart:
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    element = _ELEMENTS.get(name)
    if element is None:
        raise make(Unsupported, f"Tenon has no element type for {tensor.dtype}")
    scheme = str(tensor.qscheme()).removeprefix("torch.")
    fields: dict[str, Any] = {"quantizer": QUANTIZERS.get(scheme)}
    parts: dict[str, Any] = {}
    if scheme == "per_tensor_affine":
        fields.update(scale=tensor.q_scale(), zero_point=tensor.q_zero_point())
    elif scheme in ("per_channel_affine", "per_channel_affine_float_qparams"):
        parts = {
            "scales": tensor.q_per_channel_scales(),
            "zero_points": tensor.q_per_channel_zero_points(),
        }
        fields["axis"] = tensor.q_per_channel_axis()
    else:
        raise make(Unsupported, f"a tensor with the quantizer torch.{scheme}")
    # int_repr() would be a copy.
    storage, shape, strides = _untyped(tensor), tuple(tensor.shape), tuple(tensor.stride())
    raw = torch.empty(
        0,
        dtype=torch.uint8 if element in _PACKED else getattr(torch, element),
        device=tensor.device,
    )
    if element in _PACKED:
        parts["values"] = raw.set_(storage, 0, (storage.nbytes(),), (1,))
        return TakenApart(
            "quantized",
            parts,
            shape,
            strides,
            flags,
            element,
            {**fields, "offset": tensor.storage_offset()},
        )
    parts["values"] = raw.set_(storage, tensor.storage_offset(), shape, strides)
    return TakenApart("quantized", parts, None, None, flags, None, fields)


def composite_of(apart: TakenApart, parts: dict[str, Tensor]) -> Composite:
    """Make the composite of a torch tensor that was taken apart. `parts` has the same parts as
    Tenon's tensors.
    """
    per_byte = _PACKED.get(apart.dtype or "") if apart.layout == "quantized" else None
    if per_byte is None:
        return rebuild(apart.layout, dict(parts), *apart[2:])
    whole = parts["values"]
    if whole.dtype != "uint8" or not whole.is_contiguous:
        raise make(
            Corrupt,
            f"the values of a tensor of {apart.dtype} are {whole.dtype}, not the bytes of a"
            " storage",
            field="values",
        )
    fields = dict(apart.fields)
    offset = fields.pop("offset", 0) + whole.offset * per_byte
    values = Tensor.over(
        whole.storage, apart.shape or (), apart.dtype, strides=apart.strides, offset=offset
    )
    return rebuild(apart.layout, {**parts, "values": values}, None, None, apart.flags, None, fields)


def from_torch(tensor: Any, part: Callable[[Any, bool], Tensor]) -> Composite:
    """Make the composite of a torch tensor. `part(tensor, is_small)` converts a strided tensor. It
    may copy a small one.
    """
    apart = take_apart(tensor)
    return composite_of(
        apart, {name: part(each, name in _SMALL) for name, each in apart.parts.items()}
    )


def to_torch(
    composite: Composite, part: Callable[[Tensor], Any], torch_dtype: Callable[[str], Any]
) -> Any:
    """Make the torch tensor of a composite, which was checked or is trusted. `part` makes a torch
    tensor over a tensor's bytes.
    """
    layout, own, shape, strides, flags, dtype, fields = composite._state()
    values = own.get("values")
    if layout == "quantized" and values is not None and values.dtype in _PACKED:
        shape, strides, dtype = values.shape, values.strides, values.dtype
        fields["offset"] = values.offset
        own["values"] = Tensor.over(values.storage, (values.storage.nbytes,), "uint8")
    parts = {name: part(each) for name, each in own.items()}
    return assemble(TakenApart(layout, parts, shape, strides, flags, dtype, fields), torch_dtype)


def assemble(apart: TakenApart, torch_dtype: Callable[[str], Any]) -> Any:
    """Make the torch tensor over these parts.

    The numbers in the parts are not read, because they were checked or are trusted. A wrong index
    lets PyTorch read and write memory outside the tensor. Raises Unsupported if this PyTorch has no
    such layout or dtype.
    """
    import torch

    layout, parts = apart.layout, apart.parts
    if layout == "meta":
        made = _meta(apart, torch_dtype)
    elif layout in SPARSE:
        made = _sparse(apart)
    elif layout == "quantized":
        made = _quantized(apart)
    elif layout == "jagged":
        make_jagged = (
            getattr(torch.nested, "nested_tensor_from_jagged", None)
            if hasattr(torch, "nested")
            else None
        )
        if make_jagged is None:
            raise make(Unsupported, f"this PyTorch ({torch.__version__}) has no jagged tensors")
        made = make_jagged(
            parts["values"],
            offsets=parts["offsets"],
            lengths=parts.get("lengths"),
            jagged_dim=apart.fields["ragged_dim"],
        )
    elif layout == "nested":
        if not hasattr(torch, "_nested_view_from_buffer"):
            raise make(
                Unsupported,
                f"this PyTorch ({torch.__version__}) makes no nested tensor over memory that is"
                " there already",
            )
        values, offsets = parts["values"], parts["offsets"]
        if values.storage_offset():
            offsets = (
                offsets + values.storage_offset()
            )  # PyTorch counts from the start of the storage
        made = torch._nested_view_from_buffer(
            values, parts["component_sizes"], parts["component_strides"], offsets
        )
    else:
        raise make(Unsupported, f"PyTorch has no tensors of layout {layout}")
    requires_grad, is_parameter = (
        apart.flags & lib.TENON_TENSOR_REQUIRES_GRAD,
        apart.flags & lib.TENON_TENSOR_IS_PARAMETER,
    )
    return _torch_rules.with_flags(made, bool(requires_grad), bool(is_parameter))


def _meta(apart: TakenApart, torch_dtype: Callable[[str], Any]) -> Any:
    import torch

    shape, strides, offset = apart.shape or (), apart.strides or (), apart.fields["offset"]
    reach = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    whole = torch.empty((max(reach, 0),), dtype=torch_dtype(str(apart.dtype)), device="meta")
    return with_math_bits(torch.as_strided(whole, shape, strides, offset), apart.flags & MATH_BITS)


def _sparse(apart: TakenApart) -> Any:
    import torch

    values, indices, shape = apart.parts["values"], apart.parts["indices"], apart.shape
    # Both branches skip PyTorch's checks. Older versions have functions of their own for that, and
    # newer ones an option.
    if apart.layout == "sparse_coo":
        unchecked = getattr(torch, "_sparse_coo_tensor_unsafe", None)
        if unchecked is not None:
            made = unchecked(indices.to(torch.int64), values, shape)
        else:
            made = torch.sparse_coo_tensor(
                indices.to(torch.int64), values, shape, check_invariants=False
            )
        return made._coalesced_(apart.fields.get("coalesced") == COALESCED[True])
    layout = getattr(torch, apart.layout)
    plain = apart.parts["plain_indices"]
    unchecked = getattr(torch, "_sparse_compressed_tensor_unsafe", None)
    if unchecked is not None:
        return unchecked(
            indices, plain, values, shape, dtype=values.dtype, layout=layout, device=values.device
        )
    return torch.sparse_compressed_tensor(
        indices, plain, values, shape, layout=layout, check_invariants=False
    )


def _quantized(apart: TakenApart) -> Any:
    import torch

    raw, fields = apart.parts["values"], apart.fields
    offset, shape, strides = fields.get("offset", 0), apart.shape, apart.strides
    element = apart.dtype
    if element not in _PACKED:
        element = str(raw.dtype).removeprefix("torch.")
        offset, shape, strides = raw.storage_offset(), tuple(raw.shape), tuple(raw.stride())
    dtype = getattr(torch, _QUANTISED[str(element)])
    scales, zero_points = apart.parts.get("scales"), apart.parts.get("zero_points")
    if scales is None or zero_points is None:
        more = {"scale": fields["scale"], "zero_point": fields["zero_point"]}
        made = torch._empty_affine_quantized([0], dtype=dtype, device=raw.device, **more)
    else:
        axis = fields["axis"]
        empty = [0 if dim != axis else size for dim, size in enumerate(shape or ())]
        more = {"scales": scales, "zero_points": zero_points, "axis": axis}
        made = torch._empty_per_channel_affine_quantized(
            empty, dtype=dtype, device=raw.device, **more
        )
    return made.set_(_untyped(raw), offset, shape, strides)
