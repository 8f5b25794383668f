#ifndef TENON_SCALAR_TYPE_H
#define TENON_SCALAR_TYPE_H

/**
 * @file
 * PyTorch's element types, which values and archives use, and how they correspond to the element
 * types of DLPack (tenon/dtype.h).
 */

#include <stdint.h>
#include <tenon/dtype.h>
#include <tenon/error.h>

TENON_BEGIN_DECLS

/**
 * An element type in PyTorch's numbers, which archives contain. PyTorch has element types that
 * DLPack lacks; see tenon_scalar_type_to_dtype.
 */
typedef int32_t tenon_scalar_type;

/** PyTorch's element types and their numbers. */
enum {
  TENON_SCALAR_TYPE_BYTE = 0,
  TENON_SCALAR_TYPE_CHAR = 1,
  TENON_SCALAR_TYPE_SHORT = 2,
  TENON_SCALAR_TYPE_INT = 3,
  TENON_SCALAR_TYPE_LONG = 4,
  TENON_SCALAR_TYPE_HALF = 5,
  TENON_SCALAR_TYPE_FLOAT = 6,
  TENON_SCALAR_TYPE_DOUBLE = 7,
  TENON_SCALAR_TYPE_COMPLEX_HALF = 8,
  TENON_SCALAR_TYPE_COMPLEX_FLOAT = 9,
  TENON_SCALAR_TYPE_COMPLEX_DOUBLE = 10,
  TENON_SCALAR_TYPE_BOOL = 11,
  TENON_SCALAR_TYPE_QINT8 = 12,
  TENON_SCALAR_TYPE_QUINT8 = 13,
  TENON_SCALAR_TYPE_QINT32 = 14,
  TENON_SCALAR_TYPE_BFLOAT16 = 15,
  TENON_SCALAR_TYPE_QUINT4X2 = 16,
  TENON_SCALAR_TYPE_QUINT2X4 = 17,
  TENON_SCALAR_TYPE_BITS1X8 = 18,
  TENON_SCALAR_TYPE_BITS2X4 = 19,
  TENON_SCALAR_TYPE_BITS4X2 = 20,
  TENON_SCALAR_TYPE_BITS8 = 21,
  TENON_SCALAR_TYPE_BITS16 = 22,
  TENON_SCALAR_TYPE_FLOAT8_E5M2 = 23,
  TENON_SCALAR_TYPE_FLOAT8_E4M3FN = 24,
  TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ = 25,
  TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ = 26,
  TENON_SCALAR_TYPE_UINT16 = 27,
  TENON_SCALAR_TYPE_UINT32 = 28,
  TENON_SCALAR_TYPE_UINT64 = 29,
  TENON_SCALAR_TYPE_UINT1 = 30,
  TENON_SCALAR_TYPE_UINT2 = 31,
  TENON_SCALAR_TYPE_UINT3 = 32,
  TENON_SCALAR_TYPE_UINT4 = 33,
  TENON_SCALAR_TYPE_UINT5 = 34,
  TENON_SCALAR_TYPE_UINT6 = 35,
  TENON_SCALAR_TYPE_UINT7 = 36,
  TENON_SCALAR_TYPE_INT1 = 37,
  TENON_SCALAR_TYPE_INT2 = 38,
  TENON_SCALAR_TYPE_INT3 = 39,
  TENON_SCALAR_TYPE_INT4 = 40,
  TENON_SCALAR_TYPE_INT5 = 41,
  TENON_SCALAR_TYPE_INT6 = 42,
  TENON_SCALAR_TYPE_INT7 = 43,
  TENON_SCALAR_TYPE_FLOAT8_E8M0FNU = 44,
  TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2 = 45,
  TENON_SCALAR_TYPE_BCOMPLEX32 = 46
};

/**
 * Returns the name of an element type, as torch.dtype writes it: "float32", "qint8", "bits16".
 * @param[in] type  any number.
 * @return a string in static storage. NULL for a number that is not an element type.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_scalar_type_name(tenon_scalar_type type) TENON_NOEXCEPT;

/**
 * Returns the name of PyTorch's storage class for an element type, such as "FloatStorage".
 * @param[in] type  any number.
 * @return a string in static storage. NULL for a number that is not an element type.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_scalar_type_storage_name(tenon_scalar_type type) TENON_NOEXCEPT;

/**
 * Returns the size of one element of a storage. For quint4x2 and quint2x4 it is the size of the
 * byte that 2 or 4 elements of a tensor share.
 * @param[in] type  any number.
 * @return the size in bytes; 0 for a number that is not an element type.
 * @since 0.1. Any thread may call this function.
 */
TENON_API uint64_t tenon_scalar_type_nbytes(tenon_scalar_type type) TENON_NOEXCEPT;

/**
 * Returns the oldest version of PyTorch that is known to read a storage of an element type.
 * @param[in] type  any number.
 * @return a string in static storage, such as "2.1". It is "1.4" for every type that PyTorch 1.4 or
 *         an older version reads. NULL for a number that is not an element type.
 * @since 0.1. Any thread may call this function.
 */
TENON_API const char *tenon_scalar_type_since(tenon_scalar_type type) TENON_NOEXCEPT;

/**
 * Finds the element type that has a given name. The name can be the one of torch.dtype ("float32"),
 * the one that PyTorch uses inside ("Float"), or the one of its storage class ("FloatStorage").
 * @param[in]  name  borrowed.
 * @param[out] out   the caller's. Untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (there is no such name).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_scalar_type_parse(const char *name, tenon_scalar_type *out,
                                               tenon_error **err) TENON_NOEXCEPT;

/**
 * Finds DLPack's element type for one of PyTorch's. DLPack has none for quantised types, for bits
 * types, for integers of fewer than 8 bits (each of which takes a whole byte in PyTorch), and for
 * bcomplex32.
 * @param[in]  type  PyTorch's element type.
 * @param[out] out   the caller's. Untouched on failure.
 * @param[out] err   optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT (`type` is not an element type), TENON_UNSUPPORTED
 *         (DLPack has no such element type).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_scalar_type_to_dtype(tenon_scalar_type type, tenon_dtype *out,
                                                  tenon_error **err) TENON_NOEXCEPT;

/**
 * Finds PyTorch's element type for one of DLPack's.
 * @param[in]  dtype  DLPack's element type.
 * @param[out] out    the caller's. Untouched on failure.
 * @param[out] err    optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_UNSUPPORTED (PyTorch has no such element type).
 * @since 0.1. Any thread may call this function.
 */
TENON_API tenon_status tenon_scalar_type_from_dtype(tenon_dtype dtype, tenon_scalar_type *out,
                                                    tenon_error **err) TENON_NOEXCEPT;

TENON_END_DECLS

#endif
