"""Models made of the layers of torch.nn."""

# ruff: noqa: UP006, UP035, UP045 (TorchScript reads what stands here)

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from models_kit import Built, evaluated, model, ramp
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


@model()
def mlp() -> Built:
    return evaluated(Mlp(), (ramp(3, 4),), (ramp(4),))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(3 * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.norm(self.conv(x)), inplace=True))
        return self.head(self.drop(torch.flatten(x, 1)))


@model()
def cnn() -> Built:
    return evaluated(Cnn(), (ramp(2, 1, 4, 4),))


@model()
def cnn_in_training() -> Built:
    return Cnn().train(), [(ramp(2, 1, 4, 4),), (ramp(2, 1, 4, 4) * 3,)]


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride > 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 7, 2, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.layer1 = nn.Sequential(Block(4, 4, 1), Block(4, 4, 1))
        self.layer2 = nn.Sequential(Block(4, 8, 2), Block(8, 8, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


@model()
def residual_net() -> Built:
    return evaluated(ResidualNet(), (ramp(1, 3, 16, 16),))


class DoubleConv(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, inputs: int, outputs: int, bilinear: bool):
        super().__init__()
        self.bilinear = bilinear
        self.scale = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.transposed = nn.ConvTranspose2d(inputs, inputs // 2, 2, stride=2)
        self.reduce = nn.Conv2d(inputs, inputs // 2, 1)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        if self.bilinear:
            x1 = self.reduce(self.scale(x1))
        else:
            x1 = self.transposed(x1)
        dy = x2.size()[2] - x1.size()[2]
        dx = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(1, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 16))
        self.up1 = Up(16, 8, True)
        self.up2 = Up(8, 4, False)
        self.outc = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


@model()
def u_net() -> Built:
    return evaluated(UNet(), (ramp(1, 1, 10, 13),))


class Attention(nn.Module):
    """Attention written out, so that its code is the same in every PyTorch."""

    def __init__(self, width: int = 8, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / float(k.size(-1)) ** 0.5)
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return x + self.out(y)


@model(tolerance=1e-6)
def attention_by_hand() -> Built:
    return evaluated(nn.Sequential(Attention(), Attention()), (ramp(2, 5, 8),))


@model(tolerance=1e-6)
def transformer_encoder_layer() -> Built:
    return evaluated(nn.TransformerEncoderLayer(8, 2, 16), (ramp(3, 2, 8),))


@model(tolerance=1e-6)
def transformer_encoder_in_training() -> Built:
    return nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True).train(), [
        (ramp(3, 2, 8),)
    ]


@model(tolerance=1e-6)
def transformer_decoder_layer() -> Built:
    return evaluated(nn.TransformerDecoderLayer(8, 2, 16), (ramp(3, 2, 8), ramp(4, 2, 8)))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Optional[Tensor]]:
        return self.attention(x, x, x, key_padding_mask=mask)


@model(tolerance=1e-6)
def multihead_attention() -> Built:
    return evaluated(
        SelfAttention(),
        (ramp(3, 2, 8),),
        (ramp(3, 2, 8), torch.tensor([[False, False, True], [False, True, True]])),
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y, (h, c) = self.lstm(x)
        return self.head(y[:, -1]), h + c


@model()
def lstm_in_a_module() -> Built:
    return evaluated(Recurrent(), (ramp(2, 3, 4),))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5)

    def forward(self, x: Tensor, h: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        if h is None:
            y, h = self.gru(x)
        else:
            y, h = self.gru(x, h)
        return y, h


@model()
def gru_in_a_module() -> Built:
    return evaluated(Gated(), (ramp(3, 2, 4),), (ramp(3, 2, 4), ramp(1, 2, 5)))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 1]), batch_first=True)
        many = [packed]
        y, _ = self.gru(many[0])
        return y.data, len(many)


PACKED = "its lite loader takes PackedSequence for a class of C++ code"


@model(not_old=PACKED, not_new=PACKED)
def packed_sequence() -> Built:
    return evaluated(Packed(), (ramp(2, 3, 3),))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)
        self.gru = nn.GRUCell(5, 3)

    def forward(self, xs: Tensor) -> Tensor:
        h = torch.zeros(xs.size(1), 5)
        c = torch.zeros(xs.size(1), 5)
        g = torch.zeros(xs.size(1), 3)
        for x in xs.unbind(0):
            h, c = self.cell(x, (h, c))
            g = self.gru(h, g)
        return g


@model()
def lstm_cell() -> Built:
    return evaluated(Cells(), (ramp(3, 2, 4),))


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4, padding_idx=0)
        self.places = nn.Embedding(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.size(1), device=ids.device).unsqueeze(0).expand_as(ids)
        return self.words(ids) + self.places(places)


@model()
def embedding() -> Built:
    return evaluated(Embeddings(), (torch.tensor([[1, 2, 0], [4, 9, 3]]),))


@model()
def embedding_bag() -> Built:
    return evaluated(
        nn.EmbeddingBag(10, 4, mode="sum"),
        (torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 4])),
        (torch.tensor([[1, 2], [4, 5]]),),
    )
