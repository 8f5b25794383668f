#ifndef TENON_MESSAGE_H
#define TENON_MESSAGE_H

/**
 * @file
 * Messages: tensors that travel together from one process to another, over a connection
 * (tenon/connection.h) or as a descriptor (tenon/descriptor.h).
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/error.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/**
 * A message: tensors, an optional name for each tensor, and up to 64 KiB of user bytes, whose
 * meaning is up to the program.
 */
typedef struct tenon_message tenon_message;

enum {
  TENON_MESSAGE_MAX_USER_NBYTES = 65536, /**< The most user bytes in one message. */
  TENON_MESSAGE_MAX_NAME_NBYTES = 4096   /**< The most bytes in a tensor's name, without the NUL. */
};

/**
 * Makes an empty message.
 * @param[out] out  new reference; release it with tenon_message_release. It is untouched on
 *                  failure.
 * @param[out] err  optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_message_new(tenon_message **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds tensors to a message. The call adds all of them or, on failure, none. It checks for each
 * tensor whether it can be lent. Tensors of one message that share a storage share it in the
 * receiver too.
 * @param[in]  message  borrowed.
 * @param[in]  tensors  borrowed, an array of n tensors. The message takes a reference to each.
 * @param[in]  names    NULL, or a borrowed array of n strings in UTF-8. Each string is NULL or has
 *                      at most 4,096 bytes. The strings are copied.
 * @param[in]  n        the number of tensors.
 * @param[in]  options  borrowed. NULL means the defaults. They have the same meaning as in
 *                      tenon_share_fd.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a tensor lies in
 *         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 * @since 0.1. Only one thread at a time may use the message.
 */
TENON_API tenon_status tenon_message_add(tenon_message *message, tenon_tensor *const *tensors,
                                         const char *const *names, size_t n,
                                         const tenon_share_options *options,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Sets the user bytes of a message. They replace the user bytes that were set before.
 * @param[in]  message  borrowed.
 * @param[in]  data     borrowed for the call. It may be NULL if nbytes is 0.
 * @param[in]  nbytes   at most TENON_MESSAGE_MAX_USER_NBYTES.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Only one thread at a time may use the message.
 */
TENON_API tenon_status tenon_message_set_user_bytes(tenon_message *message, const void *data,
                                                    size_t nbytes,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the number of tensors in a message.
 * @param[in] message  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_message_count(const tenon_message *message) TENON_NOEXCEPT;

/**
 * Returns one tensor of a message.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] index    counts from 0.
 * @return the tensor, borrowed from the message and valid until the message is released. Use
 *         tenon_tensor_retain to keep it longer. It is NULL if `index` is past the last tensor.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_tensor *tenon_message_tensor(const tenon_message *message,
                                             size_t index) TENON_NOEXCEPT;

/**
 * Returns the name of one tensor of a message.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] index    counts from 0.
 * @return a UTF-8 string that ends with NUL, borrowed from the message and valid until the next
 *         tenon_message_add or until the message is released. It is NULL if the tensor has no name,
 *         or if `index` is past the last tensor.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_message_name(const tenon_message *message, size_t index) TENON_NOEXCEPT;

/**
 * Returns the first tensor of a message that has a given name.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] name     borrowed. NULL is allowed.
 * @return the tensor, borrowed from the message. It is NULL if there is none.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_tensor *tenon_message_find(const tenon_message *message,
                                           const char *name) TENON_NOEXCEPT;

/**
 * Gives the views of the first n tensors of a message in one call. It is for callers for which
 * every call is expensive, such as wrappers in other languages.
 * @param[in]     message  borrowed.
 * @param[in,out] out      the caller's array of n views. The caller sets out[0].struct_size, which
 *                         is the size of every element. The call writes it to the other elements
 *                         and fills in all fields. The views are valid until the message is
 *                         released, their names until the next tenon_message_add. It is untouched
 *                         on failure.
 * @param[in]     n        at most tenon_message_count. 0 is allowed.
 * @param[out]    err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if the message has fewer than n tensors).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_message_get_views(const tenon_message *message, tenon_tensor_view *out,
                                               size_t n, tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the user bytes of a message.
 * @param[in]  message  borrowed. NULL is allowed.
 * @param[out] nbytes   how many bytes there are. It may be NULL.
 * @return the bytes, borrowed from the message. It is NULL if there are none.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_message_user_bytes(const tenon_message *message,
                                               size_t *nbytes) TENON_NOEXCEPT;

/**
 * Releases a message and its references to the tensors.
 * @param[in] message  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_message_release(tenon_message *message) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
