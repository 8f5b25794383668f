#!/usr/bin/env python3
"""The checker against PyTorch: it refuses nothing that torch.jit.load takes, and most code that
torch.jit.load refuses.

For each PyTorch the checker must take the code of every model of the zoo, as that PyTorch wrote it,
and the code of silero-vad. Then PyTorch and the checker both get methods that were broken by hand
(check_cases.py), random methods (check_random.py), random calls of operators (check_types.py), and
the models' code with random mutations (check_mutations.py).

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript and the other passed.

usage: check_test.py [--mutants N] [--seed N] [--verbose]
"""

import argparse
import importlib.util
import json
import os
import pickletools
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import check_cases
import check_mutations
import check_random
import check_types

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_script_torches, run_torch

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
GOAL = 0.7
# The least share of calls to refuse, among those that PyTorch refuses for an operand's type.
CALLS_GOAL = 0.8


class Program:
    """The code of an archive, and the classes of its values."""

    def __init__(self, path: Path):
        self.path = path
        self.code: dict[str, str] = {}
        self.roots: list[str] = []
        self.version = 0
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                inner = name.split("/", 1)[1]
                if inner.startswith("code/") and inner.endswith(".py"):
                    self.code[name] = archive.read(name).decode()
                if inner in ("version", ".data/version"):
                    self.version = int(archive.read(name))
                if inner in ("data.pkl", "constants.pkl"):
                    self.add_roots(archive.read(name))
        used = [
            int(n) for text in self.code.values() for n in re.findall(r"CONSTANTS\.c(\d+)", text)
        ]
        self.constants = max(used, default=-1) + 1

    def add_roots(self, pickle: bytes) -> None:
        for opcode, argument, _ in pickletools.genops(pickle):
            if opcode.name == "GLOBAL":
                name = argument.replace(" ", ".")
                if (
                    name.startswith("__torch__.")
                    and not name.startswith("__torch__.torch.classes.")
                    and name not in self.roots
                ):
                    self.roots.append(name)

    def case(self, changed: "dict[str, str] | None" = None) -> bytes:
        files = {
            record_qualifier(name): text for name, text in {**self.code, **(changed or {})}.items()
        }
        return agent_case(files, self.roots, self.version, self.constants)


def record_qualifier(record: str) -> str:
    return record.split("/code/", 1)[1][: -len(".py")].replace("/", ".")


def agent_case(
    files: dict[str, str], roots: list[str], version: int = 10, constants: int = 0
) -> bytes:
    parts = [f"case {version} {constants} {len(files)} {len(roots)}\n".encode()]
    for qualifier, text in files.items():
        data = text.encode()
        parts.append(f"{qualifier} {len(data)}\n".encode() + data + b"\n")
    parts += [f"{root}\n".encode() for root in roots]
    return b"".join(parts)


def ask_agent(cases: list[bytes]) -> list[list[str]]:
    """Returns for each case the fields of its answer.

    A refusal ends with the excerpt. "taken" ends with the calls that one of two PyTorch versions
    refuses.
    """
    done = subprocess.run(
        [os.environ["TENON_SCRIPT_CHECK_AGENT"]],
        input=b"".join(cases),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"the agent ended with {done.returncode}: {done.stderr.decode()[-2000:]}"
    )
    answers: list[list[str]] = []
    for line in done.stdout.decode().split("\n"):
        if line.startswith(("|", "~")):
            answers[-1].append(line[1:])
        elif line:
            answers.append(line.split("\t"))
    assert len(answers) == len(cases), f"{len(answers)} answers to {len(cases)} cases"
    return answers


def ask_torch(python: str, cases: list[dict]) -> list["str | None"]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = run_torch(python, HERE / "check_peer.py", given=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), (
        f"PyTorch answered {len(answers)} of {len(cases)}: {done.stderr[-2000:]}"
    )
    return answers


def write_archives(python: str, folder: Path) -> list[Path]:
    done = run_torch(python, MODELS / "write_archives.py", folder)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.pt"))


def silero() -> list[Path]:
    package = importlib.util.find_spec("silero_vad")
    if package is None or package.origin is None:
        return []
    return sorted((Path(package.origin).parent / "data").glob("*.jit"))


class Report:
    def __init__(self, release: str) -> None:
        self.problems: list[str] = []
        self.refused_by_both: Counter = Counter()
        self.refused_by_torch: Counter = Counter()
        self.refused_by_this_alone: Counter = Counter()
        self.missed: list[str] = []
        self.taken = 0
        self.release = release

    def compare(self, kind: str, what: str, torch: "str | None", agent: list[str]) -> None:
        refused = agent[0] == "refused"
        refused_here = self.refused_here(agent)
        if torch is None:
            self.taken += 1
            if refused or refused_here:
                self.problems.append(
                    f"{what}: PyTorch takes it, and the checker says: "
                    + "\n  ".join(refused_here or agent[1:])
                )
            return
        self.refused_by_torch[kind] += 1
        if refused:
            self.refused_by_both[kind] += 1
        elif refused_here:
            self.refused_by_this_alone[kind] += 1
        else:
            self.missed.append(f"{what}: {torch.splitlines()[0]}")

    def refused_here(self, agent: list[str]) -> list[str]:
        """Returns the calls that the checker takes and lists as refused by this PyTorch."""
        return [line for line in agent if line.startswith(f"PyTorch {self.release} refuses ")]

    def share(self) -> float:
        return self.refused_by_both.total() / max(self.refused_by_torch.total(), 1)


def check_models(programs: list[Program], report: Report) -> None:
    for program, answer in zip(
        programs, ask_agent([program.case() for program in programs]), strict=True
    ):
        if answer[0] != "taken" or report.refused_here(answer):
            report.problems.append(
                f"{program.path.name}: refused, and PyTorch wrote it: " + "\n  ".join(answer[1:])
            )


def check_methods(python: str, kind: str, methods: list[str], report: Report) -> None:
    answers = ask_agent([agent_case({"__torch__": text}, ["__torch__.M"]) for text in methods])
    for text, torch, agent in zip(
        methods, ask_torch(python, [{"method": text} for text in methods]), answers, strict=True
    ):
        report.compare(kind, text[text.index("class M(") :].split("\nclass ")[0], torch, agent)


def check_mutants(
    python: str, programs: list[Program], count: int, rng: random.Random, report: Report
) -> None:
    cases, names, for_agent = [], [], []
    each = max(1, -(-count // len(programs)))
    for program in programs:
        records = sorted(program.code)
        for _ in range(each):
            record = rng.choice(records)
            for kind, text in check_mutations.mutants(program.code[record], 1, rng):
                cases.append({"archive": str(program.path), "code": {record: text}})
                names.append((kind, difference(program.path.name, program.code[record], text)))
                for_agent.append(program.case({record: text}))
    for (kind, name), torch, agent in zip(
        names, ask_torch(python, cases), ask_agent(for_agent), strict=True
    ):
        report.compare(kind, name, torch, agent)


def difference(name: str, before: str, after: str) -> str:
    lines = [(a, b) for a, b in zip(before.split("\n"), after.split("\n"), strict=False) if a != b]
    return f"{name}: {lines[0][0].strip()}  ->  {lines[0][1].strip()}" if lines else name


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=500, help="for each PyTorch, about so many")
    parser.add_argument(
        "--calls", type=int, default=2000, help="calls of operators, for each PyTorch"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--verbose", action="store_true", help="print what PyTorch refuses and the checker takes"
    )
    arguments = parser.parse_args()
    found, status = find_script_torches()
    if not found:
        return status
    problems = []
    operators = {name: check_types.schemas(python) for name, python in found.items()}
    for name, python in found.items():
        release, listed = operators[name]
        report = Report(release)
        with tempfile.TemporaryDirectory(prefix="tenon-check-") as folder:
            paths = write_archives(python, Path(folder)) + silero()
            programs = [Program(path) for path in paths]
            check_models(programs, report)
            check_methods(python, "by hand", check_cases.methods(), report)
            check_methods(
                python,
                "names on paths",
                check_random.methods(arguments.mutants, random.Random(arguments.seed)),
                report,
            )
            calls = check_types.methods(listed, arguments.calls, random.Random(arguments.seed))
            check_methods(python, "operands' types", calls, report)
            for other, (_, foreign) in operators.items():
                if other != name:
                    calls = check_types.methods(
                        foreign, arguments.calls // 4, random.Random(arguments.seed)
                    )
                    check_methods(python, "another PyTorch's operators", calls, report)
            check_mutants(
                python, programs, arguments.mutants, random.Random(arguments.seed), report
            )
        refused = report.refused_by_torch.total()
        print(
            f"{name}: {len(programs)} programs; of {refused} that PyTorch refuses the checker"
            f" refuses {report.share():.1%}"
        )
        print(f"  taken by PyTorch: {report.taken}")
        for kind, number in sorted(report.refused_by_torch.items()):
            alone = report.refused_by_this_alone[kind]
            print(
                f"  {kind}: {report.refused_by_both[kind]} of {number}, and {alone} that are listed"
                " as refused by this PyTorch alone"
            )
        if len(found) > 1 and not report.refused_by_this_alone.total():
            report.problems.append("no call is listed as refused by this PyTorch alone")
        if arguments.verbose:
            print("\n".join(f"  missed: {text}" for text in report.missed))
        if refused < 300:
            report.problems.append(f"only {refused} broken methods")
        calls_refused = report.refused_by_torch["operands' types"]
        if report.refused_by_both["operands' types"] < CALLS_GOAL * calls_refused:
            report.problems.append(
                f"of {calls_refused} calls with a wrong operand, the checker refuses too few"
            )
        if report.share() < GOAL:
            report.problems.append(f"only {report.share():.1%} of what PyTorch refuses is refused")
        problems += [f"{name}: {problem}" for problem in report.problems]
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else status


if __name__ == "__main__":
    sys.exit(main())
