"""Waits that Ctrl-C ends, and Cancel, which ends waits from another thread. Every call with a
timeout uses run.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import monotonic_ns

from tenon._managed import Managed, own_of
from tenon._native import address_of, ffi, lib, new_struct
from tenon.error import from_status, owned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# A signal that arrives between the interpreter's last check and the kernel's wait does not end the
# wait, and the kernel may deliver it to another thread. So the main thread, the only one that runs
# handlers, waits in slices.
_PIECE_NS = 50_000_000


class Cancel(Managed):
    """Ends waits from another thread or from a signal handler. One Cancel can serve any number of
    waits, at once or in turn.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._cdata = None
        self._cdata = owned("tenon_cancel", lib.tenon_cancel_new)

    def trigger(self) -> None:
        """End every wait that uses this object, now and later, with Cancelled."""
        lib.tenon_cancel_trigger(self._own())

    def reset(self) -> None:
        """Make the object usable again. No wait may be using it."""
        lib.tenon_cancel_reset(self._own())


def runs_handlers() -> bool:
    """Whether this is the thread that runs Python's signal handlers."""
    threading = sys.modules.get("threading")
    return threading is None or threading.main_thread().ident == get_ident()


def run(
    step: Callable[[Any, Any], int],
    timeout: float | None,
    cancel: Cancel | None,
    *,
    whole: bool = False,
) -> None:
    """Call step(wait, error) until it succeeds or the time is over. Between the calls Python's
    signal handlers run.

    With `whole` the step gets all the time at once, because it would begin again in every slice.
    Ctrl-C ends such a wait too, unless the signal arrives between the last check and the wait.
    """
    wait = new_struct("tenon_wait")
    guard = None if cancel is None else own_of(cancel, Cancel, "cancel")
    if guard is not None:
        wait.cancel = guard
    error = ffi.new("tenon_error **")
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout {timeout} is negative; None waits for ever")
    # A timeout of more than 4e9 seconds is treated as no timeout, because 2**62 ns is the limit.
    deadline = None if timeout is None or timeout > 4e9 else monotonic_ns() + int(timeout * 1e9)
    piece = None
    if runs_handlers():
        wait.flags = lib.TENON_WAIT_INTERRUPTIBLE
        piece = None if whole else _PIECE_NS
    left: int | None = None
    while True:
        if timeout == 0:
            wait.timeout_ns = 0
        elif deadline is None:
            wait.timeout_ns = -1 if piece is None else piece
        else:
            left = max(deadline - monotonic_ns(), 1)
            wait.timeout_ns = left if piece is None else min(left, piece)
        status = step(wait, error)
        if status == lib.TENON_OK:
            return
        address = address_of(error[0])
        again = status == lib.TENON_INTERRUPTED or (
            status == lib.TENON_TIMEOUT and (deadline is None or monotonic_ns() < deadline)
        )
        if not again:
            raise from_status(status, address)
        lib.tenon_error_release(error[0])
        error[0] = ffi.NULL


# By the kind of an object: the type of a pointer to the result, and the functions that release the
# object, and the object to which such a pointer leads.
_results: dict[str, tuple[Any, Any, Any]] = {}


def waited(
    kind: str,
    function: Any,
    *arguments: Any,
    timeout: float | None,
    cancel: Cancel | None,
    whole: bool = False,
) -> Any:
    """As owned(), for a function that has a wait before its last two parameters.

    The result has an owner at each moment after the call, because a signal handler may raise an
    exception then. DataLoader's handler does when a worker dies.
    """
    if kind not in _results:
        free = getattr(lib, f"{kind}_release")
        _results[kind] = ffi.typeof(f"{kind} **"), free, lambda out: free(out[0])
    pointer_to, release, release_in = _results[kind]
    out = ffi.gc(ffi.new(pointer_to), release_in)
    run(lambda wait, error: function(*arguments, wait, out, error), timeout, cancel, whole=whole)
    pointer = out[0]
    out[0] = ffi.NULL
    return ffi.gc(pointer, release)
