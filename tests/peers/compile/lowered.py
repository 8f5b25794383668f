"""The proof of bytecode below version 8, for the models that compile_test.py has written.

The agent lowers each archive to the versions 4 to 7. Each must run in PyTorch's lite interpreter
with the results of eager PyTorch, or be refused with its file and line. Its tables must be those
that PyTorch makes of its own bytecode by _backport_for_mobile, where this is possible. PyTorch
lowers for itself, with its own arguments of operators. Tenon lowers for the PyTorch of that
version. So only models are compared whose operators have the same form in both.

If the environment variable TENON_TORCH_1_9 names the Python of a PyTorch 1.9, that PyTorch runs the
versions 4 and 5.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(HERE.parents[1] / "support")]

import make_schema_table  # noqa: E402 (found by the path above)
from tables import Function, compare, read_functions  # noqa: E402
from torches import run_torch  # noqa: E402

TARGETS = {"4": "1.8", "5": "1.9", "6": "1.10", "7": "1.10"}
# The columns of the schema table.
WRITERS = {"debian": "1.13", "newest": "2.15"}
# Operators that Tenon calls by another name for an old PyTorch, or with fewer arguments. See
# impl/modules/compile/stand_ins.h.
CALLED_OTHERWISE = {
    "aten::pad",
    "aten::floor_divide",
    "aten::floor_divide_",
    "aten::meshgrid",
    "prim::RaiseException",
}
# The least number of models that are lowered and compared. The corpus has 95 models.
N_LOWERED = {"4": 65, "5": 75, "6": 78, "7": 78}
N_COMPARED = 25
# Version 4 has no numbers of arguments. These models call operators that have got arguments since
# PyTorch 1.8, and a newer PyTorch then misses these arguments.
NOT_IN_NEWER = {"4": {"graph_convolution", "products"}}
# Models that an old PyTorch runs in another way, whoever wrote the bytecode: its random numbers
# differ, and aten::Bool.float gives an int.
NOT_IN_1_9 = {"cnn_in_training", "dropout_in_evaluation", "dropout_in_training", "floats"}

# The PyTorch of the corpus runs this program, which writes a model to the folder in its argument.
# The models of the corpus that call unflatten also call operators that PyTorch 1.9 lacks.
UNFLATTEN = """
import sys
from pathlib import Path

import torch
from models_kit import Model, evaluated, ramp, set_up
from write_models import write_apart


def build():
    shapes = [(1, (3, 1)), (-1, (1, 2)), (-2, (1,)), (0, (1, 2))]
    layers = [torch.nn.Unflatten(*arguments) for arguments in shapes]
    examples = [ramp(2, 3, 2), ramp(4, 3, 2), torch.zeros(0, 3, 2)]
    return evaluated(torch.nn.Sequential(*layers), *[(example,) for example in examples])


set_up()
print(write_apart(Model("unflatten", build, 0, ""), Path(sys.argv[1])))
"""

Ask = Callable[[list[list[str | Path]]], list[list[str]]]


@dataclass
class Corpus:
    """The models that one PyTorch wrote to folder/theirs.

    PyTorch has bytecode of its own for the models in `of_torch`.
    """

    python: str
    torch_name: str
    folder: Path
    names: list[str]
    of_torch: list[str]


def run(python: str, *arguments: str | Path) -> dict[str, dict[str, str]]:
    """Returns the errors of run_lowered.py by version and model."""
    done = run_torch(python, HERE / "run_lowered.py", *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"run_lowered.py failed under {python}\n{done.stderr}")
    said = json.loads(done.stdout.splitlines()[-1])
    counts = [
        f"version {version}: {len(models)} run, {sum(map(bool, models.values()))} differ"
        for version, models in said["answers"].items()
    ]
    print(f"lowered, in PyTorch {said['torch']}: {'; '.join(counts)}")
    answers: dict[str, dict[str, str]] = said["answers"]
    return answers


def forms(version: str) -> dict[tuple[str, str], str]:
    """Returns the form of each operator in a PyTorch of the schema table, by name and overload."""
    table = make_schema_table.read_table(ROOT / "impl/modules/script/schema_table_data.cc")
    return {
        (name, overload): make_schema_table.call_form(text)
        for name, overload, text in table[version]
    }


def is_comparable(
    functions: list[Function], now: dict[tuple[str, str], str], then: dict[tuple[str, str], str]
) -> bool:
    """Returns whether Tenon's tables must equal PyTorch's. NamedTuples are tuples in Tenon's."""
    for function in functions:
        if any(op == "NAMED_TUPLE_CONSTRUCT" for op, _, _ in function.instructions):
            return False
        for name, overload, *_ in function.operators:
            key = (name, overload or "-")
            if name in CALLED_OTHERWISE or now.get(key) != then.get(key):
                return False
    return True


def plain(function: Function, version: str) -> Function:
    """Removes the differences that Tenon's form has: a number of arguments, where it is -1 or
    version 5 has one, and "None" for "NoneType".
    """
    function.operators = [
        use[:2] if version in "45" or use[2:] == (-1,) else use for use in function.operators
    ]
    function.returns = tuple(
        (name, "NoneType" if kind == "None" else kind, default)
        for name, kind, default in function.returns
    )
    return function


def read(path: Path, version: str) -> list[Function]:
    return [plain(function, version) for function in read_functions(path, int(version))]


def lower(corpus: Corpus, ask: Ask, version: str) -> tuple[list[str], list[str]]:
    """Returns the models that Tenon lowers, and the errors of its refusals of the others."""
    ours = corpus.folder / "lowered" / version
    ours.mkdir(parents=True, exist_ok=True)
    answers = ask(
        [
            ["lower", corpus.folder / "theirs" / f"{name}.pt", ours / f"{name}.ptl", version]
            for name in corpus.names
        ]
    )
    made, wrong = [], []
    for name, answer in zip(corpus.names, answers, strict=True):
        if answer[-1] == "ok":
            made.append(name)
        elif not re.match(r"error UNSUPPORTED code/\S+\.py:\d+:\d+: ", answer[-1]):
            wrong.append(f"{name} in version {version}: {answer[-1]}")
    if len(made) < N_LOWERED[version]:
        wrong.append(
            f"only {len(made)} models are lowered to version {version}, and {N_LOWERED[version]}"
            " were"
        )
    return made, wrong


def prove(corpus: Corpus, ask: Ask) -> list[str]:
    """Returns the errors."""
    made, wrong = {}, []
    for version in TARGETS:
        made[version], faults = lower(corpus, ask, version)
        wrong += faults
    backports = corpus.folder / "backports"
    answers = run(
        corpus.python,
        corpus.folder,
        *TARGETS,
        "--backport",
        backports,
        "--backport-names",
        *corpus.of_torch,
    )
    now = forms(WRITERS[corpus.torch_name])
    for version, models in answers.items():
        unable = NOT_IN_NEWER.get(version, set())
        wrong += [
            f"{name} in version {version}: {found}"
            for name, found in models.items()
            if found and name not in unable
        ]
        wrong += [f"{name} in version {version} runs now" for name in unable if not models[name]]
        then = forms(TARGETS[version])
        compared = 0
        for name in set(made[version]) & set(corpus.of_torch):
            theirs = read(backports / version / f"{name}.ptl", version)
            if not is_comparable(theirs, now, then):
                continue
            compared += 1
            wrong += [
                f"{name} in version {version}: {text}"
                for text in compare(
                    read(corpus.folder / "lowered" / version / f"{name}.ptl", version), theirs
                )
            ]
        print(
            f"lowered to version {version}: {compared} models have the operators of PyTorch's own"
            " lowering and are compared with it"
        )
        if compared < N_COMPARED:
            wrong.append(
                f"only {compared} models are compared in version {version}, and {N_COMPARED} were"
            )
    return wrong + prove_unflatten(corpus, ask) + prove_in_1_9(corpus)


def prove_unflatten(corpus: Corpus, ask: Ask) -> list[str]:
    """Returns the errors of unflatten, whose number of arguments PyTorch changed in 1.13."""
    folder = corpus.folder / "unflatten"
    theirs = folder / "theirs"
    theirs.mkdir(parents=True, exist_ok=True)
    done = run_torch(corpus.python, "-c", UNFLATTEN, theirs, cwd=HERE, path=[HERE])
    if done.stdout.strip() != "ok":
        return [f"PyTorch could not write unflatten: {done.stdout}{done.stderr}"]
    wrong = []
    for version in TARGETS:
        ours = folder / "lowered" / version
        ours.mkdir(parents=True, exist_ok=True)
        answer = ask([["lower", theirs / "unflatten.pt", ours / "unflatten.ptl", version]])[0][-1]
        if answer != "ok":
            wrong.append(f"unflatten in version {version}: {answer}")
    answers = run(corpus.python, folder, *TARGETS)
    wrong += [
        f"unflatten in version {version}: {models['unflatten']}"
        for version, models in answers.items()
        if models["unflatten"]
    ]
    return wrong


def prove_in_1_9(corpus: Corpus) -> list[str]:
    python = os.environ.get("TENON_TORCH_1_9")
    if not python:
        print(
            "lowered, in PyTorch 1.9: not run, because TENON_TORCH_1_9 names no Python that has it"
        )
        return []
    wrong = []
    for version, models in run(python, corpus.folder, "4", "5", "--other-kernels").items():
        wrong += [
            f"{name} in version {version}, in PyTorch 1.9: {found}"
            for name, found in models.items()
            if found and name not in NOT_IN_1_9
        ]
    return wrong
