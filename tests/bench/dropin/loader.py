"""PyTorch's own sharing strategies and Tenon's, side by side: a DataLoader with one worker and batches of 16 MiB.

usage: loader.py [--batches N]

Runs with a Python that has PyTorch and Tenon. Each figure is the mean time in ms of a batch, after the first two.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import tenon.torch.multiprocessing as mp
import torch
from torch.utils.data import DataLoader, Dataset

STRATEGIES = ("file_descriptor", "file_system", "tenon")
BATCH_SIZE = 16
SAMPLE = torch.ones(1 << 18)


class Samples(Dataset):  # type: ignore[type-arg,misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return SAMPLE, index


def milliseconds(strategy: str, batches: int) -> float:
    mp.set_sharing_strategy(strategy)
    loader = DataLoader(Samples((batches + 2) * BATCH_SIZE), batch_size=BATCH_SIZE, num_workers=1, multiprocessing_context="fork")
    left = iter(loader)
    next(left)
    next(left)
    begin = time.perf_counter()
    n = sum(1 for _ in left)
    return (time.perf_counter() - begin) / n * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=98, help="how many batches are measured (98)")
    batches = parser.parse_args().batches
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, ms for a batch of 16 MiB")
    for _ in range(2):
        print("  ".join(f"{strategy} {milliseconds(strategy, batches):.1f}" for strategy in STRATEGIES), flush=True)


if __name__ == "__main__":
    main()
