#ifndef TENON_WEAK_H
#define TENON_WEAK_H

/**
 * @file
 * Weak references: they identify a storage without keeping its bytes alive.
 */

#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/** A weak reference to a storage. It does not keep the storage's bytes alive. */
typedef struct tenon_weak tenon_weak;

/**
 * Makes a weak reference to a storage.
 * @param[in]  storage  borrowed.
 * @param[out] out      new reference; release it with tenon_weak_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_weak_ref(tenon_storage *storage, tenon_weak **out,
                                      tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference to the same weak reference object. The call does not look at the storage, which
 * may have expired.
 * @param[in] weak  borrowed. NULL is allowed.
 * @return `weak`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_weak *tenon_weak_retain(tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Gives the storage back, if it is still alive. If the call races with the storage's last release,
 * it returns either a complete storage or NULL.
 * @param[in] weak  borrowed. NULL is allowed.
 * @return a new strong reference; release it with tenon_storage_release. It is NULL if the storage
 *         has expired or if `weak` is NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_storage *tenon_weak_lock(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Tells whether the storage has expired. An expired storage never comes back, so after the first 1
 * the result is always 1.
 * @param[in] weak  borrowed. NULL is allowed.
 * @return 1 if the storage has expired or if `weak` is NULL; otherwise 0, which may be out of date
 *         at once: only tenon_weak_lock gives certainty.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_weak_expired(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Returns the id of the storage, which is its tenon_storage_id. The id stays available after the
 * storage has expired.
 * @param[in] weak  borrowed. NULL is allowed.
 * @return the id, > 0; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_weak_id(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Releases a weak reference. Other references to the same storage are not affected.
 * @param[in] weak  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_weak_release(tenon_weak *weak) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
