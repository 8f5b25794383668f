"""The corpus of the compiler's proof: what a model is, how one is registered, and how PyTorch runs
one.

The files models_*.py register the models. models.py collects them, write_models.py writes their
archives, and run_models.py runs the archives that Tenon compiled.
"""

import contextlib
import copy
import ctypes
import json
import math
import os
import re
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

NEWEST = not torch.__version__.startswith("1.")
# Values that plain() leaves as they are. Both types are written as tuples and not as unions, for
# the Python 3.9 of an old PyTorch (run_models.py).
KEPT = (str, bool, int, float, complex, torch.device, torch.dtype)
SEQUENCES = (list, tuple)


@dataclass
class Call:
    """One call of a method. A plain tuple among a model's examples is a call of forward."""

    method: str
    arguments: tuple[Any, ...]


Built = tuple[torch.nn.Module, list[Any]]


@dataclass
class Model:
    """A model of the corpus.

    `build` makes the same module each time, because write_models.py runs one copy and scripts
    another.
    """

    name: str
    build: Callable[[], Built]
    tolerance: float  # how far an element may lie from eager PyTorch's; 0 asks for equal bits
    without: str  # why this PyTorch cannot do the model itself; empty if it can


MODELS: dict[str, Model] = {}


def model(
    *, tolerance: float = 0.0, not_old: str = "", not_new: str = "", missing: str = ""
) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Registers a model. `not_old` and `not_new` say why PyTorch 1.13 or the newest fails on the
    model without Tenon.

    `missing` names something that this machine lacks, and is empty otherwise.
    """

    def register(build: Callable[[], Built]) -> Callable[[], Built]:
        assert build.__name__ not in MODELS, build.__name__
        without = missing or (not_new if NEWEST else not_old)
        MODELS[build.__name__] = Model(build.__name__, build, tolerance, without)
        return build

    return register


def ramp(*sizes: int) -> torch.Tensor:
    """Returns different floats that are small enough for any model."""
    numel = 1
    for size in sizes:
        numel *= size
    return (torch.arange(numel, dtype=torch.float32) / max(numel, 1) - 0.3).reshape(sizes)


def evaluated(module: torch.nn.Module, *examples: tuple[Any, ...]) -> Built:
    """Returns the module in evaluation mode with its examples."""
    return module.eval(), list(examples)


def build(entry: Model) -> tuple[torch.nn.Module, list[Call]]:
    """Returns the module of a model and its calls. They are the same each time."""
    torch.manual_seed(7)
    module, examples = entry.build()
    return module, [
        example if isinstance(example, Call) else Call("forward", example) for example in examples
    ]


@contextlib.contextmanager
def plain_execution() -> Iterator[None]:
    """Makes the same code give the same bits, however often it was called before: one thread, and
    no fusion.

    Archives must be written outside of this block, because PyTorch's bytecode writer inlines calls
    only where optimisation is on.
    """
    with warnings.catch_warnings(), torch.no_grad(), torch.jit.optimized_execution(False):
        warnings.simplefilter("ignore")
        yield


def in_child(work: Callable[[], Any]) -> Any:
    """Returns the result of `work`, which must be possible in JSON. A child process does the work,
    because a crash must not end this process.

    Raises RuntimeError if the child dies.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            # PyTorch makes a new thread pool after a fork. If two threads of its `fork` did this at
            # once, they would abort with "Invalid thread pool!".
            torch.set_num_threads(torch.get_num_threads())
            with os.fdopen(writer, "w") as pipe:
                json.dump(work(), pipe)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise RuntimeError(f"PyTorch crashed with {signal.Signals(os.WTERMSIG(status)).name}")
    if status != 0:
        raise RuntimeError("the child process failed, see its traceback on standard error")
    return json.loads(text)


def apart(work: Callable[[Any], Any], jobs: list[Any], died: Callable[[str], Any]) -> list[Any]:
    """Returns the result of `work` for each job. One child process does all of them, because a fork
    of a process with PyTorch is slow.

    If that child dies, each job gets a child of its own. died(message) is the result of a job whose
    child dies.
    """
    try:
        answers: list[Any] = in_child(lambda: [work(job) for job in jobs])
    except RuntimeError as error:
        if len(jobs) == 1:
            return [died(str(error))]
        return [answer for job in jobs for answer in apart(work, [job], died)]
    return answers


def set_up() -> None:
    """Prepares the process. A program calls this once before it builds, writes or runs models."""
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "qnnpack"
    warnings.simplefilter("ignore")


def plain(value: Any) -> Any:
    """Returns a value as a tree that torch.save keeps. A NamedTuple becomes a tuple, and an enum
    becomes its name and value.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if value is None or isinstance(value, KEPT):
        return value
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    raise TypeError(f"an output of type {type(value)} cannot be kept")


@contextlib.contextmanager
def captured(descriptor: int) -> Iterator[list[str]]:
    """Captures what Python and C++ write to this descriptor. The list gets it as its only element
    when the block ends.
    """
    kept: list[str] = []
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as file:
        before = os.dup(descriptor)
        os.dup2(file.fileno(), descriptor)
        try:
            yield kept
        finally:
            print(end="", flush=True)
            libc.fflush(None)
            os.dup2(before, descriptor)
            os.close(before)
            file.seek(0)
            kept.append(file.read().decode(errors="replace"))


@dataclass
class Result:
    """The result of a call: its value or the text of its exception, its arguments afterwards, its
    output and its warnings.

    `warned` has only the warnings of the lite interpreter, which writes them to standard error.
    """

    raised: bool
    value: Any
    arguments: Any
    printed: str
    warned: list[str]


def run_calls(invoke: Callable[[str, tuple[Any, ...]], Any], calls: list[Call]) -> list[Result]:
    """Makes the calls one after the other, so that a later call sees the buffers that an earlier
    call changed.
    """
    with plain_execution():
        return [run_call(invoke, call) for call in calls]


def run_call(invoke: Callable[[str, tuple[Any, ...]], Any], call: Call) -> Result:
    torch.manual_seed(11)
    arguments = copy.deepcopy(call.arguments)
    raised, value = False, None
    with captured(1) as printed, captured(2) as logged:
        try:
            value = plain(invoke(call.method, arguments))
        except Exception as error:
            raised, value = True, f"{type(error).__name__}: {error}"
    warned = re.findall(r"Warning: (.*) \(function run\)", logged[0])
    return Result(raised, value, plain(arguments), printed[0], warned)


def difference(expected: Any, actual: Any, tolerance: float, where: str = "the result") -> str:
    """Returns how `actual` differs from `expected`, or an empty text.

    Types count: 1, 1.0 and True differ.
    """
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        return tensor_difference(expected, actual, tolerance, where)
    if type(expected) is not type(actual):
        return f"{where} is a {type(actual).__name__} and should be a {type(expected).__name__}"
    if isinstance(expected, SEQUENCES):
        if len(expected) != len(actual):
            return f"{where} has {len(actual)} elements and should have {len(expected)}"
        found = (
            difference(expected[i], actual[i], tolerance, f"{where}[{i}]")
            for i in range(len(expected))
        )
        return next(filter(None, found), "")
    if isinstance(expected, dict):
        if list(expected) != list(actual):
            return f"{where} has the keys {list(actual)} and should have {list(expected)}"
        return next(
            filter(
                None,
                (
                    difference(expected[key], actual[key], tolerance, f"{where}[{key!r}]")
                    for key in expected
                ),
            ),
            "",
        )
    same = expected == actual or (expected != expected and actual != actual)
    if isinstance(expected, float) and not same:
        same = math.isclose(expected, actual, rel_tol=tolerance, abs_tol=tolerance)
    return "" if same else f"{where} is {actual!r} and should be {expected!r}"


def tensor_difference(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: float, where: str
) -> str:
    for name in ("dtype", "shape", "layout", "is_quantized"):
        if getattr(expected, name) != getattr(actual, name):
            return (
                f"{where} has {name} {getattr(actual, name)} and should have"
                f" {getattr(expected, name)}"
            )
    if expected.is_quantized:
        expected, actual = expected.dequantize(), actual.dequantize()
    if expected.is_floating_point() or expected.is_complex():
        same = torch.allclose(expected, actual, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = torch.equal(expected, actual)  # PyTorch 1.9 has no allclose for bools
    if same:
        return ""
    return (
        f"{where} is {actual.flatten()[:8].tolist()} and should be"
        f" {expected.flatten()[:8].tolist()} (the first elements)"
    )


def result_difference(expected: Result, actual: Result, tolerance: float) -> str:
    if expected.raised or actual.raised:
        same = expected.raised and actual.raised
        return (
            ""
            if same
            else f"the call {'raised ' + str(actual.value) if actual.raised else 'did not raise'}"
        )
    return (
        difference(expected.value, actual.value, tolerance)
        or difference(expected.arguments, actual.arguments, tolerance, "an argument after the call")
        or difference(expected.printed, actual.printed, 0, "the printed text")
        or difference(expected.warned, actual.warned, 0, "the list of warnings")
    )
