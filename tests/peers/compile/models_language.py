"""Models of small features of the language: numbers, strings, functions, methods, names."""

# ruff: noqa: UP006, UP031, UP032, UP035, UP045, RUF046, RUF057 (TorchScript reads what stands here)

import math
import warnings
from typing import Dict, List, Optional, Tuple

import torch
from models_kit import Built, Call, evaluated, model, ramp
from torch import Tensor, nn


class Integers(nn.Module):
    def forward(self, a: int, b: int) -> Tuple[List[int], List[float], List[bool]]:
        out = [
            a + b,
            a - b,
            a * b,
            a // b,
            a % b,
            -a,
            abs(a),
            a & b,
            a | b,
            a ^ b,
            a << 2,
            a >> 1,
            min(a, b),
            max(a, b),
            int(a**2),
        ]
        out += [int(True) + a]
        floats = [
            a / b,
            float(a),
            float(a**b),
            a * 1.5,
            1.5 - a,
            math.sqrt(float(abs(a))),
            math.pow(a, 2),
            float(b) ** 0.5,
        ]
        floats += [math.log(float(abs(b)))]
        c = abs(a)
        c += b
        c -= 1
        c *= 3
        c %= 7
        out.append(int(c))
        out += [
            divmod(a, b)[0],
            divmod(a, b)[1],
            sum([a, b, 3]),
            min([a, b, 4]),
            max([a, 1]),
            int(a / b),
            int(round(a)),
            math.gcd(a, b),
        ]
        out += [math.factorial(3)]
        out += [
            int("12"),
            int(2.7),
            ord("a"),
            len("abc"),
            hash(a) * 0,
            9223372036854775807,
            -9223372036854775807,
            math.floor(a / b),
        ]
        out += [math.ceil(a / b)]
        return out, floats, [a < b, a <= b, a == b, a != b, a > b, a >= b, bool(a), a == float(b)]


@model()
def integers() -> Built:
    return evaluated(Integers(), (7, 3), (-7, 2), (4, 5))


class Floats(nn.Module):
    def forward(
        self, x: float, y: float, n: int
    ) -> Tuple[List[float], List[bool], List[int], List[str]]:
        out = [
            x + y,
            x - y,
            x * y,
            x / y,
            x // y,
            x % y,
            x**y,
            -x,
            abs(x),
            min(x, y),
            max(x, y),
            x + n,
            n * y,
            n - x,
            n / y,
            n // y,
            x % n,
        ]
        out += [
            float(round(x)),
            float("inf"),
            float("-inf"),
            float("nan"),
            1e-300,
            -0.0,
            1e20,
            0.1,
            float("2.5"),
            float(n),
        ]
        out += [float(min(x, n)), max([x, y])]
        out += [
            math.exp(x),
            math.log(y),
            math.sin(x),
            math.floor(y) * 1.0,
            math.fabs(x),
            math.atan2(x, y),
            math.pi,
            math.e,
        ]
        out += [math.copysign(1.0, x), math.fmod(y, 2.0)]
        out += [
            math.log1p(y),
            math.tanh(x),
            math.degrees(x),
            math.ldexp(y, 2),
            math.inf,
            sum([x, y]),
        ]
        out += [math.hypot(3.0, 4.0) if False else x, math.modf(y)[1]]
        z = x
        z += 1
        z *= y
        z /= 3
        z -= n
        out.append(z)
        return (
            out,
            [
                x < y,
                x <= n,
                x == y,
                not (x < y <= float(n)),
                math.isnan(x),
                math.isinf(y),
                x == 1.0,
            ],
            [int(x), int(y)],
            [str(x), str(y), str(n)],
        )


@model()
def floats() -> Built:
    return evaluated(Floats(), (1.5, 2.25, 7), (0.75, 4.5, -9))


class Strings(nn.Module):
    def forward(self, text: str, number: int) -> Tuple[List[str], List[int], List[bool]]:
        words = text.split(" ")
        joined = "-".join(words)
        out = [
            joined.upper(),
            f"{number}",
            "{} of {}".format(number, joined),
            "%s: %d" % ("n", number),
            text[1:3],
            text[::-1],
            text[0],
        ]
        out += [text[-1]]
        out += [
            text.replace("a", "b"),
            text.strip(),
            text.lstrip(),
            text.rstrip("z"),
            text.lower(),
            text.title(),
            text.capitalize(),
        ]
        out += [text.center(12), text.ljust(9), text.zfill(9)]
        out += [
            str(number),
            str(True),
            str(1.5),
            chr(65),
            hex(number),
            text + "!",
            "a\tb\n\\ \"quoted\" 'single'",
            "grüße 漢字",
            "",
        ]
        out += [f"{text}: {number + 1}", "{}{}".format(1.5, True)]
        out += (
            text.split()
            + text.split(",")
            + text.rsplit(" ", 1)
            + text.splitlines()
            + list(text.partition(" "))
        )
        numbers = [
            len(text),
            text.find("b"),
            text.count("a"),
            text.rfind("c"),
            ord(text[0]),
            int("7"),
        ]
        numbers += [text.index("z") if "z" in text else -1]
        facts = [
            text.startswith("a"),
            text.endswith("z"),
            "b" in text,
            "q" not in text,
            text == "xyz",
            text != "xyz",
            text.isdigit(),
        ]
        facts += [text.isalpha(), text.islower(), text.isspace()]
        if (text.startswith("a") and "b" in text) or not text.endswith("z"):
            out.append(str(len(text)) + chr(65))
        for letter in text:
            if letter == "b":
                out.append(letter)
        return out, numbers, facts


@model()
def strings() -> Built:
    return evaluated(Strings(), ("a bc d", 7), ("xyz", 30))


class Prints(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        """A docstring, which stays in no archive."""
        print("n is", n, 1.5, "grüße", True, None)
        print()
        if n > 1:
            warnings.warn("n is large", stacklevel=2)
        if n > 2:
            warnings.warn("n is {}".format(n))  # noqa: B028
        print(x, [1, 2], {"a": n}, (1, "b"))
        return x


@model()
def printing() -> Built:
    return evaluated(Prints(), (ramp(2), 1), (ramp(2), 2), (ramp(2, 2), 3))


def helper(x: Tensor, power: int = 2, negate: bool = False) -> Tensor:
    y = x.pow(power)
    return -y if negate else y


def shifted(x: Tensor, *, by: int) -> Tensor:
    return x + by


def twice(x: Tensor) -> Tensor:
    return helper(helper(shifted(x, by=2)), negate=True)


@torch.jit.script
def compiled(x: Tensor, names: List[str]) -> Dict[str, Tensor]:
    return {name: helper(x, index) for index, name in enumerate(names)}


@torch.jit.script
def recurses_not(n: int, scale: float = 0.5) -> float:
    total = 0.0
    for i in range(n):
        total += scale * i
        if total > 20:
            return total
    return total


class Functions(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, Dict[str, Tensor], float]:
        return (
            twice(x) + helper(x, power=3) + helper(negate=True, x=x),
            compiled(x, ["a", "b", "c"]),
            recurses_not(n) + recurses_not(3, scale=2.0),
        )


@model()
def free_functions() -> Built:
    return evaluated(Functions(), (ramp(2), 3), (ramp(2), 30))


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.5
        self.names = ["a", "b"]
        self.table = {"one": 1, "two": 2}
        self.shape = (2, 3)
        self.flag = True
        self.nothing: Optional[Tensor] = None
        self.inner = nn.Linear(3, 3)

    def step(
        self, x: Tensor, factor: float = 1.0, shift: Optional[float] = None, add: int = 0
    ) -> Tensor:
        y = x * factor * self.scale + add
        if shift is not None:
            y = y + shift
        return y

    @torch.jit.export
    def other(self, x: Tensor, n: int = 3, word: str = "a") -> Tuple[Tensor, int]:
        return self.step(x, add=n), len(word) + self.table["two"]

    def forward(
        self,
        x: Tensor,
        n: int = 2,
        f: float = 0.5,
        s: str = "d",
        b: bool = True,
        o: Optional[Tensor] = None,
    ) -> Tuple[Tensor, str]:
        y = (
            self.step(x)
            + self.step(x, 2.0)
            + self.step(x, shift=1.0)
            + self.step(x, add=n, factor=f)
        )
        if self.flag and b:
            y = y + self.inner(y)
        if self.nothing is not None:
            y = y + self.nothing
        if o is not None:
            y = y + o
        z, k = self.other(x, 3, "ab")
        return y + z + k + self.shape[0], s + self.names[0] + str(self.table["one"])


@model()
def methods_and_defaults() -> Built:
    x = ramp(2, 3)
    return evaluated(
        Methods(),
        (x,),
        (x, 3),
        (x, 1, 2.0, "e", False, x),
        Call("other", (x,)),
        Call("other", (x, 4, "cd")),
    )


class Shadows(nn.Module):
    """Names that a printer must change: reserved words of the language, operators, and one name in
    several scopes.
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
        i = 5
        for i in range(3):
            x = x + i
        return x - _0 + i


@model()
def reserved_names() -> Built:
    return evaluated(Shadows(), (ramp(2), ramp(2), 1, 0.5), (ramp(2), ramp(2), 2, 0.5))
