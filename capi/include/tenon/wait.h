#ifndef TENON_WAIT_H
#define TENON_WAIT_H

/**
 * @file
 * Waits: how long a call may block, and how to end a wait from another thread or from a signal
 * handler.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/**
 * A cancel ends waits from outside. One cancel can serve any number of waits, at the same time or
 * one after another.
 */
typedef struct tenon_cancel tenon_cancel;

enum {
  /** A signal whose handler has returned ends the wait with TENON_INTERRUPTED. */
  TENON_WAIT_INTERRUPTIBLE = 1
};

/**
 * How long a call may wait. A NULL pointer to a tenon_wait means that the call waits for ever and
 * is not interruptible, unless the function's comment names another default.
 */
typedef struct tenon_wait {
  /** sizeof(tenon_wait), set by the caller. */
  size_t struct_size;
  /**
   * Nanoseconds on CLOCK_MONOTONIC. A negative number means for ever. 0 means that the call does
   * not wait and returns TENON_WOULD_BLOCK instead.
   */
  int64_t timeout_ns;
  /** The cancel, borrowed for the call. NULL means that the wait cannot be cancelled. */
  tenon_cancel *cancel;
  /** TENON_WAIT_*. */
  uint32_t flags;
  /** It must be 0. */
  uint32_t reserved;
} tenon_wait;

/**
 * Makes a cancel that is not triggered. It uses one fd.
 * @param[out] out  new reference; release it with tenon_cancel_release. It is untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function. After fork, parent and child trigger the same
 *         object.
 */
TENON_API tenon_status tenon_cancel_new(tenon_cancel **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Ends every wait that uses this cancel with TENON_CANCELLED. A wait that begins later ends too,
 * until tenon_cancel_reset is called.
 * @param[in] cancel  borrowed. NULL is allowed.
 * @since 0.1. Any thread may call this function. It is async-signal-safe, so a signal handler may
 *         call it too.
 */
TENON_API void tenon_cancel_trigger(tenon_cancel *cancel) TENON_NOEXCEPT;

/**
 * Makes a triggered cancel usable again.
 * @param[in] cancel  borrowed. NULL is allowed. No wait may be using it.
 * @since 0.1.
 */
TENON_API void tenon_cancel_reset(tenon_cancel *cancel) TENON_NOEXCEPT;

/**
 * Releases a cancel.
 * @param[in] cancel  consumed. NULL is allowed. No wait may be using it.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_cancel_release(tenon_cancel *cancel) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
