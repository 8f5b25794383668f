"""A parent and its worker share torch tensors by Tenon, through PyTorch's own queues."""

from typing import Any

import tenon.torch.multiprocessing as mp  # in place of torch.multiprocessing
import torch


def train(batches: Any, losses: Any) -> None:
    while (batch := batches.get()) is not None:
        batch *= 2  # in place: the parent sees it
        losses.put(batch.mean())


if __name__ == "__main__":
    context = mp.get_context("spawn")
    batches, losses = context.Queue(), context.Queue()
    worker = context.Process(target=train, args=(batches, losses))
    worker.start()
    batch = torch.full((32, 3, 64, 64), 21.0)
    batches.put(batch)
    print(losses.get())  # prints: tensor(42.)
    print(batch.mean(), batch.is_shared())  # prints: tensor(42.) True
    batches.put(None)
    worker.join()
