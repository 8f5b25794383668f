#ifndef TENON_BY_FD_H
#define TENON_BY_FD_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/** What a handle allows, or an opener asks for. */
typedef uint32_t tenon_access;

enum {
  TENON_ACCESS_AUTO = 0,      /**< share: what the mode gives; open: what the handle gives */
  TENON_ACCESS_READ_ONLY = 1, /**< share: the kernel must enforce it, so TENON_MODE_SHARED is refused; open: map to read */
  TENON_ACCESS_WRITABLE = 2   /**< both sides write; TENON_MODE_SHARED only */
};

enum {
  TENON_OPEN_PRIVATE_COW = 1,    /**< writes stay in this process; pages not written yet still show the lender's later writes */
  TENON_OPEN_PRIVATE_COPY = 2,   /**< copy the bytes now: a snapshot, in private memory */
  TENON_OPEN_ADOPT_FD = 4,       /**< the fd is the library's once the call succeeds; on failure it stays the caller's */
  TENON_OPEN_ALLOW_UNSEALED = 8, /**< take memory that its owner can cut short (PyTorch's, plain files): a later load may meet SIGBUS */
  TENON_OPEN_OTHER_USER = 16,    /**< tenon_open_filename, tenon_descriptor_open: take memory that belongs to another user */
  TENON_OPEN_NO_MANAGER = 32,    /**< tenon_open_filename: do not tell the manager that the handle names */
  TENON_OPEN_DECREF = 64         /**< tenon_open_filename: a message was received, so also do what tenon_filename_decref does */
};

/** How to reach a storage by fd. The fd carries the bytes; offset and sizes say where. Everything in bytes. */
typedef struct tenon_fd_handle {
  size_t struct_size;      /**< sizeof(tenon_fd_handle), set by the caller, also for output */
  int32_t fd;              /**< close-on-exec; -1 for an empty storage */
  tenon_access access;     /**< TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE; on input AUTO: what the fd and its seals give */
  uint64_t offset;         /**< of the storage in the segment */
  uint64_t nbytes;         /**< of the storage */
  uint64_t segment_nbytes; /**< of the whole segment; 0 on input: ask the fd */
} tenon_fd_handle;

/** What a lend asks for. NULL, where one is taken, means all zero. */
typedef struct tenon_share_options {
  size_t struct_size;  /**< sizeof(tenon_share_options), set by the caller */
  tenon_access access; /**< TENON_ACCESS_* */
  uint32_t flags;      /**< 0 */
} tenon_share_options;

/** How to open what was lent. NULL, where one is taken, means all zero. */
typedef struct tenon_open_options {
  size_t struct_size;  /**< sizeof(tenon_open_options), set by the caller */
  tenon_access access; /**< TENON_ACCESS_* */
  uint32_t flags;      /**< TENON_OPEN_* */
} tenon_open_options;

/**
 * Lend a storage: get an fd, an offset and a size that another process can open. No byte is copied or moved. The block is
 * not used for another storage after its release, because nobody tells this process when the borrower is done; the
 * memory goes back to the system with its segment. Who is lent one storage of a segment can read all of that segment (and
 * write it, in TENON_MODE_SHARED): TENON_STORAGE_ISOLATED gives a storage a segment of its own.
 * Where a seccomp filter or a policy denies memfd_create, storages of TENON_MODE_SHARED lie in nameless files of /dev/shm instead.
 * Such a file takes no seals: tenon_storage_is_sealed says 0, whoever has the fd can cut it short, and it is opened only with
 * TENON_OPEN_ALLOW_UNSEALED. Over a connection it goes without a lease. The other modes need seals and are refused there.
 * @param[in]     storage  borrowed.
 * @param[in]     options  borrowed; NULL: defaults.
 * @param[in,out] out      out->struct_size set by the caller, the rest is filled in; out->fd is the caller's, close it with
 *                         tenon_fd_handle_close once it was sent; untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only lend of TENON_MODE_SHARED, writable lend of another
 *         mode, not frozen yet: detail "option" names the way out), TENON_UNSUPPORTED (private memory),
 *         TENON_RESOURCE_EXHAUSTED (fds).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_share_fd(tenon_storage *storage, const tenon_share_options *options, tenon_fd_handle *out,
                                      tenon_error **err) TENON_NOEXCEPT;

/**
 * Open what was lent. Before anything is mapped: the fd is a regular file in memory (or any regular file with
 * TENON_OPEN_ALLOW_UNSEALED), is as large as the handle says, allows the access, and is sealed against shrinking. The same
 * segment, range and access that this process already holds gives the same storage, with one reference more; private
 * opens always give a new one.
 * @param[in]  handle   borrowed; handle->fd is borrowed too and may be closed after the call (TENON_OPEN_ADOPT_FD:
 *                      consumed on success).
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_storage_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (closed fd, wrong type, range outside), TENON_PERMISSION (unsealed, or writable
 *         access to read-only memory; detail "option"), TENON_CORRUPT (smaller than the handle says),
 *         TENON_RESOURCE_EXHAUSTED (fds, mappings, memory), TENON_UNSUPPORTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_open_fd(const tenon_fd_handle *handle, const tenon_open_options *options, tenon_storage **out,
                                     tenon_error **err) TENON_NOEXCEPT;

/**
 * Close handle->fd, if there is one, and set it to -1. The storage that was lent is not affected.
 * @param[in,out] handle  borrowed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_fd_handle_close(tenon_fd_handle *handle) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
