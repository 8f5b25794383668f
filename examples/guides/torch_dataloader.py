"""DataLoader workers make each batch in Tenon's memory. No byte is copied after that."""

from typing import Any

import numpy
import tenon
import tenon.torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[tuple[Any, int]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return numpy.full((3, 32, 32), index, "float32"), index % 10


def collate(samples: list[tuple[Any, int]]) -> dict[str, tenon.Tensor]:
    images = tenon.empty((len(samples), 3, 32, 32), "float32")
    numpy.stack([image for image, _ in samples], out=images.numpy())
    return {"images": images, "labels": tenon.from_numpy(numpy.array([n for _, n in samples]))}


if __name__ == "__main__":
    total = 0.0
    for batch in DataLoader(Images(), batch_size=8, num_workers=2, collate_fn=collate):
        images = tenon.torch.to_torch(batch["images"])  # a torch tensor over the same bytes
        total += float(images.mean())
    print(total)  # prints: 252.0
