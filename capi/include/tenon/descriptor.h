#ifndef TENON_DESCRIPTOR_H
#define TENON_DESCRIPTOR_H

/**
 * @file
 * Descriptors: messages in portable form. A program that has its own transport uses them instead of
 * a connection.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/message.h>

TENON_BEGIN_DECLS

/**
 * A message in portable form: versioned bytes (docs/format/descriptor.md), and the fds to which the
 * bytes refer.
 */
typedef struct tenon_descriptor tenon_descriptor;

enum {
  /**
   * The descriptor carries no fds. Its opener fetches them from this process through /proc. So this
   * process must live and keep the descriptor until then, and the opener must be in the same pid
   * namespace and be of the same user (or use TENON_OPEN_OTHER_USER).
   */
  TENON_DESCRIPTOR_BYTES_ONLY = 1
};

/** How to make a descriptor. A NULL pointer to these options means that all fields are zero. */
typedef struct tenon_descriptor_options {
  size_t struct_size; /**< sizeof(tenon_descriptor_options), set by the caller. */
  uint32_t flags;     /**< TENON_DESCRIPTOR_*. */
  uint32_t reserved;  /**< It must be 0. */
} tenon_descriptor_options;

/**
 * Encodes a message as a descriptor. The descriptor keeps the tensors and the fds alive until it is
 * released.
 * @param[in]  message  borrowed.
 * @param[in]  options  borrowed. NULL means the defaults.
 * @param[out] out      new reference; release it with tenon_descriptor_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (memory of a device), TENON_PEER_GONE
 *         (a storage was dropped), TENON_RESOURCE_EXHAUSTED (fds, memory).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_descriptor_new(const tenon_message *message,
                                            const tenon_descriptor_options *options,
                                            tenon_descriptor **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the bytes that the program must send.
 * @param[in]  descriptor  borrowed. NULL is allowed.
 * @param[out] nbytes      how many bytes there are. It may be NULL.
 * @return the bytes, borrowed from the descriptor and valid until its release. It is NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_descriptor_bytes(const tenon_descriptor *descriptor,
                                             size_t *nbytes) TENON_NOEXCEPT;

/**
 * Returns the fds that the program must pass on in this order, by SCM_RIGHTS or by inheritance.
 * @param[in]  descriptor  borrowed. NULL is allowed.
 * @param[out] n           how many fds there are; 0 for a descriptor with
 *                         TENON_DESCRIPTOR_BYTES_ONLY. It may be NULL.
 * @return the fds, borrowed from the descriptor and valid until its release: do not close them. It
 *         is NULL if there are none.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const int32_t *tenon_descriptor_fds(const tenon_descriptor *descriptor,
                                              size_t *n) TENON_NOEXCEPT;

/**
 * Releases a descriptor and closes its fds.
 * @param[in] descriptor  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_descriptor_release(tenon_descriptor *descriptor) TENON_NOEXCEPT;

/**
 * Opens a descriptor that came from another process. The call copies the bytes to private memory
 * and validates all of them before it uses any, and it checks each segment as tenon_open_fd does.
 *
 * The bytes of a descriptor with TENON_DESCRIPTOR_BYTES_ONLY name a process, whose memory is opened
 * with the rights of this process. So that process must run as this process's effective user.
 * TENON_OPEN_OTHER_USER lifts this rule. With this flag the caller trusts the writer of the bytes
 * with those rights.
 * @param[in]  bytes    borrowed for the call. They need not come from a trusted process. It may be
 *                      NULL if nbytes is 0.
 * @param[in]  nbytes   how many bytes there are, at most 64 MiB. 0 bytes are TENON_CORRUPT, like
 *                      any other number that is too small.
 * @param[in]  fds      borrowed, an array of n_fds fds, which stay the caller's. With
 *                      TENON_OPEN_ADOPT_FD they are consumed on success. It is NULL if n_fds is 0.
 * @param[in]  n_fds    the number of fds with which the descriptor was made, at most 65,536.
 * @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
 *                      tenon_open_fd, and TENON_OPEN_OTHER_USER is possible too.
 * @param[out] out      new reference; release it with tenon_message_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h. The detail "field" names the part of the
 *                      descriptor that is wrong.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT, TENON_INCOMPATIBLE (an unknown version
 *         or feature), TENON_RESOURCE_EXHAUSTED, the codes of tenon_open_fd, or for a descriptor
 *         with TENON_DESCRIPTOR_BYTES_ONLY
 * - TENON_PERMISSION: the process that the bytes name is another user's (details "option", "pid",
 *   "uid").
 * - TENON_PEER_GONE: that process or its fd does not exist any more, or it was on another machine.
 * - TENON_UNSUPPORTED: that process is in another pid namespace.
 * - TENON_WOULD_BLOCK: a process holds a file lease on the memory, or the memory's file system does
 *   not answer.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_descriptor_open(const void *bytes, size_t nbytes, const int32_t *fds,
                                             size_t n_fds, const tenon_open_options *options,
                                             tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
