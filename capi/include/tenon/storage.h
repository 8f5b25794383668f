#ifndef TENON_STORAGE_H
#define TENON_STORAGE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/** Counted, contiguous bytes on one device. Born shareable, so that lending never moves them. */
typedef struct tenon_storage tenon_storage;

/** Memory in which storages are born: tenon/arena.h. */
typedef struct tenon_arena tenon_arena;

struct tenon_wait;

/** Who may write to a shared storage. Chosen at birth, because the kernel's seals belong to the memory and not to a lend. */
typedef uint32_t tenon_mode;

enum {
  TENON_MODE_SHARED = 0,        /**< lender and borrowers write */
  TENON_MODE_LENDER_WRITES = 1, /**< only the lender writes, through memory; borrowers cannot, whatever they try */
  TENON_MODE_FROZEN = 2         /**< filled with tenon_storage_write, then frozen: nobody writes again, the lender included */
};

enum {
  TENON_STORAGE_ISOLATED = 1, /**< a segment of its own: a borrower can reach nothing but this storage */
  TENON_STORAGE_PRIVATE = 2,  /**< ordinary memory of this process; cannot be lent */
  TENON_STORAGE_ZEROED = 4,   /**< all bytes 0 at birth (otherwise a reused block keeps what its last owner wrote) */
  TENON_STORAGE_READ_ONLY = 8 /**< tenon_storage_wrap only: the wrapped memory must not be written */
};

/** How a storage is made. NULL, where one is taken, means all zero: TENON_MODE_SHARED, in the arena, 64-byte aligned. */
typedef struct tenon_storage_options {
  size_t struct_size;            /**< sizeof(tenon_storage_options), set by the caller */
  tenon_mode mode;               /**< TENON_MODE_*; ignored for private and wrapped memory */
  uint32_t flags;                /**< TENON_STORAGE_* */
  uint64_t alignment;            /**< bytes, a power of two up to 4096; 0: 64 */
  tenon_arena *arena;            /**< borrowed for the call; where it is born, in the arena's mode; NULL: in the library's own */
  const struct tenon_wait *wait; /**< borrowed for the call; how long a full arena is waited for; NULL: not at all */
} tenon_storage_options;

/** A device, in DLPack's numbers: type 1 is the CPU. */
typedef struct tenon_device {
  int32_t type;
  int32_t id;
} tenon_device;

/**
 * Make a storage of `nbytes` bytes. Its memory is reserved before the call returns: a full machine is an error here and
 * no SIGBUS later. (Two processes that race for the last bytes of a memory cgroup can still meet the kernel's OOM killer.)
 * The bytes are zero when the memory is fresh, and unspecified when a block is used again; see TENON_STORAGE_ZEROED.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[in]  nbytes   0 is allowed: an empty storage, which has no segment and can be lent all the same.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (detail "limit": what was met), TENON_UNSUPPORTED.
 * @since 0.1. Any thread. A child of fork never allocates from its parent's arena.
 */
TENON_API tenon_status tenon_storage_new(const tenon_storage_options *options, uint64_t nbytes, tenon_storage **out,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a storage that holds a copy of `nbytes` bytes at `data`. Faster than new and write: fresh memory is filled by the
 * kernel in one pass. With TENON_MODE_FROZEN the storage comes back frozen. The copied bytes are counted in
 * tenon_stats.bytes_copied.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 * @param[in]  nbytes   bytes to copy.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return as tenon_storage_new.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_storage_new_from(const tenon_storage_options *options, const void *data, uint64_t nbytes, tenon_storage **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Make a private storage over memory that belongs to somebody else. It cannot be lent (tenon_share_fd: TENON_UNSUPPORTED).
 * @param[in]  data     kept until the storage dies; may be NULL if nbytes is 0.
 * @param[in]  nbytes   bytes at `data`.
 * @param[in]  release  called once with `context` when the last reference goes, on the thread that released it; NULL:
 *                      nothing is called. Not called if this function fails.
 * @param[in]  context  handed to `release`.
 * @param[in]  options  borrowed; only TENON_STORAGE_READ_ONLY counts; NULL: defaults.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_storage_wrap(void *data, uint64_t nbytes, void (*release)(void *context), void *context,
                                          const tenon_storage_options *options, tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more strong reference.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return `storage`, now with one reference more, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_storage *tenon_storage_retain(tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Give one strong reference back. The last one frees the bytes; weak references to it are expired from then on.
 * @param[in] storage  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_storage_release(tenon_storage *storage) TENON_NOEXCEPT;

/**
 * The bytes, to read.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return borrowed from the storage, valid until its last release; NULL for an empty storage, for one
 *         that was dropped (tenon_storage_check_lender), and for NULL. For a storage on a CUDA device
 *         it is an address of that device, which only work there may follow (tenon_storage_device
 *         tells).
 * @since 0.1. Any thread.
 */
TENON_API const void *tenon_storage_data(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * The bytes, to write.
 * @param[in]  storage  borrowed.
 * @param[out] out      borrowed from the storage, valid until its last release; NULL for an empty one; untouched on failure. Of a device's
 *                      storage as tenon_storage_data.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only; a TENON_MODE_FROZEN storage is filled with
 *         tenon_storage_write), TENON_PEER_GONE (dropped, see tenon_storage_check_lender).
 * @since 0.1. Any thread; who orders the writes is the callers' affair.
 */
TENON_API tenon_status tenon_storage_data_mut(tenon_storage *storage, void **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Ask whether the lender of a storage is gone, and the storage was dropped for that
 * (TENON_LENDER_GONE_DROP).
 * @param[in]  storage  borrowed; NULL is allowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_PEER_GONE for a storage that was dropped, TENON_OK for any other and for NULL.
 * @since 0.1. Any thread. The lender can be gone the moment after.
 */
TENON_API tenon_status tenon_storage_check_lender(const tenon_storage *storage, tenon_error **err) TENON_NOEXCEPT;

/**
 * The size in bytes.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return bytes; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_storage_nbytes(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * The device that holds the bytes.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return {1, 0} for the CPU, {2, N} for CUDA device N in this process's numbering; {0, 0} for NULL.
 * @since 0.1. Any thread.
 */
TENON_API tenon_device tenon_storage_device(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Ask, before an address of that device is followed on the host, whether the host can: what a wrapper calls that gives bytes out as a
 * slice, a span or a buffer.
 * @param[in]  device  as tenon_storage_device gives it, or tenon_tensor_view.device.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK for the CPU, and for {0, 0}, where nothing is; TENON_UNSUPPORTED: only work of the device reads and writes the bytes.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_device_check_host(tenon_device device, tenon_error **err) TENON_NOEXCEPT;

/**
 * The mode: the one chosen at birth, or, for an opened storage, the one that the segment's seals enforce.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return TENON_MODE_*; TENON_MODE_SHARED for private memory and for NULL.
 * @since 0.1. Any thread.
 */
TENON_API tenon_mode tenon_storage_mode(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Whether this process must not write to the bytes through memory.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return 1 if read-only (opened so, wrapped so, or TENON_MODE_FROZEN), else 0.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_storage_is_read_only(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Whether the bytes lie in memory that can be lent.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return 1 for shared memory, for a device's (some of which tenon_share_cuda refuses all the same), and for an empty storage that is not
 *         private; else 0.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_storage_is_shared(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Whether the kernel holds the size of the segment, so that reading can never meet SIGBUS because somebody cut it short.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return 1 if sealed, or if there is nothing to cut (private, empty); 0 for an unsealed one (opened with
 *         TENON_OPEN_ALLOW_UNSEALED, or made where memfd_create is denied, see tenon_share_fd), for a view of a module archive's
 *         file, and for NULL.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_storage_is_sealed(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Whether two storages of this process are views of the same bytes (same segment and range, whatever the access).
 * @param[in] a  borrowed; NULL is allowed.
 * @param[in] b  borrowed; NULL is allowed.
 * @return 1 if both lie over the same memory, else 0; an empty storage has no memory and is the same as none.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_storage_same_memory(const tenon_storage *a, const tenon_storage *b) TENON_NOEXCEPT;

/**
 * A number for this storage object, never given to another one in this process: fit for a hash key.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return the id, > 0; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_storage_id(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * How many strong references there are at this moment; for tests and debugging, since it can change at once.
 * @param[in] storage  borrowed; NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_storage_use_count(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Copy bytes into a storage. The only way to fill a TENON_MODE_FROZEN one. Counted in tenon_stats.bytes_copied.
 * @param[in]  storage  borrowed.
 * @param[in]  offset   bytes from the start of the storage.
 * @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 * @param[in]  nbytes   bytes to copy; offset + nbytes must not pass the end.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only or frozen), TENON_RESOURCE_EXHAUSTED, TENON_IO,
 *         TENON_UNSUPPORTED (a device's storage: what is given to its streams copies there), TENON_PEER_GONE (dropped).
 *         After a failure some of the bytes may have been written.
 * @since 0.1. Any thread; who orders the writes is the callers' affair.
 */
TENON_API tenon_status tenon_storage_write(tenon_storage *storage, uint64_t offset, const void *data, uint64_t nbytes,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Copy bytes out of a storage. Unlike a load through tenon_storage_data, this gives an error and no SIGBUS when the file
 * under an unsealed storage was cut short. Counted in tenon_stats.bytes_copied.
 * @param[in]  storage  borrowed.
 * @param[in]  offset   bytes from the start of the storage.
 * @param[out] data     the caller's, at least nbytes bytes; may be NULL if nbytes is 0.
 * @param[in]  nbytes   bytes to copy; offset + nbytes must not pass the end.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the file was cut short), TENON_IO, TENON_UNSUPPORTED (a device's storage),
 * TENON_PEER_GONE (dropped). After a failure some of the bytes at `data` may have been written.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_storage_read(const tenon_storage *storage, uint64_t offset, void *data, uint64_t nbytes,
                                          tenon_error **err) TENON_NOEXCEPT;

/**
 * End the filling of a TENON_MODE_FROZEN storage: the kernel refuses every later write, by anybody. Freezing a frozen
 * storage again is fine. Only a frozen one can be lent.
 * @param[in]  storage  borrowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (not of that mode), TENON_IO.
 * @since 0.1. Any thread; a write that runs at the same time is either whole or refused.
 */
TENON_API tenon_status tenon_storage_freeze(tenon_storage *storage, tenon_error **err) TENON_NOEXCEPT;

/**
 * Give memory back to the system that the arena keeps warm for later storages. Otherwise that happens only when memory, fds or
 * mappings are short: before a new storage is refused for want of them, all that is kept is given back and it is tried once more.
 * @return bytes given back.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_storage_trim(void) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
