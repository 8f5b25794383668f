#ifndef TENON_DTYPE_H
#define TENON_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/** An element type in DLPack's numbers: code, bits of one lane, lanes (1 for a scalar). */
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
  TENON_DTYPE_MAX_NAME_NBYTES = 32 /**< room for every name, with its NUL */
};

/**
 * The name of an element type, as numpy and PyTorch have it: "float32", "bfloat16", "float8_e4m3fn"; with more lanes than one, "uint8x4";
 * of a type that has none, "dtype_3_64" (code and bits).
 * @param[in]  dtype     any numbers.
 * @param[out] out       borrowed, room for `capacity` bytes; gets the name, cut if it does not fit, and a NUL; may be NULL if capacity is
 * 0.
 * @param[in]  capacity  bytes; TENON_DTYPE_MAX_NAME_NBYTES is enough for every name.
 * @return bytes of the whole name, without the NUL.
 * @since 0.1. Any thread.
 */
TENON_API size_t tenon_dtype_name(tenon_dtype dtype, char *out, size_t capacity) TENON_NOEXCEPT;

/**
 * The element type of a name that tenon_dtype_name gives.
 * @param[in]  name  borrowed.
 * @param[out] out   borrowed; untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_dtype_parse(const char *name, tenon_dtype *out, tenon_error **err) TENON_NOEXCEPT;

/**
 * The bytes of a packed tensor: what a storage needs to hold it.
 * @param[in]  dtype  of an element.
 * @param[in]  sizes  borrowed array of ndim numbers >= 0, in elements; may be NULL if ndim is 0.
 * @param[in]  ndim   0 to 64.
 * @param[out] out    borrowed; bytes: numel * bits * lanes / 8, rounded up; untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (an unknown type, a negative size, or more bytes than an int64_t counts).
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_dtype_nbytes(tenon_dtype dtype, const int64_t *sizes, int32_t ndim, uint64_t *out,
                                          tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
