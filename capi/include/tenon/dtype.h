#ifndef TENON_DTYPE_H
#define TENON_DTYPE_H

/**
 * @file
 * Element types of tensors, in DLPack's numbers, and their names.
 */

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/**
 * An element type in DLPack's numbers: a type code (TENON_DTYPE_*), the bits of one lane, and the
 * number of lanes (1 for a scalar).
 */
typedef struct tenon_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} tenon_dtype;

enum {
  TENON_DTYPE_INT = 0,
  TENON_DTYPE_UINT = 1,
  TENON_DTYPE_FLOAT = 2,
  TENON_DTYPE_BFLOAT = 4,
  TENON_DTYPE_COMPLEX = 5,
  TENON_DTYPE_BOOL = 6,
  TENON_DTYPE_FLOAT8_E3M4 = 7,
  TENON_DTYPE_FLOAT8_E4M3 = 8,
  TENON_DTYPE_FLOAT8_E4M3B11FNUZ = 9,
  TENON_DTYPE_FLOAT8_E4M3FN = 10,
  TENON_DTYPE_FLOAT8_E4M3FNUZ = 11,
  TENON_DTYPE_FLOAT8_E5M2 = 12,
  TENON_DTYPE_FLOAT8_E5M2FNUZ = 13,
  TENON_DTYPE_FLOAT8_E8M0FNU = 14,
  TENON_DTYPE_FLOAT6_E2M3FN = 15,
  TENON_DTYPE_FLOAT6_E3M2FN = 16,
  TENON_DTYPE_FLOAT4_E2M1FN = 17
};

enum {
  TENON_DTYPE_MAX_NAME_NBYTES = 32 /**< The most bytes of a name, with its NUL. */
};

/**
 * Writes the name of an element type, as numpy and PyTorch write it: "float32", "bfloat16",
 * "float8_e4m3fn". A type with more than one lane has a name like "uint8x4". A type without a name
 * gets a text like "dtype_3_64" (code and bits).
 * @param[in]  dtype     any numbers.
 * @param[out] out       the caller's buffer, with room for `capacity` bytes. The call writes the
 *                       name, cut off if it does not fit, and a NUL. `out` may be NULL if capacity
 *                       is 0.
 * @param[in]  capacity  bytes. TENON_DTYPE_MAX_NAME_NBYTES is enough for every name.
 * @return the length of the whole name in bytes, without the NUL.
 * @since 0.1. Any thread may call this function.
 */
TENON_API size_t tenon_dtype_name(tenon_dtype dtype, char *out, size_t capacity) TENON_NOEXCEPT;

/**
 * Finds the element type that has a given name. It reads every name that tenon_dtype_name writes.
 * @param[in]  name  borrowed.
 * @param[out] out   the caller's. It is untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_dtype_parse(const char *name, tenon_dtype *out,
                                         tenon_error **err) TENON_NOEXCEPT;

/**
 * Computes how many bytes a packed tensor takes, which is the size of a storage for it.
 * @param[in]  dtype  the type of one element.
 * @param[in]  sizes  borrowed, an array of ndim sizes >= 0. It may be NULL if ndim is 0.
 * @param[in]  ndim   0 to 64.
 * @param[out] out    the caller's. The call stores the size in bytes: numel * bits * lanes / 8,
 *                    rounded up. It is untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (an unknown type, a negative size, or more bytes than an
 *         int64_t can count).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_dtype_nbytes(tenon_dtype dtype, const int64_t *sizes, int32_t ndim,
                                          uint64_t *out, tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
