"""Models of control flow: loops, conditions, early returns, refinement of types, exceptions."""

# ruff: noqa: UP006, UP007, UP035, UP045, B007, B905 (TorchScript reads what stands here)

from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from models_kit import Built, evaluated, model, ramp
from torch import Tensor, nn


class Loops(nn.Module):
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
        total = 0.0
        for value in [1.5, 2.5]:
            total += value
        return x + total


@model()
def loops_with_break_and_return() -> Built:
    return evaluated(Loops(), *((ramp(2, 3), limit) for limit in (-1, 1, 4, 20)))


class MoreLoops(nn.Module):
    def forward(
        self, n: int, words: List[str], pairs: Dict[str, int], x: Tensor
    ) -> Tuple[int, str, List[int], Tensor]:
        total = 0
        for i in range(10, 0, -3):
            total += i
        for i, word in enumerate(words):
            total += i * len(word)
        for i, word in enumerate(words, 2):
            total -= i
        for word, (key, value) in zip(words, pairs.items()):
            total += value if key == word else 0
        text = ""
        for letter in "abc":
            text += letter + "."
        for row in x:
            total += int(row.sum())
        odd: List[int] = []
        k = 0
        while True:
            k += 1
            if k > n:
                break
            if k % 2 == 0:
                continue
            for j in range(k):
                if j == 3:
                    break
                odd.append(j * k)
            if len(odd) > 12:
                break
        while n > 0 and total < 1000:
            n -= 1
            total += n
        y = x
        for a, b in zip(range(3), [1.0, 2.0]):
            y = y * b + a
        for name in pairs:
            text += name
        for pair in [(1, "one"), (2, "two")]:
            text += pair[1] + str(pair[0])
        for _ in range(2):
            for _ in range(3):
                y = y + 1
        return total, text, odd, y


@model()
def loops_over_everything() -> Built:
    return evaluated(
        MoreLoops(), *((n, ["a", "bc"], {"a": 1, "b": 4}, ramp(2, 2) * 9) for n in (0, 5, 20))
    )


class Returns(nn.Module):
    def pick(self, n: int) -> str:
        if n == 0:
            return "none"
        elif n < 3:
            if n == 1:
                return "one"
            return "two"
        for i in range(n):
            if i * i == n:
                return "square"
            while i > 5:
                if i == 8:
                    return "eight"
                i -= 1
        return "many"

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, str]:
        if n > 100:
            return x, "early"
        word = self.pick(n)
        if word == "one":
            x = x + 1
        elif word == "two":
            x = x + 2
            y = x * 2
            if y.sum() > 0:
                return y, word
        else:
            z = x if n > 5 else -x
            x = z
        return x, word


@model()
def early_returns() -> Built:
    return evaluated(Returns(), *((ramp(3), n) for n in (0, 1, 2, 3, 7, 9, 12, 101)))


class Conditions(nn.Module):
    def forward(
        self, a: bool, b: bool, n: int, x: Optional[Tensor]
    ) -> Tuple[bool, int, List[bool], str]:
        c = (a and b) or not a
        d = (n > 2 and n < 7) or n == 11
        e = 2 < n <= 7
        k = 1 if a else 2 if b else 3
        f = x is not None and x.dim() == 1
        if a:
            if b:
                m = 1
            else:
                m = 2
        elif b:
            m = 3
        else:
            m = 4
        g = bool(n) or a
        h = a == b
        i = a != b
        word = "in" if n in [1, 2, 3] else "out"
        if n not in [3, 4]:
            word += "!"
        return c, k + m, [d, e, f, g, h, i, a & b, a | b, a ^ b, not b, a is b, x is None], word


@model()
def conditions() -> Built:
    return evaluated(
        Conditions(),
        *(
            (a, b, n, x)
            for a in (True, False)
            for b in (True, False)
            for n in (1, 5)
            for x in (None, ramp(2))
        ),
    )


class Refinement(nn.Module):
    def forward(
        self, x: Optional[Tensor], n: Optional[int], s: Optional[str] = None
    ) -> Tuple[Tensor, int, str]:
        if x is None:
            x = torch.zeros(1)
        m = 3
        if n is not None:
            m = n + 1
        if n is not None and n > 2:
            m = m * n
        if s is None or n is None:
            text = "nothing"
        else:
            text = s + str(n)
        k = n
        if k is None:
            k = 10
        y: Optional[Tensor] = None
        if m > 5:
            y = x + m
        if y is not None:
            x = y
        assert m is not None
        u = torch.jit.annotate(Optional[int], None)
        if m > 3:
            u = m
        if u is None:
            u = -1
        return x, m + k + u, text


@model()
def optional_refinement() -> Built:
    return evaluated(
        Refinement(),
        (None, None),
        (ramp(2), 3, "s"),
        (ramp(2), 1),
        (None, 7, "t"),
        (ramp(1), None, "u"),
    )


class Kinds(nn.Module):
    def forward(
        self, y: Union[int, str, List[int]], z: Any, w: Optional[Union[float, Tensor]] = None
    ) -> Tuple[str, bool, bool, float]:
        if isinstance(y, int):
            name = "int" + str(y + 1)
        elif isinstance(y, str):
            name = "str" + y
        else:
            name = "list" + str(len(y))
        if isinstance(z, (int, float)):
            name += "number"
        if isinstance(z, list):
            name += "z is a list"
        f = 0.0
        if isinstance(w, float):
            f = w
        elif isinstance(w, Tensor):
            f = float(w.sum())
        u: Union[int, str] = 1
        if len(name) > 6:
            u = name
        if isinstance(u, str):
            f += len(u)
        return name, isinstance(z, int), isinstance(z, Tensor), f


UNION = "its lite loader reads the type Union as no type, and crashes"


@model(not_old=UNION, not_new=UNION)
def isinstance_of_unions() -> Built:
    return evaluated(
        Kinds(), (3, 4), ("s", "t"), ([1, 2], 1.5), (3, ramp(2), 0.5), ("long text", [1], ramp(2))
    )


class AnyKind(nn.Module):
    def forward(
        self, z: Any, w: Optional[Tensor], v: Optional[List[int]] = None
    ) -> Tuple[str, bool, List[bool]]:
        name = ""
        if isinstance(z, (int, float)):
            name += "number"
        elif isinstance(z, str):
            name += z
        if isinstance(z, list):
            name += "a list"
        f = 0.0
        if isinstance(w, Tensor):
            f = float(w.sum())
        if isinstance(v, list):
            f += len(v)
        facts = [
            isinstance(z, Tensor),
            isinstance(w, Tensor),
            isinstance(f, float),
            isinstance(v, list),
            isinstance((1, "a"), tuple),
        ]
        return name, f > 1, facts


@model()
def isinstance_of_any() -> Built:
    return evaluated(AnyKind(), (4, None), ("t", ramp(2)), (1.5, None, [1, 2]), (ramp(2), ramp(1)))


class Raises(nn.Module):
    def forward(self, x: int, y: Tensor) -> int:
        assert x != 1, "one is refused"
        assert x != 9
        if x == 2:
            raise ValueError("two is {}".format("refused"))
        elif x == 3:
            z = 30
        elif x == 4:
            raise RuntimeError(f"four: {x} with {y.size(0)}")
        else:
            z = x if x > 5 else -x
        if x == 6:
            raise NotImplementedError
        assert y.dim() == 1, f"{y.dim()} dimensions"
        return z


@model()
def raise_and_assert() -> Built:
    return evaluated(Raises(), *((x, ramp(2)) for x in range(10)), (5, ramp(2, 2)))


class Deep(nn.Module):
    """A value that is carried through nested loops and conditions, and values that end in one
    branch.
    """

    def forward(self, x: Tensor, n: int) -> Tuple[Tensor, int, float]:
        a, b, c = 0, 0.0, x
        for i in range(n):
            unused = c * 2
            if i % 2 == 0:
                for j in range(i):
                    a += j
                    if a > 10:
                        b += 0.5
                        while b > 1:
                            b -= 0.75
                            c = c + b
                    else:
                        c = c - 1
                        continue
                    a -= 3
            else:
                d = c.sum()
                if d > 0:
                    c = -c
                else:
                    c = unused
        return c, a, b


@model()
def nested_flow() -> Built:
    return evaluated(Deep(), (ramp(3), 0), (ramp(3), 4), (ramp(3), 9))
