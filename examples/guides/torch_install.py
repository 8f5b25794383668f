"""DataLoader under Tenon's sharing strategy: the workers collate their batches in shared memory,
which they reuse.
"""

import tenon.torch
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    tenon.torch.install()
    images, labels = torch.ones(256, 3, 32, 32), torch.arange(256)
    total = 0
    for batch, numbers in DataLoader(TensorDataset(images, labels), batch_size=32, num_workers=2):
        assert batch.is_shared()
        total += int(numbers.sum())
    print(total)  # prints: 32640
    # prints: ['file_descriptor', 'file_system', 'tenon']
    print(sorted(torch.multiprocessing.get_all_sharing_strategies()))
    tenon.torch.uninstall()
    print(torch.multiprocessing.get_sharing_strategy())  # prints: file_descriptor
