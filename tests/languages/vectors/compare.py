"""usage: compare.py [--cuda] LANGUAGE...

The last step, which checks that every language has executed the same cases. It reads
TENON_BUILD_DIR/vectors/LANGUAGE.txt, which run.py wrote. It fails if a case was executed in one
language and is missing in another, if a skip has no reason or every language skips a case, if a
case failed, or if a language is missing. A language whose toolchain this machine lacks is named and
left out. If the requirement of a case is not met, all languages may skip the case, but not only
some of them. With --cuda it checks the cases that require CUDA and LANGUAGE.cuda.txt. No language
may skip these.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import prepare


class Output:
    """The output of a runner: the reasons by id. An executed case has the reason ""."""

    def __init__(self, text: str) -> None:
        self.absent = ""
        self.executed: set[str] = set()
        self.skipped: dict[str, str] = {}
        self.problems: list[str] = []
        lines = text.splitlines()
        if lines and lines[0].startswith("# skipped:"):
            self.absent = lines[0].removeprefix("# skipped:").strip() or "no reason given"
            return
        for line in lines:
            word, _, rest = line.partition(" ")
            name, _, reason = rest.partition(" ")
            if name in self.executed or name in self.skipped:
                self.problems.append(f"{name} stands there twice")
            if word == "skip":
                self.skipped[name] = reason.strip()
                if not reason.strip():
                    self.problems.append(f"{name} is skipped without a reason")
            elif word in ("ok", "FAIL"):
                self.executed.add(name)
                if word == "FAIL":
                    self.problems.append(f"{name} failed: {reason}")
            else:
                self.problems.append(f"no such line: {line!r}")


def compare(outputs: dict[str, Output | None], cases: list[str], *, met: bool = False) -> list[str]:
    """Returns the errors. With `met`, everything that the cases require is there."""
    wrong = [f"{language}: no output" for language, output in outputs.items() if output is None]
    present = {
        language: output
        for language, output in outputs.items()
        if output is not None and not output.absent
    }
    if not present:
        wrong.append("no language was executed")
    everywhere = set(cases).union(*(output.executed for output in present.values()))
    for language, output in present.items():
        wrong += [f"{language}: {problem}" for problem in output.problems]
        wrong += [
            f"{language}: {name} was not executed"
            for name in sorted(everywhere - output.executed - set(output.skipped))
        ]
        wrong += [
            f"{language}: {name} is no case"
            for name in sorted((output.executed | set(output.skipped)) - set(cases))
        ]
    executed = set[str]().union(*(output.executed for output in present.values()))
    unmet = {
        language: {name for name, why in o.skipped.items() if why.startswith(prepare.UNMET)}
        for language, o in present.items()
    }
    for language, names in unmet.items():
        wrong += [
            f"{language}: {name} is skipped, and others find what it requires"
            for name in sorted(names & executed)
        ]
    if present:
        nowhere = set(cases) - executed - (set() if met else set[str]().union(*unmet.values()))
        wrong += [f"{name}: executed by no language" for name in sorted(nowhere)]
    return wrong


def table(outputs: dict[str, Output | None], cases: list[str]) -> str:
    rows = [f"{'language':<10} {'executed':>8} {'skipped':>8}   of {len(cases)}"]
    for language, output in outputs.items():
        if output is None:
            rows.append(f"{language:<10} missing")
        elif output.absent:
            rows.append(f"{language:<10} not here: {output.absent}")
        else:
            rows.append(f"{language:<10} {len(output.executed):>8} {len(output.skipped):>8}")
    for language, output in outputs.items():
        reasons: dict[str, list[str]] = {}
        for name, reason in output.skipped.items() if output is not None else ():
            reasons.setdefault(reason, []).append(name)
        rows += [
            f"{language} skips {', '.join(names)}: {reason}" for reason, names in reasons.items()
        ]
    return "\n".join(rows)


def main() -> None:
    folder = Path(os.environ["TENON_BUILD_DIR"], "vectors")
    outputs: dict[str, Output | None] = {}
    cuda = "--cuda" in sys.argv
    for language in (word for word in sys.argv[1:] if not word.startswith("--")):
        path = folder / f"{language}{'.cuda' if cuda else ''}.txt"
        outputs[language] = Output(path.read_text()) if path.exists() else None
    cases = [case["id"] for case in prepare.committed("cuda" if cuda else "")]
    print(table(outputs, cases))
    wrong = compare(outputs, cases, met=cuda)
    if wrong:
        sys.exit("FAIL\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
