#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

#include <tenon/error.h>
#include <tenon/tensor.h>

/* DLPack's own header is yours to include, any version of it, before this one or after. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

TENON_BEGIN_DECLS

/**
 * Take a tensor from another framework, without a copy. The read-only flag is honoured. On the CPU its storage is private: it cannot be
 * lent. On a CUDA device it can (tenon/by_cuda.h), and then the deleter waits for whoever it was lent to and for the streams that use it;
 * what wrote it must be done, or in a stream that is named when it is lent.
 * @param[in]  managed  consumed on success: its deleter is called once, when the last reference to the storage goes, on
 *                      the thread that released it. On failure it stays the caller's, who calls the deleter.
 * @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_INCOMPATIBLE (another major version: nothing of it was read),
 *         TENON_UNSUPPORTED (another device, no CUDA, an opaque dtype), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed, tenon_tensor **out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_tensor_from_dlpack, for the form without a version, which cannot say read-only: the bytes count as writable.
 * @param[in]  managed  consumed on success, as above.
 * @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed, tenon_tensor **out,
                                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Hand a tensor to another framework, without a copy. The flag READ_ONLY is set if its storage is read-only.
 * @param[in]  tensor  borrowed; the result takes a reference of its own.
 * @param[out] out     the caller's or the next consumer's, who calls its deleter once, on any thread; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (conjugate or negative bit), TENON_RESOURCE_EXHAUSTED,
 *         TENON_PEER_GONE (the storage was dropped).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_to_dlpack(tenon_tensor *tensor, struct DLManagedTensorVersioned **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * As tenon_tensor_to_dlpack, in the form without a version. Refused for a read-only tensor: the consumer could not know,
 * and would be killed at its first write.
 * @param[in]  tensor  borrowed; the result takes a reference of its own.
 * @param[out] out     as above; untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (read-only), TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED,
 *         TENON_PEER_GONE (the storage was dropped).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_to_dlpack_legacy(tenon_tensor *tensor, struct DLManagedTensor **out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
