"""Writes files of torch.save: python3 checkpoint_golden.py checkpoint/VERSION, with the PyTorch of
that version.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(net.parameters())
net(torch.ones(2, 3)).sum().backward()
optimizer.step()
numbers = torch.arange(6.0).reshape(2, 3)
torch.save(net.state_dict(), folder / "state_dict.pt")
torch.save(numbers, folder / "tensor.pt")
torch.save(net, folder / "module.pt")
torch.save(
    {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "note": "\n",
        "shared": [numbers, numbers.t(), numbers[1]],
        "parameter": torch.nn.Parameter(numbers.clone()),
        "quantised": torch.quantize_per_tensor(numbers, 0.5, 3, torch.quint8),
        "coo": numbers.to_sparse(),
        "csr": numbers.to_sparse_csr(),
        "meta": torch.empty(3, device="meta"),
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
    },
    folder / "checkpoint.pt",
)
torch.save(
    {
        "channels": torch.quantize_per_channel(
            numbers, torch.tensor([0.5, 0.25]).double(), torch.tensor([0, 1]), 0, torch.qint8
        ),
        "expanded": torch.ones(1).expand(1000, 2),
        "many": list(range(70)),
        "view": numbers[:, 1:],
    },
    folder / "values.pt",
)
