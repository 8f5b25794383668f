#!/usr/bin/env python3
"""Writes the golden files of weights: python3 - FOLDER < weights_golden.py.

A program of torch.export contains the path of its source. Read from standard input, this source has
no path. Run by a PyTorch, it writes torch-<version>.pt2 with torch.export.save. There is one of
PyTorch 2.6, one of 2.8 and one of the newest, because each of these has another container.

Run with --executorch by a Python that has ExecuTorch, it writes executorch-<version>.ptd with
ExecuTorch's own FlatTensorSerializer.
"""

from __future__ import annotations

import struct
import sys
from importlib.metadata import version
from pathlib import Path


def write_program(folder: Path) -> None:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
            self.tied = self.weight
            self.register_buffer("columns", torch.arange(4.0).reshape(2, 2).t())
            self.shift = torch.tensor([0.5, 0.25])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight.t() + x @ self.tied.t()) @ self.columns + self.shift

    program = torch.export.export(Net(), (torch.ones(1, 3),))
    torch.export.save(program, folder / f"torch-{torch.__version__.split('+')[0]}.pt2")


def write_executorch(folder: Path) -> None:
    from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
    from executorch.exir.schema import ScalarType
    from executorch.exir.tensor_layout import TensorLayout
    from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer

    buffers = [
        struct.pack("<6f", *range(6)),
        struct.pack("<3h", -1, 0, 1),
        b"packed bytes",
        struct.pack("<4H", 0x3F80, 0x4000, 0x4040, 0x4080),
    ]

    def entry(
        buffer: int, scalar_type: ScalarType, sizes: list[int], dim_order: list[int]
    ) -> DataEntry:
        return DataEntry(buffer, 0, TensorLayout(scalar_type, sizes, dim_order))

    named = {
        "linear.weight": entry(0, ScalarType.FLOAT, [2, 3], [0, 1]),
        "tied.weight": entry(0, ScalarType.FLOAT, [2, 3], [0, 1]),
        "transposed": entry(0, ScalarType.FLOAT, [3, 2], [1, 0]),
        "table": entry(1, ScalarType.SHORT, [3], [0]),
        "backend_blob": DataEntry(2, 64, None),
        "half": entry(3, ScalarType.BFLOAT16, [1, 4, 1], [0, 2, 1]),
    }
    data = bytes(FlatTensorSerializer().serialize(DataPayload(buffers, named)))
    (folder / f"executorch-{version('executorch')}.ptd").write_bytes(data)


if __name__ == "__main__":
    write = write_executorch if "--executorch" in sys.argv else write_program
    write(Path(sys.argv[1]))
