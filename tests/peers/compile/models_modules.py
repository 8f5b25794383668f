"""Models of module features: hooks, properties, state methods, shared parts, and functions of
torch.jit in the code.
"""

# ruff: noqa: UP006, UP035, UP045 (TorchScript reads what stands here)

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from models_kit import Built, Call, evaluated, model, ramp
from torch import Tensor, nn


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

        def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
            return (input[0] * 2,)

        def after(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
            return output + input[0]

        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) - 1


@model()
def hooks_of_a_part() -> Built:
    return evaluated(Hooked(), (ramp(2, 3),))


class Properties(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2.0
        self.weight = nn.Parameter(ramp(3))

    @property
    def scale(self) -> float:
        return self.factor * 1.5

    @scale.setter
    def scale(self, value: float):
        self.factor = value / 1.5

    def forward(self, x: Tensor, n: float) -> Tuple[Tensor, float]:
        y = x * self.scale + self.weight
        self.scale = n
        return y * self.scale, self.factor


@model()
def properties() -> Built:
    return evaluated(Properties(), (ramp(3), 3.0), (ramp(3), 4.5))


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = ramp(3)
        self.steps = 4

    @torch.jit.export
    def __getstate__(self) -> Tuple[Tensor, int, bool]:
        return self.weight * 2, self.steps + 1, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]) -> None:
        self.weight = state[0] / 2
        self.steps = state[1] - 1
        self.training = state[2]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.steps


class HasStateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Stateful())
        self.other = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.inner(x))


@model()
def state_methods() -> Built:
    return torch.jit.script(HasStateful().eval()), [(ramp(2, 3),)]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = self.one
        self.three = nn.Linear(3, 3)
        self.three.weight = self.one.weight
        self.register_buffer("part", ramp(6)[2:5])
        self.register_buffer("turned", ramp(3, 3).t())

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.two(x) * self.three(x) + self.part + self.turned


@model()
def shared_parts() -> Built:
    return evaluated(Shared(), (ramp(3, 3),))


class Words(nn.Module):
    """Functions of torch.jit in the code of a module."""

    def __init__(self):
        super().__init__()
        self.count = 2

    @torch.jit.unused
    def not_here(self, x: Tensor) -> Tensor:
        return x.numpy()

    def only_eager(self, x: Tensor) -> Tensor:
        return x + 5

    def forward(self, x: Tensor, values: Any, go: bool = False) -> Tuple[Tensor, int]:
        n = 0
        if torch.jit.is_scripting():
            y = x + 1
        else:
            y = self.only_eager(x) - 4
        if go:
            y = self.not_here(y)
        if torch.jit.isinstance(values, List[int]):
            n += len(values)
        elif torch.jit.isinstance(values, Dict[str, Tensor]):
            n += 10 + len(values)
        z: Optional[Tensor] = y
        checked = torch.jit._unwrap_optional(z)
        numbers = torch.jit.annotate(List[float], [])
        numbers.append(1.5)
        if hasattr(self, "count"):
            n += self.count
        if hasattr(self, "missing"):
            n += 100
        return checked + len(numbers), n


@model(tolerance=1e-6)
def words_of_torch_jit() -> Built:
    return evaluated(Words(), (ramp(2), [1, 2]), (ramp(2), {"a": ramp(1)}), (ramp(2), "s"))


class Nested(nn.Module):
    def forward(
        self, x: Tensor, given: Dict[str, List[Tuple[int, Tensor]]]
    ) -> Tuple[Dict[str, Dict[str, Tensor]], List[List[Tuple[str, int]]], List[Optional[Tensor]]]:
        tables: Dict[str, Dict[str, Tensor]] = {}
        rows: List[List[Tuple[str, int]]] = []
        maybe: List[Optional[Tensor]] = [None, x]
        for name, pairs in given.items():
            inner: Dict[str, Tensor] = {}
            row: List[Tuple[str, int]] = []
            for number, tensor in pairs:
                inner[str(number)] = tensor * number
                row.append((name + str(number), number))
                if number > 1:
                    maybe.append(tensor)
                else:
                    maybe.append(None)
            tables[name] = inner
            rows.append(row)
        first = maybe[1]
        if first is not None:
            tables["x"] = {"first": first + 1}
        if "a" in tables and "1" in tables["a"]:
            tables["a"]["1"] += 1
            tables["a"]["again"] = tables["a"]["1"]
        return tables, rows, maybe


@model()
def nested_types() -> Built:
    return evaluated(
        Nested(),
        (ramp(2), {"a": [(1, ramp(2)), (2, ramp(1))], "b": [(3, ramp(1))]}),
        (ramp(2), {"c": [(3, ramp(2))]}),
    )


class Named(NamedTuple):
    x: Tensor
    n: int


class TakesNamed(nn.Module):
    def forward(self, point: Named) -> Tensor:
        return point.x + point.n


CRASH = "its lite loader crashes at an argument that is a NamedTuple"


@model(not_old=CRASH, not_new=CRASH)
def named_tuple_argument() -> Built:
    return evaluated(TakesNamed(), (Named(ramp(2), 3),))


class NamedLists(nn.Module):
    def best(self, points: List[Named], table: Dict[str, Named]) -> Named:
        found = points[0]
        for point in points:
            if point.n > found.n:
                found = point
        for name, point in table.items():
            if len(name) > 1:
                found = Named(x=found.x + point.x, n=found.n)
        return found

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int]:
        first = Named(x + 1, 0)
        points = [Named(x * i, (i * 7) % n) for i in range(1, 5)]
        points.append(first)
        maybe: Optional[Named] = None
        if n > 3:
            maybe = points[1]
        found = self.best(points, {"a": points[0], "bc": Named(x, 1)})
        if maybe is not None:
            found = Named(found.x + maybe.x, maybe.n)
        y, m = found
        return y + found[0], m


LATE = "its lite loader finds no NamedTuple whose definition comes after another type that names it"


@model(not_old=LATE, not_new=LATE)
def named_tuples_in_a_schema() -> Built:
    return evaluated(NamedLists(), (ramp(2), 3), (ramp(2), 5))


class LateNamed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        points: List[Named] = []
        points.append(Named(x, 2))
        return points[0].x + points[0].n


@model(not_old=LATE, not_new=LATE)
def named_tuple_after_its_list() -> Built:
    return evaluated(LateNamed(), (ramp(2),))


class NamedListsOfAPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = NamedLists()

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int]:
        return self.part(x, n)


@model()
def named_tuples_in_lists() -> Built:
    return evaluated(NamedListsOfAPart(), (ramp(2), 3), (ramp(2), 5))


class Devices(nn.Module):
    def __init__(self):
        super().__init__()
        self.device = torch.device("cpu")
        self.dtype = torch.float64

    def forward(
        self,
        x: Tensor,
        device: torch.device,
        dtype: torch.dtype,
        kind: Optional[torch.dtype] = None,
    ) -> Tuple[List[Tensor], List[bool], str, torch.device]:
        out = [
            torch.zeros(2, device=device, dtype=dtype),
            torch.ones([2], dtype=kind),
            x.to(device),
            x.to(device, dtype),
            x.to(dtype),
        ]
        out += [
            torch.arange(3, device=self.device, dtype=self.dtype),
            torch.rand(2, device=x.device),
            x.to(device=torch.device("cpu")),
        ]
        out += [
            torch.zeros_like(x, device=device),
            x.sum(dtype=dtype),
            torch.tensor([1], device=device, dtype=dtype),
        ]
        out += [torch.empty(0, dtype=dtype)]
        facts = [
            device == x.device,
            dtype == torch.float64,
            kind is None,
            device.type == "cpu",
            x.dtype == dtype,
        ]
        facts += [device != torch.device("meta")]
        if dtype in [torch.float32, torch.float64]:
            facts.append(True)
        return out, facts, device.type + str(device), x.device


@model()
def device_arguments() -> Built:
    cpu = torch.device("cpu")
    return evaluated(
        Devices(), (ramp(2), cpu, torch.float64), (ramp(2), cpu, torch.float16, torch.int32)
    )


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Part(1), Part(2)])

    @torch.jit.export
    def nothing(self, x: Tensor):
        x += 1

    @torch.jit.export
    def text(self) -> str:
        return "text of " + str(len(self.parts))

    def forward(self, x: Tensor) -> Tuple[int, Tensor]:
        y = x.clone()
        self.nothing(y)
        for part in self.parts:
            y = part.double(y) + part(y)
        return y.dim(), y


class Part(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n = n

    @staticmethod
    def double(x: Tensor, times: int = 2) -> Tensor:
        return x * times

    def forward(self, x: Tensor) -> Tensor:
        return self.double(x, self.n) if self.n > 1 else x


@model()
def static_methods() -> Built:
    return evaluated(Plain(), (ramp(2),), Call("nothing", (ramp(2),)), Call("text", ()))
