"""The batches of a DataLoader are pinned where its workers made them, and copied to a device beside
the host.
"""

import sys

import tenon.torch
import torch
from torch.utils.data import DataLoader, TensorDataset


def reserve(worker: int) -> None:
    tenon.torch.reserve(256 << 20)  # room for all batches of this worker that wait or are held


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(77)  # a test that was skipped
    tenon.torch.install()
    torch.cuda.init()
    images = TensorDataset(torch.ones(256, 3, 64, 64))
    total = 0
    loader = DataLoader(images, batch_size=32, num_workers=2, worker_init_fn=reserve)
    for batch in loader:
        (pictures,) = tenon.torch.pin(batch)  # no copy
        total += int(pictures.to("cuda", non_blocking=True).sum())
    print(total)  # prints: 3145728
