"""Composites: they are made of a case's parts, sent through a descriptor and compared."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import tenon
from case import Case, Skip, dtype_number, known, outcome, same, same_bytes, tensor_of, text_of
from tenon import _dtype
from tenon._native import ffi, lib
from tenon.composite import LAYOUT_NAMES, PARTS, rebuild
from tenon.tensor import Tensor
from tenon.tensor_spec import COALESCED_WORDS

# The numbers of a composite, apart from sizes, strides, dtype and flags.
NUMBERS = ("offset", "zero_point", "axis", "ragged_dim", "quantizer", "coalesced")
REQUIRES_GRAD, IS_PARAMETER = 1, 2

Parts = dict[str, Tensor]


def scale_of(spec: Case) -> float:
    return float(struct.unpack("<d", bytes.fromhex(spec.get("scale", "00" * 8)))[0])


def compressed(make: Callable[..., tenon.Composite]) -> Callable[..., tenon.Composite]:
    return lambda spec, parts, **flags: make(
        parts["indices"], parts["plain_indices"], parts["values"], spec["sizes"], **flags
    )


def coo(spec: Case, parts: Parts, **flags: bool) -> tenon.Composite:
    coalesced = COALESCED_WORDS[spec.get("coalesced", 0)]
    return tenon.SparseTensor.coo(
        parts["indices"], parts["values"], spec["sizes"], coalesced=coalesced, **flags
    )


def jagged(spec: Case, parts: Parts, **flags: bool) -> tenon.Composite:
    return tenon.JaggedTensor.of(
        parts["values"],
        parts["offsets"],
        parts.get("lengths"),
        ragged_dim=spec["ragged_dim"],
        **flags,
    )


def nested(_spec: Case, parts: Parts, **flags: bool) -> tenon.Composite:
    return tenon.NestedTensor.of(
        parts["values"],
        parts["component_sizes"],
        parts["component_strides"],
        parts["offsets"],
        **flags,
    )


def meta(spec: Case, _parts: Parts, **flags: bool) -> tenon.Composite:
    dtype = _dtype.name_of(dtype_number(spec["dtype"]))
    return tenon.MetaTensor.of(
        spec["sizes"], dtype, strides=spec["strides"], offset=spec.get("offset", 0), **flags
    )


def quantized(spec: Case, parts: Parts, **flags: bool) -> tenon.Composite:
    if "scales" in parts:
        return tenon.QuantizedTensor.per_channel(
            parts["values"], parts["scales"], parts["zero_points"], spec["axis"], **flags
        )
    return tenon.QuantizedTensor.per_tensor(
        parts["values"], scale_of(spec), spec["zero_point"], **flags
    )


CLASS_METHODS: dict[str, Callable[..., tenon.Composite]] = {
    "sparse_coo": coo,
    "sparse_csr": compressed(tenon.SparseTensor.csr),
    "sparse_csc": compressed(tenon.SparseTensor.csc),
    "sparse_bsr": compressed(tenon.SparseTensor.bsr),
    "sparse_bsc": compressed(tenon.SparseTensor.bsc),
    "jagged": jagged,
    "nested": nested,
    "meta": meta,
    "quantized": quantized,
}


def make(case: Case, parts: Parts) -> tenon.Composite:
    """Makes the composite by the class method of its layout.

    If no class method can express the case, calls rebuild(), as unpickling does.
    """
    spec, flags = case["spec"], case["spec"].get("flags", 0)
    if spec["layout"] not in LAYOUT_NAMES:
        raise Skip(f"a layout is a name in Python, and {spec['layout']} has none")
    layout = LAYOUT_NAMES[spec["layout"]]
    # A case that is to be refused may lack a part, or have one too many.
    if case["expect"]["status"] == "OK" and flags <= REQUIRES_GRAD | IS_PARAMETER:
        words = {
            "requires_grad": bool(flags & REQUIRES_GRAD),
            "is_parameter": bool(flags & IS_PARAMETER),
        }
        return CLASS_METHODS[layout](spec, parts, **words)
    fields: dict[str, Any] = {name: spec.get(name, 0) for name in NUMBERS}
    dtype = _dtype.name_of(dtype_number(spec["dtype"])) if "dtype" in spec else None
    return rebuild(
        layout,
        dict(parts),
        spec.get("sizes"),
        spec.get("strides"),
        flags,
        dtype,
        {**fields, "scale": scale_of(spec)},
    )


def same_data(tensor: Tensor, part: Case) -> None:
    storage = tensor.storage
    same(f"data of {part['part']}", storage.read(0, storage.nbytes).hex(), part["data"])


def same_composite(composite: tenon.Composite, case: Case, *, checked: bool) -> None:
    """Compares a composite with the case.

    A checked composite may have copies of parts, so only their shapes are compared.
    """
    spec, expect = case["spec"], case["expect"]
    given = {part["part"]: part for part in case["parts"]}
    same("layout", composite.layout, LAYOUT_NAMES[spec["layout"]])
    same("sizes", list(composite.shape), expect["sizes"])
    same("dtype", _dtype.number_of(composite.dtype), dtype_number(expect["dtype"]))
    # Each class has the properties of its own layout. The struct of C has all numbers.
    fields = composite._filled()
    for name in ("flags", *NUMBERS):
        same(name, getattr(fields, name), spec.get(name, 0))
    same("scale", struct.pack("<d", fields.scale), struct.pack("<d", scale_of(spec)))
    same("requires_grad", composite.requires_grad, bool(spec.get("flags", 0) & REQUIRES_GRAD))
    same("is_parameter", composite.is_parameter, bool(spec.get("flags", 0) & IS_PARAMETER))
    same("strides", list(getattr(composite, "strides", ())), expect.get("strides", []))
    for name in PARTS:
        part, tensor = given.get(name), composite.parts.get(name)
        same(f"there are {name}", tensor is not None, part is not None)
        if tensor is None or part is None:
            continue
        same(f"dtype of {name}", tensor._dtype_number, dtype_number(part["dtype"]))
        same(f"sizes of {name}", list(tensor.shape), part["sizes"])
        if checked:
            continue
        same(f"offset of {name}", tensor.offset, part["offset"])
        if part["strides"] is not None:
            same(f"strides of {name}", list(tensor.strides), part["strides"])
        same_data(tensor, part)


def same_message(message: tenon.Message, case: Case, name: str | None) -> None:
    """Compares a message in which the composite comes after one tensor.

    The parts of the composite are the C library's tensors after that one.
    """
    order, given = case["expect"]["parts"], {part["part"]: part for part in case["parts"]}
    same("names of all", [each for each, _ in message.contents()], ["t", name])
    same("tensors", len(message), 1)
    own, n_parts = message._own(), ffi.new("size_t *")
    same("first part", lib.tenon_message_composite_parts(own, 0, n_parts), 1)
    same("parts", n_parts[0], len(order))
    for index, part in enumerate(order):
        tensor = lib.tenon_tensor_retain(lib.tenon_message_tensor(own, 1 + index))
        same_data(Tensor._adopt(int(ffi.cast("uintptr_t", tensor))), given[part])
    if name is not None:
        same("found by name", message.composite(name).layout, message.composites[0].layout)


def run_composite(case: Case) -> None:
    expect = case["expect"]
    known(expect, "status", "details", "bytes", "parts", "sizes", "strides", "dtype", "check")
    name = text_of(case["name"])
    parts = {
        part["part"]: tensor_of(tenon.Storage.new_from(bytes.fromhex(part["data"])), part)
        for part in case["parts"]
    }
    composite = outcome(expect, lambda: make(case, parts))
    if composite is None:
        return
    # The bytes-only descriptor of a message of a tensor and the composite.
    with (
        tenon.Message([tenon.zeros((1,), "uint8"), composite], ["t", name]) as message,
        tenon.Descriptor(message, bytes_only=True) as descriptor,
    ):
        data = descriptor.bytes
        (begin,) = struct.unpack_from("<Q", data, 240)
        same_bytes(data[begin:], expect)
        with tenon.open_descriptor(data) as opened:
            same_message(opened, case, name)
            (received,) = opened.composites
            same_composite(received, case, checked=False)
            checked = outcome(expect["check"], received.check)
            if checked is not None:
                same_composite(checked, case, checked=True)
