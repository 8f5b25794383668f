"""Teaches multiprocessing's pickler to lend tensors, without importing multiprocessing. Importing
tenon installs it.

Plain pickle is not changed. It has no way to lend, and raises TypeError.
"""

from __future__ import annotations

import os
import sys
from _thread import _local

from tenon._native import lib
from tenon._when_imported import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tenon.cuda_event import CudaEvent
    from tenon.multiprocessing import Outgoing
    from tenon.storage import Storage
    from tenon.tensor import Tensor


def _reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    from tenon.multiprocessing import reduce_tensor

    return reduce_tensor(tensor)


def _reduce_storage(storage: Storage) -> tuple[Any, ...]:
    from tenon.multiprocessing import reduce_storage

    return reduce_storage(storage)


def _reduce_event(event: CudaEvent) -> tuple[Any, ...]:
    from tenon.multiprocessing import reduce_event

    return reduce_event(event)


class _Pickling(_local):
    """The state of the message that this thread pickles for multiprocessing."""

    depth = 0
    outgoing: Outgoing | None = None
    collected: list[Tensor] | None = None  # of the message that ForkingPickler.dumps makes
    made: tuple[object, bytes] | None = (
        None  # the bytes of the last message with tensors, and its ticket, until it is sent
    )


pickling = _Pickling()


class Pickled:
    """The message that this thread has pickled last, if another thread will send it. The other
    thread's ForkingPickler.dumps returns the message as it is.

    Make it right after dumps, on the same thread. If nobody sends it, its tensors stay lent until
    the depot's limits take them back.
    """

    def __init__(self, message: Any) -> None:
        self._message = message
        self._made, pickling.made = pickling.made, None

    def take(self) -> Any:
        pickling.made = self._made
        return self._message


def _follow(plain: Callable[[Any, object], None]) -> Callable[[Any, object], None]:
    """Wrap a pickler's dump, so that the reducers know where a message begins and ends.

    If dump fails, the message's deposit is withdrawn.
    """

    def dump(self: Any, obj: object) -> None:
        outer = pickling.outgoing
        pickling.outgoing = None
        pickling.depth += 1
        try:
            plain(self, obj)
        except BaseException:
            if pickling.outgoing is not None:
                pickling.outgoing.withdraw()
            raise
        finally:
            pickling.depth -= 1
            pickling.outgoing = outer

    dump.__doc__ = plain.__doc__
    return dump


def _collect(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a pickler's dumps, so that it deposits all tensors of a message together, after it has
    met the last one.
    """

    def dumps(cls: Any, obj: object, protocol: int | None = None) -> Any:
        if type(obj) is Pickled:
            return obj.take()
        outer = pickling.collected
        collected: list[Tensor] = []
        pickling.collected = collected
        try:
            body = plain(cls, obj, protocol)
        finally:
            pickling.collected = outer
        if not collected:
            return body
        from tenon.multiprocessing import with_tensors

        message, ticket = with_tensors(collected, body, protocol)
        pickling.made = message.obj, ticket
        return message

    dumps.__doc__ = plain.__doc__
    return dumps


def _hand_over() -> None:
    # A queue's feeder thread for which nobody waits (cancel_join_thread) may be importing the
    # module right now. It has lent nothing yet.
    hand_over = getattr(sys.modules.get("tenon.multiprocessing"), "hand_over", None)
    if hand_over is not None:
        hand_over()
    if sys.modules["multiprocessing.process"].parent_process() is not None:
        # A child that multiprocessing forked ends with _exit, which does not notify the library.
        lib.tenon_filename_leave()
    # No thread of this process fetches any more, and a socket that is open at the end causes a
    # ResourceWarning.
    from tenon import _mp_family

    _mp_family.leave()


def _plan_exit(_: object = None) -> None:
    # Registered long before the exit. A finalizer that is added while finalizers run never runs,
    # and the first tensor may be pickled by a queue's feeder thread, for which a finalizer of
    # priority -5 waits. Priority -50 comes after it.
    from multiprocessing import util

    util.Finalize(None, _hand_over, exitpriority=-50)


def _register(reduction: Any) -> None:
    from multiprocessing import util

    from tenon import _mp_family
    from tenon.cuda_event import CudaEvent
    from tenon.storage import Storage
    from tenon.tensor import Tensor

    reduction.register(Tensor, _reduce_tensor)
    reduction.register(Storage, _reduce_storage)
    reduction.register(CudaEvent, _reduce_event)
    reduction.ForkingPickler.dump = _follow(reduction.ForkingPickler.dump)
    reduction.ForkingPickler.dumps = classmethod(_collect(reduction.ForkingPickler.dumps.__func__))
    _plan_exit()
    # Both are needed. A Process drops its parent's finalizers after the at-fork hook, and a plain
    # fork never calls register_after_fork's hooks.
    os.register_at_fork(after_in_child=_plan_exit)
    util.register_after_fork(_plan_exit, _plan_exit)
    try:
        _mp_family.join()
    except OSError:
        # No fd or no socket is available. The calls that need one will raise an error.
        pass


def _mark(plain: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method of a queue that sets the queue's two ends.

    It marks the writing end as a queue's, for tenon._mp_carrier.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self._writer._tenon_is_of_a_queue = True

    method.__doc__ = plain.__doc__
    return method


def _know_queues(queues: Any) -> None:
    queues.Queue._reset = _mark(queues.Queue._reset)
    queues.SimpleQueue.__init__ = _mark(queues.SimpleQueue.__init__)
    queues.SimpleQueue.__setstate__ = _mark(queues.SimpleQueue.__setstate__)


def install() -> None:
    """Install the hooks. Called once, when tenon is imported. A forked child inherits them."""
    when_imported("multiprocessing.queues", "SimpleQueue", _know_queues)
    when_imported("multiprocessing.reduction", "register", _register)
