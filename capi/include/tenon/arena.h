#ifndef TENON_ARENA_H
#define TENON_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * An arena is one segment in which many storages are born: one fd and one mapping here and at each borrower, however many
 * they are. Its size is reserved address space; memory is taken as it fills. Storages that name no arena are born in arenas
 * too, which the library keeps for each mode.
 *
 * A storage takes its size rounded up to its alignment: 64 bytes at the least, and 4096 from 128 GiB on. So a storage as large
 * as its arena fits. Where the piece of a released storage is given out again whole, up to an eighth more is taken. A free
 * piece that is large enough is always found.
 *
 * Who is lent one byte of an arena can read all of it, and in TENON_MODE_SHARED write all of it: what must not be seen by
 * every borrower belongs into an arena of its own, or into a storage with TENON_STORAGE_ISOLATED. Bytes that a borrower was
 * lent are cleared before they are given to another storage.
 */

/** Kinds of pages, from the ordinary up. */
typedef uint32_t tenon_pages;

enum {
  TENON_PAGES_AUTO = 0,   /**< THP where the machine gives them to shared memory, else ordinary ones */
  TENON_PAGES_SMALL = 1,  /**< ordinary pages, 4 KiB on x86 */
  TENON_PAGES_THP = 2,    /**< transparent huge pages */
  TENON_PAGES_HUGETLB = 3 /**< pages of the pool that the administrator set aside; PyTorch cannot open such memory */
};

enum {
  TENON_ARENA_LOCKED = 1, /**< never swapped out; counts against RLIMIT_MEMLOCK */
  TENON_ARENA_EXACT = 2   /**< pages or node that cannot be had are an error; without it the next best is taken, and told */
};

/** How an arena is made. NULL, where one is taken, means all zero. */
typedef struct tenon_arena_options {
  size_t struct_size;        /**< sizeof(tenon_arena_options), set by the caller */
  tenon_mode mode;           /**< TENON_MODE_SHARED or TENON_MODE_LENDER_WRITES; of all its storages */
  uint32_t flags;            /**< TENON_ARENA_* */
  uint64_t capacity_nbytes;  /**< most bytes that it can hold; 0: as much address space as can be had, at most 1 TiB */
  uint64_t alignment;        /**< of each storage, bytes, a power of two from 64 to 4096; 0: 64 */
  tenon_pages pages;         /**< TENON_PAGES_* */
  int32_t numa_node_plus_1;  /**< 0: wherever; n + 1: memory of node n only */
  uint64_t huge_page_nbytes; /**< TENON_PAGES_HUGETLB: size of the pool's pages; 0: the machine's default */
  uint64_t prefault_nbytes;  /**< memory that is made ready in the background, from the start on; 0: none */
} tenon_arena_options;

/** What an arena holds, and what it got. All figures are of one moment. */
typedef struct tenon_arena_stats {
  size_t struct_size;          /**< sizeof(tenon_arena_stats), set by the caller */
  uint64_t bytes_capacity;     /**< what it can hold */
  uint64_t bytes_reserved;     /**< memory that it has from the system */
  uint64_t bytes_live;         /**< in storages of this process */
  uint64_t bytes_lent;         /**< under leases, whether their storage still lives here or not */
  uint64_t bytes_free;         /**< reserved, and nobody's */
  uint64_t bytes_largest_free; /**< the longest free piece */
  uint64_t bytes_retired;      /**< lent without a lease (by fd, by name) and released: never used again */
  uint64_t bytes_peak;         /**< the most that was live or lent at once */
  uint64_t blocks_live;        /**< storages of this process */
  uint64_t blocks_lent;        /**< blocks under leases */
  uint32_t fragmentation;      /**< of the free bytes, how many in 1,000 lie outside the longest piece */
  tenon_pages pages;           /**< which pages it got: TENON_PAGES_*, not AUTO */
  uint64_t page_nbytes;        /**< and of what size */
  int32_t numa_node;           /**< the node that it is bound to; -1: none */
  uint32_t locked;             /**< 1 if never swapped out */
} tenon_arena_stats;

/**
 * Make an arena.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_arena_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, mappings, address space, RLIMIT_MEMLOCK; with
 *         EXACT: huge pages), TENON_UNSUPPORTED (TENON_MODE_FROZEN: a frozen storage has a segment of its own; with EXACT:
 *         the kernel has no such pages).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_arena_new(const tenon_arena_options *options, tenon_arena **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] arena  borrowed; NULL is allowed.
 * @return `arena`, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_arena *tenon_arena_retain(tenon_arena *arena) TENON_NOEXCEPT;

/**
 * Give one reference back. Its memory goes when the last storage in it is released and the last lease on it has ended.
 * @param[in] arena  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_arena_release(tenon_arena *arena) TENON_NOEXCEPT;

/**
 * What it holds and what it got. Looks for leases that ended first.
 * @param[in]     arena  borrowed.
 * @param[in,out] out    the caller's; out->struct_size says how much may be written; untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_arena_stats_get(const tenon_arena *arena, tenon_arena_stats *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take memory from the system ahead of need.
 * @param[in]  arena   borrowed.
 * @param[in]  nbytes  from the arena's start; more than its capacity means all of it.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (what was taken stays), TENON_UNSUPPORTED (in a child of fork).
 * @since 0.1. Any thread; allocations of other threads go on in between.
 */
TENON_API tenon_status tenon_arena_reserve(tenon_arena *arena, uint64_t nbytes, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
