#ifndef TENON_WEAK_H
#define TENON_WEAK_H

#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/** Knows a storage without keeping its bytes alive. */
typedef struct tenon_weak tenon_weak;

/**
 * Make a weak reference to a storage.
 * @param[in]  storage  borrowed.
 * @param[out] out      new reference, release with tenon_weak_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_weak_ref(tenon_storage *storage, tenon_weak **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference to the same weak object. The storage may have expired; it is not asked.
 * @param[in] weak  borrowed; NULL is allowed.
 * @return `weak`, now with one reference more, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_weak *tenon_weak_retain(tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Get the storage back, if it is still alive. A race with its last release has one winner: either this call returns a
 * storage that is whole, or NULL.
 * @param[in] weak  borrowed; NULL is allowed.
 * @return a new strong reference, release with tenon_storage_release; NULL: expired (or `weak` is NULL).
 * @since 0.1. Any thread.
 */
TENON_API tenon_storage *tenon_weak_lock(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Whether the storage is gone. Once 1, always 1.
 * @param[in] weak  borrowed; NULL is allowed.
 * @return 1 if expired or NULL, else 0 (which may be out of date at once: use tenon_weak_lock to be sure).
 * @since 0.1. Any thread.
 */
TENON_API int tenon_weak_expired(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * The id of the storage, the same number as its tenon_storage_id, also after it expired.
 * @param[in] weak  borrowed; NULL is allowed.
 * @return the id, > 0; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_weak_id(const tenon_weak *weak) TENON_NOEXCEPT;

/**
 * Give a weak reference back. What others hold of the same storage stays.
 * @param[in] weak  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_weak_release(tenon_weak *weak) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
