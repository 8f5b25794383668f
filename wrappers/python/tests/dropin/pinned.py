"""Pins a DataLoader's batches where they lie, on the fake driver. rows.py runs this program as a
row.

PyTorch itself uses no CUDA here, so this program does not test PyTorch's is_pinned().
tests/process/gpu does (pinned).
"""

from __future__ import annotations

import sys
from typing import Any

import tenon
import tenon.torch
import torch
from torch.utils.data import DataLoader, Dataset

NUMEL = 3 << 20  # elements of float32: more than a block that lies in a small segment


class Pictures(Dataset):  # type: ignore[type-arg,misc]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"picture": torch.full((NUMEL,), float(index)), "label": index, "name": str(index)}


def reserve(worker: int) -> None:
    tenon.torch.reserve(64 << 20)


def refused(batch: object, kind: type[Exception], text: str) -> None:
    try:
        tenon.torch.pin(batch)
    except kind as error:
        assert text in str(error) and str(error).count("Errno") <= 1, error
    else:
        raise AssertionError("pinned")


def main() -> None:
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        if "this build of Tenon has no CUDA" not in str(error):
            raise
        sys.exit(77)
    refused([torch.ones(3)], tenon.Unsupported, "pin_memory()")
    tenon.torch.install()
    refused(
        next(iter(DataLoader(Pictures(), num_workers=1))),
        tenon.ResourceExhausted,
        "tenon.torch.reserve",
    )
    for number, batch in enumerate(
        DataLoader(Pictures(), batch_size=2, num_workers=2, worker_init_fn=reserve)
    ):
        assert tenon.torch.pin((batch, [torch.empty(0)]))[0] is batch
        assert (
            batch["picture"][:, -1].tolist()
            == batch["label"].tolist()
            == [2 * number, 2 * number + 1]
        )
        for name in ("picture", "label"):
            assert tenon.torch.from_torch(batch[name]).storage.is_pinned, name


if __name__ == "__main__":
    main()
