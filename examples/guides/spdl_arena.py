"""SPDL's worker process copies each item once into Tenon's arena. The consumer gets views of it."""

from collections.abc import Iterator
from typing import Any

import numpy
from spdl.pipeline import iterate_in_subprocess
from tenon.integrations.spdl import Arena


def batches() -> Iterator[dict[str, Any]]:
    for number in range(100):
        yield {"images": numpy.full((32, 3, 64, 64), number, "float32"), "number": number}


if __name__ == "__main__":
    arena = Arena(16 << 20)  # bytes for all items that wait or are held
    total = 0.0
    for batch in iterate_in_subprocess(batches, buffer_size=3, mp_context="spawn", arena=arena):
        total += float(batch["images"][0, 0, 0, 0])
    print(total)  # prints: 4950.0
