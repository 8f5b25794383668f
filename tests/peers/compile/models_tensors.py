"""Models of tensor operators: argument forms, indices, factories, in-place and out= variants."""

# ruff: noqa: UP006, UP035, UP045, RUF005 (TorchScript reads what stands here)

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from models_kit import Built, evaluated, model, ramp
from torch import Tensor, nn


class Slices(nn.Module):
    def forward(self, x: Tensor, i: int, mask: Tensor, index: Tensor) -> List[Tensor]:
        out = [
            x[0],
            x[-1],
            x[1:],
            x[:2],
            x[::2],
            x[:, 1],
            x[:, 1:3],
            x[..., -1],
            x[0, ..., 1:],
            x[None],
            x[:, None, 0],
        ]
        out += [
            x[i],
            x[i:, :i],
            x[i : i + 1],
            x[mask],
            x[index],
            x[:, index],
            x[index, :, 0],
            x[index, 1],
            x[None, ..., None],
        ]
        out += [x[x > 0], x[0][1][2], x[-2:-1, ::2, 1::2], x[:, :, None, i]]
        out += [x[[0, 1]], x[torch.tensor([[0, 1], [1, 0]])], x[index, index], x[i, :, index]]
        return out


@model()
def tensor_slices() -> Built:
    x = ramp(2, 3, 4)
    return evaluated(
        Slices(),
        (x, 1, torch.tensor([True, False]), torch.tensor([1, 0, 1])),
        (x, 0, torch.tensor([True, True]), torch.tensor([0])),
    )


class SliceWrites(nn.Module):
    def forward(self, x: Tensor, i: int, mask: Tensor, index: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 5
        y[:, 1:3] += 2
        y[y > 4] = -1.0
        y[..., -1] *= 3
        y[i] = y[0] - 1
        y[i, 0, 1] = 7.5
        y[mask] = y[mask] + 1
        y[:, index] -= 0.5
        y[index] = torch.zeros(3, 4)
        y[0, :, :2] = torch.ones(3, 2)
        y[1:, ..., 0] = i
        y[None, 0] /= 2
        return y


@model()
def tensor_slice_writes() -> Built:
    return evaluated(
        SliceWrites(), (ramp(2, 3, 4), 1, torch.tensor([True, False]), torch.tensor([1]))
    )


class InPlace(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
        x.add_(1).mul_(2).sub_(y, alpha=2)
        x += y
        x -= 1
        x *= 2.0
        x /= y + 3
        z = torch.empty_like(x).copy_(x)
        z.clamp_(min=-1.0, max=2.0).sigmoid_()
        z.zero_()[0].fill_(3)
        z.masked_fill_(y > 0, 9.0)
        F.relu_(x)
        z.t_().squeeze_().unsqueeze_(0)
        return x, z


@model()
def in_place_operators() -> Built:
    return evaluated(InPlace(), (ramp(2, 3), ramp(2, 3)))


class OutArguments(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> List[Tensor]:
        a = torch.empty(0)
        torch.add(x, y, out=a)
        b = torch.empty(0)
        torch.add(x, y, alpha=2, out=b)
        c = torch.zeros(0)
        torch.cat([x, y], out=c)
        d = torch.zeros(0)
        torch.cat([x, y], dim=1, out=d)
        e = torch.zeros(0)
        torch.matmul(x, y.t(), out=e)
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
        torch.neg(x, out=values)
        torch.argmax(x, 1, out=indices)
        f = torch.zeros(0)
        torch.sum(x, 1, out=f)
        g = torch.zeros(0)
        torch.sum(x, 1, True, dtype=torch.float32, out=g)
        return [a, b, c, d, e, values, indices, f, g]


@model()
def out_arguments() -> Built:
    return evaluated(OutArguments(), (ramp(2, 3), ramp(2, 3) * -2))


class Factories(nn.Module):
    def forward(self, x: Tensor, n: int, f: float) -> List[Tensor]:
        out = [
            torch.zeros(2),
            torch.zeros(2, 3),
            torch.zeros([2, n]),
            torch.zeros((n, 1)),
            torch.zeros(x.shape),
            torch.zeros(x.size(0), 2),
        ]
        out += [
            torch.ones(n),
            torch.ones(n, dtype=torch.int64),
            torch.ones_like(x),
            torch.zeros_like(x, dtype=torch.double),
        ]
        out += [
            torch.arange(n),
            torch.arange(1, n),
            torch.arange(0, n, 2),
            torch.arange(5),
            torch.arange(1.0, f, 0.5),
        ]
        out += [torch.arange(n, dtype=torch.float)]
        out += [
            torch.full([2], f),
            torch.full([2], n),
            torch.full((2, 2), 1, dtype=torch.float),
            torch.full_like(x, 3),
        ]
        out += [
            torch.linspace(0.0, 1.0, 5),
            torch.linspace(0, 1, steps=n),
            torch.logspace(0.0, 1.0, 3),
            torch.eye(n),
            torch.eye(2, 3),
        ]
        out += [
            torch.tensor(n),
            torch.tensor(f),
            torch.tensor([1, 2, n]),
            torch.tensor([[f, 1.0], [2.0, 3.0]]),
            torch.tensor(True),
        ]
        out += [
            torch.tensor([1.5], dtype=torch.double),
            x.new_zeros(2),
            x.new_ones([n]),
            x.new_full([2], 1.5),
            torch.as_tensor(x),
        ]
        out += [
            torch.tensor(n, dtype=torch.float, device=x.device),
            torch.zeros(0),
            torch.scalar_tensor(2.0),
            torch.empty([n]).fill_(1),
        ]
        return out


@model()
def factories() -> Built:
    return evaluated(Factories(), (ramp(2, 3), 4, 3.5))


class Kinds(nn.Module):
    def forward(self, x: Tensor) -> Tuple[List[Tensor], List[int], List[bool]]:
        out = [
            x.to(torch.float64),
            x.to(torch.float16),
            x.to("cpu"),
            x.to(torch.device("cpu")),
            x.to(x.device, torch.int32),
            x.to(x),
        ]
        out += [
            x.to(torch.int64, copy=True),
            x.to(device="cpu", dtype=torch.double),
            x.float(),
            x.double(),
            x.long(),
            x.int(),
            x.half(),
        ]
        out += [
            x.type_as(out[0]),
            x.cpu(),
            x.byte(),
            x.to(torch.float64).to(torch.float32),
            x.contiguous(),
            x.type(torch.int16),
        ]
        dtype = torch.float64 if x.dim() > 1 else x.dtype
        out.append(torch.zeros([1], dtype=dtype, device=x.device))
        if x.dtype == torch.float32 and x.layout == torch.strided:
            out.append(
                torch.empty([0], device="cpu", dtype=x.dtype, memory_format=torch.contiguous_format)
            )
        numbers = [
            x.dim(),
            x.ndim,
            x.numel(),
            x.size(-1),
            len(x),
            x.shape[0],
            x.stride(0),
            x.storage_offset(),
            x.element_size(),
        ]
        facts = [
            x.is_cuda,
            x.is_contiguous(),
            x.requires_grad,
            x.is_floating_point(),
            x.is_complex(),
            x.dtype == torch.float,
            x.is_leaf,
        ]
        facts += [
            x.is_quantized,
            x.is_sparse,
            x.device.type == "cpu",
            x.device == torch.device("cpu"),
        ]
        return out, numbers, facts


@model()
def dtypes_and_devices() -> Built:
    return evaluated(Kinds(), (ramp(2, 3),), (ramp(4),))


class Arithmetic(nn.Module):
    def forward(self, x: Tensor, y: Tensor, n: int, f: float) -> List[Tensor]:
        out = [
            x + y,
            x - y,
            x * y,
            x / (y + 2),
            x + n,
            x - f,
            x * f,
            x / n,
            n + x,
            f - x,
            2 * x,
            1 / (x + 2),
            1.0 - x,
            n - x,
        ]
        out += [x // 2, x % 2, x**2, x**f, 2**x, (x + 1) ** y, -x, abs(x)]
        out += [
            x == y,
            x != y,
            x < y,
            x <= 0,
            x > f,
            x >= n,
            x > 0,
            n == x,
            (x > 0) & (y > 0),
            (x > 0) | (y < 0),
            ~(x > 0),
        ]
        out += [(x > 0) ^ (y > 0)]
        out += [
            torch.add(x, y, alpha=2),
            torch.sub(x, 1),
            torch.mul(x, 2),
            torch.div(x, 2),
            torch.div(x, y + 2, rounding_mode="floor"),
        ]
        out += [torch.rsub(x, 1)]
        out += [
            torch.pow(x + 1, 2),
            torch.pow(2, x),
            torch.remainder(x, 2),
            torch.fmod(x, 2),
            torch.floor_divide(x, 2),
        ]
        out += [torch.maximum(x, y)]
        k = x.mul(10).long()
        out += [k & 3, k | 1, k ^ 2, k << 1, k >> 1, ~k, k // 3, k % 3, k / 3, k + f, k * 2]
        return out


@model()
def tensor_arithmetic() -> Built:
    return evaluated(Arithmetic(), (ramp(2, 3), ramp(2, 3).flip(0), 2, 0.5))


class Reductions(nn.Module):
    def forward(self, x: Tensor) -> Tuple[List[Tensor], float, int, bool]:
        out = [
            x.sum(),
            x.sum(0),
            x.sum([0, 1]),
            x.sum(dim=1, keepdim=True),
            x.mean(),
            x.mean(-1),
            x.mean(dim=[0, 1]),
            x.prod(),
            x.std(),
        ]
        out += [x.var(0)]
        values, indices = x.max(0)
        out += [
            values,
            indices,
            x.max(),
            x.min(),
            torch.min(x, 1)[1],
            x.argmax(),
            x.argmax(1),
            x.argmin(dim=0, keepdim=True),
            x.amax(1),
        ]
        out += [
            x.cumsum(0),
            torch.cumsum(x, dim=1),
            x.cumprod(1),
            x.norm(),
            x.norm(2, 1),
            x.norm(p=1),
            torch.logsumexp(x, 1),
            x.median(),
        ]
        values, indices = torch.topk(x, 2)
        out += [
            values,
            indices,
            x.topk(1, dim=0, largest=False).values,
            x.sort(1, descending=True)[0],
            x.argsort(0),
            torch.sort(x)[1],
        ]
        out += [
            x.any(),
            (x > -1).all(),
            (x > 0).any(1),
            torch.unique(x),
            x.nonzero(),
            torch.where(x > 0)[0],
            x.bincount() if False else x,
        ]
        out += [
            torch.std(x, 1, unbiased=False),
            torch.var_mean(x, 1)[0],
            torch.kthvalue(x, 1, 1).values,
            x.unbind(0)[1],
            x.histc(4),
        ]
        return out, x.sum().item(), int(x.argmax()), bool((x > 0).any())


@model()
def reductions() -> Built:
    return evaluated(Reductions(), (ramp(3, 4),))


class Shapes(nn.Module):
    def forward(self, x: Tensor, n: int) -> List[Tensor]:
        b, c = x.shape[0], x.shape[1]
        out = [
            x.view(-1),
            x.view(b, -1),
            x.view([c, b, -1]),
            x.reshape(-1, 2),
            x.flatten(),
            x.flatten(1),
            x.permute(2, 0, 1),
        ]
        out += [x.transpose(0, 1)]
        out += [
            x.unsqueeze(0),
            x.squeeze(),
            x[:1].squeeze(0),
            x.expand(2, -1, -1, -1),
            x[:, :1].expand(b, 3, 4),
            x.repeat(1, 2, 1),
        ]
        out += [x.t() if x.dim() < 3 else x]
        out += [
            torch.cat([x, x]),
            torch.cat((x, x), 1),
            torch.stack([x, x], dim=-1),
            torch.stack((x, x)),
            x.flip([0]),
            x.flip(0, 1),
        ]
        out += [x.roll(1, 0), torch.roll(x, [1, 1], [0, 1])]
        out += (
            list(x.chunk(2, 1))
            + list(x.split(2, dim=2))
            + list(torch.split(x, [1, 2], dim=1))
            + list(x.unbind(2))
            + list(torch.tensor_split(x, 2, 2))
        )
        out += [
            x.narrow(2, 1, 2),
            x.select(1, 0),
            x.unfold(2, 2, 1),
            x.diagonal(),
            x.tril(),
            torch.triu(x, 1),
            x.movedim(0, -1),
        ]
        out += [x.T if x.dim() == 2 else x.mT]
        out += [
            x.index_select(1, torch.tensor([0, 2])),
            torch.gather(x, 2, torch.zeros(2, 3, 2, dtype=torch.long)),
        ]
        out += [x.take(torch.tensor([0, 5])), x.masked_select(x > 0)]
        out += [
            x.repeat_interleave(n, dim=0),
            x.expand_as(x),
            x.swapaxes(0, 1),
            x.ravel(),
            x.unflatten(2, [2, 2]),
        ]
        out += [torch.broadcast_tensors(x, x[:1])[1]]
        grid = torch.meshgrid([torch.arange(2), torch.arange(n)], indexing="ij")
        return out + [grid[0], grid[1], torch.cartesian_prod(torch.arange(2), torch.arange(n))]


@model()
def shapes() -> Built:
    return evaluated(Shapes(), (ramp(2, 3, 4), 3))


class Products(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> List[Tensor]:
        out = [
            torch.einsum("ij,kj->ik", x, y),
            torch.einsum("bij,bjk->bik", [x[None], y.t()[None]]),
            torch.einsum("ii", x @ y.t()),
        ]
        out += [x @ y.t(), torch.matmul(x, y.T), x.mm(y.t()), torch.bmm(x[None], y.t()[None])]
        out += [torch.addmm(x @ y.t(), x, y.t(), beta=0.5, alpha=2)]
        out += [
            torch.dot(x[0], y[1]),
            torch.mv(x, y[0]),
            torch.outer(x[0], y[0]),
            torch.tensordot(x, y, dims=[[1], [1]]),
        ]
        out += [torch.cdist(x, y), torch.ger(x[0], y[0])]
        return out


@model(tolerance=1e-6)
def products() -> Built:
    return evaluated(Products(), (ramp(3, 4), ramp(3, 4).flip(1)))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ramp(4))

    def forward(self, x: Tensor) -> List[Tensor]:
        out = [
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.softmax(x, -1),
            F.softmax(x, dim=1, dtype=torch.double),
        ]
        out += [F.log_softmax(x, dim=-1), torch.softmax(x, 0)]
        out += [
            F.relu(x),
            F.relu(x.clone(), inplace=True),
            F.leaky_relu(x, 0.2),
            F.elu(x),
            F.selu(x),
            F.silu(x),
            F.mish(x),
        ]
        out += [F.hardswish(x), F.hardtanh(x)]
        out += [
            F.softplus(x),
            F.softsign(x),
            F.tanh(x),
            F.sigmoid(x),
            F.logsigmoid(x),
            F.relu6(x),
            F.glu(x),
            F.prelu(x, self.weight[:1]),
        ]
        out += [F.threshold(x, 0.1, 20.0)]
        out += [
            F.layer_norm(x, [4]),
            F.layer_norm(x, (4,), self.weight, self.weight, 1e-6),
            F.normalize(x, dim=1),
        ]
        out += [F.cosine_similarity(x, x, dim=1)]
        out += [
            F.one_hot(torch.tensor([0, 2]), 4),
            F.pairwise_distance(x, x * 2),
            F.linear(x, x),
            F.pad(x, [1, 2]),
        ]
        out += [F.pad(x, (1, 1, 0, 2), value=3.0)]
        out += [
            F.mse_loss(x, x * 2),
            F.l1_loss(x, x + 1, reduction="sum"),
            F.cross_entropy(x, torch.tensor([0, 1])),
        ]
        out += [F.smooth_l1_loss(x, x * 2), F.nll_loss(x, torch.tensor([1, 1]))]
        out += [
            F.binary_cross_entropy_with_logits(x, x.sigmoid()),
            F.kl_div(x, x.exp(), reduction="batchmean"),
        ]
        out += [F.cosine_similarity(x, x), F.softmin(x, 1)]
        return out


@model(tolerance=1e-6)
def functional() -> Built:
    return evaluated(Functional(), (ramp(2, 4),))


class Images(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        out = [
            F.interpolate(x, scale_factor=2.0),
            F.interpolate(x, size=[3, 5], mode="bilinear", align_corners=False),
        ]
        out += [F.interpolate(x, (4, 4), mode="bicubic")]
        out += [
            F.interpolate(x, size=8, mode="nearest"),
            F.interpolate(x, scale_factor=[0.5, 2.0], mode="area"),
        ]
        out += [F.pad(x, [1, 1, 1, 1], mode="reflect"), F.pad(x, [1, 0], mode="constant")]
        out += [
            F.pad(x, (1, 1, 1, 1), "replicate"),
            F.pad(x, [1, 1, 1, 1], "circular"),
            F.unfold(x, 2),
            F.unfold(x, [2, 2], stride=2),
        ]
        out += [F.fold(F.unfold(x, 2), [4, 4], 2)]
        out += [
            F.max_pool2d(x, 2),
            F.max_pool2d(x, [2, 2], stride=1),
            F.avg_pool2d(x, 2),
            F.adaptive_avg_pool2d(x, [2, 1]),
        ]
        out += [F.adaptive_max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1, False, False)]
        values, indices = F.max_pool2d(x, 2, return_indices=True)
        out += [
            values,
            indices,
            F.max_unpool2d(values, indices, 2),
            F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
            F.pixel_unshuffle(x, 2),
        ]
        out += [F.lp_pool2d(x, 2.0, 2)]
        grid = F.affine_grid(
            torch.tensor([[[1.0, 0.0, 0.1], [0.0, 1.0, 0.0]]]), [1, 1, 4, 4], align_corners=False
        )
        out += [
            grid,
            F.grid_sample(x, grid, align_corners=False),
            F.conv2d(x, x[:, :, :2, :2]),
            F.conv2d(x, x[:, :, :2, :2], None, 2, 1),
        ]
        out += [F.conv2d(x, x[:, :, :2, :2], padding="same")]
        out += [
            F.conv_transpose2d(x, x[:, :, :2, :2], stride=2),
            F.conv1d(x[0, :, :1], x[0, :, :1, :2]),
            F.upsample(x, scale_factor=2.0),
        ]
        out += [F.instance_norm(x), F.local_response_norm(x, 2), F.group_norm(x, 1)]
        return out


@model(tolerance=1e-6)
def images() -> Built:
    return evaluated(Images(), (ramp(1, 1, 4, 4),))


class Selections(nn.Module):
    def forward(self, x: Tensor, index: Tensor) -> List[Tensor]:
        out = [
            torch.where(x > 0, x, -x),
            torch.where(x > 0, x, torch.zeros(1)),
            x.masked_fill(x > 0, float("-inf")),
        ]
        out += [x.masked_fill(x > 0, x[0, 0])]
        out += [torch.zeros(3, 4).scatter(0, index, x), torch.zeros(3, 4).scatter_(1, index, 1.5)]
        out += [
            torch.zeros(3, 4).scatter_add_(0, index, x),
            x.scatter(0, index, 2.0, reduce="multiply"),
        ]
        out += [x.index_add(0, torch.tensor([0, 1, 1]), x), x.index_fill(1, torch.tensor([0]), 9.0)]
        out += [
            x.index_copy(0, torch.tensor([2, 1, 0]), x),
            x.index_put([torch.tensor([0])], torch.ones(4)),
        ]
        out += [
            x.clamp(0.0),
            x.clamp(max=0.1),
            x.clamp(min=-0.1, max=0.1),
            torch.clip(x, 0, 1),
            x.clamp_min(0),
        ]
        out += [torch.bucketize(x, torch.tensor([0.0, 0.2])), torch.searchsorted(x, x)]
        out += [
            x.isnan(),
            torch.isinf(x),
            x.isfinite(),
            torch.isclose(x, x),
            x.eq(x),
            x.ne(0),
            x.logical_not(),
            torch.logical_and(x, x),
        ]
        out += [x.sign(), torch.nan_to_num(x / 0.0), torch.lerp(x, -x, 0.3)]
        return out


@model()
def selections() -> Built:
    return evaluated(
        Selections(), (ramp(3, 4), torch.tensor([[0, 1, 2, 0], [2, 0, 0, 1], [1, 2, 1, 2]]))
    )


class Complex(nn.Module):
    def forward(
        self, x: Tensor, z: complex, f: float
    ) -> Tuple[List[Tensor], List[complex], List[float], bool]:
        c = torch.complex(x, -x)
        out = [
            c * z,
            c + 1j,
            c.real,
            c.imag,
            c.abs(),
            c.angle(),
            c.conj().resolve_conj(),
            torch.view_as_real(c),
            torch.fft.fft(x),
        ]
        out += [torch.fft.irfft(torch.fft.rfft(x)), c * 2, c / z]
        numbers = [z + 1, z * f, z - 2.5j, complex(f, 1.0), z * z, -z, complex(1, 2)]
        return out, numbers, [abs(z)], z == 1 + 2j


@model(tolerance=1e-6)
def complex_numbers() -> Built:
    return evaluated(Complex(), (ramp(2, 4), 1 + 2j, 0.5))


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.25)
        self.drop2 = nn.Dropout2d(0.5)

    def forward(self, x: Tensor) -> List[Tensor]:
        out = [
            self.drop(x),
            self.drop2(x[None, :, None]),
            F.dropout(x, 0.3, self.training),
            F.dropout(x, training=True),
        ]
        out += [F.alpha_dropout(x, 0.2, self.training)]
        out += [
            torch.rand(2),
            torch.randn(2, 3),
            torch.rand_like(x),
            torch.randint(0, 5, [3]),
            torch.randint(7, (2, 2)),
        ]
        out += [torch.randperm(5), torch.bernoulli(x.sigmoid()), x.clone().uniform_(-1.0, 1.0)]
        out += [
            torch.normal(0.0, 1.0, [2]),
            x.clone().normal_(),
            torch.multinomial(x.exp(), 2),
            F.gumbel_softmax(x, 0.5),
        ]
        out += [torch.randn(x.shape, dtype=torch.double), x.clone().bernoulli_(0.5)]
        if self.training:
            out.append(x + 100)
        return out


@model()
def dropout_in_training() -> Built:
    return Random().train(), [(ramp(3, 4),)]


@model()
def dropout_in_evaluation() -> Built:
    return evaluated(Random(), (ramp(3, 4),))


class Conversions(nn.Module):
    def forward(
        self, x: Tensor, i: Tensor
    ) -> Tuple[List[float], List[int], List[float], List[List[int]], List[Tensor]]:
        floats = [float(x[0]), float(x[1].item()), float(i[0]), math.sqrt(float(x[1]) + 1)]
        ints = [int(i[0]), int(x[0]), len(x), x.shape[0], int(float(i[1])), int(i[1].item())]
        listed: List[float] = x.tolist()
        nested: List[List[int]] = i.view(1, -1).tolist()
        row = 0.5 if x[0] > 0 else -0.5
        scaled = x * i[0] + float(i[1]) + row
        picked = x[int(i[1])] if bool(i[1] < 3) else x
        if i[0]:
            picked = picked + 1
        while scaled.sum() < 20:
            scaled = scaled * 2 + 1
        return (
            floats,
            ints,
            listed,
            nested,
            [scaled, picked, torch.tensor(listed), torch.tensor(nested), torch.ones(int(i[0]))],
        )


@model()
def tensors_and_numbers() -> Built:
    return evaluated(
        Conversions(), (ramp(3), torch.tensor([2, 1])), (ramp(3) * -1, torch.tensor([3, 5]))
    )


class LongTail(nn.Module):
    def forward(self, x: Tensor, weights: Optional[Dict[str, Tensor]] = None) -> Tensor:
        y = torch.linalg.norm(x, dim=1) + torch.linalg.vector_norm(x) + torch.special.expit(x).sum()
        y = (
            y
            + x.exp().log1p().sqrt().rsqrt().sin().cos().tan().atan().erf().sum(1)
            + x.abs().floor().ceil().round().trunc().sum()
        )
        y = (
            y
            + torch.atan2(x, x + 1).sum(1)
            + torch.hypot(x, x).mean()
            + torch.addcmul(x, x, x, value=0.5).sum()
            + torch.addcdiv(x, x, x + 2).sum()
        )
        if weights is not None:
            for name, weight in weights.items():
                y = y * weight + len(name)
        return y


@model(tolerance=1e-6)
def mathematics() -> Built:
    return evaluated(LongTail(), (ramp(2, 3),), (ramp(2, 3), {"a": ramp(2), "bc": ramp(1)}))
