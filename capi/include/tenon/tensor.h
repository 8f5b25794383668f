#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

/**
 * @file
 * Tensors: strided views of storages, with an element type, sizes and strides. Sizes, strides and
 * offsets in this header are in elements, other sizes in bytes.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/dtype.h>
#include <tenon/error.h>
#include <tenon/storage.h>

TENON_BEGIN_DECLS

/**
 * Strided elements over one storage. A tensor never changes. A view of a tensor is another tensor
 * over the same storage.
 */
typedef struct tenon_tensor tenon_tensor;

enum {
  TENON_TENSOR_REQUIRES_GRAD = 1, /**< Tenon carries this flag along and does not use it. */
  TENON_TENSOR_IS_PARAMETER = 2,  /**< Tenon carries this flag along and does not use it. */
  TENON_TENSOR_CONJ = 4,          /**< A reader must conjugate the elements. */
  TENON_TENSOR_NEG = 8            /**< A reader must negate the elements. */
};

enum {
  TENON_TENSOR_MAX_NDIM = 64 /**< The most dimensions of a tensor. */
};

/**
 * The layout of a tensor over a storage. Sizes, strides and the offset are in elements. A stride
 * may be 0 or negative.
 */
typedef struct tenon_tensor_spec {
  /** sizeof(tenon_tensor_spec), set by the caller, also for output. */
  size_t struct_size;
  /**
   * The element type. Elements of fewer than 8 bits are packed, lowest bits first, and their
   * tensors must be contiguous.
   */
  tenon_dtype dtype;
  /** The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM. */
  int32_t ndim;
  /** ndim sizes, each >= 0. It is NULL if ndim is 0. */
  const int64_t *sizes;
  /** ndim strides. NULL on input means contiguous elements, with the last dimension fastest. */
  const int64_t *strides;
  /** The distance from the start of the storage to the element with index 0, 0, … */
  uint64_t offset;
  /** TENON_TENSOR_*. */
  uint32_t flags;
  /** It must be 0. */
  uint32_t reserved;
} tenon_tensor_spec;

/**
 * The properties of a tensor that a reader needs, filled in by one call. The pointers are borrowed
 * from the tensor. Sizes, strides and the offset are in elements.
 */
typedef struct tenon_tensor_view {
  size_t struct_size;     /**< sizeof(tenon_tensor_view), set by the caller. */
  tenon_tensor *tensor;   /**< The tensor itself, borrowed. */
  const char *name;       /**< For a tensor in a message the tenon_message_name, else NULL. */
  const void *data;       /**< See tenon_tensor_data. */
  void *data_mut;         /**< The same address as data. It is NULL if the storage is read-only. */
  const int64_t *sizes;   /**< ndim sizes. It is NULL if ndim is 0. */
  const int64_t *strides; /**< ndim strides. It is NULL if ndim is 0. */
  uint64_t offset;        /**< From the start of the storage to the element with index 0, 0, … */
  uint64_t numel;         /**< See tenon_tensor_numel. */
  uint64_t nbytes;        /**< See tenon_tensor_nbytes. */
  tenon_dtype dtype;      /**< The element type, as in the spec. */
  int32_t ndim;           /**< 0 to TENON_TENSOR_MAX_NDIM. */
  uint32_t flags;         /**< TENON_TENSOR_*. */
  int32_t is_contiguous;  /**< See tenon_tensor_is_contiguous. */
  tenon_device device;    /**< The device on which data is an address; see tenon_storage_device. */
} tenon_tensor_view;

/** What an item of an index does; see tenon_tensor_index. */
enum {
  TENON_INDEX_NUMBER = 0,   /**< Picks one index of a dimension. The view lacks that dimension. */
  TENON_INDEX_SLICE = 1,    /**< Picks every step-th index of a dimension. */
  TENON_INDEX_NEW_AXIS = 2, /**< Adds a dimension of size 1, as numpy's newaxis does. */
  TENON_INDEX_ELLIPSIS = 3  /**< Keeps all dimensions that the other items leave over. */
};

/** An item of an index. Its numbers count the elements of one dimension. */
typedef struct tenon_index {
  /** sizeof(tenon_index), set by the caller. */
  size_t struct_size;
  /** TENON_INDEX_*. */
  int32_t kind;
  /** It must be 0. */
  uint32_t reserved;
  /**
   * NUMBER: the index, from -size to size - 1. A negative one counts from the end. SLICE: the first
   * index. Ignored for the other kinds.
   */
  int64_t start;
  /**
   * SLICE: the end of the slice, which the slice leaves out. Bounds are read as in Python: a
   * negative start or stop counts from the end, and one that lies beyond an end of the dimension
   * means that end. So INT64_MAX means the last end. For a negative step a stop of INT64_MIN
   * includes the index 0.
   */
  int64_t stop;
  /** SLICE: the distance between two picked indices, not 0. If negative, start is above stop. */
  int64_t step;
} tenon_index;

/**
 * Makes a tensor over a storage. Every element that the layout can address must lie inside the
 * storage. No byte is read or moved.
 * @param[in]  storage  borrowed. The tensor takes a reference of its own.
 * @param[in]  spec     borrowed for the call, including its arrays.
 * @param[out] out      new reference; release it with tenon_tensor_release. It is untouched on
 *                      failure.
 * @param[out] err      optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also if sizes, strides or offset overflow or reach
 *         beyond the storage), TENON_UNSUPPORTED (unknown flags), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_new(tenon_storage *storage, const tenon_tensor_spec *spec,
                                        tenon_tensor **out, tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a tensor with the same elements in another shape. No byte is read or moved, and the flags
 * stay. Like PyTorch's Tensor.view, this also takes a tensor that is not contiguous if strides for
 * the new shape exist.
 * @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 * @param[in]  sizes   borrowed for the call: ndim sizes. One of them may be -1, which stands for
 *                     the size that makes the number of elements right. It may be NULL if ndim is
 *                     0.
 * @param[in]  ndim    the number of dimensions of the new shape, 0 to TENON_TENSOR_MAX_NDIM.
 * @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
 *                     failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (the elements do not fit the shape, or would have to be
 *         copied), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_reshape(const tenon_tensor *tensor, const int64_t *sizes,
                                            int32_t ndim, tenon_tensor **out,
                                            tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a tensor that reads the same bytes as elements of another type. No byte is read or moved,
 * and the flags stay. If the elements of the two types have different sizes, the last dimension
 * takes up the difference: 6 elements of 16 bits become 3 elements of 32 bits, or 12 of 8 bits.
 * Then the tensor must be contiguous and have a dimension, and its offset and its last dimension
 * must be whole numbers of the new elements.
 * @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 * @param[in]  dtype   the new element type.
 * @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
 *                     failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (also for an unknown type), TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_view_dtype(const tenon_tensor *tensor, tenon_dtype dtype,
                                               tenon_tensor **out,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Makes a tensor of the elements that an index picks, as numpy and PyTorch do with numbers, slices,
 * None and the ellipsis. The items stand for the dimensions in their order. Dimensions without an
 * item are kept whole, at the end or where the ellipsis stands. No byte is read or moved, and the
 * flags stay. Elements of fewer than 8 bits can only be picked if the result is contiguous and
 * begins on a byte.
 * @param[in]  tensor  borrowed. The new tensor takes a reference of its own to the storage.
 * @param[in]  items   borrowed array of n items, for the call. items[0].struct_size is the size of
 *                     every element. It may be NULL if n is 0.
 * @param[in]  n       the number of items. There is at most one ellipsis, and there are at most as
 *                     many numbers and slices as the tensor has dimensions.
 * @param[out] out     new reference; release it with tenon_tensor_release. It is untouched on
 *                     failure.
 * @param[out] err     optional, see rule 2 in tenon.h. An error about an item has the detail
 *                     "item", its place in `items`. For a number outside of its dimension it also
 *                     has "dimension" and "size".
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (a reserved field is not 0),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_index(const tenon_tensor *tensor, const tenon_index *items,
                                          size_t n, tenon_tensor **out,
                                          tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return `tensor`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_tensor *tenon_tensor_retain(tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Releases a reference.
 * @param[in] tensor  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_tensor_release(tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Gives the layout of a tensor.
 * @param[in]     tensor  borrowed.
 * @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
 *                        sizes and strides are borrowed from the tensor, valid until its last
 *                        release, and never NULL if ndim > 0. It is untouched on failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_get_spec(const tenon_tensor *tensor, tenon_tensor_spec *out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the storage under a tensor.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return the storage, borrowed from the tensor and valid until the tensor's last release. Use
 *         tenon_storage_retain to keep it longer. It is NULL for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_storage *tenon_tensor_storage(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Returns a pointer to the element with index 0, 0, …, for reading.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return a pointer borrowed from the tensor and valid until its last release. It is NULL for NULL,
 *         and if the tensor's storage is empty or was dropped. For a storage on a CUDA device it is
 *         an address of that device, as in tenon_storage_data.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const void *tenon_tensor_data(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Gives a pointer to the element with index 0, 0, …, for writing.
 * @param[in]  tensor  borrowed.
 * @param[out] out     borrowed from the tensor and valid until its last release. It is NULL if the
 *                     storage is empty. For a storage on a CUDA device it is an address of that
 *                     device, as in tenon_storage_data. It is untouched on failure.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION (the storage is read-only),
 *         TENON_PEER_GONE (the storage was dropped, see tenon_storage_check_lender).
 * @since 0.1. Any thread may call this function. The callers must order their writes (rule 8 in
 *         tenon.h).
 */
TENON_API tenon_status tenon_tensor_data_mut(tenon_tensor *tensor, void **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the number of elements.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return the product of the sizes, which is 1 if ndim is 0; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_tensor_numel(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Returns how many bytes the elements take when they are packed: numel * bits * lanes / 8, rounded
 * up.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return the size in bytes; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_tensor_nbytes(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Tells whether the elements lie packed in memory, with the last dimension fastest.
 * @param[in] tensor  borrowed. NULL is allowed.
 * @return 1 if the elements are packed, also if there are none; otherwise 0, also for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API int tenon_tensor_is_contiguous(const tenon_tensor *tensor) TENON_NOEXCEPT;

/**
 * Gives the layout, the data pointer and the other properties of a tensor in one call.
 * @param[in]     tensor  borrowed.
 * @param[in,out] out     struct_size set by the caller, the other fields filled in by the call.
 *                        They are valid until the tensor's last release. It is untouched on
 *                        failure.
 * @param[out]    err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_tensor_get_view(tenon_tensor *tensor, tenon_tensor_view *out,
                                             tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
