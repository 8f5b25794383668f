#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H

/**
 * @file
 * These functions exchange tensors with other frameworks in the same process through DLPack,
 * without copying them.
 */

#include <tenon/error.h>
#include <tenon/tensor.h>

/*
 * This header does not include dlpack.h, DLPack's own header. Include any version of it, before or
 * after this header.
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

TENON_BEGIN_DECLS

/**
 * Takes a tensor from another framework, without a copy. DLPack's read-only flag is respected. In
 * host memory the storage is private, so it cannot be lent. On a CUDA device it can be lent
 * (tenon/by_cuda.h). The deleter is then called only when the borrowers have released the storage
 * and the work in the streams that use it is complete. The work that wrote the tensor must be
 * complete, or must be in the stream that is named when the storage is lent.
 * @param[in]  managed  consumed on success: its deleter is called once, when the last reference to
 *                      the storage is released, on the thread that released it. After a failure it
 *                      is still the caller's, who must call the deleter.
 * @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_INCOMPATIBLE (another major version of DLPack, in
 *         which case no other field was read), TENON_UNSUPPORTED (another kind of device, no CUDA,
 *         or an element type that DLPack calls opaque), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_from_dlpack(struct DLManagedTensorVersioned *managed,
                                                tenon_tensor **out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Takes a tensor from another framework in DLPack's older form, which has no version. That form
 * cannot say that a tensor is read-only, so the bytes count as writable. In all else this function
 * is like tenon_tensor_from_dlpack.
 * @param[in]  managed  consumed on success, as in tenon_tensor_from_dlpack.
 * @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_from_dlpack_legacy(struct DLManagedTensor *managed,
                                                       tenon_tensor **out,
                                                       tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a tensor to another framework, without a copy. DLPack's flag READ_ONLY is set if the
 * tensor's storage is read-only.
 * @param[in]  tensor  borrowed. The result takes a reference of its own.
 * @param[out] out     the caller's. The caller, or the consumer to which the caller passes it,
 *                     calls its deleter once, on any thread. It is untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (the conjugate or the negative bit is
 *         set), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (the storage was dropped).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_to_dlpack(tenon_tensor *tensor,
                                              struct DLManagedTensorVersioned **out,
                                              tenon_error **err) TENON_NOEXCEPT;

/**
 * Gives a tensor to another framework in DLPack's older form, which has no version. A read-only
 * tensor is refused, because its consumer could not know that the tensor is read-only, and its
 * first write would kill the process.
 * @param[in]  tensor  borrowed. The result takes a reference of its own.
 * @param[out] out     the caller's, as in tenon_tensor_to_dlpack. It is untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the tensor is read-only),
 *         TENON_UNSUPPORTED, TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (the storage was dropped).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_to_dlpack_legacy(tenon_tensor *tensor,
                                                     struct DLManagedTensor **out,
                                                     tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
