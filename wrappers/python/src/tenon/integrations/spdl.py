"""An arena for SPDL's iterate_in_subprocess(fn, arena=...) that is made of Tenon's memory. SPDL
itself is not imported.

The worker process copies the large parts of each item into the arena, and the consumer gets views
of them. SPDL calls one item a unit. Arena implements the protocol of
spdl.pipeline._arena._protocol: open_writer, open_reader, close, unlink and shutdown_arena.

The whole arena is one Tenon storage of mode "shared". It has no name, so nothing can be left behind
in /dev/shm. A worker of spawn or forkserver gets its fd when it is started, and a worker of fork
inherits the mapping. tenon.multiprocessing's deposits are not used: they need a socket with a name,
which a killed parent leaves behind, and the arena goes to one process that is known when it starts.

Only the writer allocates. It keeps the list of holes in its own process, and takes the first hole
that is large enough. So memory that was released lately is used again first, while the caches still
have it. The reader only tells the writer which units are released, in any order. A consumer that
holds one item for long does not keep the writer from the rest of the arena.

The storage begins with a header of 64-bit words, and no lock is shared. A process that is killed at
any moment leaves no lock taken.

- units: the writer notes the begin and the size of each unit, under the unit's number modulo the
  length of the table. SPDL hands the units to the reader in order, so the reader counts them. The
  upper bits of a binary's offset are the number too, for a reader that missed one. The message that
  announces a unit goes through a pipe, which orders it after the note.
- releases: the reader writes the number of a released unit, plus 1, into the next word of a ring.
  The writer reads the word and sets it to 0. One word says everything, so the two sides need no
  order between several words. Both tables have one place for each unit that may be alive, and the
  writer waits when there is none.
- WAITING: a writer without room sets this word and sleeps on a pipe, the bell. The reader writes to
  the bell only if the word is set. While both sides are awake, a unit costs no system call here.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from bisect import bisect_left
from collections import deque

from tenon import _dtype
from tenon.error import PeerGone, TenonError, make
from tenon.storage import Storage
from tenon.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

    from typing_extensions import Buffer

    from tenon.by_fd import FdHandle

__all__ = ["Arena"]

_UINT8 = _dtype.number_of("uint8")

_ALIGNMENT = 64
"""The alignment of each binary, in bytes. Views of wide elements are aligned, and no two binaries
share a cache line.
"""

_PAGE_NBYTES = 4096

# Words of the header. The writer's and the parent's words lie in different cache lines.
_WAITING = 0  # set by the writer while it sleeps on the bell
_WRITER = 1  # set by the writer: its pid
_STOPPED = 8  # set by the parent when shutdown_arena is called
_TABLES = 16  # the first word of the tables

_MIN_UNITS = 1024
_MAX_UNITS = 1 << 16

_NUMBER_SHIFT = 48
"""The first bit of the unit's number in an offset that SPDL carries. The lower bits are the byte in
the unit.
"""

_RECHECK_MILLISECONDS = 50
"""How long the writer sleeps before it looks without a bell, in milliseconds.

On a machine with weak memory order the bell may stay silent once.
"""


def _aligned(nbytes: int) -> int:
    return (nbytes + _ALIGNMENT - 1) & -_ALIGNMENT


_fence_lock = threading.Lock()


def _fence() -> None:
    """Make earlier stores visible before later loads. Python has no fence, but taking a lock is one
    on x86.

    Another thread that has the lock at this moment does the same work.
    """
    if _fence_lock.acquire(blocking=False):
        _fence_lock.release()


class _Layout:
    """The places of the parts of the storage. Both sides compute them from the capacity alone."""

    __slots__ = ("capacity", "data", "max_units", "nbytes", "releases")

    def __init__(self, capacity: int) -> None:
        self.capacity = _aligned(capacity)
        # SPDL offloads binaries of 4096 bytes and more.
        self.max_units = min(max(_MIN_UNITS, capacity // 4096), _MAX_UNITS)
        self.releases = _TABLES + 2 * self.max_units
        header = 8 * (self.releases + self.max_units)
        self.data = (header + _PAGE_NBYTES - 1) & -_PAGE_NBYTES
        self.nbytes = self.data + self.capacity

    def words(self, storage: Storage) -> memoryview:
        # Items of a view of format Q are loaded and stored whole, unlike those of struct with "<Q".
        return memoryview(storage)[: self.data].cast("Q")


class Arena:
    """Shared memory for the units of one iterate_in_subprocess. Make it in the parent process and
    pass it as arena=....

    - capacity: The bytes for all units that are written, waiting or held by the consumer. One unit
      may have all of it. The memory is reserved before the call returns.
    - acquire_timeout: The seconds that the worker waits for room before it raises BufferError. With
      0 it does not wait.
    - zero_copy: True gives the consumer writable views of the arena. bytes and bytearray arrive as
      memoryview, as from SPDL's own SharedMemorySegmentPool. The memory of a unit is used again
      when the last view is gone, including slices and views by other libraries. False gives copies
      of the type that was sent, as SPDL's SharedMemoryRingBuffer does, and the memory is used again
      at once.

    The iterable that iterate_in_subprocess returns owns the arena and closes it. Views that the
    consumer still has stay valid afterwards.
    """

    def __init__(
        self, capacity: int, *, acquire_timeout: float = 60.0, zero_copy: bool = True
    ) -> None:
        if capacity <= 0:
            raise ValueError(f"capacity {capacity} is not a positive number of bytes")
        if not 0 <= acquire_timeout < 1e9:
            raise ValueError(f"acquire_timeout {acquire_timeout} is not a number of seconds")
        from multiprocessing.connection import Pipe

        from tenon.by_fd import share_fd

        self._capacity = capacity
        self._acquire_timeout = acquire_timeout
        self._zero_copy = zero_copy
        self._pid = os.getpid()
        self._layout = _Layout(capacity)
        # An isolated storage's memory returns to the system with its last holder.
        storage = Storage.new(self._layout.nbytes, isolated=True)
        words = self._layout.words(storage)
        # A fresh memfd is 0, but Tenon may give out memory that was used before.
        words[:] = memoryview(bytes(words.nbytes)).cast("Q")
        self._storage: Storage | None = storage
        # The handle stays open, because multiprocessing passes the fd on some time after
        # __getstate__.
        self._handle: FdHandle | None = share_fd(storage)
        self._listen, ring = Pipe(duplex=False)
        self._releases: _Releases | None = _Releases(words, self._layout, ring)
        self._reader: _Reader | None = None

    def __getstate__(self) -> dict[str, Any]:
        from multiprocessing.reduction import DupFd

        self._opened()
        handle = self._handle
        if handle is None:
            raise ValueError(
                "this SPDL arena has a worker already: give each iterate_in_subprocess an Arena of"
                " its own"
            )
        return {
            "capacity": self._capacity,
            "acquire_timeout": self._acquire_timeout,
            "zero_copy": self._zero_copy,
            "pid": self._pid,
            "fd": DupFd(handle.fd),
            "place": (handle.nbytes, handle.offset),
            "listen": self._listen,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        from tenon.by_fd import open_fd

        self._capacity = state["capacity"]
        self._acquire_timeout = state["acquire_timeout"]
        self._zero_copy = state["zero_copy"]
        self._pid = state["pid"]
        self._layout = _Layout(self._capacity)
        self._storage = open_fd(state["fd"].detach(), *state["place"], adopt=True)
        self._handle = None
        self._listen = state["listen"]
        self._releases = None  # only the parent releases
        self._reader = None

    @property
    def capacity(self) -> int:
        """The number of bytes for units."""
        return self._capacity

    @property
    def closed(self) -> bool:
        """Whether close was called in this process."""
        return self._storage is None

    def _opened(self) -> Storage:
        storage = self._storage
        if storage is None:
            raise ValueError(
                "this SPDL arena is already closed: give each iterate_in_subprocess an Arena of"
                " its own"
            )
        return storage

    def open_writer(self) -> _Writer:
        """Make the worker's end. An arena has one."""
        storage = self._opened()
        if self._releases is not None and os.getpid() != self._pid:
            # A forked worker has inherited the parent's end of the bell, and would never notice the
            # parent's death.
            self._releases.abandon()
            self._releases = None
            self._close_handle()
        return _Writer(
            storage, self._layout, self._listen, self._capacity, self._acquire_timeout, self._pid
        )

    def open_reader(self) -> _Reader:
        """Make the parent's end. An arena has one, in the process that made the arena."""
        storage = self._opened()
        if self._releases is None or os.getpid() != self._pid:
            raise ValueError(
                f"the SPDL arena is read by the process that made it, {self._pid}, and this is"
                f" process {os.getpid()}"
            )
        if self._reader is not None:
            raise ValueError(
                "this SPDL arena has a reader already: give each iterate_in_subprocess an Arena of"
                " its own"
            )
        self._reader = _Reader(storage, self._layout, self._releases, self._zero_copy)
        # SPDL opens the reader after the worker has started, and there is only one worker.
        self._close_handle()
        return self._reader

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def shutdown_arena(self) -> None:
        """Make a worker that waits for room raise BufferError now. A further call does nothing."""
        if self._releases is not None:
            self._releases.stop()

    def close(self) -> None:
        """Release the memory, as soon as the last view of a unit is gone. A further call does
        nothing.
        """
        if self._storage is None:
            return
        self._storage = None
        self._close_handle()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        releases, self._releases = self._releases, None
        if releases is not None:
            releases.close()
        self._listen.close()

    def unlink(self) -> None:
        """Do nothing: Tenon's memory has no name that could be removed."""

    def __repr__(self) -> str:
        return (
            "<tenon.integrations.spdl.Arena:"
            f" {'closed' if self.closed else f'{self._capacity} bytes'}>"
        )


# ---- the parent


_all_releases: weakref.WeakSet[_Releases] = weakref.WeakSet()


def _after_in_child() -> None:
    # The child has copies of the parent's views. When they go, no unit is released.
    for releases in list(_all_releases):
        releases.is_foreign = True


os.register_at_fork(after_in_child=_after_in_child)


class _Releases:
    """Tells the writer which units are released.

    Any thread may let go of a unit's last view and so release it. The garbage collector may do that
    inside any statement of this class. So no method waits for the lock. A method queues its order,
    and the thread that has the lock carries it out.
    """

    _STOP = -1
    _CLOSE = -2

    def __init__(self, words: memoryview, layout: _Layout, bell: Connection) -> None:
        self._words: memoryview | None = words
        self._bell = bell
        self._begin = layout.releases
        self._end = layout.releases + layout.max_units
        self._next = self._begin
        self._orders: deque[int] = deque()
        self._lock = threading.Lock()
        self.is_foreign = False
        # A bell that is full rings already.
        os.set_blocking(bell.fileno(), False)
        _all_releases.add(self)

    def release(self, number: int) -> None:
        """Give a unit's memory back to the writer."""
        self._orders.append(number)
        self._carry_out()

    def stop(self) -> None:
        """Wake the writer for good."""
        self._orders.append(self._STOP)
        self._carry_out()

    def close(self) -> None:
        """Stop the writer, and send it nothing any more."""
        self._orders.append(self._STOP)
        self._orders.append(self._CLOSE)
        self._carry_out()

    def abandon(self) -> None:
        """Close a forked child's copy of the bell."""
        self.is_foreign = True
        self._words = None
        self._bell.close()

    def _carry_out(self) -> None:
        orders = self._orders
        # The loop checks again after the lock is free, because another thread may have queued an
        # order just before.
        while orders and not self.is_foreign and self._lock.acquire(blocking=False):
            try:
                while orders:
                    self._carry_out_one(orders.popleft())
                self._ring_if_waiting()
            finally:
                self._lock.release()

    def _carry_out_one(self, order: int) -> None:
        words = self._words
        if words is None:
            return
        if order >= 0:
            # The word is 0, because the ring has a place for each unit that may be alive.
            words[self._next] = order + 1
            self._next = self._next + 1 if self._next + 1 < self._end else self._begin
        elif order == self._STOP:
            words[_STOPPED] = 1
        else:
            self._ring_if_waiting()
            self._words = None
            self._bell.close()

    def _ring_if_waiting(self) -> None:
        words = self._words
        if words is None:
            return
        _fence()
        if words[_WAITING]:
            try:
                os.write(self._bell.fileno(), b"\0")
            except (BlockingIOError, BrokenPipeError):
                pass  # the bell rings already, or the writer is dead


class _Unit(Tensor):
    """The bytes of a unit that the consumer has.

    Every view of the bytes refers to this object, which is destroyed with the last view.
    """

    __slots__ = ("_unit_number", "_unit_releases")
    _unit_releases: _Releases
    _unit_number: int

    def __del__(self) -> None:
        self._unit_releases.release(self._unit_number)


# Objects of these libraries hold the buffer from which they were made, as a memoryview does. They
# need no watching.
_HOLDERS = frozenset({"numpy", "torch"})


class _Reader:
    """The reading side, for SPDL's consumer thread."""

    def __init__(
        self, storage: Storage, layout: _Layout, releases: _Releases, zero_copy: bool
    ) -> None:
        # SPDL reports the units that it skips to a reader only if this is True. For a copying
        # reader it is False while a unit is read, because SPDL then asks whether a binary is a
        # copy. Without the reports a waiting worker and a restarting parent would wait for each
        # other.
        self.zero_copy = True
        self._copies = not zero_copy
        self._storage: Storage | None = storage
        self._words = layout.words(storage)
        self._data = layout.data
        self._max_units = layout.max_units
        self._releases = releases
        self._next = 0
        self._unit: memoryview | None = None

    def reset(self) -> None:
        """Begin an iteration. Units of which the consumer has views stay."""

    def read_binary(self, offset: int, nbytes: int) -> Any:
        """The bytes of one binary of the current unit, as a memoryview."""
        if self._copies:
            self.zero_copy = False
        if not nbytes:
            return memoryview(bytearray())
        unit = self._unit
        if unit is None:
            unit = self._unit = self._open_unit(offset >> _NUMBER_SHIFT)
        begin = offset & ((1 << _NUMBER_SHIFT) - 1)
        view = unit[begin : begin + nbytes]
        if view.nbytes != nbytes:
            raise ValueError(
                f"a binary of {nbytes} bytes at byte {begin} does not lie in unit {self._next} of"
                f" the SPDL arena, which has {unit.nbytes} bytes: give the reader what this arena's"
                " writer returned"
            )
        return memoryview(bytearray(view)) if self._copies else view

    def _open_unit(self, number: int) -> memoryview:
        storage = self._storage
        if storage is None:
            raise ValueError(
                "this SPDL arena is already closed: read its items before the iterable ends"
            )
        if number < self._next:
            raise ValueError(
                f"unit {number} of the SPDL arena was read before: read each item once, in order"
            )
        while self._next < number:
            # An exception between SPDL's queue and this call has lost this unit.
            self._releases.release(self._next)
            self._next += 1
        place = _TABLES + 2 * (number % self._max_units)
        begin, nbytes = self._words[place], self._words[place + 1]
        if self._copies:
            return memoryview(storage)[self._data + begin : self._data + begin + nbytes]
        unit = _Unit._new(storage, _UINT8, (nbytes,), None, self._data + begin, 0)
        unit._unit_releases, unit._unit_number = self._releases, number
        return memoryview(unit)

    def end_unit(self, span: int, pinned: list[object]) -> None:
        """Leave a unit to the objects that have views of it."""
        self.zero_copy = True
        if not span:
            return  # a unit without binaries has no number
        number = self._next
        self._next = number + 1
        unit, self._unit = self._unit, None
        if unit is None or self._copies:
            self._releases.release(number)
            return
        for anchor in pinned:
            if (
                type(anchor) is not memoryview
                and type(anchor).__module__.partition(".")[0] not in _HOLDERS
            ):
                # An object that may only know the address keeps the unit alive by this reference,
                # until the object goes.
                weakref.finalize(anchor, unit.release).atexit = False
        # If nobody has a view, the unit is released here.

    def close(self) -> None:
        """Release the arena's memory. Views of units keep it alive."""
        self._storage = None
        self._words = memoryview(b"")
        self._unit = None


# ---- the worker


class _Writer:
    """The writing side, for SPDL's worker. Only one thread uses it."""

    def __init__(
        self,
        storage: Storage,
        layout: _Layout,
        bell: Connection,
        capacity: int,
        acquire_timeout: float,
        parent: int,
    ) -> None:
        self._words = layout.words(storage)
        other = self._words[_WRITER]
        if other:
            raise ValueError(
                f"the SPDL arena is written by process {other} already: give each"
                " iterate_in_subprocess an Arena of its own"
            )
        self._words[_WRITER] = os.getpid()
        self._bytes = memoryview(storage)[layout.data :]
        self._capacity = capacity
        self._acquire_timeout = acquire_timeout
        self._max_units = layout.max_units
        self._releases_begin = layout.releases
        self._releases_end = layout.releases + layout.max_units
        self._next_release = layout.releases
        # The holes, sorted and never adjacent.
        self._begins = [0]
        self._ends = [layout.capacity]
        self._live: dict[
            int, tuple[int, int]
        ] = {}  # begin and end of each unit that is not released, by number
        self._next = 0  # the number of the next unit
        self._last_room = 0  # the room of the previous unit: this unit probably needs as much
        # The open unit.
        self._is_open = False
        self._begin = 0
        self._room = 0
        self._used = 0
        self._bell = bell
        self._parent = parent
        self._parent_fd: int | None = None
        self._poll: select.poll | None = None

    # -- SPDL's protocol

    def reset(self) -> None:
        """Begin an iteration. Units of which the consumer has views stay."""
        self._collect()

    def begin_unit(self) -> None:
        """Open a unit."""
        self._is_open = True
        self._room = self._used = 0
        if self._words[self._next_release]:
            self._collect()

    def write_binary(self, data: Buffer) -> tuple[int, int]:
        """Copy a binary into the open unit. Returns its offset for read_binary, and its size."""
        if not self._is_open:
            raise ValueError(
                "write_binary of an SPDL arena is called outside a unit: call begin_unit first"
            )
        view = memoryview(data)
        nbytes = view.nbytes
        if not nbytes:
            return 0, 0
        if view.format != "B" or view.ndim != 1:
            view = view.cast("B")
        offset = _aligned(self._used)
        used = offset + nbytes
        if used > self._room:
            self._make_room(used)
        begin = self._begin + offset
        # Storage.write, which lets other threads run meanwhile, took 5 to 15 % longer for 16 MiB.
        self._bytes[begin : begin + nbytes] = view
        self._used = used
        return offset | self._next << _NUMBER_SHIFT, nbytes

    def commit_unit(self) -> int:
        """Close the unit. Returns its number of bytes."""
        self._is_open = False
        used = self._used
        if used:
            number = self._next
            place = _TABLES + 2 * (number % self._max_units)
            self._words[place] = self._begin
            self._words[place + 1] = used
            self._live[number] = self._begin, self._begin + self._room
            self._next = number + 1
            self._last_room = self._room
            self._room = self._used = 0
        return used

    def abort_unit(self) -> None:
        """Discard the open unit."""
        self._is_open = False
        if self._room:
            self._free(self._begin, self._begin + self._room)
        self._room = self._used = 0

    # -- holes

    def _free(self, begin: int, end: int) -> None:
        """Make a range a hole, and join it with the neighbouring holes."""
        begins, ends = self._begins, self._ends
        index = bisect_left(begins, begin)
        joins_next = index < len(begins) and begins[index] == end
        if index and ends[index - 1] == begin:
            if joins_next:
                ends[index - 1] = ends[index]
                del begins[index], ends[index]
            else:
                ends[index - 1] = end
        elif joins_next:
            begins[index] = begin
        else:
            begins.insert(index, begin)
            ends.insert(index, end)

    def _carve(self, index: int, begin: int, end: int) -> None:
        """Take a range out of the hole at an index."""
        begins, ends = self._begins, self._ends
        hole_begin, hole_end = begins[index], ends[index]
        if hole_begin == begin:
            if hole_end == end:
                del begins[index], ends[index]
            else:
                begins[index] = end
        else:
            ends[index] = begin
            if hole_end != end:
                begins.insert(index + 1, end)
                ends.insert(index + 1, hole_end)

    def _find(self, room: int) -> int | None:
        for index, begin in enumerate(self._begins):
            if self._ends[index] - begin >= room:
                return index
        return None

    def _place(self, room: int) -> bool:
        """Give the open unit that much room. The bytes that it has are kept. Returns False if there
        is no such room.
        """
        begins, ends = self._begins, self._ends
        if not self._room:
            if len(self._live) >= self._max_units:
                return False
            index = self._find(max(room, self._last_room))
            if index is None:
                index = self._find(room)
            if index is None:
                return False
            begin = begins[index]
            self._carve(index, begin, begin + room)
            self._begin, self._room = begin, room
            return True
        former, end = self._begin, self._begin + self._room
        index = bisect_left(begins, end)
        if index < len(begins) and begins[index] == end and ends[index] - former >= room:
            self._carve(index, end, former + room)
            self._room = room
            return True
        # The unit moves to a larger hole, of which its own place may be a part. Its binaries stay
        # valid, because they are known by their offsets in the unit.
        self._free(former, end)
        index = self._find(room)
        if index is None:
            index = bisect_left(begins, former + 1) - 1
            self._carve(index, former, end)
            return False
        begin = begins[index]
        self._carve(index, begin, begin + room)
        self._bytes[begin : begin + self._used] = self._bytes[former : former + self._used]
        self._begin, self._room = begin, room
        return True

    def _collect(self) -> bool:
        """Take back the units that were released since the last call.

        Returns whether there was one.
        """
        words, place = self._words, self._next_release
        number = words[place]
        if not number:
            return False
        while number:
            words[place] = 0
            place = place + 1 if place + 1 < self._releases_end else self._releases_begin
            self._free(*self._live.pop(number - 1))
            number = words[place]
        self._next_release = place
        return True

    # -- waiting

    def _make_room(self, used: int) -> None:
        """Give the open unit room for `used` bytes.

        Waits until the reader has released enough.
        """
        room = _aligned(used)
        if room > len(self._bytes):
            raise BufferError(
                f"a unit of {used} bytes or more does not fit into an SPDL arena of"
                f" {self._capacity} bytes: give tenon.integrations.spdl.Arena a larger capacity, or"
                " yield smaller items"
            )
        if self._place(room):
            return
        deadline = time.monotonic() + self._acquire_timeout
        while True:
            if self._collect() and self._place(room):
                return
            left = deadline - time.monotonic()
            if left <= 0:
                held = sum(end - begin for begin, end in self._live.values())
                raise BufferError(
                    f"the SPDL arena of {self._capacity} bytes is full: a unit of {used} bytes or"
                    f" more found no room within {self._acquire_timeout:g} s, because the consumer"
                    f" has not released {len(self._live)} units of {held} bytes. Let the consumer"
                    " drop earlier items and their views, or give tenon.integrations.spdl.Arena a"
                    " larger capacity or a longer acquire_timeout"
                )
            self._sleep(left)

    def _sleep(self, seconds: float) -> None:
        """Sleep until the reader has released a unit, or for a short time."""
        words = self._words
        poll = self._poller()
        words[_WAITING] = 1
        try:
            _fence()
            if words[self._next_release]:
                return
            if words[_STOPPED]:
                raise BufferError(
                    "the SPDL arena was shut down while a unit waited for room: the iterable in the"
                    " parent process has ended"
                )
            ready = dict(poll.poll(min(seconds * 1000 + 1, _RECHECK_MILLISECONDS)))
        finally:
            words[_WAITING] = 0
        bell = self._bell.fileno()
        is_gone = self._parent_fd in ready
        if bell in ready and not is_gone:
            # The read empties the bell. One byte may stand for many units.
            is_gone = not os.read(bell, 4096)
        if is_gone:
            raise self._parent_gone()

    def _poller(self) -> select.poll:
        if self._poll is None:
            poll = select.poll()
            poll.register(self._bell.fileno(), select.POLLIN)
            if self._parent != os.getpid():
                # The bell hangs up only with its last holder, and other children of the parent may
                # be holders.
                try:
                    self._parent_fd = os.pidfd_open(self._parent)
                except ProcessLookupError:
                    raise self._parent_gone() from None
                except OSError:
                    pass  # this system has no pidfd, so the bell alone must suffice
                else:
                    weakref.finalize(self, os.close, self._parent_fd).atexit = False
                    poll.register(self._parent_fd, select.POLLIN)
            self._poll = poll
        return self._poll

    def _parent_gone(self) -> TenonError:
        text = f"process {self._parent}, which reads the SPDL arena, has ended: end this worker too"
        return make(PeerGone, text, pid=str(self._parent))
