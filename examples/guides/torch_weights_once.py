"""A PyTorch model runs over shared weights, without a copy of its own."""

import tempfile
from pathlib import Path

import tenon
import torch
from tenon.torch import to_torch


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


trained = model()
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "model.pt")
    torch.save(trained.state_dict(), file)
    with tenon.weights.open(file, name="guide-model") as weights:
        state = {name: to_torch(weights[name], "unsafe") for name in weights}
    served = model()
    served.load_state_dict(state, assign=True)  # the parameters are the shared memory
    inputs = torch.ones(8)
    print(torch.equal(served(inputs), trained(inputs)))  # prints: True
    print(served[0].weight.data_ptr() == state["0.weight"].data_ptr())  # prints: True
