"""The zoo: models whose archives the tests read. This file defines a model and registers all of
them.

A model is a function that builds a scripted (or traced, frozen, quantised…) module and says how to
call it. It needs only PyTorch, 1.13 or newer. A PyTorch that cannot build a model leaves it out,
and `without` gives the reason.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

TORCH = tuple(
    int(part) for part in torch.__version__.split("+")[0].replace("a0", "").split(".")[:2]
)


@dataclass
class Call:
    """One call of the module: the method and its arguments. torch.save and torch.load must know the
    arguments.
    """

    method: str
    arguments: tuple[Any, ...]


@dataclass
class Case:
    """A module for torch.jit.save, the calls to compare, and the extra files of its archive."""

    module: torch.nn.Module
    calls: list[Call]
    extra_files: dict[str, str | bytes] = field(default_factory=dict)


@dataclass
class Model:
    name: str
    build: Callable[[], Case]
    flags: list[str]
    without: str | None


MODELS: dict[str, Model] = {}


def model(
    flags: str, *, since: tuple[int, int] = (1, 13), able: bool = True, without: str = ""
) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers a function as a model.

    `without` says why a PyTorch that is older than `since`, or not `able`, cannot build it.
    """

    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        assert build.__name__ not in MODELS, build.__name__
        assert (since == (1, 13) and able) or without, build.__name__
        MODELS[build.__name__] = Model(
            build.__name__, build, flags.split(), without if since > TORCH or not able else None
        )
        return build

    return register


def scripted(module: torch.nn.Module, *arguments: Any, **extra_files: str | bytes) -> Case:
    """Scripts the module in evaluation mode, with one call of forward."""
    return Case(torch.jit.script(module.eval()), [forward(*arguments)], extra_files)


def traced(module: torch.nn.Module, *arguments: Any, **options: Any) -> Case:
    """Traces the module in evaluation mode with these arguments, and calls it with them."""
    return Case(torch.jit.trace(module.eval(), arguments, **options), [forward(*arguments)])


def forward(*arguments: Any) -> Call:
    return Call("forward", arguments)


def ramp(*sizes: int) -> torch.Tensor:
    """Different floats that are small enough for any model."""
    numel = 1
    for size in sizes:
        numel *= size
    return (torch.arange(numel, dtype=torch.float32) / max(numel, 1) - 0.3).reshape(sizes)


@contextlib.contextmanager
def plain_execution() -> Iterator[None]:
    """No fusion, one thread and a fixed seed: the same code gives the same bits, however often it
    was called before.
    """
    torch.manual_seed(7)
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.no_grad(), torch.jit.optimized_execution(False):
        warnings.simplefilter("ignore")
        yield


def plain(value: Any) -> Any:
    """Turns an output into a tree of values that torch.save and torch.load know. A NamedTuple
    becomes a tuple, and an enum its name and value.
    """
    if isinstance(
        value,
        torch.Tensor
        | str
        | bytes
        | bool
        | int
        | float
        | complex
        | torch.device
        | torch.dtype
        | None,
    ):
        return value
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if hasattr(value, "name") and hasattr(value, "value"):
        return ("enum", value.name, plain(value.value))
    raise TypeError(f"an output of type {type(value)} cannot be kept")


def run(module: torch.nn.Module, calls: list[Call]) -> list[Any]:
    """Returns the results of the calls as plain trees. A call that raises gives the name of its
    exception.
    """
    outputs: list[Any] = []
    with plain_execution():
        for call in calls:
            torch.manual_seed(11)
            try:
                outputs.append(plain(getattr(module, call.method)(*call.arguments)))
            except torch.jit.Error:
                outputs.append(("raised",))
    return outputs


def all_models() -> dict[str, Model]:
    """Every model, by name, in the order of the files."""
    import zoo_classes  # noqa: F401
    import zoo_exports  # noqa: F401
    import zoo_language  # noqa: F401
    import zoo_layers  # noqa: F401
    import zoo_values  # noqa: F401

    return MODELS
