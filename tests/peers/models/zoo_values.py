"""Models of the zoo for values: tensors of every kind, attributes of every type, sharing."""

# ruff: noqa: UP006, UP007, UP035, UP045 (TorchScript reads the annotations)

from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn
from typing_extensions import Final
from zoo import Call, Case, forward, model, ramp, scripted


class Buffers(nn.Module):
    """Tensors as buffers. No method reads them: check_archives.py compares them itself."""

    def __init__(self, **tensors: Tensor):
        super().__init__()
        self.one = nn.Parameter(torch.ones(1))
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self) -> Tensor:
        return self.one


DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.bool,
]
DTYPES += [torch.complex64, torch.complex128, torch.bfloat16]


def of_dtype(dtype: torch.dtype) -> Tensor:
    return torch.tensor([0, 1, 2, 100, -1 if dtype.is_signed else 7]).to(dtype)


@model("every-dtype")
def dtypes() -> Case:
    return scripted(
        Buffers(**{"of_" + str(dtype).split(".")[1]: of_dtype(dtype) for dtype in DTYPES})
    )


@model("new-dtypes", since=(2, 3), without="no float8 and no unsigned types of more than 8 bits")
def new_dtypes() -> Case:
    names = [
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e5m2fnuz",
        "float8_e4m3fnuz",
        "uint16",
        "uint32",
        "uint64",
    ]
    return scripted(
        Buffers(
            **{
                "of_" + name: torch.tensor([0, 1, 2, 100]).to(getattr(torch, name))
                for name in names
            }
        )
    )


@model("complex-half")
def complex_half() -> Case:
    return scripted(Buffers(pair=torch.tensor([1 + 2j, -0.5j]).to(torch.complex32)))


@model("quantised-tensors custom-dtypes")
def quantised_tensors() -> Case:
    scales, zeros = torch.tensor([0.1, 0.2], dtype=torch.float64), torch.tensor([1, 2])
    return scripted(
        Buffers(
            qint8=torch.quantize_per_tensor(ramp(3), 0.1, 2, torch.qint8),
            quint8=torch.quantize_per_tensor(ramp(2, 2), 0.05, 8, torch.quint8),
            qint32=torch.quantize_per_tensor(ramp(2), 0.5, 0, torch.qint32),
            channels=torch.quantize_per_channel(ramp(2, 3), scales, zeros, 0, torch.qint8),
            along=torch.quantize_per_channel(ramp(3, 2), scales, zeros, 1, torch.quint8),
        )
    )


@model("sparse-coo sparse-csr")
def sparse_tensors() -> Case:
    dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    return scripted(
        Buffers(
            coo=dense.to_sparse(),
            twice=torch.sparse_coo_tensor(
                torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 3)
            ),
            hybrid=torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (3, 2)),
            csr=dense.to_sparse_csr(),
            nothing=torch.sparse_coo_tensor(size=(2, 2)),
        )
    )


@model("conj neg lazy-bits")
def conjugated() -> Case:
    # One storage has one type in an archive. So a complex tensor and its imaginary part cannot
    # share: PyTorch writes an archive that it cannot read.
    base, other = torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([5 + 6j, 7j])
    return scripted(Buffers(base=base, conj=base.conj(), neg=other.conj().imag, plain=ramp(2)))


@model("meta")
def meta_tensors() -> Case:
    return scripted(
        Buffers(
            meta=torch.empty(3, 4, device="meta"),
            other=torch.empty(0, device="meta", dtype=torch.int64),
        )
    )


@model("zero-element scalar strided expanded overlapping")
def shapes() -> Case:
    base = torch.arange(24, dtype=torch.float32)
    return scripted(
        Buffers(
            empty=torch.empty(0),
            rows=torch.empty(0, 3),
            inner=torch.empty(2, 0, 4, dtype=torch.int64),
            scalar=torch.tensor(3.5),
            base=base,
            matrix=base.view(4, 6),
            transposed=base.view(4, 6).t(),
            middle=base[5:11],
            strided=base[1::5],
            expanded=base[2:3].expand(3, 2),
            windows=base.as_strided((3, 4), (2, 1), 3),
            channels=torch.arange(16.0)
            .view(1, 4, 2, 2)
            .contiguous(memory_format=torch.channels_last),
            nothing=base[4:4],
        )
    )


@model("large-storage small-view")
def small_view() -> Case:
    return scripted(Buffers(view=torch.arange(1000)[123:125]))


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", ramp(2))
        self.register_buffer("dropped", ramp(3), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("nothing", None)
        self.frozen = nn.Parameter(ramp(2), requires_grad=False)
        self.plain = ramp(2)
        self.grad = ramp(2).requires_grad_()

    def forward(self) -> Tensor:
        assert self.nothing is None
        return self.kept + self.dropped.sum() + self.frozen + self.plain + self.grad


@model("non-persistent none-parameter none-buffer requires-grad")
def buffer_kinds() -> Case:
    return scripted(Kept())


class Attributes(nn.Module):
    ints: List[int]
    floats: List[float]
    bools: List[bool]
    words: List[str]
    tensors: List[Tensor]
    optionals: List[Optional[int]]
    pairs: List[Tuple[int, str]]
    nested: List[List[float]]
    empty: List[Tensor]
    by_name: Dict[str, Tensor]
    by_number: Dict[int, List[str]]
    by_float: Dict[float, bool]
    nothing: Dict[str, int]
    pair: Tuple[int, Tuple[str, Tensor]]
    maybe: Optional[float]
    maybe_not: Optional[List[int]]
    either: Union[int, List[str], None]
    complexes: List[complex]
    single: Tuple[float]

    def __init__(self):
        super().__init__()
        self.ints = [0, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**63 - 1, -(2**63)]
        self.floats = [0.0, -0.0, 1e-310, float("inf"), float("-inf"), 0.1]
        self.bools = [True, False]
        self.words = ["", "a", "a", "grüße 漢字 🙂", "\x00\n\\'\"", "w" * 300]
        self.tensors = [ramp(2), torch.tensor(1)]
        self.optionals = [1, None]
        self.pairs = [(1, "a"), (2, "b")]
        self.nested = [[1.0], [], [2.0, 3.0]]
        self.empty = []
        self.by_name = {"x": ramp(2), "": ramp(1), "ä": ramp(1)}
        self.by_number = {3: ["c"], -1: []}
        self.by_float = {0.5: True}
        self.nothing = {}
        self.pair = (1, ("one", ramp(2)))
        self.maybe = 2.5
        self.maybe_not = None
        self.either = ["u"]
        self.complexes = [1 + 2j, -1j]
        self.single = (1.0,)
        self.flag = True
        self.number = 7
        self.ratio = 0.3
        self.phase = 3 - 4j
        self.text = "plain"
        self.place = torch.device("cpu")
        self.other_place = torch.device("cuda:1")
        self.kind = torch.float16
        self.order = torch.channels_last
        self.layout = torch.strided

    def forward(self, x: Tensor) -> Tuple[Tensor, int, List[str], Dict[int, List[str]], complex]:
        y = x.to(self.place).to(self.kind) + self.number + len(self.ints) + int(self.flag)
        return y + self.pair[1][1].sum(), len(self.empty), self.words, self.by_number, self.phase

    @torch.jit.export
    def rest(
        self,
    ) -> Tuple[
        List[int],
        List[float],
        Optional[float],
        Optional[List[int]],
        Dict[str, Tensor],
        List[List[float]],
        torch.device,
    ]:
        return (
            self.ints,
            self.floats,
            self.maybe,
            self.maybe_not,
            self.by_name,
            self.nested,
            self.other_place,
        )


@model("attributes lists dicts tuples optional union device dtype")
def attributes() -> Case:
    return Case(torch.jit.script(Attributes()), [forward(ramp(2)), Call("rest", ())])


class NanAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = float("nan")
        self.register_buffer("table", torch.tensor([float("nan"), float("inf"), -0.0]))

    def forward(self) -> Tuple[float, Tensor]:
        return self.value, self.table


@model("nan")
def nan_values() -> Case:
    return scripted(NanAttribute())


class Point(NamedTuple):
    x: Tensor
    n: int
    label: Optional[str]


class Inner(NamedTuple):
    points: List[Point]
    at: Point


class Named(nn.Module):
    point: Point
    inner: Inner

    def __init__(self):
        super().__init__()
        self.point = Point(ramp(2), 3, None)
        self.inner = Inner([self.point, Point(ramp(1), 4, "p")], self.point)

    def forward(self, p: Point) -> Tuple[Point, Inner]:
        return Point(p.x + self.point.x, p.n + 1, label="new"), self.inner


@model("namedtuple attributes")
def named_tuples() -> Case:
    return scripted(Named(), Point(ramp(2), 1, None))


class Constants(nn.Module):
    __constants__ = ["width"]
    scale: Final[float]
    names: Final[List[str]]

    def __init__(self):
        super().__init__()
        self.width = 4
        self.scale = 0.5
        self.names = ["a", "b"]
        self.size: Final[Tuple[int, int]] = (2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(self.width) * self.scale + len(self.names)


@model("final constants")
def final_constants() -> Case:
    return scripted(Constants(), ramp(2, 2))


class Same(nn.Module):
    """The same list, dict and tensor in several places. The archive has each of them once."""

    first: List[int]
    second: List[int]
    lists: List[List[int]]
    tensors: List[Tensor]
    by_name: Dict[str, Tensor]
    again: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        shared: List[int] = torch.jit.annotate(List[int], [1, 2])
        self.first = shared
        self.second = shared
        self.lists = [shared, shared, [1, 2]]
        self.weight = nn.Parameter(ramp(2))
        self.tensors = [self.weight, self.weight, self.weight.detach()]
        self.by_name = {"w": self.weight}
        self.again = self.by_name

    def forward(self) -> Tuple[int, Tensor]:
        return len(self.lists), self.tensors[0] + self.by_name["w"]


@model("shared-values")
def shared_values() -> Case:
    return scripted(Same())


class Grow(nn.Module):
    """Only the scripted code makes this sharing: it assigns one attribute to another."""

    a: List[Tensor]
    b: List[Tensor]
    c: Tuple[List[Tensor], Tensor]

    def __init__(self):
        super().__init__()
        self.a = []
        self.b = []
        self.c = ([], ramp(1))
        self.w = nn.Parameter(ramp(3))

    @torch.jit.export
    def share(self) -> None:
        self.a.append(self.w)
        self.b = self.a
        self.c = (self.a, self.w[1:])

    def forward(self) -> int:
        self.a.append(self.w)
        return len(self.b) * 10 + len(self.c[0])


@model("shared-by-code")
def shared_by_code() -> Case:
    module = torch.jit.script(Grow())
    module.share()
    return Case(module, [forward(), forward()])
