#ifndef TENON_CUDA_ARENA_H
#define TENON_CUDA_ARENA_H

/**
 * @file
 * Arenas on a CUDA device: memory from which many storages are allocated, so that one handle leads
 * to all of them.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_cuda.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <tenon/wait.h>

TENON_BEGIN_DECLS

/*
 * An arena on a device is one allocation of device memory in which many storages lie. A receiver
 * opens this allocation once for all of them, whether they come over a connection, by
 * tenon_share_cuda or through PyTorch.
 *
 * The range of the arena in which a storage lies is called its block. A block is reused when its
 * storage is released, the work in the streams that used the storage is complete, and every
 * receiver has released the storage. For a storage that was sent over a connection, a receiver that
 * is killed or never reads the message counts as having released it.
 *
 * A receiver of one byte of an arena can read and write the whole arena. A block that is reused
 * still has the bytes of its earlier storage.
 */

/** An arena on a CUDA device, with a reference count. */
typedef struct tenon_cuda_arena tenon_cuda_arena;

/** How to make an arena on a device. */
typedef struct tenon_cuda_arena_options {
  /** sizeof(tenon_cuda_arena_options), set by the caller. */
  size_t struct_size;
  /** The device's ordinal in this process's numbering. */
  int32_t device;
  /**
   * The transport of the memory: TENON_CUDA_IPC, TENON_CUDA_FD or TENON_CUDA_FABRIC. 0 means
   * TENON_CUDA_IPC if the device has it, because PyTorch opens that, and otherwise TENON_CUDA_FD.
   */
  tenon_cuda_transport transport;
  /**
   * The size of the arena in bytes, rounded up to a size that the device can allocate. All of it is
   * allocated at once.
   */
  uint64_t capacity_nbytes;
} tenon_cuda_arena_options;

/** Figures about the contents of an arena on a device. All figures are of one moment. */
typedef struct tenon_cuda_arena_stats {
  /** sizeof(tenon_cuda_arena_stats), set by the caller. */
  size_t struct_size;
  /** The device's ordinal. */
  int32_t device;
  /** The transport by which the memory is lent. */
  tenon_cuda_transport transport;
  /** The most bytes that the arena can hold. */
  uint64_t bytes_capacity;
  /** Bytes that are in storages, or that a stream or a receiver still uses. */
  uint64_t bytes_used;
  /** Bytes that are not in use. */
  uint64_t bytes_free;
  /** The size of the longest free range. */
  uint64_t bytes_largest_free;
  /** The most bytes that were in use at one time. */
  uint64_t bytes_peak;
  /** The number of blocks that are in storages, or that a stream or a receiver still uses. */
  uint64_t blocks_used;
} tenon_cuda_arena_stats;

/**
 * Makes an arena on a device.
 * @param[in]  options  borrowed.
 * @param[out] out      new reference; release it with tenon_cuda_arena_release. Untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (`options` is NULL; capacity_nbytes is 0; there is no
 *         such device; the transport is another one), TENON_UNSUPPORTED (there is no CUDA, or the
 *         device cannot lend memory by that transport), TENON_RESOURCE_EXHAUSTED (device memory),
 *         other codes for errors of the driver (details "cuda_error", "cuda_error_name").
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_cuda_arena_new(const tenon_cuda_arena_options *options,
                                            tenon_cuda_arena **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] arena  borrowed. NULL is allowed.
 * @return `arena`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_cuda_arena *tenon_cuda_arena_retain(tenon_cuda_arena *arena) TENON_NOEXCEPT;

/**
 * Releases a reference. The arena's memory is freed once the last storage in it is released and no
 * stream and no receiver uses it any more. The driver waits for the device's work when it frees
 * memory. So a send, a receive or another call in which an arena ends does not free the memory
 * itself. tenon_cuda_collect, the next call that ends a storage on a device, or a call that finds
 * too little memory frees it.
 * @param[in] arena  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_cuda_arena_release(tenon_cuda_arena *arena) TENON_NOEXCEPT;

/**
 * Allocates a storage in an arena. Its address on the device is a multiple of 256 bytes. If there
 * is no room, the call checks for memory that was given back meanwhile, as tenon_cuda_collect does.
 * If there is still no room, it waits as `wait` says and checks again, at most a millisecond apart.
 * The call does not wait if `nbytes` is more than the arena's capacity.
 * @param[in]  arena   borrowed. The storage keeps the arena alive.
 * @param[in]  nbytes  the size in bytes. The content of the bytes is unspecified. 0 gives an empty
 *                     storage, which takes no room.
 * @param[in]  wait    borrowed for the call. NULL: do not wait.
 * @param[out] out     new reference; release it with tenon_storage_release. Untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (memory; or the arena is full,
 *         with the details "limit" = "arena", "limit_value", "wanted", "in_use" and "holders"),
 *         TENON_UNSUPPORTED (in a child of fork), or, after a wait that ended, TENON_TIMEOUT,
 *         TENON_INTERRUPTED or TENON_CANCELLED, with the same details. A wait with timeout 0 gives
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_cuda_arena_allocate(tenon_cuda_arena *arena, uint64_t nbytes,
                                                 const tenon_wait *wait, tenon_storage **out,
                                                 tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives the figures of an arena. The call checks for memory that was given back first, as
 * tenon_cuda_collect does, but it closes nothing that is kept open (TENON_CUDA_KEEP_OPEN).
 * @param[in]     arena  borrowed.
 * @param[in,out] out    the caller's. out->struct_size says how much the call may write. Untouched
 *                       on failure.
 * @param[out]    err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_cuda_arena_stats_get(const tenon_cuda_arena *arena,
                                                  tenon_cuda_arena_stats *out,
                                                  tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
