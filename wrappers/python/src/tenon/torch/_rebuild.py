"""Makes the torch tensors and storages of a message, for multiprocessing's unpickler. _reducers
writes them. Imports torch.

torch is imported first, because its import may install the sharing strategy. That needs this
module's name and none of its functions.

pick_storage and pick_tensor work only while this thread loads a message. The senders belong to this
process's multiprocessing family and are trusted, so the numbers in a message are not checked. A
tensor or storage keeps its memory, and with it the lease, alive.
"""

from __future__ import annotations

import torch

from tenon import _mp_hook, _native_ext, multiprocessing
from tenon import _strategy as _tenon_strategy
from tenon._torch_dlpack import with_math_bits
from tenon.multiprocessing import canonical, pick
from tenon.storage import Storage
from tenon.tensor import Tensor
from tenon.torch import _composite, _storage, _strategy
from tenon.torch._exchange import torch_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon.torch._storage import Place


_PLAIN = (False, False, 0)
"""The most common properties of a tensor: it does not require a gradient, is no Parameter, and has
neither the conjugate nor the negative bit.
"""


def rebuild_storage(storage: Storage, begin: int, nbytes: int) -> Any:
    """Make the torch storage of a message."""
    # Recognising the memory lets this process lend it on, and not move it away from the other
    # processes.
    _strategy.recognise()
    return _storage.over(canonical(storage), begin, nbytes)


def pick_storage(number: int) -> Any:
    """A torch storage of the message that this thread loads."""
    storage = pick(number).storage
    return rebuild_storage(storage, 0, storage.nbytes)


def pick_tensor(number: int, more: tuple[bool, bool, int] = _PLAIN) -> Any:
    """A torch tensor of the message that this thread loads."""
    if more is _PLAIN:
        tensor = _native_ext.torch_pick(number)
        if tensor is not None:
            return tensor
    _strategy.recognise()
    return _finish(_storage.tensor_over(pick(number)), more)


def rebuild_tensor(
    place: Place, form: tuple[Any, ...], more: tuple[bool, bool, int] = _PLAIN
) -> Any:
    """Make the torch tensor of a message."""
    dtype, offset, size, stride = form
    return _finish(
        torch.empty(0, dtype=dtype).set_(rebuild_storage(*place), offset, size, stride), more
    )


def rebuild_apart(*state: Any) -> Any:
    """Make the torch tensor of a message that was taken apart."""
    return _composite.assemble(_composite.TakenApart(*state), torch_dtype)


def _finish(tensor: Any, more: tuple[bool, bool, int]) -> Any:
    requires_grad, is_parameter, bits = more
    if bits:
        tensor = with_math_bits(tensor, bits)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


_native_ext.torch_setup(
    (
        torch.Tensor,
        torch.strided,
        _storage.numbers(),
        _storage.numbers_in_every_dlpack(),
        torch._C._from_dlpack,
        _storage.count_storage(),
        _strategy.is_current,
        _strategy.recognise,
        _strategy.is_shared_by_torch,
        _tenon_strategy,
        _tenon_strategy.FILE_SYSTEM,
        _mp_hook.pickling,
        multiprocessing._loading,
        _storage.known,
        _storage.locks,
        Tensor,
        pick_tensor,
        "has_names" if hasattr(torch.Tensor, "has_names") else None,
        "untyped_storage" if _storage.has_untyped_storage() else "_storage",
        _storage.has_swap(),
        torch.UntypedStorage,
        _storage.let_go,
    )
)
