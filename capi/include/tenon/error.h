#ifndef TENON_ERROR_H
#define TENON_ERROR_H

/**
 * @file
 * Status codes, and errors that say why a call failed. Every function that can fail returns a
 * tenon_status and can give a tenon_error (rule 2 in tenon.h).
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/export.h>

TENON_BEGIN_DECLS

/**
 * The outcome of a call. Each code stands for one way in which a caller can react to the failure.
 * Codes are never renumbered and never reused.
 */
typedef int32_t tenon_status;

enum {
  /** The call succeeded. */
  TENON_OK = 0,
  /** The call is wrong in every state of the machine. Fix the program. */
  TENON_INVALID_ARGUMENT = 1,
  /** The object does not allow the access. Ask for other access, or create it in another mode. */
  TENON_PERMISSION = 2,
  /** The object does not exist, or no longer exists. */
  TENON_NOT_FOUND = 3,
  /** Bytes or an fd from outside are not what they claim to be. Do not trust the peer. */
  TENON_CORRUPT = 4,
  /** The object has a format version that this library does not read. Upgrade one side. */
  TENON_INCOMPATIBLE = 5,
  /** A limit was reached; the detail "limit" names it. Raise the limit, or free something. */
  TENON_RESOURCE_EXHAUSTED = 6,
  /** This build, this kernel or this object cannot do the operation. Choose another way. */
  TENON_UNSUPPORTED = 7,
  /** The other process closed its end or died. */
  TENON_PEER_GONE = 8,
  /** The timeout is 0, and the call would have to wait. Poll, then call again. */
  TENON_WOULD_BLOCK = 9,
  /** The timeout is over. Call again to continue. */
  TENON_TIMEOUT = 10,
  /** A signal ended an interruptible wait. Call again to continue. */
  TENON_INTERRUPTED = 11,
  /** tenon_cancel_trigger ended the wait. Call again to continue. */
  TENON_CANCELLED = 12,
  /** The system refused for a reason that fits no other code. The detail "errno" has its number. */
  TENON_IO = 13,
  /** Tenon has a defect. Please report it. */
  TENON_INTERNAL = 14
};

/**
 * An error: why a call failed. It never changes. It has a code, one line of text, details, and
 * possibly a cause.
 */
typedef struct tenon_error tenon_error;

/**
 * Returns the name of a status code, such as "RESOURCE_EXHAUSTED".
 * @param[in] status  any number.
 * @return a string in static storage, never NULL. It is "UNKNOWN" for a number that is not a code.
 * @since 0.1. Any thread and any signal handler may call this function.
 */
TENON_API const char *tenon_status_name(tenon_status status) TENON_NOEXCEPT;

/**
 * Returns the code of an error, which is the number that the failed call returned.
 * @param[in] error  borrowed. NULL is allowed.
 * @return the code; TENON_OK for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_error_code(const tenon_error *error) TENON_NOEXCEPT;

/**
 * Returns one line of UTF-8 text that names the object, the cause and the remedy.
 * @param[in] error  borrowed. NULL is allowed.
 * @return a string, borrowed from the error and valid until the error is released. It is "" for
 *         NULL, and never NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_error_message(const tenon_error *error) TENON_NOEXCEPT;

/**
 * Returns one detail of an error, as text. A program can act on details without reading the
 * message. These keys are in use:
 * - Any error: "errno" (a decimal number), "path", "fd", "pid", "uid", "field" (of a descriptor or
 *   a struct), "option" (the option or the call that would allow the operation), "version" (of a
 *   format that this library does not read).
 * - A limit: "limit" (its name), "limit_value", "in_use", "wanted".
 * - A full arena: "live", "lent", "retired" and "free" (bytes), and "holders" (a text that says
 *   which processes hold leases of its blocks).
 * - Too little memory, too few fds or too few mappings: "left" (how much of the limit is left), and
 *   "live", "lent", "retired" and "kept" (bytes of this process).
 * - An arena's pages or NUMA node: "pages", "huge_page_nbytes", "sizes", "shmem_enabled" (the
 *   kernel's setting), "numa_node", "nodes".
 * - An index of a tensor: "item" (the place in the array of items), and "dimension" and "size" (the
 *   size of that dimension).
 * - A composite: "part" (the field of the wrong part in tenon_composite_spec) and "index" (the
 *   place in that part, in elements).
 * - A value that does not fit its type: "where" (the place in the value), "wanted" and "found".
 * - Text that cannot be parsed: "column" (from 1, in bytes), and "type" or "file", "line" and
 *   "excerpt".
 * - An archive: "record" and "offset" (bytes), and "opcode" for a pickle in the archive.
 * - A module: "name" (a name that exists already or is given twice), "class", "missing" and
 *   "unexpected" (numbers of tensors), and "operator", "module" and "other_module" (two modules
 *   that need different versions of an operator).
 * - An index of shards: "name" (of a weight) and "path" (of the shard that lacks it).
 * - Weights that are saved: "name" (of a tensor) and "other" (of a tensor that shares its memory).
 * - A queue: "member" (a member's number), and "lost" (how many messages are lost).
 * - CUDA's driver: "cuda_error" (a decimal number), "cuda_error_name" and "driver_version" (11040
 *   means 11.4).
 * @param[in] error  borrowed. NULL is allowed.
 * @param[in] key    borrowed, a string that ends with NUL. NULL is allowed.
 * @return a string, borrowed from the error and valid until the error is released. NULL means that
 *         the error has no such detail.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_error_detail(const tenon_error *error, const char *key) TENON_NOEXCEPT;

/**
 * Returns the key of detail number `index`, so that a program can list all details.
 * @param[in] error  borrowed. NULL is allowed.
 * @param[in] index  counts from 0.
 * @return a string, borrowed from the error and valid until the error is released. NULL means that
 *         `index` is past the last detail.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_error_detail_key(const tenon_error *error, size_t index) TENON_NOEXCEPT;

/**
 * Returns the error that led to this error.
 * @param[in] error  borrowed. NULL is allowed.
 * @return an error, borrowed from `error` and valid until `error` is released. NULL means that
 *         there is none.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const tenon_error *tenon_error_cause(const tenon_error *error) TENON_NOEXCEPT;

/**
 * Releases an error.
 * @param[in] error  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function, not only the thread whose call failed.
 */
TENON_API void tenon_error_release(tenon_error *error) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
