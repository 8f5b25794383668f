#ifndef TENON_BY_FD_H
#define TENON_BY_FD_H

/**
 * @file
 * These functions lend storages by file descriptor. tenon_share_fd gives a handle: an fd and a few
 * numbers. The program sends them to another process, which calls tenon_open_fd. A tenon_connection
 * does both for whole messages.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/** The access that a handle allows, or that the caller of an open function asks for. */
typedef uint32_t tenon_access;

enum {
  /**
   * To share: the access that the storage's mode gives. To open: the access that the handle gives.
   */
  TENON_ACCESS_AUTO = 0,
  /**
   * To share: the borrower can only read. The kernel must be able to enforce this, so
   * TENON_MODE_SHARED is refused. To open: map the memory read-only.
   */
  TENON_ACCESS_READ_ONLY = 1,
  /** Both sides write. Only TENON_MODE_SHARED allows it. */
  TENON_ACCESS_WRITABLE = 2
};

enum {
  /**
   * Map the memory copy-on-write: this process's writes stay in this process. Pages that it has not
   * written yet still show later writes of the lender. If the lender's file is cut short, the pages
   * beyond its new end are lost, written or not.
   */
  TENON_OPEN_PRIVATE_COW = 1,
  /** Copy the bytes now into private memory. The result is a snapshot. */
  TENON_OPEN_PRIVATE_COPY = 2,
  /**
   * The library owns the fd once the call has succeeded. After a failure it is still the caller's.
   */
  TENON_OPEN_ADOPT_FD = 4,
  /**
   * Accept memory that its owner can cut short, such as PyTorch's memory or a plain file. A later
   * load from such memory can cause a SIGBUS.
   */
  TENON_OPEN_ALLOW_UNSEALED = 8,
  /** For tenon_open_filename and tenon_descriptor_open: accept memory of another user. */
  TENON_OPEN_OTHER_USER = 16,
  /** For tenon_open_filename: do not register with the manager that the handle names. */
  TENON_OPEN_NO_MANAGER = 32,
  /**
   * For tenon_open_filename: a message was received, so also do what tenon_filename_decref does.
   */
  TENON_OPEN_DECREF = 64
};

/**
 * A handle with which another process can open a storage. The fd leads to the segment, and the
 * other fields say where in the segment the storage lies. All sizes and offsets are in bytes.
 */
typedef struct tenon_fd_handle {
  /** sizeof(tenon_fd_handle), set by the caller, also for output. */
  size_t struct_size;
  /** The fd, which is close-on-exec. It is -1 for an empty storage. */
  int32_t fd;
  /**
   * TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE. On input it may be TENON_ACCESS_AUTO, which
   * stands for the access that the fd and its seals give.
   */
  tenon_access access;
  /** Where the storage begins in the segment. */
  uint64_t offset;
  /** The size of the storage. */
  uint64_t nbytes;
  /** The size of the whole segment. If it is 0 on input, the library takes the size from the fd. */
  uint64_t segment_nbytes;
} tenon_fd_handle;

/** How to lend a storage. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_share_options {
  size_t struct_size;  /**< sizeof(tenon_share_options), set by the caller. */
  tenon_access access; /**< TENON_ACCESS_*. */
  uint32_t flags;      /**< It must be 0. */
} tenon_share_options;

/** How to open a lent storage. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_open_options {
  size_t struct_size;  /**< sizeof(tenon_open_options), set by the caller. */
  tenon_access access; /**< TENON_ACCESS_*. */
  uint32_t flags;      /**< TENON_OPEN_*. */
} tenon_open_options;

/**
 * Lends a storage by fd: gives an fd, an offset and a size with which another process can open it.
 * No byte is copied or moved.
 *
 * The lender is not told when the borrower is done. So after the storage's release, its block is
 * not used for another storage, and the memory returns to the system together with the segment.
 *
 * A borrower of one storage can read the whole segment in which the storage lies, and can write to
 * the whole segment if its mode is TENON_MODE_SHARED. TENON_STORAGE_ISOLATED gives a storage a
 * segment of its own.
 *
 * Where a seccomp filter or a security policy denies memfd_create, storages of TENON_MODE_SHARED
 * lie in nameless files of /dev/shm instead. Such a file has no seals: tenon_storage_is_sealed
 * returns 0, every process that has the fd can cut the file short, and it can only be opened with
 * TENON_OPEN_ALLOW_UNSEALED. A connection sends such storages without a lease. The other modes need
 * seals, so storages of those modes cannot be made there.
 * @param[in]     storage  borrowed.
 * @param[in]     options  borrowed. NULL means the defaults.
 * @param[in,out] out      struct_size set by the caller, the other fields filled in by the call.
 *                         out->fd belongs to the caller, who closes it with tenon_fd_handle_close
 *                         after sending it. It is untouched on failure.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (a read-only lend of
 *         TENON_MODE_SHARED, a writable lend of another mode, or a storage that is not frozen yet;
 *         the detail "option" names the remedy), TENON_UNSUPPORTED (private memory, or memory of a
 *         device), TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender),
 *         TENON_RESOURCE_EXHAUSTED (fds).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_share_fd(tenon_storage *storage, const tenon_share_options *options,
                                      tenon_fd_handle *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Opens a storage that another process lent by fd. Before it maps anything, the call checks that
 * the fd is a regular file in memory, is as large as the handle says, allows the access, and is
 * sealed against shrinking. With TENON_OPEN_ALLOW_UNSEALED or TENON_OPEN_PRIVATE_COPY any regular
 * file is accepted, sealed or not.
 *
 * If this process already holds the same range of the same segment with the same access, the call
 * gives the same storage with one more reference. Private openings always give a new storage.
 * @param[in]  handle   borrowed. handle->fd is borrowed too and may be closed after the call. With
 *                      TENON_OPEN_ADOPT_FD it is consumed on success.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_storage_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (a closed fd, an fd of the wrong type, a range outside
 *         the segment), TENON_PERMISSION (unsealed memory, or writable access to read-only memory;
 *         the detail "option" names the remedy), TENON_CORRUPT (the file is smaller than the handle
 *         says), TENON_RESOURCE_EXHAUSTED (fds, mappings, memory), TENON_UNSUPPORTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_open_fd(const tenon_fd_handle *handle,
                                     const tenon_open_options *options, tenon_storage **out,
                                     tenon_error **err) TENON_NOEXCEPT;

/**
 * Closes handle->fd, if there is one, and sets it to -1. The lent storage is not affected.
 * @param[in,out] handle  borrowed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_fd_handle_close(tenon_fd_handle *handle) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
