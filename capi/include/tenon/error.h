#ifndef TENON_ERROR_H
#define TENON_ERROR_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/export.h>

TENON_BEGIN_DECLS

/** What a call came to. Codes are never renumbered and never reused; each stands for one thing that a caller can do. */
typedef int32_t tenon_status;

enum {
  TENON_OK = 0,
  TENON_INVALID_ARGUMENT = 1,   /**< the call is wrong whatever the state of the machine: mend the program */
  TENON_PERMISSION = 2,         /**< the object does not allow it: ask for other access, or another mode at birth */
  TENON_NOT_FOUND = 3,          /**< no such object (any more) */
  TENON_CORRUPT = 4,            /**< bytes or an fd from outside are not what they claim: do not trust the peer */
  TENON_INCOMPATIBLE = 5,       /**< made by a version that this one does not read: upgrade one side */
  TENON_RESOURCE_EXHAUSTED = 6, /**< a limit was met, the detail "limit" names it: raise it, or free something */
  TENON_UNSUPPORTED = 7,        /**< this build, kernel or object cannot do it: choose another way */
  TENON_PEER_GONE = 8,          /**< the other process closed its end or died */
  TENON_WOULD_BLOCK = 9,        /**< a wait with timeout 0 had nothing: poll, then call again */
  TENON_TIMEOUT = 10,           /**< the time is over: call again to go on */
  TENON_INTERRUPTED = 11,       /**< a signal ended an interruptible wait: call again to go on */
  TENON_CANCELLED = 12,         /**< tenon_cancel_trigger ended the wait: call again to go on */
  TENON_IO = 13,                /**< the system refused for a reason that fits no other code: see detail "errno" */
  TENON_INTERNAL = 14           /**< a defect in Tenon: please report it */
};

/** Why a call failed: immutable, with a code, one line of text, details and perhaps a cause. */
typedef struct tenon_error tenon_error;

/**
 * The name of a status code, as in "RESOURCE_EXHAUSTED".
 * @param[in] status  any number.
 * @return static storage, never NULL; "UNKNOWN" for a number that is no code.
 * @since 0.1. Any thread, signal handlers too.
 */
TENON_API const char *tenon_status_name(tenon_status status) TENON_NOEXCEPT;

/**
 * The code of an error: the same number that the failed call returned.
 * @param[in] error  borrowed; NULL is allowed.
 * @return the code; TENON_OK for NULL.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_error_code(const tenon_error *error) TENON_NOEXCEPT;

/**
 * One line of UTF-8 text that names the object and the cause.
 * @param[in] error  borrowed; NULL is allowed.
 * @return borrowed from the error, valid until its release; "" for NULL; never NULL.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_error_message(const tenon_error *error) TENON_NOEXCEPT;

/**
 * One detail of an error, as text. Keys in use: "errno" (a decimal number), "limit" (the name of the limit that was
 * met), "limit_value", "in_use", "wanted", "path", "fd", "pid", "uid", "field" (of a descriptor), "option" (the option that would allow
 * it); of a full arena "live", "lent", "retired", "free" (bytes) and "holders" (who has leases of it, as text); where memory, fds or
 * mappings are short "left" (of the limit), and of this process "live", "lent", "retired" and "kept" (bytes); of a value that does not fit
 * its type "where" (in the value), "wanted" and "found"; of text that does not parse "column" (from 1, in bytes), and "type" or "file",
 * "line" and "excerpt"; of an archive "record" and "offset" (bytes), and "opcode" of a pickle in it; of a module "name" (what is taken or
 * given twice), "missing" and "unexpected" (how many), and "operator", "module" and "other_module" (whose versions do not go together); of
 * CUDA's driver "cuda_error" (a decimal number), "cuda_error_name" and "driver_version" (11040 is 11.4).
 * @param[in] error  borrowed; NULL is allowed.
 * @param[in] key    borrowed, NUL-terminated; NULL is allowed.
 * @return borrowed from the error, valid until its release; NULL if it has no such detail.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_error_detail(const tenon_error *error, const char *key) TENON_NOEXCEPT;

/**
 * The key of detail number `index`, so that all details can be listed.
 * @param[in] error  borrowed; NULL is allowed.
 * @param[in] index  from 0.
 * @return borrowed from the error, valid until its release; NULL past the end.
 * @since 0.1. Any thread.
 */
TENON_API const char *tenon_error_detail_key(const tenon_error *error, size_t index) TENON_NOEXCEPT;

/**
 * The error that led to this one.
 * @param[in] error  borrowed; NULL is allowed.
 * @return borrowed from `error`, valid until its release; NULL if there is none.
 * @since 0.1. Any thread.
 */
TENON_API const tenon_error *tenon_error_cause(const tenon_error *error) TENON_NOEXCEPT;

/**
 * Give an error back.
 * @param[in] error  consumed; NULL is allowed.
 * @since 0.1. Any thread, also another than the one that met the error.
 */
TENON_API void tenon_error_release(tenon_error *error) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
