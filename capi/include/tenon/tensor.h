#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/dtype.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/** Strided elements over one storage. A tensor never changes; a view is another tensor over the same storage. */
typedef struct tenon_tensor tenon_tensor;

enum {
  TENON_TENSOR_REQUIRES_GRAD = 1, /**< travels with the tensor; means nothing to Tenon */
  TENON_TENSOR_IS_PARAMETER = 2,  /**< travels with the tensor; means nothing to Tenon */
  TENON_TENSOR_CONJ = 4,          /**< the elements are to be read conjugated */
  TENON_TENSOR_NEG = 8            /**< the elements are to be read negated */
};

enum {
  TENON_TENSOR_MAX_NDIM = 64 /**< dimensions at most */
};

/** The shape of a tensor over a storage. Sizes, strides and offset count elements; a stride may be 0 or negative. */
typedef struct tenon_tensor_spec {
  size_t struct_size;     /**< sizeof(tenon_tensor_spec), set by the caller, also for output */
  tenon_dtype dtype;      /**< under 8 bits: packed, lowest bits first, and then contiguous tensors only */
  int32_t ndim;           /**< 0 to TENON_TENSOR_MAX_NDIM */
  const int64_t *sizes;   /**< ndim numbers >= 0; NULL if ndim is 0 */
  const int64_t *strides; /**< ndim numbers; NULL on input: contiguous, last dimension fastest */
  uint64_t offset;        /**< of the element with index 0, 0, … from the start of the storage */
  uint32_t flags;         /**< TENON_TENSOR_* */
  uint32_t reserved;      /**< 0 */
} tenon_tensor_spec;

/** All that a reader of a tensor asks for, in one call. Pointers are borrowed from the tensor. Sizes, strides and offset count elements. */
typedef struct tenon_tensor_view {
  size_t struct_size;     /**< sizeof(tenon_tensor_view), set by the caller */
  tenon_tensor *tensor;   /**< the tensor itself, borrowed */
  const char *name;       /**< in a message: as tenon_message_name; else NULL */
  const void *data;       /**< as tenon_tensor_data */
  void *data_mut;         /**< the same address; NULL if the storage is read-only */
  const int64_t *sizes;   /**< ndim numbers; NULL if ndim is 0 */
  const int64_t *strides; /**< ndim numbers; NULL if ndim is 0 */
  uint64_t offset;        /**< of the element with index 0, 0, … from the start of the storage */
  uint64_t numel;         /**< as tenon_tensor_numel */
  uint64_t nbytes;        /**< as tenon_tensor_nbytes */
  tenon_dtype dtype;      /**< as in the spec */
  int32_t ndim;           /**< 0 to TENON_TENSOR_MAX_NDIM */
  uint32_t flags;         /**< TENON_TENSOR_* */
  int32_t is_contiguous;  /**< as tenon_tensor_is_contiguous */
  tenon_device device;    /**< as tenon_storage_device: whose address `data` is */
} tenon_tensor_view;

/**
 * Make a tensor over a storage. Every element it can name must lie inside the storage; nothing is read or moved.
 * @param[in]  storage  borrowed; the tensor takes a reference of its own.
 * @param[in]  spec     borrowed for the call, its arrays too.
 * @param[out] out      new reference, release with tenon_tensor_release; untouched on failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also when sizes, strides or offset overflow or leave the storage), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_new(tenon_storage *storage, const tenon_tensor_spec *spec, tenon_tensor **out,
                                        tenon_error **err) TENON_NOEXCEPT;

/**
 * Take one more reference.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return `tensor`, now with one reference more, to be released too.
 * @since 0.1. Any thread.
 */
TENON_API tenon_tensor *tenon_tensor_retain(tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Give one reference back.
 * @param[in] tensor  consumed; NULL is allowed.
 * @since 0.1. Any thread.
 */
TENON_API void tenon_tensor_release(tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * The shape.
 * @param[in]     tensor  borrowed.
 * @param[in,out] out     out->struct_size set by the caller; sizes and strides are borrowed from the tensor, never NULL
 *                        if ndim > 0, valid until its last release; untouched on failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_get_spec(const tenon_tensor *tensor, tenon_tensor_spec *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The storage under a tensor.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return borrowed from the tensor, valid until its last release (tenon_storage_retain keeps it); NULL for NULL.
 * @since 0.1. Any thread.
 */
TENON_API tenon_storage *tenon_tensor_storage(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * The element with index 0, 0, …, to read.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return borrowed from the tensor, valid until its last release; NULL for NULL, and for a tensor over a storage
 *         that is empty or was dropped. For a storage on a CUDA device it is an address of that device,
 *         as tenon_storage_data says.
 * @since 0.1. Any thread.
 */
TENON_API const void *tenon_tensor_data(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * The element with index 0, 0, …, to write.
 * @param[in]  tensor  borrowed.
 * @param[out] out     borrowed from the tensor, valid until its last release; untouched on failure. As tenon_tensor_data.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only),
 *         TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender).
 * @since 0.1. Any thread; who orders the writes is the callers' affair.
 */
TENON_API tenon_status tenon_tensor_data_mut(tenon_tensor *tensor, void **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The number of elements.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return the product of the sizes (1 for ndim 0); 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_tensor_numel(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * The bytes that the elements take when packed: numel * bits * lanes / 8, rounded up.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return bytes; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API uint64_t tenon_tensor_nbytes(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Whether the elements lie packed, last dimension fastest.
 * @param[in] tensor  borrowed; NULL is allowed.
 * @return 1 if so (also for a tensor without elements), else 0; 0 for NULL.
 * @since 0.1. Any thread.
 */
TENON_API int tenon_tensor_is_contiguous(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Shape and data at once.
 * @param[in]     tensor  borrowed.
 * @param[in,out] out     out->struct_size set by the caller, the rest is filled in; valid until the tensor's last release; untouched
 *                        on failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_tensor_get_view(tenon_tensor *tensor, tenon_tensor_view *out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
