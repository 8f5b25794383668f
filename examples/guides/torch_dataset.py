"""A dataset of many Python objects stands in memory once for all workers of a DataLoader."""

import torch
from tenon.torch import shared_attributes, to_shared_dataset
from torch.utils.data import DataLoader, Dataset


class Captions(Dataset[tuple[str, int]]):
    def __init__(self, count: int) -> None:
        self.samples = [(f"/data/{n:08}.jpg", f"caption {n}") for n in range(count)]
        self.lengths = torch.arange(count)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[str, int]:
        path, caption = self.samples[index]
        return path, len(caption)


if __name__ == "__main__":
    dataset = to_shared_dataset(Captions(100_000))
    print(list(shared_attributes(dataset)))  # prints: ['samples']
    loader = DataLoader(
        dataset, batch_size=1000, num_workers=4, multiprocessing_context="forkserver"
    )
    print(sum(len(paths) for paths, _ in loader))  # prints: 100000
