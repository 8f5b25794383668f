"""Models of the zoo for the language: control flow, literals, functions, containers, forks."""

# ruff: noqa: UP006, UP007, UP035, UP045 (TorchScript reads the annotations and the statements as
# they stand)

from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor, nn
from zoo import Case, forward, model, ramp, scripted


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ramp(3))

    def forward(self, x: Tensor, limit: int) -> Tensor:
        if limit < 0:
            return x
        count = 0
        while count < 10:
            count += 1
            if count == limit:
                break
            if count % 2 == 0:
                continue
            x = x + self.weight * count
        for row in range(x.size(0)):
            for column in range(1, x.size(1), 2):
                if bool(x[row, column] > 1.0):
                    return x * -1
        else_sum = 0.0
        for value in [1.5, 2.5]:
            else_sum += value
        return x + else_sum


@model("if while for break continue early-return")
def control_flow() -> Case:
    module = torch.jit.script(Flow())
    return Case(module, [forward(ramp(2, 3), limit) for limit in (-1, 1, 4, 20)])


class Raises(nn.Module):
    def forward(self, x: int) -> int:
        assert x != 1, "one is refused"
        if x == 2:
            raise ValueError("two is {}".format("refused"))
        elif x == 3:
            y = 30
        else:
            y = x if x > 5 else -x
        return y


@model("raise assert ternary")
def exceptions() -> Case:
    return Case(torch.jit.script(Raises()), [forward(x) for x in range(8)])


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tuple[Tensor, bool]:
        with torch.no_grad():
            y = self.layer(x)
            with torch.no_grad():
                z = y * 2
        return y + z, y.requires_grad


@model("with no-grad")
def with_no_grad() -> Case:
    return scripted(NoGrad(), ramp(2, 2))


class Forked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for index in range(3):
            futures.append(torch.jit.fork(double, x + index, scale=2.0))
        layer = torch.jit.fork(self.layer, x)
        total = torch.jit.wait(layer)
        for future in futures:
            total = total + torch.jit.wait(future)
        return total


def double(x: Tensor, scale: float) -> Tensor:
    inner = torch.jit.fork(torch.relu, x)
    return torch.jit.wait(inner) * scale


@model("forked nested-fork free-function")
def forked() -> Case:
    return scripted(Forked(), ramp(2, 2))


def squared(x: Tensor, times: int) -> Tensor:
    return x * x * times


class Awaited(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        later = torch.jit._awaitable(squared, x, 3)
        now = torch.jit._awaitable_nowait(x)
        return torch.jit._awaitable_wait(later) + torch.jit._awaitable_wait(now)


@model("awaitable", since=(2, 0), without="no awaitables")
def awaited() -> Case:
    return scripted(Awaited(), ramp(2))


def helper(x: Tensor, power: int = 2, negate: bool = False) -> Tensor:
    y = x.pow(power)
    return -y if negate else y


def twice(x: Tensor) -> Tensor:
    return helper(helper(x), negate=True)


@torch.jit.script
def compiled(x: Tensor, names: List[str]) -> Dict[str, Tensor]:
    return {name: helper(x, index) for index, name in enumerate(names)}


class Functions(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        return twice(x) + helper(x, power=3), compiled(x, ["a", "b", "c"])


@model("free-functions keyword-arguments defaults comprehension")
def free_functions() -> Case:
    return scripted(Functions(), ramp(2))


@torch.jit.script
def alone(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = helper(x)
    return x


@model("script-function")
def function_alone() -> Case:
    return Case(alone, [forward(ramp(2), 3), forward(ramp(2), 1)])


class Literals(nn.Module):
    def forward(self, x: float) -> Tuple[List[float], List[str], List[int], complex, Tensor]:
        floats = [float("inf"), float("-inf"), float("nan"), 1e-300, 0.1, -0.0, 3.0, 1e20, x]
        strings = [
            "",
            'it\'s "quoted"',
            "tab\tnew\nline\\back",
            "bell\x07 nul\x00 end",
            "grüße 漢字 🙂",
            "%d {} \\n",
            "aaa",
        ]
        integers = [
            0,
            -1,
            255,
            65536,
            2147483648,
            -9223372036854775807,
            9223372036854775807,
            int(True) + 1,
        ]
        return floats, strings, integers, 2.5 - 1j * x, torch.tensor([[1.5, 2.0], [x, -1.0]])


@model("inf nan escapes non-ascii complex big-ints")
def literals() -> Case:
    return scripted(Literals(), 0.25)


class Strings(nn.Module):
    def forward(self, text: str, number: int) -> List[str]:
        words = text.split(" ")
        joined = "-".join(words)
        out = [
            joined.upper(),
            f"{number}",
            "{} of {}".format(number, joined),  # noqa: UP032
            "%s: %d" % ("n", number),  # noqa: UP031
            text[1:3],
            text[::-1],
        ]
        if (text.startswith("a") and "b" in text) or not text.endswith("z"):
            out.append(str(len(text)) + chr(65) + str(ord("a")) + hex(number))
        return out


@model("strings formatting")
def strings() -> Case:
    return Case(torch.jit.script(Strings()), [forward("a bc d", 7), forward("xyz", -3)])


class Walk(nn.Module):
    def forward(
        self, xs: List[int], names: Dict[str, int]
    ) -> Tuple[List[int], Dict[str, List[int]], Dict[int, str], List[Tuple[int, str]]]:
        ys = [x * x for x in xs]
        ys.sort(reverse=True)
        ys.extend(xs[1:])
        ys[0] += 5
        del ys[-1]
        lists: Dict[str, List[int]] = {}
        for name, value in names.items():
            if name not in lists:
                lists[name] = torch.jit.annotate(List[int], [])
            lists[name].append(value)
        by_number = {value: name for name, value in names.items()}
        pairs = [(y, str(i)) for i, y in enumerate(ys)]
        first, *rest = xs[0], xs[1], xs[2]
        ys.append(first + sum(rest) + min(xs) + max(names.values()))
        return ys, lists, by_number, pairs


@model("lists dicts tuples comprehension")
def containers() -> Case:
    return scripted(Walk(), [1, -2, 3], {"a": 1, "b": 4})


class Kinds(nn.Module):
    def forward(
        self, x: Optional[Tensor], y: Union[int, str, List[int]], z: Any
    ) -> Tuple[Tensor, str, bool]:
        if x is None:
            x = torch.zeros(1)
        if isinstance(y, int):
            name = "int" + str(y + 1)
        elif isinstance(y, str):
            name = "str" + y
        else:
            name = "list" + str(len(y))
        return x + 1, name, isinstance(z, int)


@model("optional union any isinstance")
def kinds() -> Case:
    module = torch.jit.script(Kinds())
    return Case(
        module, [forward(None, 3, 4), forward(ramp(2), "s", "t"), forward(None, [1, 2], 1.5)]
    )


class Indexing(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        y = x.clone()
        y[0] = 5
        y[:, 1:3] += 2
        y[y > 4] = -1.0
        y[..., -1] *= 3
        a, b = y.split([1, y.size(0) - 1])
        return [
            y[::2],
            y[None, 0],
            x[torch.tensor([1, 0])],
            a,
            b,
            x[-1:, ..., 0],
            y.T @ x,
            x.new_zeros([2, 2]),
        ]


@model("slices indexing in-place augmented")
def indexing() -> Case:
    return scripted(Indexing(), ramp(3, 4))


class Dtypes(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        out = [
            torch.zeros([2], dtype=torch.int64),
            x.to(torch.float64),
            x.to(dtype=torch.float16),
            torch.ones_like(x, dtype=torch.bool),
        ]
        out.append(torch.arange(0, 3, dtype=torch.int32, device=x.device))
        if x.dtype == torch.float32 and x.layout == torch.strided:
            out.append(
                torch.empty([0], device="cpu", dtype=x.dtype, memory_format=torch.contiguous_format)
            )
        return out


@model("dtypes devices layouts")
def dtypes_and_devices() -> Case:
    return scripted(Dtypes(), ramp(2))


class Versioned(nn.Module):
    """Operators whose meaning depends on the archive's version."""

    def forward(self, x: Tensor, n: Tensor) -> List[Tensor]:
        out = [
            n / 2,
            torch.div(n, 2, rounding_mode="floor"),
            torch.full([2], 3),
            torch.linspace(0.0, 1.0, 5),
        ]
        out.append(torch.logspace(0.0, 1.0, 3))
        out.append(torch.nn.functional.gelu(x, approximate="tanh"))
        out.append(n.to(torch.float32).div_(2))
        return out


@model("div full linspace logspace gelu version-10")
def versioned_operators() -> Case:
    return scripted(Versioned(), ramp(3), torch.tensor([5, -5]))


class Math(nn.Module):
    def forward(self, x: float, n: int) -> Tuple[float, float, int, int, bool, complex]:
        a = (x**2 + n) / 3.0 - x // 0.5 % 2
        b = float(n >> 1 | n & 6 ^ 5) + abs(-x) + round(x)
        c = n // 3 * 2 - n % 4 + (n << 2)
        return a, b, c, int(x), not (a < b <= float(c)) or x == 1.0, complex(x, 2.0) * 1j


@model("arithmetic bitwise comparisons")
def arithmetic() -> Case:
    return Case(torch.jit.script(Math()), [forward(1.5, 7), forward(-2.25, -9)])


class Prints(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        """A docstring, which stays in no archive."""
        if bool(x.sum() > 1e9):
            print("large:", x, 3, "grüße")
        return x


@model("print docstring")
def printing() -> Case:
    return scripted(Prints(), ramp(2))


class Locals(nn.Module):
    """Names that a printer must change: its reserved words, operators, and one name in several
    scopes.
    """

    def forward(self, torch_: Tensor, ops: Tensor, CONSTANTS: int, inf: float) -> Tensor:
        _0 = torch_ + CONSTANTS
        annotate = _0 * inf
        for fork in range(2):
            x = ops + fork
            annotate = annotate + x
        if CONSTANTS > 1:
            x = annotate
        else:
            x = ops
        return x - _0


@model("reserved-names")
def reserved_names() -> Case:
    return Case(
        torch.jit.script(Locals()),
        [forward(ramp(2), ramp(2), 1, 0.5), forward(ramp(2), ramp(2), 2, 0.5)],
    )
