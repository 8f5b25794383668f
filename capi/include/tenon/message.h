#ifndef TENON_MESSAGE_H
#define TENON_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/** Tensors that travel together, an optional name for each, and up to 64 KiB of the user's own bytes. */
typedef struct tenon_message tenon_message;

enum {
  TENON_MESSAGE_MAX_USER_NBYTES = 65536, /**< bytes of the user's own in one message */
  TENON_MESSAGE_MAX_NAME_NBYTES = 4096   /**< bytes of one tensor's name, without the NUL */
};

/**
 * Make an empty message.
 * @param[out] out  new reference, release with tenon_message_release; untouched on failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_message_new(tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Add tensors, all of them or none. Whether each can be lent is checked here. Tensors of one message that share a
 * storage share it on arrival.
 * @param[in]  message  borrowed.
 * @param[in]  tensors  borrowed array of n; the message takes a reference to each.
 * @param[in]  names    NULL, or a borrowed array of n strings, UTF-8, each NULL or at most 4,096 bytes; copied.
 * @param[in]  n        how many.
 * @param[in]  options  borrowed; NULL: defaults. As in tenon_share_fd.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (private memory), TENON_RESOURCE_EXHAUSTED,
 *         TENON_PEER_GONE (a storage was dropped).
 * @since 0.1. One thread at a time per message.
 */
TENON_API tenon_status tenon_message_add(tenon_message *message, tenon_tensor *const *tensors, const char *const *names, size_t n,
                                         const tenon_share_options *options, tenon_error **err) TENON_NOEXCEPT;

/**
 * Set the user's bytes, in place of those set before.
 * @param[in]  message  borrowed.
 * @param[in]  data     borrowed for the call; may be NULL if nbytes is 0.
 * @param[in]  nbytes   at most TENON_MESSAGE_MAX_USER_NBYTES.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. One thread at a time per message.
 */
TENON_API tenon_status tenon_message_set_user_bytes(tenon_message *message, const void *data, size_t nbytes,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * How many tensors there are.
 * @param[in] message  borrowed; NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API size_t tenon_message_count(const tenon_message *message) TENON_NOEXCEPT;

/**
 * One tensor.
 * @param[in] message  borrowed; NULL is allowed.
 * @param[in] index    from 0.
 * @return borrowed from the message, valid until its last release (tenon_tensor_retain keeps it); NULL past the end.
 * @since 0.1. Any thread.
 */
TENON_API tenon_tensor *tenon_message_tensor(const tenon_message *message, size_t index) TENON_NOEXCEPT;

/**
 * The name of one tensor.
 * @param[in] message  borrowed; NULL is allowed.
 * @param[in] index    from 0.
 * @return NUL-terminated UTF-8, borrowed from the message, valid until the next tenon_message_add or its release; NULL: no name, or past
 *         the end.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_message_name(const tenon_message *message, size_t index) TENON_NOEXCEPT;

/**
 * The first tensor of that name.
 * @param[in] message  borrowed; NULL is allowed.
 * @param[in] name     borrowed; NULL is allowed.
 * @return borrowed from the message; NULL: none.
 * @since 0.1. Any thread.
 */
TENON_API tenon_tensor *tenon_message_find(const tenon_message *message, const char *name) TENON_NOEXCEPT;

/**
 * The first n tensors of a message at once, for callers to whom each call is dear.
 * @param[in]     message  borrowed.
 * @param[in,out] out      array of n; out[0].struct_size set by the caller is the size of each, and is written to the others; valid until
 *                         the message's release, names until the next tenon_message_add; untouched on failure.
 * @param[in]     n        at most tenon_message_count; 0 is allowed.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if there are fewer).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_message_get_views(const tenon_message *message, tenon_tensor_view *out, size_t n,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * The user's bytes.
 * @param[in]  message  borrowed; NULL is allowed.
 * @param[out] nbytes   how many; may be NULL.
 * @return borrowed from the message; NULL if there are none.
 * @since 0.1. Any thread.
 */
TENON_API const void *tenon_message_user_bytes(const tenon_message *message, size_t *nbytes) TENON_NOEXCEPT;

/**
 * Give a message back, and its references to the tensors.
 * @param[in] message  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_message_release(tenon_message *message) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
