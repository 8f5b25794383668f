"""Models of the zoo that are made of the usual layers, and of containers of layers."""

# ruff: noqa: UP006, UP035, UP045 (TorchScript reads the annotations)

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from zoo import Call, Case, forward, model, ramp, scripted


class Mlp(nn.Module):
    def __init__(self, width: int = 5, bias: bool = True):
        super().__init__()
        self.first = nn.Linear(4, width, bias=bias)
        self.second = nn.Linear(width, 2, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(3 * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.norm(self.conv(x))))
        return self.head(self.drop(x.flatten(1)))


@model("linear")
def mlp() -> Case:
    return scripted(Mlp(), ramp(3, 4))


@model("linear none-parameter")
def mlp_without_bias() -> Case:
    return scripted(Mlp(bias=False), ramp(3, 4))


@model("conv bn pool")
def cnn() -> Case:
    return scripted(Cnn(), ramp(2, 1, 4, 4))


@model("conv bn pool training")
def cnn_training() -> Case:
    module = Cnn()
    module.drop.p = 0.0
    return Case(
        torch.jit.script(module.train()), [forward(ramp(2, 1, 4, 4)), forward(ramp(2, 1, 4, 4) * 3)]
    )


@model("conv sequential")
def conv_kinds() -> Case:
    return scripted(
        nn.Sequential(
            nn.Conv1d(2, 4, 3, padding="same"),
            nn.GroupNorm(2, 4),
            nn.SiLU(),
            nn.ConvTranspose1d(4, 2, 2, stride=2, groups=2),
            nn.InstanceNorm1d(2, affine=True, track_running_stats=True),
            nn.Hardtanh(),
            nn.AvgPool1d(2),
            nn.PReLU(2),
        ),
        ramp(1, 2, 6),
    )


@model("conv3d")
def conv3d() -> Case:
    return scripted(
        nn.Sequential(nn.Conv3d(1, 2, 2, bias=False), nn.BatchNorm3d(2), nn.AdaptiveAvgPool3d(1)),
        ramp(1, 1, 3, 3, 3),
    )


class Attention(nn.Module):
    """A transformer block written out, so that every PyTorch has the same code for it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before = nn.LayerNorm(width)
        self.after = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        batch, length, width = x.size(0), x.size(1), x.size(2)
        parts = (
            self.qkv(self.before(x))
            .reshape(batch, length, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        scores = torch.matmul(parts[0], parts[1].transpose(-2, -1)) * (
            (width // self.heads) ** -0.5
        )
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        mixed = torch.matmul(torch.softmax(scores, -1), parts[2])
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.after(x))


@model("transformer gelu")
def transformer_block() -> Case:
    mask = torch.ones(3, 3, dtype=torch.bool).triu(1)
    return Case(
        torch.jit.script(Attention(4, 2).eval()),
        [forward(ramp(2, 3, 4)), forward(ramp(2, 3, 4), mask)],
    )


@model("transformer")
def transformer_encoder() -> Case:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return scripted(layer.train(), ramp(2, 3, 4))


@model("attention")
def multihead_attention() -> Case:
    return scripted(
        nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True),
        ramp(1, 3, 4),
        ramp(1, 2, 4),
        ramp(1, 2, 4),
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 1)

    def forward(
        self, x: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        out, state = self.lstm(x, state)
        return self.head(out), state


@model("lstm optional-tuple")
def lstm() -> Case:
    state = (ramp(4, 2, 4), ramp(4, 2, 4) * 0.5)
    return Case(
        torch.jit.script(Recurrent().eval()),
        [forward(ramp(2, 3, 3)), forward(ramp(2, 3, 3), state)],
    )


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, num_layers=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


@model("gru")
def gru() -> Case:
    return scripted(Gru(), ramp(3, 2, 3))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(3, 4)
        self.gru = nn.GRUCell(4, 2)

    def forward(self, x: Tensor) -> List[Tensor]:
        hidden, cell = torch.zeros(x.size(1), 4), torch.zeros(x.size(1), 4)
        state = torch.zeros(x.size(1), 2)
        outputs: List[Tensor] = []
        for step in range(x.size(0)):
            hidden, cell = self.lstm(x[step], (hidden, cell))
            state = self.gru(hidden, state)
            outputs.append(state)
        return outputs


@model("lstm gru loop")
def recurrent_cells() -> Case:
    return scripted(Cells(), ramp(3, 2, 3))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 3, mode="sum")
        self.embedding = nn.Embedding(10, 3, padding_idx=0)

    def forward(self, indices: Tensor, offsets: Tensor) -> Tensor:
        return self.bag(indices, offsets) + self.embedding(indices).sum(0)


@model("embedding-bag")
def embedding_bag() -> Case:
    return scripted(Bag(), torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3]))


@model("sequential numeric-names")
def sequential() -> Case:
    return scripted(
        nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 3)), nn.Softmax(-1)),
        ramp(2, 4),
    )


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "soft max": nn.Softmax(-1), "3d": nn.Tanh()})

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        outputs: Dict[str, Tensor] = {}
        for index, layer in enumerate(self.layers):
            x = layer(x) + index
        for name, layer in self.named.items():
            outputs[name] = layer(x)
        return outputs


@model("module-list module-dict numeric-names odd-names")
def module_containers() -> Case:
    return scripted(Lists(), ramp(2, 4))


class Weights(nn.Module):
    """A list of parameters, whose attributes have numbers as names."""

    def __init__(self):
        super().__init__()
        self.gains = nn.ParameterList([nn.Parameter(ramp(2) + n) for n in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for gain in self.gains:
            x = x * gain
        return x


@model("parameter-list numeric-names")
def parameter_list() -> Case:
    return scripted(Weights(), ramp(3, 2))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 3, bias=False)
        self.decode = nn.Linear(3, 3, bias=False)
        self.decode.weight = self.encode.weight
        self.register_buffer("transposed", self.encode.weight.detach().t())
        self.register_buffer("row", self.encode.weight.detach()[1])

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(torch.relu(self.encode(x))) + self.row @ self.transposed


@model("shared-weights views")
def tied_weights() -> Case:
    return scripted(Tied(), ramp(2, 3))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.Linear(3, 3)
        self.here = layer
        self.there = layer
        self.steps = nn.ModuleList([layer, nn.Linear(3, 3), layer])

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return self.there(self.here(x))


@model("shared-submodule")
def shared_submodule() -> Case:
    return scripted(Twice(), ramp(2, 3))


class Deep(nn.Module):
    def __init__(self, depth: int):
        super().__init__()
        self.child = Deep(depth - 1) if depth else nn.Identity()
        self.scale = nn.Parameter(torch.tensor(1.0 + depth))

    def forward(self, x: Tensor) -> Tensor:
        return self.child(x * self.scale)


@model("nested mangled")
def deep_nesting() -> Case:
    return scripted(Deep(8), ramp(2))


@model("linear extra-files")
def mlp_with_extra_files() -> Case:
    case = scripted(Mlp(), ramp(1, 4))
    case.extra_files = {
        "labels.txt": "cat\ndog\n",
        "config/a.json": '{"size": 4}',
        "empty": "",
        "long": "0123456789" * 100,
        "bytes.bin": bytes(range(256)),
        "grüße.txt": "grüße",
    }
    return case


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(2, 3, 2)

    def forward(
        self, a: Tensor, b: Tensor, scale: float = 2.0, shift: Optional[int] = None
    ) -> Tensor:
        out = self.layer(a, b) * scale
        return out if shift is None else out + shift

    @torch.jit.export
    def size(self) -> int:
        return self.layer.weight.numel()


@model("several-inputs defaults exported-method")
def several_methods() -> Case:
    a, b = ramp(2, 2), ramp(2, 3)
    return Case(
        torch.jit.script(Several()), [forward(a, b), forward(a, b, 0.5, 3), Call("size", ())]
    )
