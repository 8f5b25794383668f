"""Shapes and strides as callers give them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import SupportsIndex

    Shape = SupportsIndex | Sequence[SupportsIndex]


def numbers(values: Shape) -> tuple[int, ...]:
    # Arrays and tensors have an __index__ too, which works only for those without dimensions.
    if hasattr(values, "__index__") and not getattr(values, "shape", ()):
        return (values.__index__(),)
    return tuple(value.__index__() for value in values)  # type: ignore[union-attr]
