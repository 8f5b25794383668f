"""Arenas: many storages are born in one segment."""

from __future__ import annotations

from tenon._frozen import Frozen
from tenon._native import lib, new_struct
from tenon._options import MODES, flags, names_of, number_of, unsigned, words
from tenon.error import call, filled, owned
from tenon.storage import ArenaBase, Place, Storage
from tenon.tensor import from_numpy, new_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from tenon._options import Shape
    from tenon.tensor import Tensor
    from tenon.wait import Cancel

    Pages = Literal["auto", "small", "thp", "hugetlb"]

PAGES = words("PAGES", "auto small thp hugetlb")
_PAGES_NAMES = names_of(PAGES)


class ArenaStats(Frozen):
    """The figures of an arena, all of one moment. They count bytes or blocks, except the last five.

    - bytes_capacity: The size that the arena can reach.
    - bytes_reserved: The memory that it has from the system.
    - bytes_live and blocks_live: The bytes and blocks in storages of this process.
    - bytes_lent and blocks_lent: The bytes and blocks under leases, whether their storage still
      lives here or not.
    - bytes_free: The reserved bytes that nobody uses.
    - bytes_largest_free: The longest piece of the free bytes.
    - bytes_retired: The bytes that were lent without a lease (by fd, by name) and released. They
      are never used again.
    - bytes_peak: The most bytes that were live or lent at once.
    - fragmentation: How many in 1,000 free bytes lie outside the longest piece.
    - pages and page_nbytes: "small", "thp" or "hugetlb", and the size of a page.
    - numa_node: The node to which the arena is bound, or None.
    - locked: Whether the memory is never swapped out.
    """

    bytes_capacity: int
    bytes_reserved: int
    bytes_live: int
    bytes_lent: int
    bytes_free: int
    bytes_largest_free: int
    bytes_retired: int
    bytes_peak: int
    blocks_live: int
    blocks_lent: int
    fragmentation: int
    pages: str
    page_nbytes: int
    numa_node: int | None
    locked: bool
    __slots__ = tuple(__annotations__)


class Arena(ArenaBase):
    """An arena has one fd and one mapping, here and at each borrower, for all storages that are
    born in it. It takes memory from the system as it fills.

    close() releases this reference. The storages of the arena live on. The memory goes with the
    last storage and the last lease. A process that is lent one byte of the arena can read all of it
    and, in mode "shared", write all of it.
    """

    __slots__ = ()

    def __init__(
        self,
        capacity_nbytes: int = 0,
        *,
        mode: Literal["shared", "lender_writes"] = "shared",
        alignment: int = 0,
        pages: Pages = "auto",
        huge_page_nbytes: int = 0,
        numa_node: int | None = None,
        locked: bool = False,
        exact: bool = False,
        prefault_nbytes: int = 0,
    ) -> None:
        """Make an arena.

        - capacity_nbytes: The most that the arena can hold. 0 is as much address space as the
          system gives, at most 1 TiB.
        - mode: The mode of all its storages.
        - alignment: The alignment of each storage, a power of two from 64 to 4096. 0 is 64.
        - pages: "auto" is "thp" where the machine gives such pages to shared memory, and else
          "small". "hugetlb" takes pages from the administrator's pool, of its default size or of
          huge_page_nbytes.
        - numa_node: Take memory of this node only.
        - locked: Never swap the memory out.
        - exact: Raise an error if the pages or the node cannot be had. Without it only stats shows
          that.
        - prefault_nbytes: The amount of memory to make ready in the background.
        """
        self._cdata = None
        options = new_struct(
            "tenon_arena_options",
            mode=number_of(MODES, mode, "mode"),
            flags=flags("ARENA", locked=locked, exact=exact),
            capacity_nbytes=unsigned(capacity_nbytes, "capacity_nbytes"),
            alignment=unsigned(alignment, "alignment"),
            pages=number_of(PAGES, pages, "pages"),
            huge_page_nbytes=unsigned(huge_page_nbytes, "huge_page_nbytes"),
            prefault_nbytes=unsigned(prefault_nbytes, "prefault_nbytes"),
        )
        if numa_node is not None:
            if not 0 <= numa_node < (1 << 31) - 1:
                raise ValueError(f"numa_node {numa_node} is no node")
            options.numa_node_plus_1 = numa_node + 1
        self._cdata = owned("tenon_arena", lib.tenon_arena_new, options)

    def storage(
        self,
        nbytes: int,
        *,
        zeroed: bool = False,
        will_fill: bool = False,
        alignment: int = 0,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Storage:
        """Make a storage in the arena, as Storage.new(nbytes, arena=self) does."""
        kind: dict[str, Any] = {"zeroed": zeroed, "will_fill": will_fill, "alignment": alignment}
        return Storage.new(nbytes, arena=self, timeout=timeout, cancel=cancel, **kind)

    def empty(
        self,
        shape: Shape,
        dtype: Any = "float32",
        *,
        alignment: int = 0,
        requires_grad: bool = False,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Tensor:
        """Make a tensor in the arena. Its bytes are not initialised.

        timeout and cancel are as in tenon.empty. The call waits for storages of this process to go,
        and for leases to end.
        """
        place = Place(arena=self, timeout=timeout, cancel=cancel)
        return new_tensor(shape, dtype, False, alignment, requires_grad, place)

    def zeros(
        self,
        shape: Shape,
        dtype: Any = "float32",
        *,
        alignment: int = 0,
        requires_grad: bool = False,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Tensor:
        """Make a tensor in the arena whose bytes are all zero. The options are those of empty."""
        place = Place(arena=self, timeout=timeout, cancel=cancel)
        return new_tensor(shape, dtype, True, alignment, requires_grad, place)

    def full(
        self,
        shape: Shape,
        value: Any,
        dtype: Any = "float32",
        *,
        alignment: int = 0,
        requires_grad: bool = False,
        timeout: float | None = 0,
        cancel: Cancel | None = None,
    ) -> Tensor:
        """Make a tensor in the arena whose elements are all `value`. The options are those of
        empty. The call needs numpy.
        """
        place = Place(arena=self, timeout=timeout, cancel=cancel)
        tensor = new_tensor(shape, dtype, False, alignment, requires_grad, place)
        tensor.numpy()[...] = value
        return tensor

    def tensor(
        self, array: Any, *, timeout: float | None = 0, cancel: Cancel | None = None
    ) -> Tensor:
        """Make a tensor in the arena that holds a copy of a numpy array, or of an object that numpy
        can make into one.
        """
        return from_numpy(array, arena=self, timeout=timeout, cancel=cancel)

    def stats(self) -> ArenaStats:
        """The arena's figures at this moment."""
        out = filled("tenon_arena_stats", lib.tenon_arena_stats_get, self._own())
        node = None if out.numa_node < 0 else out.numa_node
        pages, locked = _PAGES_NAMES[out.pages], bool(out.locked)
        return ArenaStats._of(out, pages=pages, numa_node=node, locked=locked)

    def reserve(self, nbytes: int) -> None:
        """Take memory from the system before it is needed. nbytes counts from the arena's start. A
        number above the capacity reserves the whole arena.
        """
        call(lib.tenon_arena_reserve, self._own(), unsigned(nbytes, "nbytes"))

    def _shown(self) -> str:
        now = self.stats()
        return f" of {now.bytes_capacity} bytes: {now.bytes_live} live, {now.bytes_lent} lent"
