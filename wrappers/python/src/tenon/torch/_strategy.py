"""The sharing strategy "tenon" of torch.multiprocessing: adds it, hands it to children, and removes
it again. tenon.torch exports install and uninstall.

There are two degrees. A process that recognises Tenon's memory lends on the tensors that lie there,
and moves no others. A process in which the strategy is installed also moves private memory to
Tenon's when it is lent, as PyTorch's own strategies move it to their files.

recognise is safe from any thread. install and uninstall take no lock: call them while no other
thread calls them or sends torch tensors. A forked child inherits the state of its parent.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import wraps
from importlib import import_module

from tenon._when_imported import when_imported
from tenon.torch._exchange import require_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAME = "tenon"
_DEFAULT = "file_descriptor"
_CONFIG_KEY = "tenon_torch"

_ABSENT = object()
_attributes: list[
    tuple[Any, str, Any]
] = []  # the attributes that this module has replaced: owner, name, former value
_plain_is_shared: Callable[[Any], bool] | None = None  # PyTorch's UntypedStorage.is_shared
_reducers: dict[
    type, Any
] = {}  # PyTorch's reducers, which Tenon's reducers replace in the pickler's table
_lock = (
    threading.RLock()
)  # two threads may call recognise at once, when their first messages arrive
_former_strategy: str | None = None  # the strategy before install. None: "tenon" is not installed


def installed() -> bool:
    """Whether torch.multiprocessing has the sharing strategy "tenon"."""
    return _former_strategy is not None


def is_shared_by_torch(untyped: Any) -> bool:
    """Whether a torch storage lies in memory that PyTorch itself shares."""
    return bool(untyped.is_shared() if _plain_is_shared is None else _plain_is_shared(untyped))


def is_current() -> bool:
    """Whether "tenon" is this process's sharing strategy."""
    return (
        _former_strategy is not None
        and sys.modules["torch.multiprocessing"]._sharing_strategy == NAME
    )


def install() -> None:
    """Add the sharing strategy "tenon" to torch.multiprocessing, and choose it. Imports torch. A
    further call chooses it again.

    From then on the CPU tensors that this process sends by multiprocessing's carriers lie in
    Tenon's memory and are lent under leases. The carriers are queues, pipes, pools, managers,
    executors and DataLoader. Children that are started from now on have the strategy too, whatever
    the start method. share_memory_() moves to Tenon's memory, and is_shared() knows it. Queue.put
    writes small messages itself.

    torch.multiprocessing.set_sharing_strategy chooses between the strategies. PyTorch's own two
    remain available.

    Raises ModuleNotFoundError if there is no PyTorch.
    """
    global _former_strategy
    require_torch()
    torch = import_module("torch")
    multiprocessing = import_module(
        "torch.multiprocessing"
    )  # torch may be in the middle of importing it
    recognise()
    if _former_strategy is None:
        _former_strategy = multiprocessing.get_sharing_strategy()
        multiprocessing.get_all_sharing_strategies().add(NAME)
        _replace(
            torch.UntypedStorage,
            "_new_shared",
            classmethod(_new_shared(torch.UntypedStorage._new_shared.__func__)),
        )
        queue = import_module("multiprocessing.queues").Queue
        _replace(queue, "put", import_module("tenon.torch._direct_put").putting(queue.put))
        _tell_children()
    multiprocessing.set_sharing_strategy(NAME)


def uninstall() -> None:
    """Remove the sharing strategy "tenon", and restore everything that install replaced.

    Tensors that lie in Tenon's memory at that moment stay there and can still be sent. But their
    is_shared() is False from then on, and share_memory_() copies them away from the processes that
    share them.
    """
    global _former_strategy, _awaits_torch
    if _awaits_torch:
        _awaits_torch = False
        _tell_children()
    if _former_strategy is None:
        return
    import torch.multiprocessing

    from tenon.torch import _storage

    if torch.multiprocessing.get_sharing_strategy() == NAME:
        torch.multiprocessing.set_sharing_strategy(_former_strategy)
    _former_strategy = None
    torch.multiprocessing.get_all_sharing_strategies().discard(NAME)
    _tell_children()
    while _attributes:
        owner, name, former = _attributes.pop()
        if former is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, former)
    if not _storage.any_alive():
        _restore_reducers()


# ---- the replacements


def _replace(owner: Any, name: str, value: Any) -> None:
    _attributes.append((owner, name, vars(owner).get(name, _ABSENT)))
    setattr(owner, name, value)


def recognise() -> None:
    """Make this process lend torch tensors and storages from Tenon's memory, if they lie there.

    A further call does nothing.
    """
    if _attributes and _reducers:
        return
    with _lock:
        _recognise()


def _recognise() -> None:
    import torch

    from tenon.torch import _reducers as reducers

    if not _reducers:
        from multiprocessing import reduction

        table: dict[type, Any] = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        for kind in (torch.Tensor, torch.nn.parameter.Parameter):
            _reducers[kind] = table[kind]
            reduction.register(kind, reducers.reducer_of_tensors(table[kind]))
        _reducers[torch.UntypedStorage] = table[torch.UntypedStorage]
        reduction.register(
            torch.UntypedStorage, reducers.reducer_of_storages(table[torch.UntypedStorage])
        )
    if not _attributes:
        global _plain_is_shared
        _plain_is_shared = torch.UntypedStorage.is_shared
        _replace(torch.UntypedStorage, "is_shared", _is_shared(_plain_is_shared))
        _replace(
            torch.UntypedStorage, "share_memory_", _share_memory(torch.UntypedStorage.share_memory_)
        )
        _replace(torch.Tensor, "share_memory_", _share_memory_of_tensor(torch.Tensor.share_memory_))


def _restore_reducers() -> None:
    from multiprocessing import reduction

    for kind, reducer in _reducers.items():
        reduction.register(kind, reducer)
    _reducers.clear()


def _is_on_cpu(untyped: Any) -> bool:
    return bool(untyped.device.type == "cpu" and untyped.nbytes())


def _is_shared(plain: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @wraps(plain)
    def is_shared(self: Any) -> bool:
        from tenon.torch import _storage

        return bool(plain(self) or (_is_on_cpu(self) and _storage.find(self) is not None))

    return is_shared


def _share_memory(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def share_memory_(self: Any, *arguments: Any, **options: Any) -> Any:
        from tenon.torch import _storage

        if _is_on_cpu(self):
            if is_current():
                _storage.place(self)
                return self
            if _storage.find(self) is not None:
                return self
        return plain(self, *arguments, **options)

    return share_memory_


def _share_memory_of_tensor(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(plain)
    def share_memory_(self: Any) -> Any:
        import torch

        from tenon.torch import _storage

        # With the tensor at hand more of them can be moved in place. Subclasses have rules of their
        # own.
        if (
            type(self) in (torch.Tensor, torch.nn.Parameter)
            and is_current()
            and _storage.is_movable(self)
        ):
            _storage.place_of_tensor(self)
            return self
        return plain(self)

    return share_memory_


def _is_collate(frame: Any) -> bool:
    """Whether PyTorch's own collate asked for the storage. torch.stack then writes all of it."""
    while frame is not None and frame.f_globals.get("__name__") == "torch.storage":
        frame = frame.f_back  # TypedStorage._new_shared
    if frame is None or frame.f_code.co_name != "collate_tensor_fn":
        return False
    return bool(frame.f_globals.get("__name__") == "torch.utils.data._utils.collate")


def _new_shared(plain: Callable[..., Any]) -> Callable[..., Any]:
    # DataLoader's workers collate their batches in such storages. All bytes are 0 for any other
    # caller, because PyTorch gives each caller a new file.
    @wraps(plain)
    def new_shared(cls: Any, size: int, *, device: Any = "cpu") -> Any:
        import torch

        if size and is_current() and torch.device(device).type == "cpu":
            from tenon.torch import _storage

            will_fill = _is_collate(sys._getframe().f_back)
            return _storage.new(size, zeroed=not will_fill, will_fill=will_fill)
        return plain(cls, size, device=device)

    return new_shared


# ---- children


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


_awaits_torch = (
    False  # a parent has handed the strategy down, and this process has not imported torch
)


class _Inherited:
    """An entry in the configuration that a process hands to its children.

    A child of spawn or forkserver installs the strategy when it unpickles this object.
    """

    def __init__(self, is_current: bool) -> None:
        # Whether the parent had chosen "tenon". Only a child that has not imported torch reads
        # this.
        self._is_current = is_current

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (is_current() if installed() else self._is_current,)


def _tell_children() -> None:
    from multiprocessing import process

    config = process.current_process()._config  # type: ignore[attr-defined]
    if installed():
        config[_CONFIG_KEY] = _Inherited(is_current=True)
    else:
        config.pop(_CONFIG_KEY, None)


def _arrive(is_current: bool) -> _Inherited:
    global _awaits_torch
    _awaits_torch = True

    def install_here(module: Any) -> None:
        global _awaits_torch
        if not _awaits_torch:
            return  # uninstall was called meanwhile
        _awaits_torch = False
        install()
        if not is_current:
            module.set_sharing_strategy(
                _DEFAULT
            )  # PyTorch's children begin with this one, whatever their parent has chosen

    # A child that never imports torch is not forced to.
    when_imported("torch.multiprocessing", "reductions", install_here)
    return _Inherited(is_current)
