"""Models that are not plain scripted layers: detection, quantised and traced modules, constants,
and the real model of silero-vad.
"""

# ruff: noqa: UP006, UP035, UP045, RUF005 (TorchScript reads what stands here)

import importlib.util
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, Final, List, Optional, Tuple

import torch
import torch.nn.functional as F
from models_kit import Built, evaluated, model, ramp
from torch import Tensor, nn


def areas(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    low = torch.max(a[:, None, :2], b[:, :2])
    high = torch.min(a[:, None, 2:], b[:, 2:])
    size = (high - low).clamp(min=0)
    both = size[:, :, 0] * size[:, :, 1]
    return both / (areas(a)[:, None] + areas(b) - both)


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    order = scores.sort(0, descending=True)[1]
    keep: List[int] = []
    while order.numel() > 0:
        best = int(order[0])
        keep.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[overlaps(boxes[best].unsqueeze(0), boxes[rest])[0] <= threshold]
    return torch.tensor(keep, dtype=torch.int64)


class Detector(nn.Module):
    anchors: Final[List[float]]

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.heads = nn.ModuleDict({"score": nn.Conv2d(8, 2, 1), "box": nn.Conv2d(8, 8, 1)})
        self.anchors = [2.0, 4.0]
        self.threshold = 0.4
        self.limit = 5

    def decode(self, offsets: Tensor, height: int, width: int) -> Tensor:
        boxes: List[Tensor] = []
        for i, anchor in enumerate(self.anchors):
            rows, columns = torch.meshgrid(
                [torch.arange(height), torch.arange(width)], indexing="ij"
            )
            centre = (
                torch.stack([columns, rows, columns, rows], dim=-1).to(offsets.dtype).view(-1, 4)
            )
            size = torch.tensor([-anchor, -anchor, anchor, anchor])
            boxes.append(centre + size + offsets[4 * i : 4 * i + 4].permute(1, 2, 0).reshape(-1, 4))
        return torch.cat(boxes)

    def forward(
        self, images: List[Tensor], targets: Optional[List[Dict[str, Tensor]]] = None
    ) -> Tuple[Dict[str, Tensor], List[Dict[str, Tensor]]]:
        losses: Dict[str, Tensor] = {}
        results: List[Dict[str, Tensor]] = []
        for index, image in enumerate(images):
            if image.dim() != 3:
                raise ValueError(f"image {index} has {image.dim()} dimensions and not 3")
            features = self.backbone(image.unsqueeze(0))
            outputs: Dict[str, Tensor] = {}
            for name, head in self.heads.items():
                outputs[name] = head(features)[0]
            boxes = self.decode(outputs["box"], features.shape[-2], features.shape[-1])
            scores = outputs["score"].sigmoid().flatten()
            keep = torch.where(scores > 0.3)[0]
            if keep.numel() == 0:
                results.append({"boxes": torch.zeros(0, 4), "scores": torch.zeros(0)})
                continue
            boxes, scores = boxes[keep], scores[keep]
            chosen = suppress(boxes, scores, self.threshold)
            if len(chosen) > self.limit:
                chosen = chosen[: self.limit]
            results.append({"boxes": boxes[chosen], "scores": scores[chosen]})
            if targets is not None:
                target = targets[index]
                assert "boxes" in target, "a target needs boxes"
                best = overlaps(boxes, target["boxes"]).max(dim=1)
                losses["overlap" + str(index)] = 1 - best[0].mean()
        return losses, results


@model(tolerance=1e-6)
def detection() -> Built:
    images = [ramp(3, 8, 8) * 3, ramp(3, 6, 10)]
    target = {"boxes": torch.tensor([[0.0, 0.0, 3.0, 3.0], [1.0, 1.0, 4.0, 2.0]])}
    return evaluated(Detector(), (images,), (images, [target, target]), ([ramp(3, 8)],))


class Beam(nn.Module):
    """A search that keeps lists of hypotheses, like decoders of speech and text."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 6)

    def forward(
        self, start: int, width: int = 2, steps: int = 4
    ) -> Tuple[List[List[int]], List[float]]:
        beams: List[Tuple[float, List[int], Tensor]] = [(0.0, [start], torch.zeros(1, 8))]
        for _ in range(steps):
            candidates: List[Tuple[float, List[int], Tensor]] = []
            for score, tokens, state in beams:
                if tokens[-1] == 5:
                    candidates.append((score, tokens, state))
                    continue
                state = self.cell(self.embedding(torch.tensor([tokens[-1]])), state)
                values, indices = F.log_softmax(self.out(state), dim=-1)[0].topk(width)
                for k in range(width):
                    candidates.append((score + float(values[k]), tokens + [int(indices[k])], state))
            order = torch.tensor([candidate[0] for candidate in candidates]).argsort(
                descending=True
            )
            beams = [candidates[int(i)] for i in order[:width]]
        return [beam[1] for beam in beams], [beam[0] for beam in beams]


@model(tolerance=1e-6)
def beam_search() -> Built:
    return evaluated(Beam(), (1,), (2, 3, 5))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.lstm = nn.LSTM(8, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(torch.relu(self.first(x)))
        return self.second(y)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


@model()
def quantised_linear_dynamic() -> Built:
    return evaluated(
        torch.ao.quantization.quantize_dynamic(Plain().eval(), {nn.Linear}, dtype=torch.qint8),
        (ramp(3, 4),),
    )


@model()
def quantised_lstm_dynamic() -> Built:
    return evaluated(
        torch.ao.quantization.quantize_dynamic(
            Classifier().eval(), {nn.Linear, nn.LSTM}, dtype=torch.qint8
        ),
        (ramp(3, 1, 4),),
    )


class Quantisable(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = torch.ao.quantization.QuantStub()
        self.conv = nn.Conv2d(1, 2, 3)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(8, 2)
        self.dequant = torch.ao.quantization.DeQuantStub()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(x.reshape(x.size(0), -1)))


@model()
def quantised_conv_static() -> Built:
    module = Quantisable().eval()
    module.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")
    torch.ao.quantization.fuse_modules(module, [["conv", "relu"]], inplace=True)
    torch.ao.quantization.prepare(module, inplace=True)
    module(ramp(2, 1, 4, 4))
    return evaluated(torch.ao.quantization.convert(module), (ramp(2, 1, 4, 4),))


class QuantisedOperators(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        q = torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
        c = torch.quantize_per_channel(
            x, torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.quint8
        )
        return [
            q.dequantize(),
            c.dequantize(),
            q.int_repr(),
            torch.tensor([q.q_scale(), float(q.q_zero_point())]),
            torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255),
        ]


@model()
def quantised_tensors() -> Built:
    return evaluated(QuantisedOperators(), (ramp(2, 3),))


class Traceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = F.interpolate(x, scale_factor=2.0, mode="nearest") + torch.arange(2).view(1, 2, 1, 1)
        x = x.mean([2, 3]).view(x.size(0), -1)[:, :2]
        return self.head(x) * torch.tensor([1.0, 2.0, 3.0])


@model()
def traced() -> Built:
    return torch.jit.trace(Traceable().eval(), (ramp(2, 1, 4, 4),)), [
        (ramp(2, 1, 4, 4),),
        (ramp(2, 1, 4, 4) * 2,),
    ]


class HalfTraced(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.trace(Plain(), (ramp(3, 4),))

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = torch.cat([self.inner(x), x[:, 2:]], dim=1)
        return x


@model()
def traced_inside_scripted() -> Built:
    return evaluated(HalfTraced(), (ramp(3, 4), 0), (ramp(3, 4), 3))


@model()
def frozen() -> Built:
    return torch.jit.freeze(torch.jit.script(Quantisable().eval()), optimize_numerics=False), [
        (ramp(2, 1, 4, 4),)
    ]


TABLE = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


class Constants(nn.Module):
    size: Final[int]

    def __init__(self):
        super().__init__()
        self.size = 3
        self.rate = 0.25
        self.pairs = [(1, 2), (3, 4)]
        self.dtype = torch.float64

    def forward(self, x: Tensor) -> List[Tensor]:
        same = (
            torch.zeros(self.size) + torch.tensor([1.0, 2.0, 3.0]) + torch.tensor([1.0, 2.0, 3.0])
        )
        out = [same, torch.ones(self.size) * self.rate, x.to(self.dtype), x.to(torch.float64)]
        out += [
            torch.tensor(1),
            torch.tensor(1.0),
            torch.tensor([[1, 2], [3, 4]]),
            x * 1 + 1.0 + float(True),
        ]
        for a, b in self.pairs:
            out.append(x * a + b)
        return out


@model()
def constants() -> Built:
    return evaluated(Constants(), (ramp(3),))


class TupleToTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = (1, 2)

    def forward(self, x: Tensor, given: Tuple[float, float]) -> Tensor:
        return x * torch.tensor(self.pair) + torch.tensor(given)


@model()
def tensor_of_a_tuple() -> Built:
    return evaluated(TupleToTensor(), (ramp(2), (0.5, 1.5)))


class Bools(nn.Module):
    def forward(self, x: Tensor, given: List[bool]) -> Tensor:
        return x.masked_fill(torch.tensor([True, False]), 1.0).masked_fill(torch.tensor(given), 2.0)


@model(not_old="its lite interpreter makes no tensor of a list of bools")
def tensor_of_bools() -> Built:
    return evaluated(Bools(), (ramp(2), [False, True]))


@model()
def constants_of_a_trace() -> Built:
    def function(x: Tensor) -> Tensor:
        return x @ TABLE + torch.tensor([0.5, 0.25]) + TABLE[0] * 2

    class Wrapper(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x) + function(x * 2)

    return torch.jit.trace(Wrapper(), (ramp(3, 2),)), [(ramp(3, 2),)]


def silero_path() -> Path | None:
    """Returns the model in PyPI's package silero-vad: in the folder that TENON_SILERO_VAD names, or
    in the package of this Python or of build/venv.
    """
    folders = [Path(os.environ["TENON_SILERO_VAD"])] if "TENON_SILERO_VAD" in os.environ else []
    spec = importlib.util.find_spec("silero_vad")
    if spec and spec.origin:
        folders.append(Path(spec.origin).parent / "data")
    folders += (
        Path(__file__)
        .resolve()
        .parents[3]
        .glob("build/venv/lib/python3*/site-packages/silero_vad/data")
    )
    return next(
        (folder / "silero_vad.jit" for folder in folders if (folder / "silero_vad.jit").exists()),
        None,
    )


def without_method(code: str, name: str) -> str:
    """Returns printed source without one method: without its `def` and the further indented lines
    below it.
    """
    return re.sub(rf"(?m)^  def {name}\(.*\n(?:    .*\n|\n)*", "", code)


@model(missing="" if silero_path() else "the package silero-vad is not installed")
def silero_vad() -> Built:
    """The real model without `audio_forward`, whose `with` no lite archive can have."""
    path = silero_path()
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        edited = Path(folder, "silero_vad.pt")
        with zipfile.ZipFile(path) as before, zipfile.ZipFile(edited, "w") as after:
            for name in before.namelist():
                data = before.read(name)
                if name.endswith(".py"):
                    data = without_method(data.decode(), "audio_forward").encode()
                if not name.endswith(".debug_pkl"):
                    after.writestr(name, data)
        module = torch.jit.load(str(edited))
    chunk = torch.sin(torch.arange(512) * 0.05).unsqueeze(0)
    return module, [(chunk, 16000), (chunk * 0.5, 16000), (chunk[:, :256], 8000)]
