"""PyTorch's sparse, nested, meta and quantised tensors as composites, and composites as PyTorch's, without copying their values."""

from __future__ import annotations

from tenon import _torch_rules
from tenon._native import lib
from tenon._torch_dlpack import MATH_BITS, math_bits, with_math_bits
from tenon.composite import Composite, JaggedTensor, MetaTensor, NestedTensor, QuantizedTensor, SparseTensor
from tenon.error import Unsupported, make
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What a quantised dtype's elements lie in memory as, and how many of them are in a byte.
_ELEMENTS = {"qint8": "int8", "quint8": "uint8", "qint32": "int32", "quint4x2": "uint4", "quint2x4": "uint2"}
_QUANTISED = {element: name for name, element in _ELEMENTS.items()}

_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def _layout_name(tensor: Any) -> str:
    return str(tensor.layout).removeprefix("torch.")


def from_torch(tensor: Any, part: Callable[[Any, bool], Tensor]) -> Composite:
    """part(tensor, is_small) takes a strided tensor; a small one is copied where that is easier."""
    import torch

    _torch_rules.check(tensor)
    flags = _torch_rules.flags_of(tensor)
    kept = {
        "requires_grad": bool(flags & lib.TENON_TENSOR_REQUIRES_GRAD),
        "is_parameter": bool(flags & lib.TENON_TENSOR_IS_PARAMETER),
    }
    tensor = tensor.detach()
    layout = _layout_name(tensor)
    if tensor.is_meta and layout == "strided" and not tensor.is_nested and not tensor.is_quantized:
        _torch_rules.element_type(tensor)
        return MetaTensor._make(
            "meta",
            {},
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            offset=tensor.storage_offset(),
            dtype=tensor.dtype,
            flags=flags | math_bits(tensor),
        )
    if layout == "sparse_coo":
        coalesced = bool(tensor.is_coalesced())
        parts = part(tensor._indices(), False), part(tensor._values(), False)
        return SparseTensor.coo(*parts, tuple(tensor.shape), coalesced=coalesced, **kept)
    if layout in _COMPRESSED:
        pointers, plain = (part(getattr(tensor, name)(), False) for name in _COMPRESSED[layout])
        return SparseTensor._compressed(layout, pointers, plain, part(tensor.values(), False), tuple(tensor.shape), **kept)
    if layout == "jagged":
        lengths = tensor.lengths()
        offsets = part(tensor.offsets(), True)
        return JaggedTensor.of(
            part(tensor.values(), False), offsets, None if lengths is None else part(lengths, True), ragged_dim=tensor._ragged_idx, **kept
        )
    if tensor.is_nested and layout == "strided" and hasattr(tensor, "_nested_tensor_storage_offsets"):
        sizes, steps = tensor._nested_tensor_size(), tensor._nested_tensor_strides()
        offsets = tensor._nested_tensor_storage_offsets()
        return NestedTensor.of(part(tensor.values(), False), part(sizes, True), part(steps, True), part(offsets, True), **kept)
    if tensor.is_quantized and layout == "strided":
        return _quantized_from_torch(tensor, part, kept)
    kind = "a nested tensor" if tensor.is_nested else "a tensor"
    raise make(
        Unsupported, f"{kind} of layout {tensor.layout} on {tensor.device}, which this PyTorch ({torch.__version__}) does not take apart"
    )


def _quantized_from_torch(tensor: Any, part: Callable[[Any, bool], Tensor], kept: dict[str, bool]) -> QuantizedTensor:
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    element = _ELEMENTS.get(name)
    if element is None:
        raise make(Unsupported, f"Tenon has no element type for {tensor.dtype}")
    # int_repr() would be a copy.
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()
    if element in ("uint4", "uint2"):
        whole = part(torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)), False)
        values = Tensor.over(whole.storage, tuple(tensor.shape), element, offset=tensor.storage_offset())
    else:
        dtype = getattr(torch, element)
        raw = torch.empty(0, dtype=dtype).set_(storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        values = part(raw, False)
    scheme = str(tensor.qscheme())
    if scheme == "torch.per_tensor_affine":
        return QuantizedTensor.per_tensor(values, tensor.q_scale(), tensor.q_zero_point(), **kept)
    if scheme not in ("torch.per_channel_affine", "torch.per_channel_affine_float_qparams"):
        raise make(Unsupported, f"a tensor with the quantizer {scheme}")
    scales, zero_points = part(tensor.q_per_channel_scales(), True), part(tensor.q_per_channel_zero_points(), True)
    return QuantizedTensor.per_channel(values, scales, zero_points, tensor.q_per_channel_axis(), **kept)


def to_torch(composite: Composite, part: Callable[[Tensor], Any], torch_dtype: Callable[[str], Any]) -> Any:
    """part: a torch tensor over a tensor's bytes. The composite was checked, or is trusted."""
    import torch

    layout = composite.layout
    if isinstance(composite, MetaTensor):
        dtype = torch_dtype(composite.dtype)
        reach = composite.offset + 1 + sum((size - 1) * step for size, step in zip(composite.shape, composite.strides, strict=True))
        whole = torch.empty((max(reach, 0),), dtype=dtype, device="meta")
        made = torch.as_strided(whole, composite.shape, composite.strides, composite.offset)
        made = with_math_bits(made, composite._filled().flags & MATH_BITS)
    elif isinstance(composite, SparseTensor):
        made = _sparse_to_torch(composite, part)
    elif isinstance(composite, QuantizedTensor):
        made = _quantized_to_torch(composite, part)
    elif isinstance(composite, JaggedTensor):
        make_jagged = getattr(torch.nested, "nested_tensor_from_jagged", None) if hasattr(torch, "nested") else None
        if make_jagged is None:
            raise make(Unsupported, f"this PyTorch ({torch.__version__}) has no jagged tensors")
        lengths = composite.lengths
        made = make_jagged(
            part(composite.values),
            offsets=part(composite.offsets),
            lengths=None if lengths is None else part(lengths),
            jagged_dim=composite.ragged_dim,
        )
    elif isinstance(composite, NestedTensor):
        if not hasattr(torch, "_nested_view_from_buffer"):
            raise make(Unsupported, f"this PyTorch ({torch.__version__}) makes no nested tensor over memory that is there already")
        parts = (composite.values, composite.component_sizes, composite.component_strides, composite.offsets)
        made = torch._nested_view_from_buffer(*(part(each) for each in parts))
    else:
        raise make(Unsupported, f"PyTorch has no tensors of layout {layout}")
    return _torch_rules.with_flags(made, composite.requires_grad, composite.is_parameter)


def _sparse_to_torch(composite: SparseTensor, part: Callable[[Tensor], Any]) -> Any:
    import torch

    values, indices, shape = part(composite.values), part(composite.indices), composite.shape
    # Newer ones check nothing unless they are asked to; older ones have another function for that.
    if composite.layout == "sparse_coo":
        unchecked = getattr(torch, "_sparse_coo_tensor_unsafe", None)
        if unchecked is not None:
            made = unchecked(indices.to(torch.int64), values, shape)
        else:
            made = torch.sparse_coo_tensor(indices.to(torch.int64), values, shape, check_invariants=False)
        return made._coalesced_(bool(composite.is_coalesced))
    layout = getattr(torch, composite.layout)
    plain = part(composite.plain_indices)
    unchecked = getattr(torch, "_sparse_compressed_tensor_unsafe", None)
    if unchecked is not None:
        return unchecked(indices, plain, values, shape, dtype=values.dtype, layout=layout, device=values.device)
    return torch.sparse_compressed_tensor(indices, plain, values, shape, layout=layout, check_invariants=False)


def _quantized_to_torch(composite: QuantizedTensor, part: Callable[[Tensor], Any]) -> Any:
    import torch

    values = composite.values
    dtype = getattr(torch, _QUANTISED[values.dtype])
    if values.dtype in ("uint4", "uint2"):
        whole = part(Tensor.over(values.storage, (values.storage.nbytes,), "uint8"))
    else:
        whole = part(values)
    storage = whole.untyped_storage() if hasattr(whole, "untyped_storage") else whole._storage()
    scales, zero_points = composite.scales, composite.zero_points
    if scales is None or zero_points is None:
        made = torch._empty_affine_quantized([0], scale=composite.scale, zero_point=composite.zero_point, dtype=dtype)
    else:
        empty = [0 if dim != composite.axis else size for dim, size in enumerate(composite.shape)]
        made = torch._empty_per_channel_affine_quantized(
            empty, scales=part(scales), zero_points=part(zero_points), axis=composite.axis, dtype=dtype
        )
    return made.set_(storage, values.offset, values.shape, values.strides)
