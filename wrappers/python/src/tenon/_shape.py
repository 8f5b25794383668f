"""Arithmetic of shapes, strides and indices."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, SupportsIndex

    Shape = SupportsIndex | Sequence[SupportsIndex]


def numbers(values: Shape) -> tuple[int, ...]:
    # Arrays and tensors have an __index__ too, which works only for those without dimensions.
    if hasattr(values, "__index__") and not getattr(values, "shape", ()):
        return (values.__index__(),)
    return tuple(value.__index__() for value in values)  # type: ignore[union-attr]


def count_of(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def pick(
    index: tuple[Any, ...], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[list[int], list[int], int]:
    """The shape and the strides of the part that an index picks, and the offset of the part in
    elements.
    """
    taken = sum(1 for item in index if item is not None and item is not Ellipsis)
    if taken > len(shape) or sum(1 for item in index if item is Ellipsis) > 1:
        raise IndexError(f"index {index} does not fit the shape {shape}")
    sizes: list[int] = []
    steps: list[int] = []
    offset = 0
    dimension = 0
    for item in (*index, *(() if any(part is Ellipsis for part in index) else (Ellipsis,))):
        if item is Ellipsis:
            skip = len(shape) - taken
            sizes.extend(shape[dimension : dimension + skip])
            steps.extend(strides[dimension : dimension + skip])
            dimension += skip
        elif item is None:
            sizes.append(1)
            steps.append(0)
        elif isinstance(item, slice):
            start, stop, step = item.indices(shape[dimension])
            size = len(range(start, stop, step))
            sizes.append(size)
            steps.append(strides[dimension] * step)
            # An empty slice may begin past the end.
            offset += start * strides[dimension] if size else 0
            dimension += 1
        elif hasattr(item, "__index__"):
            number = item.__index__()
            size = shape[dimension]
            if not -size <= number < size:
                raise IndexError(f"index {number} is outside dimension {dimension} of size {size}")
            offset += (number + size if number < 0 else number) * strides[dimension]
            dimension += 1
        else:
            raise TypeError(
                f"an index is made of numbers, slices, ... and None, not of {type(item).__name__}"
            )
    return sizes, steps, offset
