"""PyTorch's side of bytecode_test.py.

lite_peer.py write FOLDER                  saves models for the lite interpreter, with debug tables,
                                           and as flatbuffers
lite_peer.py check OLD NEW NUMBER          compares the archives in NEW with those in OLD, to whose
                                           float parameters NUMBER was added: by torch.jit.load and
                                           in lite
"""

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.jit.mobile import _load_for_lite_interpreter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

import bytecode_golden

warnings.simplefilter("ignore")


class Cnn(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.norm = torch.nn.BatchNorm2d(3)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        y = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.dropout(y.flatten(1))


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        return self.layer(x)


def all_models() -> dict[str, torch.jit.ScriptModule]:
    models = bytecode_golden.models()
    models["cnn"] = torch.jit.script(Cnn())
    models["encoder"] = torch.jit.script(Encoder())
    return {name: model.eval() for name, model in models.items()}


def inputs(name: str) -> tuple[Any, ...]:
    torch.manual_seed(3)
    return {
        "mlp": (torch.randn(2, 4),),
        "flow": (torch.randn(2, 3), 4, "k"),
        "recurrent": (torch.arange(6).reshape(3, 2),),
        "constant": (torch.randn(2, 3),),
        "quantised": (torch.randn(2, 4),),
        "cnn": (torch.randn(2, 1, 8, 8),),
        "encoder": (torch.randn(3, 2, 8),),
    }[name]


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    # PyTorch 1.13 exports the methods that an interface calls only after this.
    torch._C._enable_mobile_interface_call_export()
    for name, model in all_models().items():
        model._c._save_for_mobile(str(folder / f"{name}.ptl"), {}, True, False)
        torch.jit.save_jit_module_to_flatbuffer(
            model, str(folder / f"{name}.ff"), {"note.txt": b"carried"}
        )


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor) and a.shape == b.shape and torch.allclose(a, b, atol=1e-6)
        )
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=1e-6)
    return bool(a == b)


def check(old: Path, new: Path, number: float) -> None:
    torch.backends.quantized.engine = "qnnpack"
    checked = 0
    # An archive that was made from a flatbuffer has its extra file. The archives that write() makes
    # have none.
    note = b"carried" if any(new.glob("*.ff")) else b""
    for path in sorted([*new.glob("*.ptl"), *new.glob("*.ff")]):
        arguments = inputs(path.stem)
        reference = torch.jit.load(str(old / f"{path.stem}.ptl"))
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter += number
            expected = reference(*arguments)
            extra_files = {"note.txt": ""}
            with path.open("rb") as file:
                script = torch.jit.load(file, _extra_files=extra_files)
            with path.open("rb") as file:
                found = {
                    "jit": script(*arguments),
                    "lite": _load_for_lite_interpreter(file)(*arguments),
                }
            assert extra_files["note.txt"] == note, extra_files
        for way, result in found.items():
            assert same(expected, result), f"{path.name} by {way}: {expected} and {result}"
        checked += 1
    print(f"{torch.__version__}: {checked} archives")
    assert checked > 0


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        check(Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
