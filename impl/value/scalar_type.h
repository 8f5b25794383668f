// PyTorch's element types: their numbers in archives, their names, and what DLPack calls them.
// Wider than tensor::DType: quantised types, bits and integers under 8 bits have no DLPack form,
// and are still kept and written again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace tenon::value {

// The numbers are PyTorch's, and stand in archives (a dtype attribute is pickled as one).
enum class ScalarType : uint8_t {
  kByte = 0,
  kChar = 1,
  kShort = 2,
  kInt = 3,
  kLong = 4,
  kHalf = 5,
  kFloat = 6,
  kDouble = 7,
  kComplexHalf = 8,
  kComplexFloat = 9,
  kComplexDouble = 10,
  kBool = 11,
  kQInt8 = 12,
  kQUInt8 = 13,
  kQInt32 = 14,
  kBFloat16 = 15,
  kQUInt4x2 = 16,
  kQUInt2x4 = 17,
  kBits1x8 = 18,
  kBits2x4 = 19,
  kBits4x2 = 20,
  kBits8 = 21,
  kBits16 = 22,
  kFloat8E5m2 = 23,
  kFloat8E4m3fn = 24,
  kFloat8E5m2fnuz = 25,
  kFloat8E4m3fnuz = 26,
  kUInt16 = 27,
  kUInt32 = 28,
  kUInt64 = 29,
  kUInt1 = 30,
  kUInt2 = 31,
  kUInt3 = 32,
  kUInt4 = 33,
  kUInt5 = 34,
  kUInt6 = 35,
  kUInt7 = 36,
  kInt1 = 37,
  kInt2 = 38,
  kInt3 = 39,
  kInt4 = 40,
  kInt5 = 41,
  kInt6 = 42,
  kInt7 = 43,
  kFloat8E8m0fnu = 44,
  kFloat4E2m1fnX2 = 45,
  kBComplex32 = 46,
};
inline constexpr size_t kScalarTypeCount = 47;

struct ScalarTypeInfo {
  ScalarType type;
  const char* name;          // "Float"
  const char* storage_name;  // "FloatStorage": the global `torch FloatStorage` of a pickled storage
  const char* dtype_name;    // "float32": the global `torch float32`, and what torch.dtype prints
  // Of one element of a storage; of QUInt4x2 and QUInt2x4 the byte that several elements share.
  uint8_t nbytes;
  // How many elements of a tensor share one element of its storage: 2 of QUInt4x2, 4 of QUInt2x4,
  // else 1.
  uint8_t packed;
  tensor::DType dtype;  // DLPack's; lanes are 0 if it has none
  // The oldest PyTorch that reads a storage of this type; "1.4" for all that are as old as the
  // archives read here.
  const char* since;

  bool has_dtype() const noexcept { return dtype.lanes != 0; }
};

const ScalarTypeInfo& scalar_type_info(ScalarType type) noexcept;

// The ways back. Nothing for what is no such number or name.
std::optional<ScalarType> scalar_type_from_number(int64_t number) noexcept;
// "Float".
std::optional<ScalarType> scalar_type_from_name(std::string_view name) noexcept;
// "FloatStorage".
std::optional<ScalarType> scalar_type_from_storage_name(std::string_view storage_name) noexcept;
// "float32".
std::optional<ScalarType> scalar_type_from_dtype_name(std::string_view dtype_name) noexcept;
std::optional<ScalarType> scalar_type_from_dtype(tensor::DType dtype) noexcept;

// What can carry a gradient.
bool is_floating_point(ScalarType type) noexcept;
bool is_complex(ScalarType type) noexcept;
// QInt8, QUInt8, QInt32, QUInt4x2, QUInt2x4: a tensor of these has a quantizer.
bool is_quantized(ScalarType type) noexcept;
// Byte, Char, Short, Int, Long, UInt16, UInt32, UInt64 (not Bool).
bool is_integral(ScalarType type) noexcept;

}  // namespace tenon::value
