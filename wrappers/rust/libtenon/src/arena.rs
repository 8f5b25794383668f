//! Arenas: segments in which many storages lie, so that they share one fd and one mapping.

use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::error::{check, make, Result};
use crate::sys;

/// Kinds of memory pages, from ordinary pages upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pages {
    /// [`Pages::Thp`] if the machine gives them to shared memory, else [`Pages::Small`].
    #[default]
    Auto,
    /// Ordinary pages, 4 KiB on x86.
    Small,
    /// Transparent huge pages.
    Thp,
    /// Pages of the pool that the administrator set aside. PyTorch cannot open such memory.
    Hugetlb,
}

impl Pages {
    fn raw(self) -> sys::tenon_pages {
        match self {
            Pages::Auto => sys::TENON_PAGES_AUTO,
            Pages::Small => sys::TENON_PAGES_SMALL,
            Pages::Thp => sys::TENON_PAGES_THP,
            Pages::Hugetlb => sys::TENON_PAGES_HUGETLB,
        }
    }

    fn from_raw(raw: sys::tenon_pages) -> Pages {
        match raw {
            sys::TENON_PAGES_SMALL => Pages::Small,
            sys::TENON_PAGES_THP => Pages::Thp,
            sys::TENON_PAGES_HUGETLB => Pages::Hugetlb,
            _ => Pages::Auto,
        }
    }
}

/// Says how to make an arena. Without options its mode is [`Mode::Shared`](crate::Mode::Shared),
/// and it has as much address space as is available, at most 1 TiB.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct ArenaOptions {
    lender_writes: bool,
    flags: u32,
    capacity_nbytes: u64,
    alignment: u64,
    pages: Pages,
    huge_page_nbytes: u64,
    numa_node: Option<u16>,
    prefault_nbytes: u64,
}

impl ArenaOptions {
    /// All options have their defaults.
    pub fn new() -> ArenaOptions {
        ArenaOptions::default()
    }

    /// Gives all storages of the arena [`Mode::LenderWrites`](crate::Mode::LenderWrites): borrowers
    /// can read them and not write to them.
    pub fn lender_writes(self) -> Self {
        ArenaOptions { lender_writes: true, ..self }
    }

    /// Sets the most bytes that the arena can hold.
    pub fn capacity(self, nbytes: u64) -> Self {
        ArenaOptions { capacity_nbytes: nbytes, ..self }
    }

    /// Sets the alignment of each storage in bytes, a power of two from 64 to 4096.
    pub fn alignment(self, alignment: u64) -> Self {
        ArenaOptions { alignment, ..self }
    }

    /// Sets the kind of pages. [`Arena::stats`] tells what the arena got.
    pub fn pages(self, pages: Pages) -> Self {
        ArenaOptions { pages, ..self }
    }

    /// For [`Pages::Hugetlb`]: sets the size of the pool's pages in bytes, in place of the
    /// machine's default.
    pub fn huge_page(self, nbytes: u64) -> Self {
        ArenaOptions { huge_page_nbytes: nbytes, ..self }
    }

    /// Takes memory of this NUMA node only.
    pub fn numa_node(self, node: u16) -> Self {
        ArenaOptions { numa_node: Some(node), ..self }
    }

    /// Never swaps the memory out. It counts against RLIMIT_MEMLOCK.
    pub fn locked(self) -> Self {
        ArenaOptions { flags: self.flags | sys::TENON_ARENA_LOCKED, ..self }
    }

    /// Fails if the pages or the node are not available. Otherwise the arena takes the next best,
    /// and [`Arena::stats`] tells what it got.
    pub fn exact(self) -> Self {
        ArenaOptions { flags: self.flags | sys::TENON_ARENA_EXACT, ..self }
    }

    /// Sets how many bytes of memory are made ready in the background.
    pub fn prefault(self, nbytes: u64) -> Self {
        ArenaOptions { prefault_nbytes: nbytes, ..self }
    }

    /// Makes the arena.
    pub fn create(&self) -> Result<Arena> {
        let options = sys::tenon_arena_options {
            struct_size: size_of::<sys::tenon_arena_options>(),
            mode: if self.lender_writes {
                sys::TENON_MODE_LENDER_WRITES
            } else {
                sys::TENON_MODE_SHARED
            },
            flags: self.flags,
            capacity_nbytes: self.capacity_nbytes,
            alignment: self.alignment,
            pages: self.pages.raw(),
            numa_node_plus_1: self.numa_node.map_or(0, |node| i32::from(node) + 1),
            huge_page_nbytes: self.huge_page_nbytes,
            prefault_nbytes: self.prefault_nbytes,
        };
        // SAFETY: options is borrowed for the call (rule 4 in tenon.h).
        Ok(Arena { raw: make(|out, err| unsafe { sys::tenon_arena_new(&options, out, err) })? })
    }
}

/// One segment in which many storages are made
/// ([`StorageOptions::arena`](crate::StorageOptions::arena)). It takes one fd and one mapping, in
/// this process and in each borrower. It takes memory from the system as it fills.
///
/// A clone is one more reference. The memory is freed when the last reference and the last storage
/// in the arena are dropped and the last lease on it has ended. A borrower of one byte can read the
/// whole arena, and can also write to all of it unless it was made with
/// [`ArenaOptions::lender_writes`].
///
/// ```
/// use tenon::{ArenaOptions, StorageOptions};
///
/// let arena = ArenaOptions::new().capacity(1 << 20).create()?;
/// let storage = StorageOptions::new().arena(&arena).copy_from(&[1.0f32, 2.0])?;
/// assert_eq!(arena.stats()?.blocks_live, 1);
/// # drop(storage);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Arena {
    raw: NonNull<sys::tenon_arena>,
}

handle!(pub Arena, tenon_arena, tenon_arena_release, retain tenon_arena_retain);

impl Arena {
    /// Tells what the arena holds now, and which memory it got.
    pub fn stats(&self) -> Result<ArenaStats> {
        let mut raw = blank!(tenon_arena_stats);
        // SAFETY: self keeps the arena, and raw has its own struct_size.
        check(|err| unsafe { sys::tenon_arena_stats_get(self.as_raw(), &mut raw, err) })?;
        Ok(ArenaStats {
            bytes_capacity: raw.bytes_capacity,
            bytes_reserved: raw.bytes_reserved,
            bytes_live: raw.bytes_live,
            bytes_lent: raw.bytes_lent,
            bytes_free: raw.bytes_free,
            bytes_largest_free: raw.bytes_largest_free,
            bytes_retired: raw.bytes_retired,
            bytes_peak: raw.bytes_peak,
            blocks_live: raw.blocks_live,
            blocks_lent: raw.blocks_lent,
            fragmentation: raw.fragmentation,
            pages: Pages::from_raw(raw.pages),
            page_nbytes: raw.page_nbytes,
            numa_node: u16::try_from(raw.numa_node).ok(),
            locked: raw.locked != 0,
        })
    }

    /// Takes memory from the system before it is needed: `nbytes` bytes from the arena's start. A
    /// number above its capacity means the whole arena.
    pub fn reserve(&self, nbytes: u64) -> Result<()> {
        // SAFETY: self keeps the arena, and any thread may call this (arena.h).
        check(|err| unsafe { sys::tenon_arena_reserve(self.as_raw(), nbytes, err) })
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arena")
    }
}

/// Tells what an arena holds, and which memory it got, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// The most bytes that it can hold.
    pub bytes_capacity: u64,
    /// Memory that it has taken from the system.
    pub bytes_reserved: u64,
    /// Bytes in storages of this process.
    pub bytes_live: u64,
    /// Bytes under leases, whether their storage still lives here or not.
    pub bytes_lent: u64,
    /// Bytes that are reserved and not in use.
    pub bytes_free: u64,
    /// The size of the longest free piece.
    pub bytes_largest_free: u64,
    /// Bytes that were lent without a lease (by fd, by name) and released. They are never reused.
    pub bytes_retired: u64,
    /// The most bytes that were live or lent at one time.
    pub bytes_peak: u64,
    /// The number of storages of this process.
    pub blocks_live: u64,
    /// The number of blocks under leases.
    pub blocks_lent: u64,
    /// How many of 1,000 free bytes lie outside the longest free piece.
    pub fragmentation: u32,
    /// The pages that it got; never [`Pages::Auto`].
    pub pages: Pages,
    /// The size of these pages in bytes.
    pub page_nbytes: u64,
    /// The node to which it is bound.
    pub numa_node: Option<u16>,
    /// Whether its memory is never swapped out.
    pub locked: bool,
}
