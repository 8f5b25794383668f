/// @file
/// PyTorch's element types, as archives use them: their numbers and names, and the DLPack types to
/// which they correspond.
#ifndef TENON_CPP_SCALAR_TYPE_HPP
#define TENON_CPP_SCALAR_TYPE_HPP

#include <tenon/scalar_type.h>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/text.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

TENON_CPP_BEGIN

/// An element type in PyTorch's numbers. PyTorch has element types that DLPack lacks; see dtype_of.
/// An archive or a newer library may give a number that this enum does not name.
enum class ScalarType : tenon_scalar_type {
  kByte = TENON_SCALAR_TYPE_BYTE,
  kChar = TENON_SCALAR_TYPE_CHAR,
  kShort = TENON_SCALAR_TYPE_SHORT,
  kInt = TENON_SCALAR_TYPE_INT,
  kLong = TENON_SCALAR_TYPE_LONG,
  kHalf = TENON_SCALAR_TYPE_HALF,
  kFloat = TENON_SCALAR_TYPE_FLOAT,
  kDouble = TENON_SCALAR_TYPE_DOUBLE,
  kComplexHalf = TENON_SCALAR_TYPE_COMPLEX_HALF,
  kComplexFloat = TENON_SCALAR_TYPE_COMPLEX_FLOAT,
  kComplexDouble = TENON_SCALAR_TYPE_COMPLEX_DOUBLE,
  kBool = TENON_SCALAR_TYPE_BOOL,
  kQint8 = TENON_SCALAR_TYPE_QINT8,
  kQuint8 = TENON_SCALAR_TYPE_QUINT8,
  kQint32 = TENON_SCALAR_TYPE_QINT32,
  kBfloat16 = TENON_SCALAR_TYPE_BFLOAT16,
  kQuint4x2 = TENON_SCALAR_TYPE_QUINT4X2,
  kQuint2x4 = TENON_SCALAR_TYPE_QUINT2X4,
  kBits1x8 = TENON_SCALAR_TYPE_BITS1X8,
  kBits2x4 = TENON_SCALAR_TYPE_BITS2X4,
  kBits4x2 = TENON_SCALAR_TYPE_BITS4X2,
  kBits8 = TENON_SCALAR_TYPE_BITS8,
  kBits16 = TENON_SCALAR_TYPE_BITS16,
  kFloat8E5m2 = TENON_SCALAR_TYPE_FLOAT8_E5M2,
  kFloat8E4m3fn = TENON_SCALAR_TYPE_FLOAT8_E4M3FN,
  kFloat8E5m2fnuz = TENON_SCALAR_TYPE_FLOAT8_E5M2FNUZ,
  kFloat8E4m3fnuz = TENON_SCALAR_TYPE_FLOAT8_E4M3FNUZ,
  kUint16 = TENON_SCALAR_TYPE_UINT16,
  kUint32 = TENON_SCALAR_TYPE_UINT32,
  kUint64 = TENON_SCALAR_TYPE_UINT64,
  kUint1 = TENON_SCALAR_TYPE_UINT1,
  kUint2 = TENON_SCALAR_TYPE_UINT2,
  kUint3 = TENON_SCALAR_TYPE_UINT3,
  kUint4 = TENON_SCALAR_TYPE_UINT4,
  kUint5 = TENON_SCALAR_TYPE_UINT5,
  kUint6 = TENON_SCALAR_TYPE_UINT6,
  kUint7 = TENON_SCALAR_TYPE_UINT7,
  kInt1 = TENON_SCALAR_TYPE_INT1,
  kInt2 = TENON_SCALAR_TYPE_INT2,
  kInt3 = TENON_SCALAR_TYPE_INT3,
  kInt4 = TENON_SCALAR_TYPE_INT4,
  kInt5 = TENON_SCALAR_TYPE_INT5,
  kInt6 = TENON_SCALAR_TYPE_INT6,
  kInt7 = TENON_SCALAR_TYPE_INT7,
  kFloat8E8m0fnu = TENON_SCALAR_TYPE_FLOAT8_E8M0FNU,
  kFloat4E2m1fnX2 = TENON_SCALAR_TYPE_FLOAT4_E2M1FN_X2,
  kBcomplex32 = TENON_SCALAR_TYPE_BCOMPLEX32
};

/// Returns the name of an element type, as torch.dtype writes it: "float32", "qint8". The string is
/// in static storage. It is "" for a number that is not an element type.
inline std::string_view name_of(ScalarType type) noexcept {
  return detail::view_of(tenon_scalar_type_name(static_cast<tenon_scalar_type>(type)));
}

/// Returns the name of PyTorch's storage class for an element type: "FloatStorage". The string is
/// in static storage. It is "" for a number that is not an element type.
inline std::string_view storage_name_of(ScalarType type) noexcept {
  return detail::view_of(tenon_scalar_type_storage_name(static_cast<tenon_scalar_type>(type)));
}

/// Returns the oldest PyTorch that is known to read a storage of this type: "2.1", or "1.4" for
/// every type that PyTorch 1.4 or an older version reads. The string is in static storage. It is ""
/// for a number that is not an element type.
inline std::string_view since_of(ScalarType type) noexcept {
  return detail::view_of(tenon_scalar_type_since(static_cast<tenon_scalar_type>(type)));
}

/// Returns how many bytes one element of a storage has; 0 for a number that is not an element type.
/// For kQuint4x2 and kQuint2x4 it is the size of the byte that 2 or 4 elements of a tensor share.
inline std::uint64_t nbytes_of(ScalarType type) noexcept {
  return tenon_scalar_type_nbytes(static_cast<tenon_scalar_type>(type));
}

/// Returns the element type with a given name: torch.dtype's name ("float32"), PyTorch's own
/// ("Float") or the name of its storage class ("FloatStorage"). The result is empty if there is no
/// such type.
inline std::optional<ScalarType> scalar_type_of(std::string_view name) {
  tenon_scalar_type type = 0;
  // A NUL inside would hide the rest of the text.
  if (name.find('\0') != std::string_view::npos) return std::nullopt;
  if (tenon_scalar_type_parse(std::string(name).c_str(), &type, nullptr) != TENON_OK)
    return std::nullopt;
  return static_cast<ScalarType>(type);
}

/// Returns PyTorch's element type for a DLPack type, or nothing if PyTorch has none.
inline std::optional<ScalarType> scalar_type_of(Dtype dtype) noexcept {
  tenon_scalar_type type = 0;
  if (tenon_scalar_type_from_dtype(dtype, &type, nullptr) != TENON_OK) return std::nullopt;
  return static_cast<ScalarType>(type);
}

/// Returns the DLPack type for one of PyTorch's element types, or nothing if DLPack has none.
inline std::optional<Dtype> dtype_of(ScalarType type) noexcept {
  tenon_dtype dtype{};
  if (tenon_scalar_type_to_dtype(static_cast<tenon_scalar_type>(type), &dtype, nullptr) != TENON_OK)
    return std::nullopt;
  return dtype;
}

TENON_CPP_END

#endif
