"""Makes small errors in working code for check_test.py: a letter too many, an argument too few, a
missing assignment.

Every mutation depends only on the code and on the random generator, so a seed gives the same
mutants again. A mutant is not always broken. PyTorch says which ones are.
"""

import random
import re
from collections.abc import Callable, Iterator

NAME = r"[A-Za-z_]\w*"


def misspelt(name: str, rng: random.Random) -> str:
    at = rng.randrange(len(name))
    ways = [
        name[:at] + rng.choice("qzx") + name[at:],
        name + rng.choice("qz2"),
        name[: at + 1] + name[at:],
    ]
    if len(name) > 3:
        ways += [
            name[:at] + name[at + 1 :],
            name[: max(at - 1, 0)] + name[at : at + 1] + name[max(at - 1, 0) : at] + name[at + 1 :],
        ]
    ways = [way for way in ways if way != name and re.fullmatch(NAME, way)]
    return rng.choice(ways) if ways else name + "q"


def body_lines(code: str) -> list[int]:
    """The numbers of the lines in a function's body."""
    numbers = []
    inside = False
    for number, line in enumerate(code.split("\n")):
        if re.match(r"\s*def ", line):
            inside = True
            continue
        if re.match(r"(class|def) ", line):
            inside = False
        if inside and line.startswith("    ") and not re.match(r"    \w+: [^=]*(,|->.*:)$", line):
            numbers.append(number)
    return numbers


def rewrite(
    pattern: str, change: Callable[[re.Match, random.Random], str], code: str, rng: random.Random
) -> "str | None":
    """Applies `change` to one random match of the pattern in a function's body."""
    lines = code.split("\n")
    places = [
        (number, match)
        for number in body_lines(code)
        for match in re.finditer(pattern, lines[number])
    ]
    if not places:
        return None
    number, match = rng.choice(places)
    line = lines[number]
    lines[number] = line[: match.start()] + change(match, rng) + line[match.end() :]
    return "\n".join(lines)


def spell(pattern: str) -> Callable:
    """Misspells the group `name` of the pattern."""

    def change(match: re.Match, rng: random.Random) -> str:
        begin, end = (position - match.start() for position in match.span("name"))
        text = match.group()
        return text[:begin] + misspelt(match["name"], rng) + text[end:]

    return lambda code, rng: rewrite(pattern, change, code, rng)


def replace(pattern: str, text: str) -> Callable:
    return lambda code, rng: rewrite(pattern, lambda match, _: match.expand(text), code, rng)


def swap_lines(code: str, rng: random.Random) -> "str | None":
    """Swaps two neighbouring assignments."""
    lines = code.split("\n")
    plain = re.compile(rf"\s+{NAME} = ")
    numbers = [
        n
        for n in body_lines(code)
        if n + 1 < len(lines) and plain.match(lines[n]) and plain.match(lines[n + 1])
    ]
    numbers = [
        n
        for n in numbers
        if len(lines[n]) - len(lines[n].lstrip()) == len(lines[n + 1]) - len(lines[n + 1].lstrip())
    ]
    if not numbers:
        return None
    n = rng.choice(numbers)
    lines[n], lines[n + 1] = lines[n + 1], lines[n]
    return "\n".join(lines)


def other_operator(code: str, rng: random.Random) -> "str | None":
    names = [
        "add",
        "cat",
        "relu",
        "size",
        "matmul",
        "linear",
        "conv2d",
        "len",
        "append",
        "softmax",
        "zeros",
        "clamp",
        "dropout",
    ]
    return rewrite(r"\btorch\.(\w+)\(", lambda _, rng: f"torch.{rng.choice(names)}(", code, rng)


# The use of a local name.
WORDS = [
    "torch",
    "ops",
    "self",
    "return",
    "pass",
    "if",
    "else",
    "for",
    "while",
    "in",
    "def",
    "None",
]
NO_WORD = "".join(rf"(?!{word}\b)" for word in WORDS)
LOCAL = rf"(?<![\w.\"])(?P<name>{NO_WORD}[a-z_]\w*)(?=[,)\]]|$)"

# An innermost call, whose arguments have no brackets.
CALL = r"(?P<callee>[\w.)\]]+)\((?P<arguments>[^()\[\]\"]+?)(?P<comma>, )?\)"

MUTATIONS: dict[str, Callable] = {
    "operator misspelt": spell(r"\btorch\.(?P<name>\w+)\("),
    "ops misspelt": spell(r"\bops\.\w+\.(?P<name>\w+)\("),
    "local name misspelt": spell(LOCAL),
    "attribute misspelt": spell(r"\bself\.(?P<name>\w+)(?!\w|\()"),
    "getattr misspelt": spell(r"getattr\(\w+, \"(?P<name>\w+)\"\)"),
    "method misspelt": spell(r"\)\.(?P<name>\w+)\("),
    "function misspelt": spell(r"\b__torch__(?:\.\w+)*\.(?P<name>\w+)\("),
    "type misspelt": spell(r"(?:annotate|uninitialized|unchecked_cast)\((?:\w+\[)*(?P<name>\w+)"),
    "keyword misspelt": spell(r"[(,] ?(?P<name>\w+)=(?!=)"),
    "argument dropped": replace(
        r"(?P<before>[\w.)\]]+\([^()\[\]\"]+?), [^(),\[\]\"=]+(?P<comma>, )?\)",
        r"\g<before>\g<comma>)",
    ),
    "only argument dropped": replace(
        r"(?P<callee>\btorch\.\w+)\([^(),\[\]\"=]+\)", r"\g<callee>()"
    ),
    "argument added": replace(CALL, r"\g<callee>(\g<arguments>, 7)"),
    "two arguments added": replace(CALL, r"\g<callee>(\g<arguments>, 7, 8)"),
    "keyword added": replace(CALL, r"\g<callee>(\g<arguments>, wanted=1)"),
    "constant out of range": replace(r"CONSTANTS\.c(\d+)", r"CONSTANTS.c1\g<1>00"),
    "assignment dropped": replace(rf"^(?P<indent>\s+){NAME}(, {NAME})*,? = .*$", r"\g<indent>pass"),
    "assignment in a branch dropped": replace(
        rf"^(?P<indent>\s{{6,}}){NAME} = .*$", r"\g<indent>pass"
    ),
    "return dropped": replace(r"^(?P<indent>\s+)return .*$", r"\g<indent>pass"),
    "return of nothing": replace(r"^(?P<indent>\s+)return .*$", r"\g<indent>return"),
    "target dropped": replace(
        rf"^(?P<indent>\s+){NAME}, (?P<rest>{NAME}.* = .*)$", r"\g<indent>\g<rest>"
    ),
    "attribute of nothing": replace(rf"(?P<value>\({NAME}\))\.(\w+)", r"\g<value>.missing"),
    "assignment to a misspelt attribute": spell(r"^\s+self\.(?P<name>\w+) = "),
    "function called without its module": replace(r"\b__torch__(?:\.\w+)*\.(\w+)\(", r"\g<1>("),
    "lines swapped": swap_lines,
    "another operator": other_operator,
}


def mutants(code: str, count: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yields at most `count` different mutants: the mutation's name, and the code."""
    seen = {code}
    names = list(MUTATIONS)
    for attempt in range(count * 6):
        if len(seen) > count:
            return
        name = names[(attempt + rng.randrange(len(names))) % len(names)]
        changed = MUTATIONS[name](code, rng)
        if changed is not None and changed not in seen:
            seen.add(changed)
            yield name, changed
