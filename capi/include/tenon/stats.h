#ifndef TENON_STATS_H
#define TENON_STATS_H

/**
 * @file
 * Figures about the library in this process: the memory that it holds and the bytes that it has
 * copied.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/**
 * The memory that the library holds in this process, and the bytes that it has copied. The figures
 * are read one after another, so other threads can change some of them in between.
 */
typedef struct tenon_stats {
  /** sizeof(tenon_stats), set by the caller. */
  size_t struct_size;
  /**
   * The payload bytes that the library has copied since the process began, for example in
   * tenon_storage_new_from, tenon_storage_write, tenon_storage_read and private copies.
   */
  uint64_t bytes_copied;
  /** The number of storages that are alive. */
  uint64_t storages;
  /** The number of mapped segments, this process's own and opened ones. */
  uint64_t segments;
  /** The number of fds that these segments hold. */
  uint64_t segment_fds;
  /** The bytes of memory that this process's own segments have reserved from the system. */
  uint64_t bytes_reserved;
  /** The part of bytes_reserved that lies in living storages. */
  uint64_t bytes_live;
  /**
   * The part of bytes_reserved that was lent without a lease and released. It is not reused, and is
   * freed together with its segment.
   */
  uint64_t bytes_retired;
  /** The bytes in storages that belong to other processes and are open in this process. */
  uint64_t bytes_opened;
} tenon_stats;

/**
 * Gives the figures of this process.
 * @param[in,out] out  the caller's. out->struct_size says how much the call may write. It is
 *                     untouched on failure.
 * @param[out]    err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_stats_get(tenon_stats *out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
