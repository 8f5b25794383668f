#ifndef TENON_ARENA_H
#define TENON_ARENA_H

/**
 * @file
 * Arenas: memory from which many storages are allocated, so that all of them together take one fd
 * and one mapping in each process.
 *
 * An arena is one segment. It needs one fd and one mapping in this process and in each borrower,
 * however many storages lie in it. Its size is reserved address space. Memory is taken from the
 * system as the arena fills. The library also keeps arenas of its own, for each mode, from which it
 * allocates storages that name no arena.
 *
 * A storage takes its size, rounded up to its alignment: at least 64 bytes, and 4096 bytes for
 * storages of 128 GiB and more. So a storage that is as large as its arena fits. A new storage that
 * reuses the whole block of a released storage may take up to an eighth more than it needs. The
 * arena always finds a free range that is large enough.
 *
 * A borrower of one byte of an arena can read the whole arena. In TENON_MODE_SHARED it can also
 * write to the whole arena. Put data that not every borrower may see into an arena of its own, or
 * into a storage with TENON_STORAGE_ISOLATED. Bytes that were lent to a borrower are cleared before
 * another storage gets them.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/** Kinds of memory pages, from ordinary pages upwards. */
typedef uint32_t tenon_pages;

enum {
  /** Transparent huge pages if the machine gives them to shared memory, else ordinary pages. */
  TENON_PAGES_AUTO = 0,
  /** Ordinary pages, 4 KiB on x86. */
  TENON_PAGES_SMALL = 1,
  /** Transparent huge pages. */
  TENON_PAGES_THP = 2,
  /** Pages of the pool that the administrator set aside. PyTorch cannot open such memory. */
  TENON_PAGES_HUGETLB = 3
};

enum {
  /** The memory is never swapped out. It counts against RLIMIT_MEMLOCK. */
  TENON_ARENA_LOCKED = 1,
  /**
   * If the machine cannot give the requested pages or the requested NUMA node, the call fails.
   * Without this flag the arena takes the next best memory, and tenon_arena_stats tells its kind.
   */
  TENON_ARENA_EXACT = 2
};

/** How to make an arena. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_arena_options {
  /** sizeof(tenon_arena_options), set by the caller. */
  size_t struct_size;
  /** The mode of all storages in the arena: TENON_MODE_SHARED or TENON_MODE_LENDER_WRITES. */
  tenon_mode mode;
  /** TENON_ARENA_*. */
  uint32_t flags;
  /**
   * The most bytes that the arena can hold. 0 means as much address space as is available, at most
   * 1 TiB.
   */
  uint64_t capacity_nbytes;
  /** The alignment of each storage in bytes, a power of two from 64 to 4096. 0 means 64. */
  uint64_t alignment;
  /** TENON_PAGES_*. */
  tenon_pages pages;
  /** 0 means memory of any NUMA node. n + 1 means memory of node n only. */
  int32_t numa_node_plus_1;
  /**
   * For TENON_PAGES_HUGETLB: the size of the pool's pages in bytes. 0 means the machine's default.
   */
  uint64_t huge_page_nbytes;
  /**
   * How many bytes, from the arena's start, the service thread prepares in the background. 0 means
   * none.
   */
  uint64_t prefault_nbytes;
} tenon_arena_options;

/**
 * Figures about the contents of an arena and the kind of its memory. All figures are of one moment.
 */
typedef struct tenon_arena_stats {
  /** sizeof(tenon_arena_stats), set by the caller. */
  size_t struct_size;
  /** The most bytes that the arena can hold. */
  uint64_t bytes_capacity;
  /** Memory that the arena has taken from the system. */
  uint64_t bytes_reserved;
  /** Bytes in storages of this process. */
  uint64_t bytes_live;
  /** Bytes under leases, whether their storage still lives in this process or not. */
  uint64_t bytes_lent;
  /** Bytes that are reserved and not in use. */
  uint64_t bytes_free;
  /** The size of the longest free range. */
  uint64_t bytes_largest_free;
  /** Bytes that were lent without a lease (by fd, by name) and released. They are never reused. */
  uint64_t bytes_retired;
  /** The most bytes that were live or lent at one time. */
  uint64_t bytes_peak;
  /** The number of storages of this process. */
  uint64_t blocks_live;
  /** The number of blocks under leases. */
  uint64_t blocks_lent;
  /** How many of 1,000 free bytes lie outside the longest free range. */
  uint32_t fragmentation;
  /** The pages that the arena got: TENON_PAGES_*, but not AUTO. */
  tenon_pages pages;
  /** The size of these pages in bytes. */
  uint64_t page_nbytes;
  /** The NUMA node to which the memory is bound. It is -1 if the memory is not bound. */
  int32_t numa_node;
  /** 1 if the memory is never swapped out. */
  uint32_t locked;
} tenon_arena_stats;

/**
 * Makes an arena.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_arena_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, mappings, address space,
 *         RLIMIT_MEMLOCK; with TENON_ARENA_EXACT also huge pages), TENON_UNSUPPORTED
 *         (TENON_MODE_FROZEN, because a frozen storage has a segment of its own; with
 *         TENON_ARENA_EXACT also pages that the kernel does not have).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_arena_new(const tenon_arena_options *options, tenon_arena **out,
                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] arena  borrowed. NULL is allowed.
 * @return `arena`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_arena *tenon_arena_retain(tenon_arena *arena) TENON_NOEXCEPT;

/**
 * Releases a reference. The arena's memory is freed once the last storage in it is released and the
 * last lease on it has ended.
 * @param[in] arena  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_arena_release(tenon_arena *arena) TENON_NOEXCEPT;

/**
 * Gives the figures of an arena. Before that, the call ends the leases whose borrowers have given
 * them back or are gone.
 * @param[in]     arena  borrowed.
 * @param[in,out] out    the caller's. out->struct_size says how much the call may write. It is
 *                       untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_arena_stats_get(const tenon_arena *arena, tenon_arena_stats *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes memory from the system before it is needed.
 * @param[in]  arena   borrowed.
 * @param[in]  nbytes  bytes from the arena's start. A number above its capacity means the whole
 *                     arena.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (memory that was taken before
 *         the failure stays with the arena), TENON_UNSUPPORTED (in a child of fork).
 * @since 0.1. Any thread may call this function. Other threads can allocate during the call.
 */
TENON_API tenon_status tenon_arena_reserve(tenon_arena *arena, uint64_t nbytes,
                                           tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
