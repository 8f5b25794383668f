"""Random programs of hand-written TorchScript, for handwritten_test.py.

A seed makes one program. No loop of a program runs more than five times, and no loop is nested
deeper than in three others, so every program ends soon. No list is empty: PyTorch drops a change of
a list that nothing reads, and with it the exception for an index of an empty list.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from handwritten_kit import Program

T = TypeVar("T")
Expression = Callable[[], str]
Scope = dict[str, str]  # the type of each name that a statement may read or assign

N_LINES = 60  # a longer program gets no new branches and loops
DEEPEST = 4  # of blocks
HELPERS = """
def bump(self, by: int) -> int:
  self.k = self.k + by
  return self.k
def odd(self, l: List[int], v: int) -> bool:
  for i in l[:3]:
    if i == v:
      return False
    l[0] += 1
  self.k -= 1
  return v % 2 == 1
def less(self, y: Optional[int], by: int=1) -> Optional[int]:
  if y is None:
    return self.k % 3
  for i in range(by % 3):
    y = y - i
    if y < 0:
      return None
  return y
"""


class Writer:
    """Writes one program line by line.

    A method that is named after a type returns an expression of the type. A method that writes a
    statement returns whether the block ends there.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.n_names = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def line(self, indent: int, text: str) -> None:
        self.lines.append("  " * indent + text)

    def new_name(self, kind: str) -> str:
        self.n_names += 1
        return f"{kind[0]}{self.n_names}"

    def names(self, kind: str, scope: Scope) -> list[str]:
        return [name for name, of in scope.items() if of == kind]

    def name(self, kind: str, scope: Scope) -> str:
        return self.pick(self.names(kind, scope))

    # Expressions.

    def deeper(self, scope: Scope, depth: int) -> tuple[Expression, ...]:
        """Returns functions that give an int, a str, a bool and a list, one level deeper."""
        kinds = (self.int_, self.str_, self.bool_, self.list_)
        return tuple(functools.partial(kind, scope, depth + 1) for kind in kinds)

    def int_(self, scope: Scope, depth: int = 0) -> str:
        name = self.name("int", scope)
        if depth > 2 or self.chance(0.3):
            return self.pick([str(self.random.randrange(6)), name, name])
        number, text, truth, items = self.deeper(scope, depth)
        forms: list[Expression] = [
            lambda: f"({number()} {self.pick('+-*')} {number()})",
            lambda: f"({number()} {self.pick('+-*')} {number()})",
            lambda: f"({number()} // {self.pick([2, 3, -3])})",
            # PyTorch evaluates the operand before `%` twice, so that operand must not be a call.
            lambda: f"({name} % {self.pick([2, 3, -3])})",
            lambda: f"len({text()})",
            lambda: f"len({items()})",
            lambda: f"({number()} if {truth()} else {number()})",
            lambda: f"{self.pick(['min', 'max'])}({number()}, {number()})",
            lambda: f"(-{name})",
            lambda: f"int({truth()})",
            lambda: f"d.get({text()}, {number()})",
            lambda: f"self.bump({number()})",
            lambda: "self.k",
        ]
        return self.pick(forms)()

    def str_(self, scope: Scope, depth: int = 0) -> str:
        name = self.name("str", scope)
        if depth > 2 or self.chance(0.3):
            return self.pick(['"a"', '"bc"', '""', name, name])
        number, text, truth, _ = self.deeper(scope, depth)
        forms: list[Expression] = [
            lambda: f"({text()} + {text()})[:9]",
            lambda: f"str({number()})",
            lambda: f"{name}[{self.pick(['1:', ':2', '-2:', '::2', 'n:'])}]",
            lambda: f'"{{}}:{{}}".format({number()}, {text()})',
            lambda: f"({text()} if {truth()} else {text()})",
        ]
        return self.pick(forms)()

    def bool_(self, scope: Scope, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.2):
            return self.name("bool", scope)
        number, text, truth, items = self.deeper(scope, depth)
        compared = self.pick(["<", ">", "==", "!=", "<=", ">="])
        forms: list[Expression] = [
            lambda: f"({number()} {compared} {number()})",
            lambda: f"({number()} {compared} {number()})",
            lambda: f"({truth()} {self.pick(['and', 'or'])} {truth()})",
            lambda: f"(not {truth()})",
            lambda: f"({number()} in {items()})",
            lambda: f"({text()} == {text()})",
            lambda: f"self.odd({self.name('list', scope)}, {number()})",
        ]
        if optionals := self.names("optional", scope):
            forms.append(lambda: f"({self.pick(optionals)} is {self.pick(['', 'not '])}None)")
        return self.pick(forms)()

    def list_(self, scope: Scope, depth: int = 0) -> str:
        name = self.name("list", scope)
        if depth > 2 or self.chance(0.4):
            return name
        items = self.deeper(scope, depth)[3]
        new = self.new_name("q")
        constant = [self.int_(scope, 3) for _ in range(self.random.randrange(1, 4))]
        made = self.int_({**scope, new: "int"}, depth + 1)
        forms: list[Expression] = [
            lambda: f"[{', '.join(constant)}]",
            lambda: f"({items()} + {items()})[:9]",
            lambda: f"{name}[{self.pick(['::2', ':2', ':', '-2:'])}]",
            lambda: f"[{made} for {new} in {items()}[:4]]",
        ]
        return self.pick(forms)()

    def optional_(self, scope: Scope) -> str:
        name = self.name("int", scope)
        return self.pick(["None", self.int_(scope, 1), f"self.less({name})", f"d.get(str({name}))"])

    def value(self, kind: str, scope: Scope) -> str:
        expression: Callable[[Scope], str] = getattr(self, f"{kind}_")
        return expression(scope)

    def result(self, scope: Scope) -> str:
        number, text, _, items = self.deeper(scope, 0)
        return f"({number()}, {text()}, {items()}, (x + {number()}))"

    # Statements.

    def assign(self, scope: Scope, indent: int) -> None:
        kind = self.pick(["int", "int", "str", "list", "bool", "optional"])
        names = self.names(kind, scope)
        value = self.value(kind, scope)
        if kind == "optional":
            if names:
                self.line(indent, f"{self.pick(names)} = {value}")
            return
        name = self.pick(names) if self.chance(0.7) else self.new_name(kind)
        scope[name] = kind
        self.line(indent, f"{name} = {value}")

    def change(self, scope: Scope, indent: int) -> None:
        """Writes a statement that changes a value, or that assigns more than one."""
        number, items = self.name("int", scope), self.name("list", scope)
        first, second = self.int_(scope, 1), self.int_(scope, 2)
        self.line(
            indent,
            self.pick(
                [
                    f"{number} {self.pick('+-*')}= {first}",
                    f"{items}.append({first})",
                    f"{items}[0] = {first}",
                    f"{items}[-1] += {first}",
                    f"{items} += {self.list_(scope, 2)}[:2]",
                    f"{number}, {self.name('str', scope)} = {first}, {self.str_(scope, 2)}",
                    f"{number}, {self.name('int', scope)} = {first}, {second}",
                    f"d[{self.str_(scope, 2)}] = {first}",
                    f"self.k {self.pick(['=', '+=', '-='])} {first}",
                    f"x[0, {number} % 3] {self.pick(['=', '+='])} {first}",
                ]
            ),
        )

    def branch(self, scope: Scope, indent: int, n_loops: int) -> bool:
        condition = self.bool_(scope)
        one, other = dict(scope), dict(scope)
        optionals = self.names("optional", scope)
        if optionals and self.chance(0.4):
            name = self.pick(optionals)
            is_none = self.chance(0.5)
            condition = f"{name} is {'' if is_none else 'not '}None"
            (other if is_none else one)[name] = "int"
            if self.chance(0.4):
                compared = f"{name} > {self.int_(scope, 2)}"
                condition += f" or {compared}" if is_none else f" and {compared}"
        is_set_in_both = self.chance(0.3)
        name = self.new_name("int")
        self.line(indent, f"if {condition}:")
        if is_set_in_both:
            self.line(indent + 1, f"{name} = {self.int_(one, 1)}")
            one[name] = "int"
        ends = self.block(one, indent + 1, n_loops)
        if not is_set_in_both and self.chance(0.4):
            return False
        self.line(indent, "else:")
        if is_set_in_both:
            self.line(indent + 1, f"{name} = {self.int_(other, 1)}")
            other[name] = scope[name] = "int"
        return self.block(other, indent + 1, n_loops) and ends

    def loop(self, scope: Scope, indent: int, n_loops: int) -> None:
        number = self.new_name("int") if self.chance(0.5) else self.name("int", scope)
        text = self.new_name("str") if self.chance(0.7) else self.name("str", scope)
        inner = dict(scope)
        kind = self.pick(["range", "list", "str", "pair", "while"])
        if kind == "while":
            counter = self.new_name("while")
            self.line(indent, f"{counter} = 0")
            self.line(
                indent,
                f"while {counter} < {self.random.randrange(1, 5)} and {self.bool_(scope, 1)}:",
            )
            self.line(indent + 1, f"{counter} += 1")
        elif kind == "pair":
            pairs = self.pick(["enumerate(s[:4])", "zip(l[:3], s)", f"enumerate({text}[1:4])"])
            if text not in scope:
                pairs = pairs.replace(text, "s")
            self.line(indent, f"for {number}, {text} in {pairs}:")
            inner |= {number: "int", text: "str"}
        elif kind == "str":
            self.line(indent, f"for {text} in {self.str_(scope, 2)}[:4]:")
            inner[text] = "str"
        else:
            ends = self.pick([f"{self.int_(scope, 3)} % 5", "3", "1, 5", "4, 0, -1", "1, n % 5"])
            over = f"range({ends})" if kind == "range" else f"{self.list_(scope, 2)}[:4]"
            self.line(indent, f"for {number} in {over}:")
            inner[number] = "int"
        self.block(inner, indent + 1, n_loops + 1)

    def leave(self, scope: Scope, indent: int, n_loops: int) -> None:
        ways = [f"return {self.result(scope)}", f"return {self.result(scope)}"]
        ways += ["break", "continue"] * 2 if n_loops else []
        if self.chance(0.1):
            ways = ["raise AssertionError"]
        self.line(indent, self.pick(ways))

    def statement(self, scope: Scope, indent: int, n_loops: int) -> bool:
        kind = self.random.randrange(20)
        if kind == 0 and indent > 0:
            self.leave(scope, indent, n_loops)
            return True
        can_nest = len(self.lines) < N_LINES and indent < DEEPEST
        if kind < 5 and can_nest:
            return self.branch(scope, indent, n_loops)
        if kind < 9 and can_nest and n_loops < 3:
            self.loop(scope, indent, n_loops)
        elif kind < 14:
            self.assign(scope, indent)
        else:
            self.change(scope, indent)
        return False

    def block(self, scope: Scope, indent: int, n_loops: int) -> bool:
        before = len(self.lines)
        for _ in range(self.random.randrange(1, 5 if indent > 0 else 9)):
            if self.statement(scope, indent, n_loops):
                return True
        if indent > 0 and self.chance(0.15):
            self.leave(scope, indent, n_loops)
            return True
        if len(self.lines) == before:
            self.line(indent, "pass")
        return False

    def write(self) -> str:
        """Returns the body of a program."""
        scope = {"n": "int", "b": "bool", "s": "str", "l": "list", "o": "optional"}
        scope["p"] = "optional"
        self.line(0, f"p : Optional[int] = {self.optional_(scope)}")
        if not self.block(scope, 0, 0):
            self.line(0, f"return {self.result(scope)}")
        return "\n".join(self.lines)


def random_program(seed: int) -> Program:
    return Program(
        f"random_{seed}",
        "Tuple[int, str, List[int], Tensor]",
        Writer(seed).write(),
        methods=HELPERS,
        attributes={"k": ("int", 2)},
    )
