"""Composites as the driver's words describe them ("Composites" in
tests/languages/matrix/README.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import server
import tenon
from words import dtype_name, dtype_word

LAYOUTS = {
    1: "sparse_coo",
    2: "sparse_csr",
    4: "sparse_csc",
    5: "sparse_bsr",
    6: "sparse_bsc",
    7: "jagged",
    64: "nested",
    65: "meta",
    66: "quantized",
}
QUANTIZERS = ["none", "per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams"]
COALESCED = [None, False, True]
COMPRESSED = {
    "sparse_csr": tenon.SparseTensor.csr,
    "sparse_csc": tenon.SparseTensor.csc,
    "sparse_bsr": tenon.SparseTensor.bsr,
    "sparse_bsc": tenon.SparseTensor.bsc,
}


def part_of(word: str) -> tenon.Tensor:
    """The tensor of DTYPE/SIZES/CONTENT, in a storage of its own."""
    dtype, sizes, content = word.split("/")
    with tenon.Storage.new_from(server.unhexed(content)) as storage:
        return tenon.Tensor.over(storage, server.numbers(sizes), dtype_name(dtype))


def read(words: Sequence[str]) -> tenon.Composite:
    """Make the composite that the words of COMPOSITE describe."""
    (
        number,
        sizes_word,
        strides,
        offset,
        dtype,
        flags,
        scale,
        zero_point,
        axis,
        ragged_dim,
        quantizer,
        coalesced,
        *given,
    ) = words
    layout, sizes = LAYOUTS[int(number)], server.numbers(sizes_word)
    parts = {name: part_of(rest) for name, _, rest in (word.partition("=") for word in given)}
    marks: dict[str, Any] = {
        "requires_grad": bool(int(flags) & 1),
        "is_parameter": bool(int(flags) & 2),
    }
    if layout == "sparse_coo":
        return tenon.SparseTensor.coo(
            **parts, shape=sizes, coalesced=COALESCED[int(coalesced)], **marks
        )
    if layout in COMPRESSED:
        return COMPRESSED[layout](
            parts["indices"], parts["plain_indices"], parts["values"], sizes, **marks
        )
    if layout == "jagged":
        return tenon.JaggedTensor.of(**parts, ragged_dim=int(ragged_dim), **marks)
    if layout == "nested":
        return tenon.NestedTensor.of(**parts, **marks)
    if layout == "meta":
        return tenon.MetaTensor.of(
            sizes, dtype_name(dtype), strides=server.numbers(strides), offset=int(offset), **marks
        )
    if QUANTIZERS[int(quantizer)] == "per_tensor_affine":
        return tenon.QuantizedTensor.per_tensor(
            parts["values"], float(scale), int(zero_point), **marks
        )
    return tenon.QuantizedTensor.per_channel(**parts, axis=int(axis), **marks)


def words_of(composite: tenon.Composite, content: Callable[[tenon.Tensor], bytes]) -> str:
    """The words of a composite. A property that its class lacks is 0."""
    layouts = {name: number for number, name in LAYOUTS.items()}
    said = [
        layouts[composite.layout],
        server.word_of(composite.shape),
        server.word_of(getattr(composite, "strides", ())),
        getattr(composite, "offset", 0),
        dtype_word(composite.dtype),
        composite.requires_grad + 2 * composite.is_parameter,
        getattr(composite, "scale", 0.0),
        getattr(composite, "zero_point", 0),
        getattr(composite, "axis", 0),
        getattr(composite, "ragged_dim", 0),
        QUANTIZERS.index(getattr(composite, "quantizer", "none")),
        COALESCED.index(composite.is_coalesced) if isinstance(composite, tenon.SparseTensor) else 0,
    ]
    for name, part in composite.parts.items():
        elements = server.hexadecimal(content(part))
        said.append(f"{name}={dtype_word(part.dtype)}/{server.word_of(part.shape)}/{elements}")
    return " ".join(map(str, said))
