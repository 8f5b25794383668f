"""Models of lists, dicts, tuples, NamedTuples, interfaces, and the containers of modules."""

# ruff: noqa: UP006, UP035, UP045, RUF005, RUF059, B905 (TorchScript reads what stands here)

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from models_kit import Built, Call, evaluated, model, ramp
from torch import Tensor, nn


class Lists(nn.Module):
    def forward(
        self, xs: List[int], words: List[str], x: Tensor
    ) -> Tuple[List[int], List[str], List[List[int]], List[Tensor], List[float], List[bool]]:
        ys = [y * y for y in xs]
        ys.sort(reverse=True)
        ys.append(7)
        ys.extend(xs[1:])
        ys.insert(1, 100)
        last = ys.pop()
        first = ys.pop(0)
        ys[0] += 5
        ys[-1] = last + first
        del ys[1]
        ys += [1, 2]
        ys = ys + xs[::-1] + ys[:-1] + xs[-2:] + [0] * 2
        ys.reverse()
        ys.remove(1)
        copied = ys.copy()
        copied.clear()
        ys.append(len(copied) + ys.index(2) + ys.count(1) + sum(xs) + min(xs) + max(xs))
        more = sorted(xs) + list(range(3)) + list(range(1, 9, 3)) + [i for i in range(4)]
        texts = [word.upper() for word in words] + sorted(words) + list("abc")
        texts.sort()
        nested = [[1, 2], xs, [i + 1 for i in xs]]
        nested[0].append(3)
        nested[1][0] = 9
        tensors = [x, x + 1]
        tensors.append(tensors[0] * 2)
        tensors[0] = torch.cat(tensors)
        tensors += [t + 1 for t in tensors]
        empty: List[float] = []
        for i in xs:
            empty.append(i / 2)
        floats = [1.0, 2.5] + empty
        floats.sort()
        a, b = xs[0], xs[1]
        c, d = [a, b]
        facts = [
            1 in xs,
            "a" in words,
            5 not in xs,
            xs == [1],
            words != ["a"],
            len(xs) > 2,
            bool(xs),
            any([True, False]),
            all([c > d]),
        ]
        return ys + more + [c, d], texts, nested, tensors, floats, facts


@model()
def lists() -> Built:
    return evaluated(Lists(), ([1, -2, 3], ["b", "a"], ramp(2)), ([4, 4], ["x"], ramp(1)))


class Dicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {"a": 1, "b": 2}
        self.tensors: Dict[str, Tensor] = {"w": ramp(2)}

    def forward(
        self, names: Dict[str, int], x: Dict[str, Tensor]
    ) -> Tuple[Dict[str, List[int]], Dict[int, str], Dict[str, Tensor], List[str], List[int]]:
        lists: Dict[str, List[int]] = {}
        for name, value in names.items():
            if name not in lists:
                lists[name] = torch.jit.annotate(List[int], [])
            lists[name].append(value)
        by_number = {value: name for name, value in names.items()}
        out: Dict[str, Tensor] = {}
        for key in x.keys():
            out[key + "2"] = x[key] * 2
        for key, tensor in x.items():
            out[key] = tensor + self.tensors["w"].sum()
        total = torch.zeros(1)
        for tensor in x.values():
            total = total + tensor.sum()
        out["total"] = total
        texts = list(names.keys())
        numbers = list(names.values())
        numbers += [len(names), names.get("a", 5), names.get("zz", 6), self.table["b"]]
        if "a" in names:
            numbers.append(names["a"])
            names["a"] = 10
        maybe = names.get("q")
        if maybe is not None:
            numbers.append(maybe)
        other = {"k": 1, "l": 2}
        other.update({"m": 3})
        popped = other.pop("k")
        numbers.append(other.setdefault("n", 9) + popped)
        del other["l"]
        copied = other.copy()
        other.clear()
        numbers.append(len(copied) - len(other))
        d = dict([("x", 1), ("y", 2)])
        e = {1: "one", 2: "two"}
        f = {True: 1.5} if len(names) > 100 else {False: 0.5}
        texts += [e[1]] + list(d.keys())
        if len(f) == 1 and not bool(lists):
            texts.append("empty")
        by_number.update(e)
        return lists, by_number, out, texts, numbers


@model()
def dicts() -> Built:
    return evaluated(
        Dicts(),
        ({"a": 1, "b": 4}, {"x": ramp(2)}),
        ({"b": 4, "q": 3}, {"x": ramp(2), "y": ramp(1)}),
    )


class Tuples(nn.Module):
    def pair(self, x: Tensor, n: int) -> Tuple[Tensor, int]:
        return x + n, n * 2

    def forward(
        self, x: Tensor, given: Tuple[int, str, float]
    ) -> Tuple[
        Tuple[Tensor, int],
        Tuple[int, str],
        Tuple[str, float],
        int,
        List[Tuple[int, str]],
        Tuple[int, int, int],
    ]:
        a, b = self.pair(x, 3)
        y, (n, (s, f)) = a, (b, ("t", 0.5))
        nested = (y, n), (n, s), given[1:], len(given)
        head, *rest = given[0], n, n + 1
        sliced = given[:2]
        pairs = [(i, str(i)) for i in range(2)]
        pairs.append((sliced[0], sliced[1]))
        pair = nested[0]
        one = (n,)
        if given[0] > 1:
            pair = (pair[0] * f, one[0])
        first, second = pair
        joined = given + (1, 2)
        same = (1, n) == (1, 2)
        m, k = (n, head) if same else (head, n)
        return (
            (first, second + m),
            sliced,
            nested[2],
            nested[3] + rest[0] + joined[3] + k,
            pairs,
            (1, 2, n),
        )


@model()
def tuples() -> Built:
    return evaluated(Tuples(), (ramp(2), (1, "u", 1.5)), (ramp(2), (4, "v", -1.5)))


class Point(NamedTuple):
    x: Tensor
    n: int
    label: Optional[str] = None


class Pair(NamedTuple):
    left: Point
    right: Tensor


class Sized(NamedTuple):
    x: Tensor
    sizes: List[int]


class Inside(nn.Module):
    def move(self, point: Point, by: int) -> Point:
        return Point(point.x + by, n=point.n + by)

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int, Optional[str]]:
        point = Point(x, n, "p")
        pair = Pair(point, x * 2)
        if n > 2:
            pair = Pair(left=Point(x, 5), right=pair.right)
        y, m, label = pair.left
        points = [Point(x, i) for i in range(3)]
        total = pair.right
        for each in points:
            total = total + each.x * each.n
        values, indices = torch.max(x, 0)
        best = torch.sort(x)
        return (
            total + y + values + best.values,
            m + pair[0].n + len(points),
            pair.left.label if label is None else label,
        )


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Point:
        return Point(x, 2, "q")


class Returned(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Sized:
        point = self.inner(x)
        return Sized(point.x, [point.n, x.size(0)])


@model()
def named_tuple_inside() -> Built:
    return evaluated(Inside(), (ramp(3), 1), (ramp(3), 5))


@model(not_old="its lite module cannot return a NamedTuple to Python")
def named_tuple_returned() -> Built:
    return evaluated(Returned(), (ramp(3),))


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass

    def scale(self, x: Tensor, by: float = 2.0) -> Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x, 2.0)

    @torch.jit.export
    def scale(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ramp(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + 1

    @torch.jit.export
    def scale(self, x: Tensor, by: float = 2.0) -> Tensor:
        return self.forward(x) * by


class ThroughInterface(nn.Module):
    one: Layer
    two: Layer

    def __init__(self):
        super().__init__()
        self.one = Double()
        self.two = Affine()

    def forward(self, x: Tensor, n: int) -> Tensor:
        y = self.one.forward(x) + self.two.scale(x, 3.0)
        for _ in range(n):
            y = self.two.forward(y) + self.one.scale(y, 0.5)
        return y


@model()
def interfaces() -> Built:
    return evaluated(ThroughInterface(), (ramp(2, 3), 0), (ramp(2, 3), 2))


class PartsByIndex(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Double(), Affine(), Double()])
        self.named = nn.ModuleDict({"two": Double(), "line": Affine()})

    def forward(self, x: Tensor, n: int, name: str) -> Tensor:
        first: Layer = self.layers[n]
        x = first.forward(x)
        for i in range(2):
            layer: Layer = self.layers[i]
            x = layer.scale(x, 3.0)
        named: Layer = self.named[name]
        return named.forward(x)


@model()
def parts_by_index() -> Built:
    return evaluated(PartsByIndex(), (ramp(2, 3), 0, "line"), (ramp(2, 3), 2, "two"))


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
        self.named = nn.ModuleDict(
            {"relu": nn.ReLU(), "tanh": nn.Tanh(), "linear": nn.Linear(3, 3)}
        )
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())
        self.weights = nn.ParameterList([nn.Parameter(ramp(3)), nn.Parameter(ramp(3) + 1)])
        self.table = nn.ParameterDict({"a": nn.Parameter(ramp(3))})

    def forward(self, x: Tensor, n: int) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        for name, layer in self.named.items():
            if name != "tanh":
                x = layer(x)
            else:
                x = x + layer(x)
        for a, b in zip(self.layers, self.seq):
            x = a(x) + b(x)
        for layer in self.seq:
            x = layer(x)
        for weight in self.weights:
            x = x * weight
        x = (
            self.layers[-1](x)
            + self.named["linear"](x)
            + self.seq[0](x)
            + len(self.layers)
            + len(self.named)
            + self.weights[1]
        )
        if n > 1:
            for key in self.named.keys():
                x = x + len(key)
            for module in self.named.values():
                x = module(x)
        return x if "relu" in self.named else -x


@model()
def module_containers() -> Built:
    return evaluated(Many(), (ramp(2, 3), 1), (ramp(2, 3), 2))


class Counter(nn.Module):
    history: List[int]
    names: Dict[str, int]
    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.steps = 0
        self.history = []
        self.names = {}
        self.last = None
        self.inner = Accumulator()

    def forward(self, x: Tensor) -> Tuple[Tensor, int, int, Dict[str, int]]:
        self.total += x
        self.count = self.count + 1
        self.steps += 1
        self.history.append(self.steps * 2)
        self.names["step" + str(self.steps)] = self.steps
        last = self.last
        if last is not None:
            x = x + last
        self.last = x
        self.inner.seen = self.inner.seen + 1
        return (
            self.total + x + self.inner(x),
            self.steps,
            len(self.history) + int(self.count),
            self.names,
        )

    @torch.jit.export
    def reset(self) -> None:
        self.total.zero_()
        self.steps = 0
        self.last = None
        self.history.clear()

    @torch.jit.export
    def state(self) -> Tuple[Tensor, List[int]]:
        return self.total, self.history


class Accumulator(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0
        self.register_buffer("sum", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.sum = self.sum + x.sum() * self.seen
        return self.sum


@model()
def buffers_that_change() -> Built:
    x = ramp(3)
    return evaluated(Counter(), (x,), (x + 1,), Call("state", ()), Call("reset", ()), (x,))


class Moving(nn.Module):
    """The running mean of a BatchNorm in training, and an exponential average written out."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=0.2)
        self.register_buffer("average", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.norm(x) - self.average


@model()
def running_statistics() -> Built:
    return Moving().train(), [(ramp(4, 3),), (ramp(4, 3) * 2,)]


class NoItems(nn.Module):
    def forward(self, x: Tensor, nothing: Tuple[()]) -> Tuple[int, Tuple[()]]:
        return len(x), nothing


EMPTY = "its lite loader reads no Tuple[()]"


@model(not_old=EMPTY, not_new=EMPTY)
def empty_tuple_in_a_schema() -> Built:
    return evaluated(NoItems(), (ramp(3), ()))
