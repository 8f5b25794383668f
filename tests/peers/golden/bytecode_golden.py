"""Writes bytecode with PyTorch's lite exporter. Any PyTorch can run it: python3 bytecode_golden.py
FOLDER

FOLDER/bytecode gets the records bytecode.pkl, named MODEL-VERSION.pkl. FOLDER/lite gets whole
archives. The fuzzer's corpus and the tests of the reader use the records."""

# The models are TorchScript in the only form that PyTorch 1.13 can read.
# ruff: noqa: B028, RUF059, UP006, UP032, UP035, UP045

import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch

warnings.simplefilter("ignore")
VERSION = {"1.13": "1.13.1"}.get(
    ".".join(torch.__version__.split(".")[:2]), ".".join(torch.__version__.split(".")[:2])
)


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@torch.jit.interface
class Runner(torch.nn.Module):
    def run(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Doubler(torch.nn.Module):
    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Point(NamedTuple):
    x: torch.Tensor
    y: int


class Flow(torch.nn.Module):
    runner: Runner

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.runner = Doubler()
        self.count = 0
        self.names: Dict[str, int] = {"a": 1}

    def forward(self, x, n: int = 3, k: Optional[str] = None):
        for i in range(n):
            x = self.linear(x)
            if bool(x.sum() > 0):
                x = x + i
            else:
                x = x - 1
                if n == 77:
                    raise RuntimeError("v {}".format(i))
        self.count += 1
        named = {"a": x, "b": x + 1}
        parts: List[torch.Tensor] = []
        for key in ["a", "b"]:
            parts.append(named[key])
        while x.numel() < 0:
            x = x * 2
        if k is not None:
            warnings.warn("k is " + k)
        x = self.runner.run(torch.cat(parts))
        a, b = torch.max(x, 0)
        rows, columns = x.shape
        sums: List[float] = x.sum(dim=[0]).tolist()
        point = Point(x, columns)
        return (a, b, rows), point.x, "f {} {} {}".format(n, k, sums)

    @torch.jit.export
    def other(self, x: Tuple[int, str], w: float):
        return x[0] + len(x[1]) + w


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.lstm = torch.nn.LSTM(4, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(self.embedding(x))
        return y, h


class Shifted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))
        self.shift = torch.arange(6.0).reshape(2, 3)

    def forward(self, x):
        return (x * self.w + self.shift).sum() + self.shift[0]


def models() -> dict[str, torch.jit.ScriptModule]:
    torch.manual_seed(0)
    torch.backends.quantized.engine = "qnnpack"
    linear = torch.nn.Sequential(torch.nn.Linear(4, 4))
    traced = Shifted()
    shift = traced.shift
    del traced.shift
    Shifted.shift = shift  # a constant of the traced code, and no buffer
    return {
        "mlp": torch.jit.script(Mlp()),
        "flow": torch.jit.script(Flow()),
        "recurrent": torch.jit.script(Recurrent()),
        "constant": torch.jit.trace(traced, torch.ones(2, 3)),
        "quantised": torch.jit.script(
            torch.ao.quantization.quantize_dynamic(linear, {torch.nn.Linear})
        ),
    }


def main() -> None:
    records, archives = Path(sys.argv[1]) / "bytecode", Path(sys.argv[1]) / "lite"
    for folder in (records, archives):
        folder.mkdir(parents=True, exist_ok=True)
    for name, model in models().items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.ptl")
            model._c._save_for_mobile(str(path), {}, True, False)
            with zipfile.ZipFile(path) as archive:
                (records / f"{name}-{VERSION}.pkl").write_bytes(
                    archive.read(f"{name}/bytecode.pkl")
                )
            if name in ("mlp", "constant"):
                (archives / f"{name}-{VERSION}.ptl").write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
