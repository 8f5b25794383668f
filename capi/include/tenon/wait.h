#ifndef TENON_WAIT_H
#define TENON_WAIT_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/** Ends waits from outside. One cancel can serve any number of waits, at once or in turn. */
typedef struct tenon_cancel tenon_cancel;

enum {
  TENON_WAIT_INTERRUPTIBLE = 1 /**< a signal whose handler returned ends the wait with TENON_INTERRUPTED */
};

/** How long a call may wait. A NULL wait, where one is taken, means: for ever, not interruptible. */
typedef struct tenon_wait {
  size_t struct_size;   /**< sizeof(tenon_wait), set by the caller */
  int64_t timeout_ns;   /**< nanoseconds on CLOCK_MONOTONIC; < 0: for ever; 0: do not wait (TENON_WOULD_BLOCK) */
  tenon_cancel *cancel; /**< borrowed for the call; NULL: cannot be cancelled */
  uint32_t flags;       /**< TENON_WAIT_* */
  uint32_t reserved;    /**< 0 */
} tenon_wait;

/**
 * Make a cancel, not triggered. It uses one fd.
 * @param[out] out  new reference, release with tenon_cancel_release; untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread. After fork, parent and child trigger the same object.
 */
TENON_API tenon_status tenon_cancel_new(tenon_cancel **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * End every wait that uses this cancel, now and later, with TENON_CANCELLED.
 * @param[in] cancel  borrowed; NULL is allowed.
 * @since 0.1. Any thread, and async-signal-safe: a signal handler may call it.
 */
TENON_API void tenon_cancel_trigger(tenon_cancel *cancel) TENON_NOEXCEPT;

/**
 * Make a triggered cancel fit for use again.
 * @param[in] cancel  borrowed; NULL is allowed. No wait may be using it.
 * @since 0.1.
 */
TENON_API void tenon_cancel_reset(tenon_cancel *cancel) TENON_NOEXCEPT;

/**
 * Give a cancel back.
 * @param[in] cancel  consumed; NULL is allowed. No wait may be using it.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_cancel_release(tenon_cancel *cancel) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
