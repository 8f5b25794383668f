#ifndef TENON_STATS_H
#define TENON_STATS_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/** What this library holds and has done in this process. All figures are of one moment, not of one instant. */
typedef struct tenon_stats {
  size_t struct_size;      /**< sizeof(tenon_stats), set by the caller */
  uint64_t bytes_copied;   /**< payload bytes that the library copied since the process began (new_from, write, read, private copies) */
  uint64_t storages;       /**< storages alive */
  uint64_t segments;       /**< segments mapped, own and opened */
  uint64_t segment_fds;    /**< fds that those segments hold */
  uint64_t bytes_reserved; /**< bytes of memory that own segments have reserved from the system */
  uint64_t bytes_live;     /**< bytes of them in living storages */
  uint64_t bytes_retired;  /**< bytes of them that were lent and released: not used again until their segment goes */
  uint64_t bytes_opened;   /**< bytes of storages that belong to other processes and are open here */
} tenon_stats;

/**
 * Fill in the figures.
 * @param[in,out] out  the caller's; out->struct_size says how much may be written; untouched on failure.
 * @param[out]    err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_stats_get(tenon_stats *out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
