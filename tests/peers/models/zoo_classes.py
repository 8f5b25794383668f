"""Models of the zoo for classes: script classes, enums, interfaces, hooks, classes with a state,
and names that clash.
"""

# ruff: noqa: UP006, UP035 (TorchScript reads the annotations)

import enum
from typing import Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn
from zoo import Call, Case, forward, model, ramp, scripted


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Level(enum.Enum):
    LOW = 0.5
    HIGH = 1.5


class Enums(nn.Module):
    modes: Dict[str, Mode]

    def __init__(self):
        super().__init__()
        self.mode = Mode.MEAN
        self.level = Level.HIGH
        self.modes = {"a": Mode.SUM, "b": Mode.MEAN, "c": Mode.SUM}

    def forward(self, x: Tensor, colour: int) -> Tuple[Tensor, str, str]:
        chosen = Colour.RED if colour == 1 else Colour.GREEN
        y = x.sum() if self.mode == Mode.SUM else x.mean()
        return y * self.level.value * chosen.value, self.modes["a"].value, chosen.name


@model("enums")
def enums() -> Case:
    return Case(torch.jit.script(Enums()), [forward(ramp(2), 1), forward(ramp(2), 2)])


@torch.jit.script
class Counter:
    def __init__(self, start: int, table: Tensor):
        self.count = start
        self.table = table
        self.seen: List[str] = []

    def add(self, name: str) -> int:
        self.seen.append(name)
        self.count += len(name)
        return self.count

    @staticmethod
    def unit() -> int:
        return 5

    def __len__(self) -> int:
        return len(self.seen)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Counter(3, ramp(2))

    def forward(self, name: str) -> Tuple[int, int, Tensor]:
        here = Counter(Counter.unit(), self.counter.table * 2)
        here.add("x")
        return self.counter.add(name), here.count, here.table


@model("script-class static-method")
def script_class() -> Case:
    return Case(torch.jit.script(Counting()), [forward("abc"), forward("")])


class TwoCounters(nn.Module):
    counters: List[Counter]

    def __init__(self):
        super().__init__()
        self.counters = [Counter(1, ramp(1)), Counter(2, ramp(1))]

    def forward(self) -> int:
        total = 0
        for counter in self.counters:
            total += counter.add("n")
        return total


@model("script-class list-of-objects")
def list_of_objects() -> Case:
    return scripted(TwoCounters())


@torch.jit.interface
class Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


@torch.jit.interface
class Scaler:
    def scale(self, x: Tensor, by: float) -> Tensor:
        pass

    def name(self) -> str:
        pass


@torch.jit.script
class Doubler:
    def __init__(self):
        self.factor = 2.0

    def scale(self, x: Tensor, by: float) -> Tensor:
        return x * by * self.factor

    def name(self) -> str:
        return "doubler"


class Relu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain + 1


class ByInterface(nn.Module):
    active: Activation

    def __init__(self, swap: bool):
        super().__init__()
        self.first = Relu()
        self.second = Affine()
        self.active = self.second if swap else self.first

    def forward(self, x: Tensor) -> Tensor:
        return self.active.forward(x)


@model("module-interface")
def module_interface() -> Case:
    return scripted(ByInterface(True), ramp(3))


def use(scaler: Scaler, x: Tensor) -> Tensor:
    return scaler.scale(x, 0.5)


class ByClassInterface(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, str]:
        scaler: Scaler = Doubler()
        return use(scaler, x), scaler.name()


@model("interface script-class")
def class_interface() -> Case:
    return scripted(ByClassInterface(), ramp(2))


class Packed(nn.Module):
    """A class with a state of its own: it writes its weight as a list of floats."""

    def __init__(self):
        super().__init__()
        self.weight = ramp(4)
        self.label = "packed"

    @torch.jit.export
    def __getstate__(self) -> Tuple[List[float], str, bool]:
        values: List[float] = self.weight.tolist()
        return values, self.label, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[List[float], str, bool]) -> None:
        self.weight = torch.tensor(state[0])
        self.label = state[1] + "+"
        self.training = state[2]

    def forward(self, x: Tensor) -> Tuple[Tensor, str]:
        return x + self.weight, self.label


class HoldsPacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Packed()
        self.plain = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, str]:
        return self.inner(self.plain(x))


@model("getstate setstate")
def own_state() -> Case:
    return scripted(HoldsPacked(), ramp(4))


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class HookedOutside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Hooked()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


def shift_input(self, args: Tuple[Tensor]) -> Tuple[Tensor]:
    return (args[0] + 10,)


def clamp_input(self, args: Tuple[Tensor]) -> Tuple[Tensor]:
    return (torch.clamp(args[0], max=9.8),)


def double_output(self, args: Tuple[Tensor], result: Tensor) -> Tensor:
    return result * 2 + args[0].sum()


@model("forward-hooks pre-hooks")
def hooks() -> Case:
    module = HookedOutside()
    module.inner.register_forward_pre_hook(shift_input)
    module.inner.register_forward_pre_hook(clamp_input)
    module.inner.register_forward_hook(double_output)
    return scripted(module, ramp(1, 2))


class Decorated(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = ramp(2)

    def forward(self, x: Tensor, python: bool = False) -> Tensor:
        if python:
            return self.only_in_python(x)
        return self.shift(x, 2) + self.state

    @torch.jit.unused
    def only_in_python(self, x: Tensor) -> Tensor:
        return torch.tensor(x.numpy().tolist())

    @torch.jit.ignore(drop=True)
    def dropped(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def shift(self, x: Tensor, by: int) -> Tensor:
        return x + by


@model("unused ignored exported")
def decorated_methods() -> Case:
    return Case(
        torch.jit.script(Decorated()),
        [forward(ramp(2)), forward(ramp(2), True), Call("shift", (ramp(2), 5))],
    )


class Overloaded(nn.Module):
    @torch.jit._overload_method
    def take(self, x: int) -> int:
        pass

    @torch.jit._overload_method
    def take(self, x: Tensor) -> Tensor:  # noqa: F811
        pass

    def take(self, x):  # noqa: F811
        return x + 1

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        return self.take(x), self.take(4)


@model("overloads")
def overloaded() -> Case:
    return scripted(Overloaded(), ramp(2))


class Left:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(ramp(2))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.weight

    class Pair(NamedTuple):
        a: Tensor
        b: int


class Right:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(ramp(1))
            self.bias = nn.Parameter(ramp(2))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.gain - self.bias


class Clash(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = Left.Block()
        self.right = Right.Block()
        self.again = Left.Block()
        self.wide = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, bias=False), nn.Linear(2, 2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.wide:
            x = layer(x)
        return self.again(self.right(self.left(x)))


@model("mangled clashing-names")
def clashing_classes() -> Case:
    return scripted(Clash(), ramp(2))
