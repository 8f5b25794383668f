#!/usr/bin/env python3
"""The parser against PyTorch: it refuses nothing that torch.jit.load takes, and most source that
PyTorch's parser refuses.

For each PyTorch:
 - both get every piece of language_cases.py, and pieces with a token too few, too many or changed,
 - an expression, printed from our tree with all its parentheses, has the value that PyTorch gives
   the original,
 - the code that PyTorch wrote for every model of the zoo, and for silero-vad, is parsed, printed
   and parsed again.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript and the other passed.

usage: language_test.py [--mutants N] [--seed N] [--verbose] [--keep FOLDER]
"""

import argparse
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import language_cases as cases

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_script_torches, run_torch

HERE = Path(__file__).resolve().parent
WRITE_MODELS = HERE.parent / "models" / "write_archives.py"
# The share of sources to refuse, among those that PyTorch refuses. The rest needs types and names,
# which the checker checks.
GOAL = 0.95

FIRST_CLASS = "class M(Module):\n  def forward(self, x: Tensor):\n    return x\n"


class Agent:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [os.environ["TENON_SCRIPT_LANGUAGE_AGENT"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, command: str, source: "str | bytes") -> tuple[str, str]:
        """Returns the answer's line, and for `print` the printed source."""
        data = source.encode() if isinstance(source, str) else source
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{command} {len(data)}\n".encode() + data)
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode(errors="replace").rstrip("\n")
        if line == "":
            raise RuntimeError(f"the agent is gone after {data!r}")
        if line.startswith("printed "):
            return line, self.process.stdout.read(int(line.split()[1])).decode()
        return line, ""

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Peer:
    def __init__(self, python: str) -> None:
        self.python = python
        command = [python, "-B", str(HERE / "language_peer.py")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, source: str, arguments: "list | None" = None) -> dict:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"source": source, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask_anew(self, source: str) -> dict:
        """Returns the answer of a process that has loaded nothing else.

        On some sources PyTorch crashes, because it reads memory that it never wrote. After many
        other sources, that memory may by chance let it go on.
        """
        question = json.dumps({"source": source, "arguments": None}) + "\n"
        done = run_torch(self.python, HERE / "language_peer.py", given=question)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.split("\n"))


def syntax_sources() -> Iterator[str]:
    topics = [
        cases.BLOCKS,
        cases.SIMPLE_STATEMENTS,
        cases.ASSIGNMENTS,
        cases.COMPREHENSIONS,
        cases.LITERALS,
        cases.OPERATORS,
    ]
    for topic in [*topics, cases.BRACKETS, cases.REST, cases.ODD_BODIES]:
        for body in topic:
            yield FIRST_CLASS + "def f(x):\n" + indented(body)
    for tail in cases.TAILS:
        yield FIRST_CLASS + tail
    for head in cases.HEADS:
        yield head + FIRST_CLASS


TOKEN = re.compile(
    r"\s+|\w+|'[^'\n]*'|\"[^\"\n]*\"|\*\*=?|//|<<=?|>>=?|[-+*/%&|^=!<>]=|->|\.\.\.|.", re.DOTALL
)
SPARE_TOKENS = [
    *[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "=",
        ".",
        "*",
        "**",
        "-",
        "~",
        "+",
        "<",
        "+=",
        "->",
        "...",
        "x",
        "1",
        "'s'",
        "None",
    ],
    *[
        "not ",
        " in ",
        " not in ",
        " is ",
        " if ",
        " else ",
        " for ",
        " and ",
        " as ",
        "lambda ",
        "def ",
        "with ",
        "return ",
    ],
    *["# type: ", "# c", " ", "\n", "\n  ", "\n    ", "\\\n"],
]


def mutated_sources(n: int, seed: int) -> Iterator[str]:
    """Yields pieces with one or two tokens too few, too many, or changed."""
    chance = random.Random(seed)
    pieces = list(syntax_sources())
    for _ in range(n):
        source = chance.choice(pieces)
        start = source.find(FIRST_CLASS) + len(FIRST_CLASS)
        tokens = TOKEN.findall(source[start:])
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(len(tokens) + 1)
            change = chance.randrange(4)
            if change == 0 or at == len(tokens):
                tokens.insert(at, chance.choice(SPARE_TOKENS))
            elif change == 1:
                del tokens[at]
            elif change == 2:
                tokens[at] = chance.choice(SPARE_TOKENS)
            else:
                tokens.insert(at, chance.choice(tokens))
        yield source[:start] + "".join(tokens)


def class_sources() -> Iterator[str]:
    first = FIRST_CLASS.replace("Tensor", "__torch__.A", 1)
    for base in cases.CLASS_BASES:
        for body in cases.CLASS_BODIES:
            yield first + f"class A{base}:\n" + indented(body)


def expression_source(expression: str) -> str:
    return (
        "class M(Module):\n  def forward(self, a: int, b: int, c: int, d: int, e: int):\n   "
        f" return {expression}\n"
    )


def random_expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(["a", "b", "c", "d", "e", "1", "2"])
    left = random_expression(chance, depth - 1)
    right = random_expression(chance, depth - 1)
    shape = chance.randrange(10)
    if shape == 0:
        return f"({left})"
    if shape == 1:
        return f"{chance.choice(['-', '~'])}{left}"
    operator = chance.choice(["+", "-", "*", "&", "|", "^", "<<", "+", "-", "*"])
    # A shift by many bits or by a negative number has no value to compare.
    return f"{left} {operator} {'1' if operator == '<<' else right}"


def expressions() -> Iterator[str]:
    yield from cases.EXPRESSIONS
    chance = random.Random(7)
    for _ in range(200):
        yield random_expression(chance, 4)


class Report:
    def __init__(self, name: str, verbose: bool) -> None:
        self.name = name
        self.verbose = verbose
        self.faults: list[str] = []

    def fault(self, what: str, source: str, why: str) -> None:
        self.faults.append(what)
        print(f"FAULT ({self.name}): {what}\n{source}\n  {why}")

    def compare(
        self,
        title: str,
        command: str,
        sources: Iterator[str],
        agent: Agent,
        peer: Peer,
        goal: float,
    ) -> None:
        taken = refused = caught = 0
        for source in sources:
            ours = agent.ask(command, source)[0]
            theirs = peer.ask(source)
            if theirs["taken"] and ours.startswith("refused"):
                theirs = peer.ask_anew(source)
            if ours.startswith("broken"):
                self.fault("a tree is not what it was after printing", source, ours)
            if theirs["taken"]:
                taken += 1
                if ours.startswith("refused"):
                    self.fault("refused, and PyTorch takes it", source, ours)
                continue
            refused += 1
            caught += ours.startswith("refused")
            if self.verbose and not ours.startswith("refused"):
                print(
                    f"not caught ({self.name}): {source[len(FIRST_CLASS) :]!r}:"
                    f" {theirs['said'].strip().splitlines()[:1]}"
                )
        print(
            f"{self.name}: {title}: {taken} taken by both, {caught} of {refused} refusals caught"
            f" ({caught / max(refused, 1):.1%})"
        )
        if caught < goal * refused:
            self.fault(f"{title}: too few refusals caught", "", f"{caught} of {refused}")

    def compare_values(self, agent: Agent, peer: Peer) -> None:
        arguments = [3, -2, 5, 1, 7]
        same = 0
        for expression in expressions():
            source = expression_source(expression)
            answer, printed = agent.ask("print", source)
            theirs = peer.ask(source, arguments)
            if not theirs["taken"]:
                continue
            if not answer.startswith("printed"):
                self.fault("refused, and PyTorch takes it", source, answer)
                continue
            again = peer.ask(printed, arguments)
            if again.get("result") != theirs["result"]:
                self.fault("printed, it has another value", source + printed, f"{theirs} {again}")
            same += 1
        print(f"{self.name}: {same} expressions have the same value as printed from their trees")
        if same < 150:
            self.fault("too few expressions have a value", "", str(same))

    def parse_archives(self, agent: Agent, archives: list[Path]) -> None:
        files = nbytes = 0
        for path in archives:
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if "/code/" not in name or not name.endswith(".py"):
                        continue
                    source = archive.read(name)
                    answer = agent.ask("parse", source)[0]
                    if answer != "taken":
                        self.fault("PyTorch's own code", f"{path.name}: {name}", answer)
                    files += 1
                    nbytes += len(source)
        print(
            f"{self.name}: {files} code files of {len(archives)} archives, {nbytes} bytes, parsed,"
            " printed, parsed again and equal"
        )
        if len(archives) < 40:
            self.fault("fewer than 40 archives", "", str(len(archives)))


def silero_archives() -> list[Path]:
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        return []
    return sorted(Path(spec.submodule_search_locations[0]).glob("data/*.jit"))


def test(name: str, python: str, folder: Path, options: argparse.Namespace) -> int:
    report = Report(name, options.verbose)
    agent = Agent()
    peer = Peer(python)
    report.compare("syntax", "parse", syntax_sources(), agent, peer, GOAL)
    report.compare(
        "mutated syntax", "parse", mutated_sources(options.mutants, options.seed), agent, peer, GOAL
    )
    report.compare("classes", "classes", class_sources(), agent, peer, GOAL)
    report.compare_values(agent, peer)
    peer.end()
    written = run_torch(python, WRITE_MODELS, folder)
    assert written.returncode == 0, written.stderr
    report.parse_archives(agent, sorted(folder.glob("*.pt")) + silero_archives())
    agent.end()
    return len(report.faults)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="write the models' archives there")
    options = parser.parse_args()
    found, status = find_script_torches()
    if not found:
        return status
    faults = 0
    for name, python in found.items():
        with tempfile.TemporaryDirectory() as temporary:
            faults += test(name, python, (options.keep or Path(temporary)) / name, options)
    print(f"{faults} faults")
    return 1 if faults else status


if __name__ == "__main__":
    sys.exit(main())
