#!/usr/bin/env python3
"""Models that PyTorch scripts are compiled by Tenon and run in PyTorch's lite interpreter.

write_models.py writes the corpus under one PyTorch. The agent imports each archive and exports it
with bytecode of its own. run_models.py compares the results with those of eager PyTorch, and the
tables with PyTorch's own. The operators that Module::operator_names returns are compared with
torch.jit.export_opnames. write_switched.py flips the switches of PyTorch's exporter, and the tables
of each are compared with those that Tenon makes with the switch of that name. Archives with debug
tables have the same bytecode. Their tables are compared with PyTorch's: the tables that the archive
has for its code, and new ones.

lowered.py does the same with bytecode of the versions 4 to 7.

docs/internals/compiled_models.md has the results as a table, and must agree.

usage: compile_test.py debian|newest [PROOF...] [--folder FOLDER] [--update]

Exit status 77: that PyTorch is not here, or it has no TorchScript. PROOF is runs (with operators),
debug_tables, switches or lowered, or models, which only writes the corpus. Without PROOF, all
proofs are made. --folder keeps the corpus for later proofs. --update writes the columns of that
PyTorch into the page.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

import debug_tables  # noqa: E402 (found by the path above)
import lowered  # noqa: E402
import page  # noqa: E402
from tables import Archive, compare_normals, read_normals  # noqa: E402
from torches import SKIPPED, find_script_torch, run_torch  # noqa: E402

AGENT = os.environ["TENON_COMPILE_AGENT"]
# PyTorch 1.13 runs these, but cannot give their results to Python in these forms, whoever wrote the
# archives. A flatbuffer has a plain tuple in place of a NamedTuple.
NOT_IN_PYTHON: dict[str, dict[str, list[str]]] = {
    "debian": {"named_tuple_returned": ["bytecode"], "tensor_of_bools": ["bytecode", "flatbuffer"]},
    "newest": {},
}
# Models in which PyTorch, with plain_operators, loads two arguments of prim::RaiseException but
# says that there is one. The lite interpreter then takes the wrong one for the message. Tenon loads
# one.
LOADS_TOO_MUCH = {
    "debian": {"words_of_torch_jit", "lstm_cell", "beam_search"},
    "newest": {"words_of_torch_jit"},
}
# The word of run_models.py, which cannot be imported without PyTorch.
NOT_COMPARED = "PyTorch has none"
PROOFS = ["models", "runs", "debug_tables", "switches", "lowered"]


def run(python: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_torch(python, *arguments, is_merged=True)


def ask(tasks: list[list[str | Path]]) -> list[list[str]]:
    """Returns the agent's lines for each task. The last line is "ok" or an error."""
    text = "".join("\t".join(map(str, task)) + "\n" for task in tasks)
    done = subprocess.run([AGENT], input=text, stdout=subprocess.PIPE, text=True, check=False)
    answers: list[list[str]] = [[]]
    for line in done.stdout.splitlines():
        answers[-1].append(line)
        if line == "ok" or line.startswith("error "):
            answers.append([])
    answers.pop()
    assert done.returncode == 0 and len(answers) == len(tasks), (
        f"the agent ended with {done.returncode}"
    )
    return answers


def word(text: str) -> str:
    """Returns the cell of the page for an answer of run_models.py."""
    return "yes" if not text else "-" if text == NOT_COMPARED else "no"


def compiled(theirs: Path, ours: Path, names: list[str], *option: str) -> list[str]:
    """Makes the agent compile the models with an option. Returns the errors."""
    ours.mkdir(exist_ok=True)
    answers = ask(
        [["compile", theirs / f"{name}.pt", ours / f"{name}.ptl", *option] for name in names]
    )
    return [
        f"{name} {' '.join(option)}: {answer[-1]}"
        for name, answer in zip(names, answers, strict=True)
        if answer[-1] != "ok"
    ]


def read_corpus(theirs: Path) -> tuple[dict[str, str], list[str]]:
    """Returns the answer of write_models.py for each model, and the names of the models that it
    wrote.
    """
    states: dict[str, str] = json.loads((theirs / "models.json").read_text())
    return states, [name for name in states if (theirs / f"{name}.pt").exists()]


def write_corpus(python: str, folder: Path) -> list[str]:
    """Makes PyTorch write the models, and the agent compile them in each way. Returns the
    errors.
    """
    shutil.rmtree(folder, ignore_errors=True)
    theirs = folder / "theirs"
    written = run(python, HERE / "write_models.py", theirs)
    print(written.stdout.rstrip())
    if written.returncode != 0:
        return ["PyTorch could not write the models"]
    _, names = read_corpus(theirs)
    wrong = compiled(theirs, folder / "plain", names)
    for option in ("new", "carried", "flatbuffer"):
        wrong += compiled(theirs, folder / option, names, option)
    if not wrong:
        (folder / "is_complete").touch()
    return wrong


def prove(
    python: str, torch_name: str, proofs: list[str], folder: Path, is_update: bool
) -> list[str]:
    """Returns the errors."""
    if "models" in proofs or not (folder / "is_complete").exists():
        wrong = write_corpus(python, folder)
        if wrong:
            return wrong
    theirs = folder / "theirs"
    states, names = read_corpus(theirs)
    of_torch = [name for name in names if states[name] == "ok"]
    in_python = [name for name in names if name not in NOT_IN_PYTHON[torch_name]]
    wrong = []
    if "runs" in proofs:
        wrong += prove_runs(python, torch_name, folder, states, names, is_update)
        wrong += prove_operators(theirs, of_torch)
    if "debug_tables" in proofs:
        wrong += prove_debug_tables(folder, names, of_torch)
    if "switches" in proofs:
        wrong += prove_switches(python, torch_name, folder, of_torch)
    if "lowered" in proofs:
        wrong += lowered.prove(lowered.Corpus(python, torch_name, folder, in_python, of_torch), ask)
    return wrong


def prove_runs(
    python: str,
    torch_name: str,
    folder: Path,
    states: dict[str, str],
    names: list[str],
    is_update: bool,
) -> list[str]:
    """Returns the errors of the results, of the tables, and of the page.

    The archives have debug tables, so that PyTorch loads these too.
    """
    file = folder / "answers.json"
    ran = run(
        python,
        HERE / "run_models.py",
        "--answers",
        file,
        folder / "theirs",
        folder / "new",
        folder / "flatbuffer",
        *names,
    )
    print(ran.stdout.rstrip())
    if not file.exists():
        return ["PyTorch could not run the models"]
    wrong = []
    answers: dict[str, dict[str, str]] = json.loads(file.read_text())
    for name, answer in answers.items():
        bad = [form for form in page.FORMS if word(answer[form]) == "no"]
        if bad != NOT_IN_PYTHON[torch_name].get(name, []):
            wrong.append(f"{name}: {', '.join(bad) or 'all forms run, which was not expected'}")
    seen = {
        name: {form: word(answers[name][form]) if name in answers else "-" for form in page.FORMS}
        for name in states
    }
    if is_update:
        page.update(torch_name, seen)
    return wrong + page.differences(torch_name, seen)


def prove_operators(theirs: Path, names: list[str]) -> list[str]:
    wrong = []
    for name, answer in zip(
        names, ask([["opnames", theirs / f"{name}.pt"] for name in names]), strict=True
    ):
        expected = json.loads((theirs / f"{name}.opnames.json").read_text())
        if answer[0].split() != sorted(expected):
            wrong.append(
                f"{name}: the operators differ: {sorted(set(answer[0].split()) ^ set(expected))}"
            )
    return wrong


def prove_debug_tables(folder: Path, names: list[str], of_torch: list[str]) -> list[str]:
    """Returns the errors of the debug tables. With them, the bytecode must be the same as without
    them.
    """
    wrong = []
    for option in ("new", "carried"):
        for name in names:
            record = Archive(folder / option / f"{name}.ptl").records["bytecode.pkl"]
            if record != Archive(folder / "plain" / f"{name}.ptl").records["bytecode.pkl"]:
                wrong.append(f"{name}: other bytecode with {option} debug tables")
        for name in of_torch:
            pair = folder / option / f"{name}.ptl", folder / "theirs" / f"{name}.lite.ptl"
            found = debug_tables.compare_archives(*pair, option == "carried")
            if found:
                wrong.append(
                    f"{name}: the {option} debug tables differ in {len(found)} places, first"
                    f" {found[0]}"
                )
    return wrong


def prove_switches(python: str, torch_name: str, folder: Path, names: list[str]) -> list[str]:
    """Returns the errors of the tables that Tenon makes with each switch of the exporter
    flipped.
    """
    theirs = folder / "theirs"
    written = run(python, HERE / "write_switched.py", theirs, *names)
    if written.returncode != 0:
        return [f"PyTorch could not write the models with its switches flipped\n{written.stdout}"]
    without = {name: read_normals(folder / "plain" / f"{name}.ptl") for name in names}
    wrong = []
    for switch in sorted(entry.name for entry in theirs.iterdir() if entry.is_dir()):
        ours = folder / switch
        failed = compiled(theirs, ours, names, switch)
        if failed:
            wrong += failed
            continue
        n_other = 0
        for name in names:
            mine = read_normals(ours / f"{name}.ptl")
            found = compare_normals(mine, read_normals(theirs / switch / f"{name}.ptl"))
            if switch == "plain_operators" and name in LOADS_TOO_MUCH[torch_name]:
                found = [] if found else ["PyTorch's tables are right now"]
            wrong += [f"{name} with {switch}: {text}" for text in found]
            n_other += bool(compare_normals(mine, without[name]))
        print(f"{switch}: other tables than without it in {n_other} of {len(names)} models")
        if n_other == 0:
            wrong.append(f"{switch} changes nothing")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("torch", choices=list(NOT_IN_PYTHON))
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=", ".join(PROOFS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.proofs) - set(PROOFS):
        parser.error(f"there is no proof {', '.join(unknown)}: {', '.join(PROOFS)}")
    torch_name = given.torch
    python = find_script_torch(torch_name)
    if python is None:
        return SKIPPED
    # The tables of all models are millions of tuples without cycles.
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="tenon-compile-") as folder:
        wrong = prove(
            python, torch_name, given.proofs or PROOFS, given.folder or Path(folder), given.update
        )
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
