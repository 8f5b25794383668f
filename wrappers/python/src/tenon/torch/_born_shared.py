"""The mode that tenon.torch.born_shared enters. Imports torch."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from tenon.torch import _storage, _strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The functions that make a tensor, which no other code has seen yet. as_tensor is not one of them,
# and neither is a call with out: they return a tensor that its caller has, and perhaps numpy, too.
_FACTORIES = frozenset(
    getattr(torch, name)
    for name in (
        "arange",
        "clone",
        "empty",
        "empty_like",
        "empty_strided",
        "eye",
        "full",
        "full_like",
        "linspace",
        "logspace",
        "normal",
        "ones",
        "ones_like",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "stack",
        "cat",
        "tensor",
        "zeros",
        "zeros_like",
    )
)


class BornShared(TorchFunctionMode):  # type: ignore[misc]
    """Moves the results of torch's factories into Tenon's shared memory, in the thread that has
    entered this mode. It moves plain, strided tensors on the CPU that are not empty. All other
    results stay where they are. Raises ResourceExhausted if there is no room.
    """

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        result = function(*arguments, **(options or {}))
        if (
            function in _FACTORIES
            and type(result) is torch.Tensor
            and not (options and options.get("out") is not None)
            and _storage.is_movable(result)
        ):
            _storage.place_of_tensor(result)
        return result

    def __enter__(self) -> Any:
        _strategy.recognise()
        return super().__enter__()
