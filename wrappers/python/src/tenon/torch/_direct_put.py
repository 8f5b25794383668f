"""A multiprocessing.Queue.put that writes a small message itself, in the caller's thread.
tenon.torch.install() puts it in place.

CPython's put hands the object to a thread of the queue's, which pickles and writes it. Two threads
must wake up for a message that takes microseconds to make. While the strategy "tenon" is chosen,
this put writes the message to the pipe if

- the queue's thread waits, so that every earlier object is written,
- the object is light: pickling copies little, and PyTorch refuses none of its tensors,
- no other process writes to the pipe, and the pipe has room for the message.

Otherwise the queue's thread gets the object, or its bytes if it is pickled already. So put never
waits for a reader, and messages of one thread arrive in its order. The thread starts with the first
put, as in CPython, and close(), join_thread() and the exit of the process find the state that they
expect.
"""

from __future__ import annotations

import select
from functools import wraps
from multiprocessing import reduction
from pickle import PicklingError
from queue import Full

import torch

from tenon._mp_hook import Pickled
from tenon._native_ext import torch_find
from tenon.error import TenonError
from tenon.torch import _storage, _strategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HEADER_NBYTES = 4  # the size of the header that CPython's Connection writes before a message
_MOST_TENSORS = 8
_MOST_ITEMS = 512
_MOST_CHARACTERS = 1024
_MOST_DEPTH = 4

_NUMBERS = frozenset((int, float, bool, type(None)))
_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))


def _is_light_tensor(tensor: Any) -> bool:
    """Whether a tensor is lent in constant time, or moves with a copy of few bytes."""
    if (
        not tensor.is_cpu
        or tensor.layout is not torch.strided
        or (tensor.requires_grad and not tensor.is_leaf)
    ):
        return False
    return (
        _storage.untyped_of(tensor).nbytes() <= _storage.SMALL_NBYTES
        or torch_find(tensor) is not None
    )


class _Look:
    """One inspection of an object that is put, with its counts."""

    __slots__ = ("items", "tensors")

    def __init__(self) -> None:
        self.items = self.tensors = 0

    def is_light(self, what: Any, depth: int = 0) -> bool:
        kind = type(what)
        if kind in _TENSORS:
            self.tensors += 1
            return self.tensors <= _MOST_TENSORS and _is_light_tensor(what)
        if kind is str or kind is bytes:
            return len(what) <= _MOST_CHARACTERS
        if kind is dict:
            return self.is_light(tuple(what), depth) and self.is_light(tuple(what.values()), depth)
        if kind is tuple or kind is list:
            self.items += len(what)
            if self.items > _MOST_ITEMS or depth == _MOST_DEPTH:
                return False
            return _NUMBERS.issuperset(map(type, what)) or all(
                self.is_light(item, depth + 1) for item in what
            )
        return kind in _NUMBERS


def _waits(queue: Any) -> bool:
    """Whether the queue's thread has written every object that was put."""
    with queue._notempty:
        return not queue._buffer and bool(getattr(queue._notempty, "_waiters", None))


def _is_writable(queue: Any) -> bool:
    look = select.poll()
    look.register(queue._writer, select.POLLOUT)
    return look.poll(0) == [(queue._writer.fileno(), select.POLLOUT)]


def _write(queue: Any, message: Any) -> bool:
    """Write a message, if that needs no waiting. A pipe with room takes PIPE_BUF bytes at once."""
    if len(message) > select.PIPE_BUF - _HEADER_NBYTES or not queue._wlock.acquire(False):
        return False
    try:
        if not _is_writable(queue):
            return False
        queue._send_bytes(message)
        return True
    finally:
        queue._wlock.release()


def _put_now(queue: Any, what: Any) -> None:
    """Put an object for which the queue's semaphore has been acquired.

    If pickling or writing fails here, the queue's thread gets the object, tries again and reports
    the error as in CPython. The semaphore is released only if nothing can have been written,
    because one release too many would make a reader lose a message.
    """
    left = what
    try:
        message = reduction.ForkingPickler.dumps(what)
    except (TenonError, PicklingError):
        pass
    except BaseException:
        queue._sem.release()
        raise
    else:
        try:
            if _write(queue, message):
                return
            left = Pickled(message)
        except OSError:
            pass  # the message's tensors have been taken back (tenon._mp_carrier)
    with queue._notempty:
        queue._buffer.append(left)
        queue._notempty.notify()


def putting(plain: Callable[..., None]) -> Callable[..., None]:
    """Wrap CPython's multiprocessing.Queue.put."""

    @wraps(plain)
    def put(self: Any, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        if (
            self._closed
            or not _strategy.is_current()
            or not _waits(self)
            or not _Look().is_light(obj)
        ):
            plain(self, obj, block, timeout)
            return
        if not self._sem.acquire(block, timeout):
            raise Full
        _put_now(self, obj)

    return put
