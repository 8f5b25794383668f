#ifndef TENON_STORAGE_H
#define TENON_STORAGE_H

/**
 * @file
 * Storages: the memory that Tenon lends. A storage is a contiguous range of bytes on one device,
 * with a reference count. Tensors (tenon/tensor.h) are views of storages.
 *
 * Storages lie in segments. A segment is one kernel object that holds shared bytes (a memfd or a
 * named file), together with its mapping in this process. The range of a segment that one storage
 * occupies is called a block.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/**
 * A contiguous range of bytes on one device, with a reference count. A storage is allocated in
 * memory that can be shared, so that lending it never moves its bytes. Storages over ordinary
 * memory (TENON_STORAGE_PRIVATE, tenon_storage_wrap) are the exception.
 */
typedef struct tenon_storage tenon_storage;

/** Memory from which storages are allocated; see tenon/arena.h. */
typedef struct tenon_arena tenon_arena;

struct tenon_wait;

/**
 * The mode of a storage says who may write to it once it is shared. The mode is chosen when the
 * storage is made, because the kernel's seals belong to the memory and not to a single lend.
 */
typedef uint32_t tenon_mode;

enum {
  /** The lender and its borrowers may write. */
  TENON_MODE_SHARED = 0,
  /** Only the lender may write, through its mapping. The kernel refuses every borrower's write. */
  TENON_MODE_LENDER_WRITES = 1,
  /**
   * The storage is filled with tenon_storage_write and then frozen. Afterwards nobody can write to
   * it, not even the lender.
   */
  TENON_MODE_FROZEN = 2
};

enum {
  /** The storage gets a segment of its own: a borrower can reach no other storage through it. */
  TENON_STORAGE_ISOLATED = 1,
  /** The storage lies in ordinary memory of this process and cannot be lent. */
  TENON_STORAGE_PRIVATE = 2,
  /**
   * All bytes of a new storage are 0. Without this flag, a reused block may keep the bytes of the
   * storage that lay there before.
   */
  TENON_STORAGE_ZEROED = 4,
  /** For tenon_storage_wrap only: the wrapped memory must not be written. */
  TENON_STORAGE_READ_ONLY = 8,
  /**
   * The caller promises to write all bytes of the new storage before it lends or reads them.
   *
   * Without this flag, a reused block that was lent before is cleared first, which takes about as
   * long as filling it. With this flag it is not cleared. If the caller breaks the promise, a
   * borrower reads the bytes of an earlier storage of this process. That storage was lent too,
   * perhaps to another borrower, and its borrower may have written those bytes. A storage that is
   * released without being lent need not be filled: its block is cleared for the next storage.
   *
   * The flag changes nothing for fresh memory, for mode TENON_MODE_FROZEN, for a private storage
   * and in tenon_storage_new_from. With TENON_STORAGE_ZEROED it is TENON_INVALID_ARGUMENT. A
   * library that does not know the flag refuses it with TENON_UNSUPPORTED.
   */
  TENON_STORAGE_WILL_FILL = 16
};

/**
 * How to make a storage. A NULL pointer to these options means that all fields are zero: mode
 * TENON_MODE_SHARED, one of the library's own arenas, 64-byte alignment.
 */
typedef struct tenon_storage_options {
  /** sizeof(tenon_storage_options), set by the caller. */
  size_t struct_size;
  /** TENON_MODE_*. It is ignored for private and for wrapped memory. */
  tenon_mode mode;
  /** TENON_STORAGE_*. */
  uint32_t flags;
  /** The alignment in bytes, a power of two up to 4096. 0 means 64. */
  uint64_t alignment;
  /**
   * The arena to allocate from, borrowed for the call. The storage gets the arena's mode, so `mode`
   * must be 0 or the arena's mode, and the flags ISOLATED and PRIVATE are not allowed. NULL means
   * one of the library's own arenas.
   */
  tenon_arena *arena;
  /**
   * How long to wait for room when `arena` is full, borrowed for the call. NULL means not to wait.
   */
  const struct tenon_wait *wait;
} tenon_storage_options;

/** A device, in DLPack's numbers. Type 1 is the CPU. */
typedef struct tenon_device {
  int32_t type;
  int32_t id;
} tenon_device;

/**
 * Makes a storage of `nbytes` bytes. The memory is reserved before the call returns, so a machine
 * that has no memory left causes an error here and not a SIGBUS later. If two processes race for
 * the last bytes of a memory cgroup, the kernel's OOM killer can still end one of them. The bytes
 * are zero if the memory is fresh, and unspecified if a block is reused; see TENON_STORAGE_ZEROED
 * and TENON_STORAGE_WILL_FILL.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[in]  nbytes   the size in bytes. 0 gives an empty storage, which has no segment and can be
 *                      lent nevertheless.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (the detail "limit" names the
 *         limit that was reached), TENON_UNSUPPORTED, TENON_PERMISSION (a security policy denies
 *         sealed memory, and the mode needs seals), or, after a wait for a full arena,
 *         TENON_TIMEOUT, TENON_INTERRUPTED or TENON_CANCELLED.
 * @since 0.1. Any thread may call this function. A child of fork cannot allocate from its parent's
 *         arena.
 */
TENON_API tenon_status tenon_storage_new(const tenon_storage_options *options, uint64_t nbytes,
                                         tenon_storage **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a storage that holds a copy of the `nbytes` bytes at `data`. This is faster than
 * tenon_storage_new followed by tenon_storage_write, because the kernel can fill fresh memory in
 * one pass. A storage of mode TENON_MODE_FROZEN is frozen when the call returns. The copied bytes
 * count in tenon_stats.bytes_copied.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 * @param[in]  nbytes   how many bytes to copy.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return the same codes as tenon_storage_new.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_storage_new_from(const tenon_storage_options *options,
                                              const void *data, uint64_t nbytes,
                                              tenon_storage **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a private storage over memory that the caller provides. The storage cannot be lent:
 * tenon_share_fd returns TENON_UNSUPPORTED.
 * @param[in]  data     kept until the storage ends: the memory must stay valid until then. It may
 *                      be NULL if nbytes is 0.
 * @param[in]  nbytes   how many bytes there are at `data`.
 * @param[in]  release  called once with `context` when the last reference to the storage is
 *                      released, on the thread that released it. If it is NULL, no function is
 *                      called. If tenon_storage_wrap fails, `release` is not called.
 * @param[in]  context  handed to `release`.
 * @param[in]  options  borrowed. NULL means the defaults. Only the flag TENON_STORAGE_READ_ONLY has
 *                      an effect; any other flag is TENON_UNSUPPORTED.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED, TENON_UNSUPPORTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_storage_wrap(void *data, uint64_t nbytes,
                                          void (*release)(void *context), void *context,
                                          const tenon_storage_options *options, tenon_storage **out,
                                          tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a strong reference.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return `storage`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_storage *tenon_storage_retain(tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Releases a strong reference. The last release frees the bytes, and weak references to the storage
 * are expired from then on.
 * @param[in] storage  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_storage_release(tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Returns a pointer to the bytes, for reading.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return a pointer borrowed from the storage and valid until its last release. It is NULL for an
 *         empty storage, for a storage that was dropped (see tenon_storage_check_lender), and for
 *         NULL. For a storage on a CUDA device it is an address of that device, and only work on
 *         that device may access it. tenon_storage_device tells which device that is.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_storage_data(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Gives a pointer to the bytes, for writing.
 * @param[in]  storage  borrowed.
 * @param[out] out      borrowed from the storage and valid until its last release. It is NULL for
 *                      an empty storage. For a storage on a device it is an address of that device,
 *                      as in tenon_storage_data. It is untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only; use
 *         tenon_storage_write to fill a storage of mode TENON_MODE_FROZEN), TENON_PEER_GONE (the
 *         storage was dropped, see tenon_storage_check_lender).
 * @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
 *         tenon.h).
 */
TENON_API tenon_status tenon_storage_data_mut(tenon_storage *storage, void **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Finds the storage that has the `nbytes` bytes at an address. Use this function when another
 * library (NumPy, PyTorch) gives back an address that it got from a storage or computed from such
 * an address. Memory that is already Tenon's can then be lent without a copy.
 *
 * A storage is found from the time when its address was given out by tenon_storage_data,
 * tenon_storage_data_mut, tenon_tensor_data, tenon_tensor_data_mut or an export by DLPack, until
 * its last reference is released. Private and empty storages are not found. If several storages
 * have the bytes, because ranges of one segment were opened separately, the result is one of the
 * smallest.
 * @param[in]  address  borrowed for the call and not dereferenced, so any address will do. For a
 *                      storage on a CUDA device it is an address of that device.
 * @param[in]  nbytes   how many bytes the storage must have from `address` on. 0 means 1.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] offset   how many bytes into the storage the address lies. NULL is allowed. It is
 *                      untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_NOT_FOUND.
 * @since 0.1. Any thread may call this function. A child of fork finds what its parent found.
 */
TENON_API tenon_status tenon_storage_at(const void *address, uint64_t nbytes, tenon_storage **out,
                                        uint64_t *offset, tenon_error **err) TENON_NOEXCEPT;

/**
 * Checks whether a storage was dropped because its lender is gone (TENON_LENDER_GONE_DROP).
 * @param[in]  storage  borrowed. NULL is allowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_PEER_GONE for a storage that was dropped, TENON_OK for any other storage and for
 *         NULL.
 * @since 0.1. Any thread may call this function. The lender can end right after the call.
 */
TENON_API tenon_status tenon_storage_check_lender(const tenon_storage *storage,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the size of a storage in bytes.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return the size in bytes; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_storage_nbytes(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Returns the device that holds the bytes.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return {1, 0} for the CPU, {2, N} for CUDA device N in this process's numbering; {0, 0} for
 *         NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_device tenon_storage_device(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Checks whether the host can access addresses of a device. A wrapper calls this function before it
 * gives bytes out as a slice, a span or a buffer.
 * @param[in]  device  a device from tenon_storage_device or from tenon_tensor_view.device.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK for the CPU, and for {0, 0}, which stands for no memory at all.
 *         TENON_UNSUPPORTED for any other device: only work on that device can read and write the
 *         bytes.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_device_check_host(tenon_device device,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the mode of a storage. It is the mode that was chosen when the storage was made, or, for
 * an opened storage, the mode that the segment's seals enforce.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return TENON_MODE_*; TENON_MODE_SHARED for private memory and for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_mode tenon_storage_mode(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Tells whether this process must not write to the bytes through memory.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return 1 if the storage is read-only, otherwise 0. A storage is read-only if it was opened
 *         read-only, wraps read-only memory, or has mode TENON_MODE_FROZEN.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_storage_is_read_only(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Tells whether the bytes lie in memory that can be lent.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return 1 for shared memory, for memory of a device (tenon_share_cuda refuses some of that
 *         nevertheless), and for an empty storage that is not private; otherwise 0.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_storage_is_shared(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Tells whether the kernel guarantees the size of the segment. If so, nobody can cut the memory
 * short, and reading it never causes a SIGBUS for that reason.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return 1 if the segment is sealed, or if there is no file that could be cut short (private
 *         memory, memory of a device, an empty storage). The result is 0 for an unsealed segment
 *         (opened with TENON_OPEN_ALLOW_UNSEALED, or made where memfd_create is denied, see
 *         tenon_share_fd), for a copy-on-write opening of an unsealed file
 *         (TENON_OPEN_PRIVATE_COW), for a view of a module archive's file, and for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_storage_is_sealed(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Tells whether two storages of this process are views of the same bytes: the same range of the
 * same segment, whatever the access.
 * @param[in] a  borrowed. NULL is allowed.
 * @param[in] b  borrowed. NULL is allowed.
 * @return 1 if both storages lie over the same memory, otherwise 0. An empty storage has no memory,
 *         so the result is 0 for it, even when it is compared with itself.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_storage_same_memory(const tenon_storage *a,
                                        const tenon_storage *b) TENON_NOEXCEPT;

/**
 * Returns a number that identifies this storage object. No other storage object in this process
 * ever gets the same number, so it can be a hash key.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return the id, > 0; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_storage_id(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Returns how many strong references to a storage there are. The number can change at any moment:
 * use it for tests and debugging only.
 * @param[in] storage  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_storage_use_count(const tenon_storage *storage) TENON_NOEXCEPT;

/**
 * Copies bytes into a storage. Only this function can fill a storage of mode TENON_MODE_FROZEN
 * after it was made. The bytes count in tenon_stats.bytes_copied.
 * @param[in]  storage  borrowed.
 * @param[in]  offset   bytes from the start of the storage.
 * @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 * @param[in]  nbytes   how many bytes to copy. offset + nbytes must not exceed the size of the
 *                      storage.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only or frozen;
 *         or a seccomp filter forbids process_vm_writev, which copies into unsealed memory that is
 *         a named file's or private), TENON_CORRUPT (the file under such memory was cut short),
 *         TENON_RESOURCE_EXHAUSTED, TENON_IO, TENON_UNSUPPORTED (the storage is on a device, where
 *         only work in the device's streams copies; or a child of fork fills a storage that its
 *         parent made), TENON_PEER_GONE (the storage was dropped). After a failure, some of the
 *         bytes may have been written.
 * @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
 *         tenon.h).
 */
TENON_API tenon_status tenon_storage_write(tenon_storage *storage, uint64_t offset,
                                           const void *data, uint64_t nbytes,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Copies bytes out of a storage. If the file under an unsealed storage was cut short, this function
 * returns an error where a load through tenon_storage_data would cause a SIGBUS. The bytes count in
 * tenon_stats.bytes_copied.
 * @param[in]  storage  borrowed.
 * @param[in]  offset   bytes from the start of the storage.
 * @param[out] data     the caller's buffer, with room for at least nbytes bytes. It may be NULL if
 *                      nbytes is 0.
 * @param[in]  nbytes   how many bytes to copy. offset + nbytes must not exceed the size of the
 *                      storage.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (the file was cut short),
 *         TENON_PERMISSION (a seccomp filter forbids process_vm_readv, which copies out of unsealed
 *         memory that is a named file's or private), TENON_IO, TENON_UNSUPPORTED (the storage is on
 *         a device), TENON_PEER_GONE (the storage was dropped). After a failure, some of the bytes
 *         at `data` may have been written.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_storage_read(const tenon_storage *storage, uint64_t offset, void *data,
                                          uint64_t nbytes, tenon_error **err) TENON_NOEXCEPT;

/**
 * Freezes a storage of mode TENON_MODE_FROZEN. From then on the kernel refuses every write by any
 * process. Only a frozen storage of this mode can be lent. Freezing a storage again has no effect
 * and is not an error.
 * @param[in]  storage  borrowed.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the storage has another mode), TENON_IO,
 *         TENON_UNSUPPORTED (a child of fork freezes a storage that its parent made).
 * @since 0.1. Any thread may call this function. A write that runs at the same time is either done
 *         as a whole or refused.
 */
TENON_API tenon_status tenon_storage_freeze(tenon_storage *storage,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns kept memory to the system: free memory that the library keeps for later storages. Without
 * this call the library returns kept memory only when memory, fds or mappings run short. Before it
 * refuses a new storage for lack of them, it returns all kept memory and tries once more.
 * @return how many bytes were returned to the system.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_storage_trim(void) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
