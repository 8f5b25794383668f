"""Random small methods that test which names are set at each point: branches, loops, returns, and
conditions that PyTorch decides while it compiles. check_test.py uses them.
"""

import random

NAMES = "abcd"
# Conditions that PyTorch knows while it compiles, and others. x is a Tensor, o an Optional[Tensor],
# n an int, and t a tuple.
CONDITIONS = [
    "bool(x)",
    "n > 3",
    "x is None",
    "x is not None",
    "o is None",
    "o is not None",
    "None is o",
    "isinstance(x, Tensor)",
    "isinstance(x, int)",
    "isinstance(o, Tensor)",
    "True",
    "False",
    "bool(True)",
    "self.training",
    'hasattr(self, "training")',
    'hasattr(self, "missing")',
    "torch.is_scripting()",
    "torch.__is__(o, None)",
    "annotate(bool, True)",
    "{name} is None",
    "(n > 3 if True else n > 4)",
]
ITERABLES = [
    "range(n)",
    "[1, 2]",
    "(1, 2)",
    "t",
    "()",
    "x",
    "zip([1], [2])",
    "enumerate([1])",
    "list((1, 2))",
    "x.size()",
]


class Writer:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.left = rng.randint(4, 14)

    def condition(self, depth: int = 0) -> str:
        roll = self.rng.random()
        if depth < 2 and roll < 0.1:
            return f"not ({self.condition(depth + 1)})"
        if depth < 2 and roll < 0.25:
            return (
                f"({self.condition(depth + 1)}) {self.rng.choice(['and', 'or'])}"
                f" ({self.condition(depth + 1)})"
            )
        return self.rng.choice(CONDITIONS).format(name=self.rng.choice(NAMES))

    def value(self) -> str:
        name = self.rng.choice(NAMES)
        computed = [
            f"torch.relu({name})",
            f"x if {self.condition(1)} else {name}",
            f"[{name} for j in t][0]",
        ]
        return self.rng.choice(["x", "x", "x", name, name, *computed])

    def block(self, indent: str, in_loop: bool, depth: int) -> list[str]:
        lines = []
        for _ in range(self.rng.randint(1, 3)):
            lines += self.statement(indent, in_loop, depth)
        return lines

    def statement(self, indent: str, in_loop: bool, depth: int) -> list[str]:
        self.left -= 1
        roll = self.rng.random()
        inner = indent + "  "
        if self.left > 0 and depth < 3:
            if roll < 0.28:
                lines = [f"{indent}if {self.condition()}:", *self.block(inner, in_loop, depth + 1)]
                if self.rng.random() < 0.6:
                    lines += [f"{indent}else:", *self.block(inner, in_loop, depth + 1)]
                return lines
            if roll < 0.36:
                return [
                    f"{indent}for i in {self.rng.choice(ITERABLES)}:",
                    *self.block(inner, True, depth + 1),
                ]
            if roll < 0.4:
                return [f"{indent}while {self.condition()}:", *self.block(inner, True, depth + 1)]
            if roll < 0.43:
                return [
                    f"{indent}with __torch__.Context():",
                    *self.block(inner, in_loop, depth + 1),
                ]
            if roll < 0.46:
                return [
                    f"{indent}def f():",
                    *self.block(inner, False, depth + 1),
                    f"{inner}return {self.rng.choice(['x', *NAMES])}",
                ]
        if roll < 0.52:
            return [f"{indent}return {self.value()}"]
        if roll < 0.56:
            return [f'{indent}raise AssertionError("no")']
        if roll < 0.62:
            return [f"{indent}assert {self.condition()}"]
        if roll < 0.65 and in_loop:
            return [f"{indent}{self.rng.choice(['break', 'continue'])}"]
        if roll < 0.67:
            return [f"{indent}del {self.rng.choice(NAMES)}"]
        if roll < 0.7:
            return [f'{indent}ops.prim.RaiseException("no")']
        return [f"{indent}{self.rng.choice(NAMES)} = {self.value()}"]


REST = """
class Context:
  n : int
  def __init__(self) -> NoneType:
    self.n = 1
  def __enter__(self) -> NoneType:
    return None
  def __exit__(self, a: Any, b: Any, c: Any) -> NoneType:
    return None
"""


def method(rng: random.Random) -> str:
    writer = Writer(rng)
    lines = ["    a = x"] if rng.random() < 0.5 else []
    for _ in range(rng.randint(2, 5)):
        lines += writer.statement("    ", False, 0)
    if rng.random() < 0.85:
        lines.append(f"    return {rng.choice(['x', *NAMES])}")
    returns = rng.choice([" -> Tensor", " -> Tensor", ""])
    head = (
        "class M(Module):\n  def forward(self, x: Tensor, o: Optional[Tensor], n: int, t:"
        f" Tuple[int, int]){returns}:\n"
    )
    return head + "\n".join(lines) + "\n" + REST


def methods(count: int, rng: random.Random) -> list[str]:
    return [method(rng) for _ in range(count)]
