//! Arenas: one segment in which many storages are born.

use std::fmt;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::error::{check, make, Result};
use crate::sys;

/// Kinds of pages, from the ordinary up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pages {
    /// [`Pages::Thp`] where the machine gives them to shared memory, else [`Pages::Small`].
    #[default]
    Auto,
    /// Ordinary pages, 4 KiB on x86.
    Small,
    /// Transparent huge pages.
    Thp,
    /// Pages of the pool that the administrator set aside; PyTorch cannot open such memory.
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

/// How an arena is made. Without anything: [`Mode::Shared`](crate::Mode::Shared), as much address
/// space as can be had, at most 1 TiB.
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
    /// Everything by default.
    pub fn new() -> ArenaOptions {
        ArenaOptions::default()
    }

    /// All its storages are of [`Mode::LenderWrites`](crate::Mode::LenderWrites): borrowers can
    /// read and not write.
    pub fn lender_writes(self) -> Self {
        ArenaOptions { lender_writes: true, ..self }
    }

    /// The most bytes that it can hold.
    pub fn capacity(self, nbytes: u64) -> Self {
        ArenaOptions { capacity_nbytes: nbytes, ..self }
    }

    /// Of each storage, in bytes: a power of two from 64 to 4096.
    pub fn alignment(self, alignment: u64) -> Self {
        ArenaOptions { alignment, ..self }
    }

    /// What kind of pages; [`Arena::stats`] tells what it got.
    pub fn pages(self, pages: Pages) -> Self {
        ArenaOptions { pages, ..self }
    }

    /// With [`Pages::Hugetlb`]: the size of the pool's pages, in bytes, if not the machine's
    /// default.
    pub fn huge_page(self, nbytes: u64) -> Self {
        ArenaOptions { huge_page_nbytes: nbytes, ..self }
    }

    /// Memory of that node only.
    pub fn numa_node(self, node: u16) -> Self {
        ArenaOptions { numa_node: Some(node), ..self }
    }

    /// Never swapped out; counts against RLIMIT_MEMLOCK.
    pub fn locked(self) -> Self {
        ArenaOptions { flags: self.flags | sys::TENON_ARENA_LOCKED, ..self }
    }

    /// Pages or a node that cannot be had are an error. Otherwise the next best is taken, and told
    /// by [`Arena::stats`].
    pub fn exact(self) -> Self {
        ArenaOptions { flags: self.flags | sys::TENON_ARENA_EXACT, ..self }
    }

    /// So many bytes of memory are made ready in the background.
    pub fn prefault(self, nbytes: u64) -> Self {
        ArenaOptions { prefault_nbytes: nbytes, ..self }
    }

    /// Make the arena.
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

/// One fd and one mapping, here and at each borrower, for all storages that are born in it
/// ([`StorageOptions::arena`](crate::StorageOptions::arena)). Memory is taken as it fills.
///
/// A clone is one more reference; the memory goes with the last one, the last storage in it and the
/// last lease on it. Who is lent one byte of it can read all of it, and write all of it unless it
/// was made with [`ArenaOptions::lender_writes`].
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

// SAFETY: everything on arenas may be called by any thread, at once (arena.h).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// What it holds and what it got, now.
    pub fn stats(&self) -> Result<ArenaStats> {
        let mut raw = sys::tenon_arena_stats {
            struct_size: size_of::<sys::tenon_arena_stats>(),
            bytes_capacity: 0,
            bytes_reserved: 0,
            bytes_live: 0,
            bytes_lent: 0,
            bytes_free: 0,
            bytes_largest_free: 0,
            bytes_retired: 0,
            bytes_peak: 0,
            blocks_live: 0,
            blocks_lent: 0,
            fragmentation: 0,
            pages: sys::TENON_PAGES_AUTO,
            page_nbytes: 0,
            numa_node: 0,
            locked: 0,
        };
        // SAFETY: self keeps the arena; raw is of its own struct_size.
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

    /// Take memory from the system ahead of need: `nbytes` from the arena's start; more than its
    /// capacity means all of it.
    pub fn reserve(&self, nbytes: u64) -> Result<()> {
        // SAFETY: self keeps the arena; any thread (arena.h).
        check(|err| unsafe { sys::tenon_arena_reserve(self.as_raw(), nbytes, err) })
    }

    /// The C object, borrowed.
    pub fn as_raw(&self) -> *mut sys::tenon_arena {
        self.raw.as_ptr()
    }
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        // SAFETY: self keeps the arena; what comes is the same one, counted once more, for the copy
        // to release.
        unsafe { sys::tenon_arena_retain(self.as_raw()) };
        Arena { raw: self.raw }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        unsafe { sys::tenon_arena_release(self.as_raw()) };
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arena")
    }
}

/// What an arena holds and what it got, of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// What it can hold.
    pub bytes_capacity: u64,
    /// Memory that it has from the system.
    pub bytes_reserved: u64,
    /// In storages of this process.
    pub bytes_live: u64,
    /// Under leases, whether their storage still lives here or not.
    pub bytes_lent: u64,
    /// Reserved, and nobody's.
    pub bytes_free: u64,
    /// The longest piece of them.
    pub bytes_largest_free: u64,
    /// Lent without a lease (by fd, by name) and released: never used again.
    pub bytes_retired: u64,
    /// The most that was live or lent at once.
    pub bytes_peak: u64,
    /// Storages of this process.
    pub blocks_live: u64,
    /// Blocks under leases.
    pub blocks_lent: u64,
    /// Of the free bytes, how many in 1,000 lie outside the longest piece.
    pub fragmentation: u32,
    /// Which pages it got; not [`Pages::Auto`].
    pub pages: Pages,
    /// And of what size.
    pub page_nbytes: u64,
    /// The node that it is bound to.
    pub numa_node: Option<u16>,
    /// Whether it is never swapped out.
    pub locked: bool,
}
