"""Models of the zoo by the way that they were made: traced, frozen, quantised, with packed weights,
and with tensors in the code.
"""

# ruff: noqa: UP006, UP035 (TorchScript reads the annotations)

from typing import Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn
from zoo import Call, Case, forward, model, ramp, scripted, traced
from zoo_layers import Bag, Cnn, Mlp, Recurrent


@model("traced")
def mlp_traced() -> Case:
    return traced(Mlp(), ramp(3, 4))


@model("traced conv bn pool")
def cnn_traced() -> Case:
    return traced(Cnn(), ramp(2, 1, 4, 4))


@model("traced lstm")
def lstm_traced() -> Case:
    return traced(Recurrent(), ramp(2, 3, 3))


@model("traced embedding-bag several-inputs")
def embedding_bag_traced() -> Case:
    return traced(Bag(), torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2]))


class ManyValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(ramp(3))

    def forward(self, pair: Tuple[Tensor, Tensor], named: Dict[str, Tensor], items: List[Tensor]):
        out = pair[0] + self.table * pair[1]
        return {"sum": out + named["x"], "last": items[-1]}

    def other(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return x + self.table, self.table * torch.tensor([1.0, 2.0, 3.0])


@model("traced dict-output tuple-input")
def traced_values() -> Case:
    arguments = ((ramp(3), ramp(3) * 2), {"x": ramp(3)}, [ramp(1), ramp(2)])
    return traced(ManyValues(), *arguments, strict=False)


@model("traced several-methods several-inputs")
def traced_methods() -> Case:
    arguments = ((ramp(3), ramp(3) * 2), {"x": ramp(3)}, [ramp(1), ramp(2)])
    inputs = {"forward": arguments, "other": (ramp(3),)}
    module = torch.jit.trace_module(ManyValues().eval(), inputs, strict=False)
    return Case(module, [forward(*arguments), Call("other", (ramp(3),))])


class Mixed(nn.Module):
    """A traced module with a scripted one inside, and the reverse."""

    def __init__(self):
        super().__init__()
        self.scripted = torch.jit.script(Mlp())

    def forward(self, x: Tensor) -> Tensor:
        return self.scripted(x) * torch.tensor([2.0, 0.5]) + torch.arange(2)


@model("traced scripted tensor-constants")
def traced_around_scripted() -> Case:
    return traced(Mixed(), ramp(2, 4))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.trace(Mlp().eval(), (ramp(1, 4),))

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = torch.cat([self.inner(x), x[:, :2]], 1)
        return x


@model("scripted traced")
def scripted_around_traced() -> Case:
    return scripted(Outer(), ramp(2, 4), 2)


@model("traced weight-norm")
def weight_norm_traced() -> Case:
    return traced(nn.utils.weight_norm(nn.Linear(3, 2)), ramp(1, 3))


@model("frozen tensor-constants")
def mlp_frozen() -> Case:
    return Case(torch.jit.freeze(torch.jit.script(Mlp().eval())), [forward(ramp(3, 4))])


@model("frozen conv bn folded")
def cnn_frozen() -> Case:
    return Case(torch.jit.freeze(torch.jit.script(Cnn().eval())), [forward(ramp(2, 1, 4, 4))])


class Preserved(nn.Module):
    version: int

    def __init__(self):
        super().__init__()
        self.version = 3
        self.body = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.version

    @torch.jit.export
    def describe(self) -> Dict[str, int]:
        return {"version": self.version}


@model("frozen preserved-attributes")
def frozen_preserved() -> Case:
    module = torch.jit.freeze(
        torch.jit.script(Preserved().eval()), preserved_attrs=["version", "describe"]
    )
    return Case(module, [forward(ramp(1, 4)), Call("describe", ())])


class BigConstants(nn.Module):
    """Tensors in the code itself: shared, empty, of several dtypes."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        table = torch.tensor([[1, 2], [3, 4]], dtype=torch.int16)
        return (
            x + table,
            x * torch.tensor([True, False]),
            torch.tensor([]) + torch.tensor(2.5, dtype=torch.float64),
        )


@model("traced tensor-constants dtypes")
def constants_traced() -> Case:
    return traced(BigConstants(), ramp(2, 2))


def dynamically_quantised(module: nn.Module, kinds: set) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(module.eval(), kinds, dtype=torch.qint8)


@model("dynamically-quantised custom-class")
def quantised_dynamic() -> Case:
    return scripted(dynamically_quantised(Mlp(), {nn.Linear}), ramp(3, 4))


@model("dynamically-quantised custom-class traced")
def quantised_dynamic_traced() -> Case:
    return traced(dynamically_quantised(Mlp(), {nn.Linear}), ramp(3, 4))


@model("dynamically-quantised custom-class lstm")
def quantised_dynamic_lstm() -> Case:
    return scripted(dynamically_quantised(Recurrent(), {nn.LSTM, nn.Linear}), ramp(2, 3, 3))


@model("dynamically-quantised custom-class frozen object-constants")
def quantised_dynamic_frozen() -> Case:
    module = torch.jit.script(dynamically_quantised(Mlp(), {nn.Linear}))
    return Case(torch.jit.freeze(module), [forward(ramp(3, 4))])


def packs_float16() -> bool:
    """Debian's PyTorch 2.6 has no FBGEMM, and its other engine packs no float16 weights."""
    try:
        torch.ops.quantized.linear_prepack_fp16(torch.ones(1, 1), None)
    except RuntimeError:
        return False
    return True


@model(
    "dynamically-quantised float16 custom-class",
    since=(2, 0),
    able=packs_float16(),
    without="its engine packs no float16 weights",
)
def quantised_half() -> Case:
    module = torch.ao.quantization.quantize_dynamic(Mlp().eval(), {nn.Linear}, dtype=torch.float16)
    return scripted(module, ramp(3, 4))


class ForQuantising(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.conv = nn.Conv2d(1, 2, 3)
        self.relu = nn.ReLU()
        self.head = nn.Linear(8, 2)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.head(x.flatten(1)))


def statically_quantised() -> nn.Module:
    module = ForQuantising().eval()
    module.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
    torch.ao.quantization.fuse_modules(module, [["conv", "relu"]], inplace=True)
    torch.ao.quantization.prepare(module, inplace=True)
    module(ramp(2, 1, 4, 4))
    return torch.ao.quantization.convert(module)


@model("statically-quantised custom-class conv")
def quantised_static() -> Case:
    return scripted(statically_quantised(), ramp(2, 1, 4, 4))


@model("statically-quantised custom-class conv traced")
def quantised_static_traced() -> Case:
    return traced(statically_quantised(), ramp(2, 1, 4, 4))


class Result(NamedTuple):
    logits: Tensor
    classes: List[int]


class Returns(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Mlp()

    def forward(self, x: Tensor) -> Result:
        logits = self.body(x)
        classes: List[int] = logits.argmax(-1).tolist()
        return Result(logits, classes)


@model("namedtuple-returning")
def returns_namedtuple() -> Case:
    return scripted(Returns(), ramp(3, 4))


@model("frozen namedtuple-returning")
def returns_namedtuple_frozen() -> Case:
    return Case(torch.jit.freeze(torch.jit.script(Returns().eval())), [forward(ramp(3, 4))])
