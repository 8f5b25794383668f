#ifndef TENON_CUDA_ARENA_H
#define TENON_CUDA_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_cuda.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * An arena of device memory: one allocation in which many storages lie. So one handle leads to all of them, and whoever receives them opens
 * it once, be it over a connection, by tenon_share_cuda or in PyTorch. A block is used again when its storage is released, the streams in
 * which it was used have passed, and every receiver has let go: over a connection also one that was killed, or never read its message.
 *
 * Who is lent one byte of an arena can read and write all of it, and a block has the bytes of the one before.
 */

/** A counted arena on a device. */
typedef struct tenon_cuda_arena tenon_cuda_arena;

/** How an arena on a device is made. */
typedef struct tenon_cuda_arena_options {
  size_t struct_size;             /**< sizeof(tenon_cuda_arena_options), set by the caller */
  int32_t device;                 /**< ordinal in this process's numbering */
  tenon_cuda_transport transport; /**< TENON_CUDA_IPC, TENON_CUDA_FD or TENON_CUDA_FABRIC: how it is to be lent; 0: IPC where the device
                                       has it, for PyTorch opens that, else FD */
  uint64_t capacity_nbytes;       /**< bytes, all of which are taken at once; rounded up to what the device gives */
} tenon_cuda_arena_options;

/** What an arena on a device holds. All figures are of one moment. */
typedef struct tenon_cuda_arena_stats {
  size_t struct_size;             /**< sizeof(tenon_cuda_arena_stats), set by the caller */
  int32_t device;                 /**< ordinal */
  tenon_cuda_transport transport; /**< how it is lent */
  uint64_t bytes_capacity;        /**< what it can hold */
  uint64_t bytes_used;            /**< in storages, or kept by a stream or a receiver */
  uint64_t bytes_free;            /**< nobody's */
  uint64_t bytes_largest_free;    /**< the longest free piece */
  uint64_t bytes_peak;            /**< the most that was used at once */
  uint64_t blocks_used;           /**< storages, or what is kept of them */
} tenon_cuda_arena_stats;

/**
 * Make an arena on a device.
 * @param[in]  options  borrowed.
 * @param[out] out      new reference, release with tenon_cuda_arena_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (no options, no capacity, no such device, another transport), TENON_UNSUPPORTED (no CUDA, or the
 *         device has no such way to lend), TENON_RESOURCE_EXHAUSTED (device memory), others as the driver says (details "cuda_error",
 *         "cuda_error_name").
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_cuda_arena_new(const tenon_cuda_arena_options *options, tenon_cuda_arena **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] arena  borrowed; NULL is allowed.
 * @return `arena`, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_cuda_arena *tenon_cuda_arena_retain(tenon_cuda_arena *arena) TENON_NOEXCEPT;

/**
 * Give one reference back. Its memory goes when the last storage in it has gone and nobody keeps it any more.
 * @param[in] arena  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_cuda_arena_release(tenon_cuda_arena *arena) TENON_NOEXCEPT;

/**
 * A storage in an arena, at a multiple of 256 bytes of the device. If there is no room it is looked for what was given back meanwhile, and
 * then waited for as `wait` says, looking again every millisecond.
 * @param[in]  arena   borrowed; the storage keeps it.
 * @param[in]  nbytes  bytes; their content is what it happens to be. 0: an empty storage, which takes no room.
 * @param[in]  wait    borrowed for the call; NULL: not at all.
 * @param[out] out     new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (full: details "limit" = "arena", "limit_value", "wanted", "in_use",
 *         "holders"; memory), TENON_UNSUPPORTED (in a child of fork), the four of an ended wait, with the same details.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_cuda_arena_allocate(tenon_cuda_arena *arena, uint64_t nbytes, const tenon_wait *wait, tenon_storage **out,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * What it holds. Looks for what was given back first, as tenon_cuda_collect does, but closes nothing that is kept open.
 * @param[in]     arena  borrowed.
 * @param[in,out] out    the caller's; out->struct_size says how much may be written; untouched on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_cuda_arena_stats_get(const tenon_cuda_arena *arena, tenon_cuda_arena_stats *out,
                                                  tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
