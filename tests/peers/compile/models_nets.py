"""Whole nets in a small size, as papers and model zoos have them."""

# ruff: noqa: UP006, UP035, UP045, RUF059, B905 (TorchScript reads what stands here)

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from models_kit import Built, evaluated, model, ramp
from torch import Tensor, nn


@model()
def convolution_kinds() -> Built:
    layers = nn.Sequential(
        nn.Conv1d(2, 4, 3, padding="same"),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.ConvTranspose1d(4, 2, 2, stride=2, groups=2),
        nn.InstanceNorm1d(2, affine=True, track_running_stats=True),
        nn.Hardtanh(),
        nn.AvgPool1d(2),
        nn.PReLU(2),
        nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect"),
        nn.Dropout1d(),
        nn.Unflatten(1, (1, 2)),
    )
    return evaluated(layers, (ramp(1, 2, 6),))


@model()
def convolution_of_volumes() -> Built:
    return evaluated(
        nn.Sequential(nn.Conv3d(1, 2, 2, bias=False), nn.BatchNorm3d(2), nn.AdaptiveAvgPool3d(1)),
        (ramp(1, 1, 3, 3, 3),),
    )


@model(tolerance=1e-6)
def transformer_encoder() -> Built:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return evaluated(encoder, (ramp(2, 3, 8), None, mask), (ramp(2, 3, 8),))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 2, 1)
        self.expand = nn.Conv2d(channels // 2, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = x.mean((2, 3), keepdim=True)
        scale = self.expand(F.silu(self.reduce(scale), inplace=True))
        return x * scale.sigmoid()


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, ratio: int):
        super().__init__()
        hidden = inputs * ratio
        self.use_shortcut = stride == 1 and inputs == outputs
        layers: List[nn.Module] = []
        if ratio != 1:
            layers += [
                nn.Conv2d(inputs, hidden, 1, bias=False),
                nn.BatchNorm2d(hidden),
                nn.ReLU6(inplace=True),
            ]
        layers += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
        ]
        layers += [
            SqueezeExcite(hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if self.use_shortcut:
            return x + self.conv(x)
        else:
            return self.conv(x)


@model(tolerance=1e-6)
def mobile_net() -> Built:
    blocks = [
        InvertedResidual(4, 4, 1, 1),
        InvertedResidual(4, 6, 2, 2),
        InvertedResidual(6, 6, 1, 2),
    ]
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(6, 3),
    )
    return evaluated(net, (ramp(1, 3, 16, 16),))


class DenseLayer(nn.Module):
    def __init__(self, inputs: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, 2, 3, padding=1)

    def forward(self, features: List[Tensor]) -> Tensor:
        return self.conv(F.relu(self.norm(torch.cat(features, 1))))


class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(3 + 2 * i) for i in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


@model()
def dense_net() -> Built:
    return evaluated(DenseBlock(), (ramp(1, 3, 5, 5),))


class CachedAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.width = width
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, past: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
        mask = torch.ones(t, k.size(2), dtype=torch.bool).tril(diagonal=k.size(2) - t)
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min if False else -1e9)
        y = torch.matmul(scores.softmax(dim=-1), v).transpose(1, 2).reshape(b, t, self.width)
        return self.out(y), (k, v)


class Decoder(nn.Module):
    """A language model that writes tokens one after the other, and keeps the keys and values of
    earlier tokens.
    """

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.places = nn.Parameter(ramp(16, 8))
        self.attention = nn.ModuleList([CachedAttention(8, 2), CachedAttention(8, 4)])
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])
        self.feed = nn.ModuleList(
            [nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(2)]
        )

    def step(
        self, ids: Tensor, past: List[Tuple[Tensor, Tensor]], start: int
    ) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        x = self.embedding(ids) + self.places[start : start + ids.size(1)]
        present: List[Tuple[Tensor, Tensor]] = []
        for i, (attention, norm, feed) in enumerate(zip(self.attention, self.norms, self.feed)):
            y, kept = attention(norm(x), past[i] if len(past) > 0 else None)
            x = x + y
            x = x + feed(x)
            present.append(kept)
        return x[:, -1] @ self.embedding.weight.t(), present

    def forward(self, ids: Tensor, steps: int, temperature: float = 1.0) -> Tensor:
        past: List[Tuple[Tensor, Tensor]] = []
        following = ids
        for _ in range(steps):
            logits, past = self.step(following, past, ids.size(1) - following.size(1))
            if temperature == 0.0:
                following = logits.argmax(-1, keepdim=True)
            else:
                following = torch.multinomial(F.softmax(logits / temperature, dim=-1), 1)
            ids = torch.cat((ids, following), dim=1)
            if bool((following == 0).all()):
                break
        return ids


@model()
def decoder_with_cache() -> Built:
    return evaluated(Decoder(), (torch.tensor([[1, 2, 3]]), 5, 0.0), (torch.tensor([[4, 5]]), 6))


class PatchTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.places = nn.Parameter(ramp(1, 5, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        n, c, h, w = x.shape
        torch._assert(h == w, f"the image has {h} rows and {w} columns")
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.places
        x = self.norm(x)
        y, weights = self.attention(x, x, x, need_weights=True, average_attn_weights=False)
        return self.head((x + y)[:, 0]), weights


@model(tolerance=1e-6)
def patch_transformer() -> Built:
    return evaluated(PatchTransformer(), (ramp(2, 1, 8, 8),))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Sequential(nn.Linear(2, 6), nn.Sigmoid())

    def encode(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        return mean, log_variance.clamp(-10.0, 10.0)

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        mean, log_variance = self.encode(x)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        again = self.decoder(code)
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return {
            "again": again,
            "loss": F.binary_cross_entropy(again, x.sigmoid(), reduction="sum") + divergence,
        }


@model()
def autoencoder() -> Built:
    return Autoencoder().train(), [(ramp(2, 6),)]


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ramp(3, 4))
        self.bias: Optional[nn.Parameter] = None

    def forward(self, x: Tensor, edges: Tensor, weights: Optional[Tensor] = None) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.size(0)).index_add_(0, target, torch.ones(target.size(0)))
        factor = degree.clamp(min=1).pow(-0.5)
        if weights is None:
            weights = factor[source] * factor[target]
        messages = (x @ self.weight)[source] * weights.unsqueeze(-1)
        out = torch.zeros(x.size(0), self.weight.size(1)).scatter_add(
            0, target.unsqueeze(-1).expand_as(messages), messages
        )
        if self.bias is not None:
            out = out + self.bias
        return out


@model(tolerance=1e-6)
def graph_convolution() -> Built:
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    return evaluated(GraphConvolution(), (ramp(3, 3), edges), (ramp(3, 3), edges, ramp(4)))


class Translator(nn.Module):
    """A recurrent encoder and a decoder that stops at the end token or at a limit."""

    limit: int

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 6)
        self.encoder = nn.GRU(6, 6, batch_first=True)
        self.cell = nn.GRUCell(12, 6)
        self.out = nn.Linear(6, 9)
        self.limit = 6

    def attend(self, state: Tensor, memory: Tensor) -> Tensor:
        weights = torch.softmax(torch.bmm(memory, state.unsqueeze(2)).squeeze(2), dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)

    def forward(self, source: Tensor, target: Optional[Tensor] = None) -> Tuple[Tensor, List[int]]:
        memory, state = self.encoder(self.embedding(source))
        state = state.squeeze(0)
        token = torch.zeros(source.size(0), dtype=torch.long)
        logits: List[Tensor] = []
        chosen: List[int] = []
        for i in range(self.limit):
            inputs = torch.cat([self.embedding(token), self.attend(state, memory)], dim=-1)
            state = self.cell(inputs, state)
            step = self.out(state)
            logits.append(step)
            if target is not None and self.training:
                if i >= target.size(1):
                    break
                token = target[:, i]
            else:
                token = step.argmax(dim=-1)
            chosen.append(int(token[0].item()))
            if chosen[-1] == 8:
                break
        return torch.stack(logits, dim=1), chosen


@model(tolerance=1e-6)
def translator() -> Built:
    return evaluated(Translator(), (torch.tensor([[1, 2, 3], [4, 5, 6]]),))


@model(tolerance=1e-6)
def translator_in_training() -> Built:
    return Translator().train(), [(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3]]))]
