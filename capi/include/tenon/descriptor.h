#ifndef TENON_DESCRIPTOR_H
#define TENON_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>

TENON_BEGIN_DECLS

/** The portable form of a message: versioned bytes (docs/format/descriptor.md) and the fds that they count on. */
typedef struct tenon_descriptor tenon_descriptor;

enum {
  TENON_DESCRIPTOR_BYTES_ONLY = 1 /**< no fds travel: the opener fetches them from this process through /proc, so this
                                       process must live, and hold the descriptor, until then; same user (or
                                       TENON_OPEN_OTHER_USER) and pid namespace */
};

/** How a descriptor is made. NULL, where one is taken, means all zero. */
typedef struct tenon_descriptor_options {
  size_t struct_size; /**< sizeof(tenon_descriptor_options), set by the caller */
  uint32_t flags;     /**< TENON_DESCRIPTOR_* */
  uint32_t reserved;  /**< 0 */
} tenon_descriptor_options;

/**
 * Encode a message. The descriptor keeps the tensors and the fds alive until its release.
 * @param[in]  message  borrowed.
 * @param[in]  options  borrowed; NULL: defaults.
 * @param[out] out      new reference, release with tenon_descriptor_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED (fds, memory).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_descriptor_new(const tenon_message *message, const tenon_descriptor_options *options, tenon_descriptor **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * The bytes to carry.
 * @param[in]  descriptor  borrowed; NULL is allowed.
 * @param[out] nbytes      how many; may be NULL.
 * @return borrowed from the descriptor, valid until its release; NULL for NULL.
 * @since 0.1. Any thread.
 */
TENON_API const void *tenon_descriptor_bytes(const tenon_descriptor *descriptor, size_t *nbytes) TENON_NOEXCEPT;

/**
 * The fds to carry, in this order (SCM_RIGHTS, or inherited).
 * @param[in]  descriptor  borrowed; NULL is allowed.
 * @param[out] n           how many; 0 for a bytes-only one; may be NULL.
 * @return borrowed from the descriptor, valid until its release: do not close them; NULL if there are none.
 * @since 0.1. Any thread.
 */
TENON_API const int32_t *tenon_descriptor_fds(const tenon_descriptor *descriptor, size_t *n) TENON_NOEXCEPT;

/**
 * Give a descriptor back; its fds are closed.
 * @param[in] descriptor  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_descriptor_release(tenon_descriptor *descriptor) TENON_NOEXCEPT;

/**
 * Open a descriptor that came from another process. The bytes are copied to private memory and validated whole before
 * any of them is used; each segment is checked as tenon_open_fd does. The bytes of TENON_DESCRIPTOR_BYTES_ONLY name a
 * process, and its memory is opened with the rights of this one. So that process must be of this process's effective user,
 * unless TENON_OPEN_OTHER_USER says that whoever wrote the bytes is trusted with those rights.
 * @param[in]  bytes    borrowed for the call; nobody is trusted about them; may be NULL if nbytes is 0.
 * @param[in]  nbytes   how many; 0 bytes are as CORRUPT as any others that are too few.
 * @param[in]  fds      borrowed array of n_fds fds, which stay the caller's (TENON_OPEN_ADOPT_FD: consumed on success);
 *                      NULL if n_fds is 0.
 * @param[in]  n_fds    as many as the descriptor was made with.
 * @param[in]  options  borrowed; NULL: defaults. As in tenon_open_fd.
 * @param[out] out      new reference, release with tenon_message_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h; detail "field" names the part that is wrong.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_INCOMPATIBLE (version or feature not known),
 *         TENON_PERMISSION (bytes-only, of another user's process: details "option", "pid", "uid"), TENON_PEER_GONE
 *         (bytes-only, and its process or fd is gone), TENON_WOULD_BLOCK (bytes-only: a file lease is held on the memory, or
 *         its file system does not answer), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_descriptor_open(const void *bytes, size_t nbytes, const int32_t *fds, size_t n_fds,
                                             const tenon_open_options *options, tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
