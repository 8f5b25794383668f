"""PyTorch's side of state_test.py.

state_peer.py write FOLDER          saves each model twice, with other weights: FOLDER/old and
                                    FOLDER/new
state_peer.py check NEW MADE...     compares the archives in each folder MADE with those in NEW, by
                                    torch.jit.load and, for .ptl, in the lite interpreter
"""

# ruff: noqa: UP006, UP035, UP045 (TorchScript reads the annotations)

import sys
import warnings
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.jit.mobile import _load_for_lite_interpreter

warnings.simplefilter("ignore")

# PyTorch itself cannot run these in the lite interpreter.
NO_LITE = {"set_only"}


class Kept(nn.Module):
    """A state with every kind of object through which a path can lead."""

    weight: Tensor
    bias: Optional[Tensor]
    scales: Dict[str, List[Tensor]]

    def __init__(self):
        super().__init__()
        self.weight = torch.randn(3)
        self.bias = torch.randn(3)
        self.scales = {"in": [torch.randn(1)], "out": [torch.randn(1), torch.randn(3)]}

    @torch.jit.export
    def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], Dict[str, List[Tensor]], bool]:
        return self.weight, self.bias, self.scales, self.training

    @torch.jit.export
    def __setstate__(
        self, state: Tuple[Tensor, Optional[Tensor], Dict[str, List[Tensor]], bool]
    ) -> None:
        self.weight, self.bias = state[0], state[1]
        self.scales = state[2]
        self.training = state[3]

    def forward(self, x):
        bias = self.bias
        y = x * self.weight * self.scales["in"][0] + self.scales["out"][1]
        return y if bias is None else y + bias


class SetOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    @torch.jit.export
    def __setstate__(self, state: int) -> None:
        self.training = state > 0

    def forward(self, x):
        return x * self.weight


class GetOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    @torch.jit.export
    def __getstate__(self) -> int:
        return 3

    def forward(self, x):
        return x * self.weight


class Static(nn.Module):
    """Modules whose weights are packed: the input is quantised, and the output is not."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(torch.quantize_per_tensor(x, 0.05, 10, torch.quint8)).dequantize()


def convolution():
    layer = torch.nn.quantized.Conv2d(1, 2, 3, padding=1)
    layer.set_weight_bias(
        torch.quantize_per_tensor(torch.randn(2, 1, 3, 3), 0.05, 0, torch.qint8), torch.randn(2)
    )
    return layer


def linear():
    layer = torch.nn.quantized.Linear(3, 4)
    scales, zeros = (
        torch.rand(4, dtype=torch.float64) / 10 + 0.01,
        torch.zeros(4, dtype=torch.int64),
    )
    layer.set_weight_bias(
        torch.quantize_per_channel(torch.randn(4, 3), scales, zeros, 0, torch.qint8), torch.randn(4)
    )
    return layer


def models():
    flat, image = (
        torch.linspace(-1, 1, 6).reshape(2, 3),
        torch.linspace(-1, 1, 25).reshape(1, 1, 5, 5),
    )
    dynamic = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    dynamic = torch.ao.quantization.quantize_dynamic(dynamic, {nn.Linear}, dtype=torch.qint8)
    scripted = {
        "kept": (Kept(), flat),
        "below": (nn.Sequential(nn.Linear(3, 3), Kept()), flat),
        "set_only": (SetOnly(), flat),
        "get_only": (GetOnly(), flat),
        "linear": (Static(linear()), flat),
        "conv": (Static(convolution()), image),
        "dynamic": (dynamic, flat),
    }
    made = {
        name: (torch.jit.script(module.eval()), given) for name, (module, given) in scripted.items()
    }
    made["traced"] = (torch.jit.trace(dynamic, flat), flat)
    return made


def write(folder):
    for seed, name in enumerate(("old", "new")):
        torch.manual_seed(seed)
        (folder / name).mkdir(parents=True)
        for model, (module, _) in models().items():
            torch.jit.save(module, str(folder / name / f"{model}.pt"))
            if model not in NO_LITE:
                module._save_for_lite_interpreter(str(folder / name / f"{model}.ptl"))


def check(new, made):
    torch.manual_seed(0)
    inputs = {name: given for name, (_, given) in models().items()}
    found = 0
    for path in (path for folder in made for path in sorted(folder.iterdir())):
        given = inputs[path.stem]
        wanted = torch.jit.load(str(new / f"{path.stem}.pt"))(given)
        results = [torch.jit.load(str(path))(given)]
        if path.suffix == ".ptl":
            results.append(_load_for_lite_interpreter(str(path))(given))
        for result in results:
            assert torch.equal(wanted, result), (path, wanted, result)
            found += 1
    print(f"{found} outputs are those of the model that had these weights from the start")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        check(Path(sys.argv[2]), [Path(folder) for folder in sys.argv[3:]])
