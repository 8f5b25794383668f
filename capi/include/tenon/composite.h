#ifndef TENON_COMPOSITE_H
#define TENON_COMPOSITE_H

/**
 * @file
 * Composites: tensors that consist of several tensors, which are called their parts. Sparse, nested
 * and quantised tensors are composites. A tensor on meta, which has no memory, is a composite
 * without parts. Sizes, strides and offsets in this header are in elements.
 *
 * A composite travels in a message: its parts are tensors of the message, and the message says
 * which of them make up a composite.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/by_fd.h>
#include <tenon/dtype.h>
#include <tenon/error.h>
#include <tenon/message.h>
#include <tenon/tensor.h>

TENON_BEGIN_DECLS

/** A tensor that consists of several tensors, its parts. A composite never changes. */
typedef struct tenon_composite tenon_composite;

/**
 * How the elements of a tensor are laid out: in PyTorch's numbers, and from 64 on in Tenon's own.
 * PyTorch's mkldnn layout has no number here, because it is private to one process.
 */
enum {
  TENON_TENSOR_LAYOUT_STRIDED = 0, /**< A tenon_tensor, never a composite. */
  TENON_TENSOR_LAYOUT_SPARSE_COO = 1,
  TENON_TENSOR_LAYOUT_SPARSE_CSR = 2,
  TENON_TENSOR_LAYOUT_SPARSE_CSC = 4,
  TENON_TENSOR_LAYOUT_SPARSE_BSR = 5,
  TENON_TENSOR_LAYOUT_SPARSE_BSC = 6,
  TENON_TENSOR_LAYOUT_JAGGED = 7,    /**< Components of different sizes in one dimension. */
  TENON_TENSOR_LAYOUT_NESTED = 64,   /**< Components of different sizes in any dimension. */
  TENON_TENSOR_LAYOUT_META = 65,     /**< Sizes and an element type, but no elements. */
  TENON_TENSOR_LAYOUT_QUANTIZED = 66 /**< Integers that represent numbers. */
};

/** How quantised elements represent numbers. */
enum {
  TENON_QUANTIZER_NONE = 0,
  TENON_QUANTIZER_PER_TENSOR_AFFINE = 1,
  TENON_QUANTIZER_PER_CHANNEL_AFFINE = 2,
  TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS = 3
};

/**
 * Whether a COO tensor is coalesced. In a coalesced tensor the indices are sorted, and no two are
 * equal.
 */
enum {
  TENON_COALESCED_UNKNOWN = 0, /**< It is not known. */
  TENON_COALESCED_NO = 1,
  TENON_COALESCED_YES = 2
};

/**
 * The layout and the parts of a composite. Every part is borrowed. A field that the layout does not
 * use must be 0 or NULL on input, except for `dtype` and `sizes`, which are then ignored.
 */
typedef struct tenon_composite_spec {
  /** sizeof(tenon_composite_spec), set by the caller, also for output. */
  size_t struct_size;
  /** TENON_TENSOR_LAYOUT_*, not TENON_TENSOR_LAYOUT_STRIDED. */
  int32_t layout;
  /** The number of dimensions, 0 to TENON_TENSOR_MAX_NDIM. */
  int32_t ndim;
  /**
   * ndim sizes. The caller sets them for sparse and meta layouts. For other layouts they are
   * ignored on input. On output a size is -1 if it can differ from component to component. NULL if
   * ndim is 0.
   */
  const int64_t *sizes;
  /** Meta: ndim strides. NULL on input means contiguous elements. For other layouts it is NULL. */
  const int64_t *strides;
  /**
   * Meta: the distance from the start of the storage that the tensor would have. For other layouts
   * it is 0.
   */
  uint64_t offset;
  /**
   * The element type. The caller sets it for meta. For other layouts it is the type of `values`,
   * and it is ignored on input.
   */
  tenon_dtype dtype;
  /** TENON_TENSOR_REQUIRES_GRAD, TENON_TENSOR_IS_PARAMETER. Meta: all TENON_TENSOR_*. */
  uint32_t flags;
  /**
   * The elements, for all layouts but meta. The dimensions are:
   * - COO: the non-zeros, then the dense dimensions.
   * - CSR, CSC, BSR, BSC: the batch, the non-zeros, for BSR and BSC the two block dimensions, then
   *   the dense dimensions.
   * - Jagged: those of the whole tensor without the first one. All components lie one after another
   *   in the ragged dimension.
   * - Nested: one dimension, contiguous.
   * - Quantised: those of the whole tensor. The type is int8, uint8, int32, uint4 or uint2.
   */
  tenon_tensor *values;
  /**
   * COO: the indices, sparse dimensions by non-zeros. CSR and BSR: the row pointers. CSC and BSC:
   * the column pointers. The type of this part and of the next three is int64 or int32.
   */
  tenon_tensor *indices;
  /** CSR and BSR: the column indices. CSC and BSC: the row indices. */
  tenon_tensor *plain_indices;
  /**
   * Jagged: where each component begins along the ragged dimension of `values`, and last where the
   * last component ends. Nested: where each component begins in `values`, as int64.
   */
  tenon_tensor *offsets;
  /**
   * Jagged: the length of each component. NULL if each component ends where the next one begins.
   */
  tenon_tensor *lengths;
  /** Nested: components by dimensions, int64. */
  tenon_tensor *component_sizes;
  /** Nested: components by dimensions, int64. */
  tenon_tensor *component_strides;
  /** Quantised per channel: one float64 for each channel, or float32 with float parameters. */
  tenon_tensor *scales;
  /** Quantised per channel: one int64 for each channel, or float32 with float parameters. */
  tenon_tensor *zero_points;
  /** Quantised per tensor: an element represents the number (element - zero_point) * scale. */
  double scale;
  /** Quantised per tensor: see `scale`. */
  int64_t zero_point;
  /** Quantised per channel: the dimension of the channels. */
  int32_t axis;
  /**
   * Jagged: the dimension in which components differ, from 1 on. Dimension 0 counts the components.
   */
  int32_t ragged_dim;
  /** TENON_QUANTIZER_*. */
  int32_t quantizer;
  /** COO: TENON_COALESCED_*. */
  int32_t coalesced;
} tenon_composite_spec;

/**
 * Makes a composite. The shapes, the element types and the devices of the parts must fit each
 * other. The call does not read the numbers in the indices, offsets and component sizes;
 * tenon_composite_check checks them.
 * @param[in]  spec  borrowed for the call, including its arrays. The composite takes a reference to
 *                   each part.
 * @param[out] out   new reference; release it with tenon_composite_release. It is untouched on
 *                   failure.
 * @param[out] err   optional, see rule 2 in tenon.h. If a part is wrong, the detail `part` names
 *                   it.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED (unknown flags),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_composite_new(const tenon_composite_spec *spec, tenon_composite **out,
                                           tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds a reference.
 * @param[in] composite  borrowed. NULL is allowed.
 * @return `composite`, as a new reference that must be released too.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_composite *tenon_composite_retain(tenon_composite *composite) TENON_NOEXCEPT;

/**
 * Releases a reference. The last one releases the references to the parts.
 * @param[in] composite  consumed. NULL is allowed.
 * @since 0.1. Any thread may call this function.
 */
TENON_API void tenon_composite_release(tenon_composite *composite) TENON_NOEXCEPT;

/**
 * Gives the layout, the sizes and the parts of a composite.
 * @param[in]     composite  borrowed.
 * @param[in,out] out        struct_size set by the caller, the other fields filled in by the call.
 *                           The pointers are borrowed from the composite and valid until its last
 *                           release. It is untouched on failure.
 * @param[out]    err        optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_composite_get_spec(const tenon_composite *composite,
                                                tenon_composite_spec *out,
                                                tenon_error **err) TENON_NOEXCEPT;

/**
 * Checks the numbers in the indices, offsets and component sizes of a composite. A reader that
 * follows the numbers of the result stays inside the parts. Frameworks do not check these numbers:
 * a column index that is too large makes the newest PyTorch read memory outside the tensor. The
 * rules are PyTorch's. Indices are within the sizes. Row and column pointers go from 0 to the
 * number of non-zeros and never decrease. The plain indices of one line ascend, and so do the
 * indices of a coalesced tensor. A quantised tensor has none of these numbers, so the call returns
 * it as it is.
 *
 * If another process can still write such a part, the call copies the part into private memory
 * first and checks the copy. A part in a frozen storage or in private memory needs no copy, unless
 * the memory is a copy-on-write opening or a view of a file, or the part is misaligned or not
 * contiguous. The values are never copied. The whole cost is one pass over the checked parts.
 * @param[in]  composite  borrowed.
 * @param[out] out        new reference to the same composite, or to one with the copied parts.
 *                        Release it with tenon_composite_release. It is untouched on failure.
 * @param[out] err        optional, see rule 2 in tenon.h. The details `part` and `index` say where
 *                        the wrong number is.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_CORRUPT (a number is wrong), TENON_UNSUPPORTED
 *         (the parts are on a device), TENON_PEER_GONE (a storage was dropped),
 *         TENON_RESOURCE_EXHAUSTED.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_composite_check(tenon_composite *composite, tenon_composite **out,
                                             tenon_error **err) TENON_NOEXCEPT;

/**
 * Adds composites to a message. The call adds all of them or, on failure, none. The parts of each
 * composite become tensors of the message, without names and one after another, behind the tensors
 * that the message has already. Parts that share a storage share it in the receiver too. A version
 * of Tenon that does not know composites refuses to receive such a message with TENON_INCOMPATIBLE.
 * @param[in]  message     borrowed.
 * @param[in]  composites  borrowed, an array of n composites. The message takes a reference to
 *                         each.
 * @param[in]  names       NULL, or a borrowed array of n strings, as in tenon_message_add.
 * @param[in]  n           the number of composites.
 * @param[in]  options     borrowed. NULL means the defaults. They have the same meaning as in
 *                         tenon_share_fd, for every part.
 * @param[out] err         optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT, TENON_PERMISSION, TENON_UNSUPPORTED (a part lies in
 *         private memory), TENON_RESOURCE_EXHAUSTED, TENON_PEER_GONE (a storage was dropped).
 * @since 0.1. Only one thread at a time may use the message.
 */
TENON_API tenon_status tenon_message_add_composites(tenon_message *message,
                                                    tenon_composite *const *composites,
                                                    const char *const *names, size_t n,
                                                    const tenon_share_options *options,
                                                    tenon_error **err) TENON_NOEXCEPT;

/**
 * Returns the number of composites in a message. Their parts count in tenon_message_count.
 * @param[in] message  borrowed. NULL is allowed.
 * @return the count; 0 for NULL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_message_composite_count(const tenon_message *message) TENON_NOEXCEPT;

/**
 * Returns one composite of a message. The composites are in the order of their parts.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] index    counts from 0.
 * @return the composite, borrowed from the message and valid until the message is released. Use
 *         tenon_composite_retain to keep it longer. It is NULL if `index` is past the last
 *         composite.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_composite *tenon_message_composite(const tenon_message *message,
                                                   size_t index) TENON_NOEXCEPT;

/**
 * Returns where the parts of a composite are among the tensors of its message. A reader that needs
 * tensors and composites in the order of sending goes through the tensors. Where the parts of a
 * composite begin, it takes the composite and skips the parts.
 * @param[in]  message  borrowed. NULL is allowed.
 * @param[in]  index    which composite, counted from 0.
 * @param[out] n_parts  how many parts there are, 0 on meta. It may be NULL.
 * @return the index of the first part for tenon_message_tensor; the others follow. On meta it is
 *         the index of the tensor before which the composite was added. It is
 *         tenon_message_count, and n_parts 0, if `index` is past the last composite.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_message_composite_parts(const tenon_message *message, size_t index,
                                               size_t *n_parts) TENON_NOEXCEPT;

/**
 * Returns the name of one composite of a message.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] index    counts from 0.
 * @return a UTF-8 string, borrowed as that of tenon_message_name. It is NULL if the composite has
 *         no name, or if `index` is past the last composite.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_message_composite_name(const tenon_message *message,
                                                   size_t index) TENON_NOEXCEPT;

/**
 * Returns the first composite of a message that has a given name.
 * @param[in] message  borrowed. NULL is allowed.
 * @param[in] name     borrowed. NULL is allowed.
 * @return the composite, borrowed from the message. It is NULL if there is none.
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_composite *tenon_message_find_composite(const tenon_message *message,
                                                        const char *name) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
