// PyTorch's element types: their numbers in archives, their names, and their DLPack types
// (tensor::DType). Quantised types, bits, BComplex32 and PyTorch's integers of less than 8 bits
// have no DLPack type, but Tenon still keeps them and writes them again. The readers and writers of
// archives use this. All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace tenon::tensor {

// The numbers are PyTorch's. Archives contain them, because a dtype attribute is pickled as its
// number.
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
  const char* name;  // "Float"
  // "FloatStorage": the global `torch.FloatStorage` of a pickled storage.
  const char* storage_name;
  // "float32": the global `torch.float32`, and the name that torch.dtype prints.
  const char* dtype_name;
  // The size in bytes of one element of a storage. For QUInt4x2 and QUInt2x4 it is the byte that
  // several elements share.
  uint8_t nbytes;
  // The number of a tensor's elements that share one element of its storage: 2 for QUInt4x2, 4 for
  // QUInt2x4, else 1. It is 1 for Float4E2m1fnX2 too: for PyTorch the pair of numbers in a byte is
  // one element, and its DLPack type has 2 lanes.
  uint8_t packed;
  tensor::DType dtype;  // the DLPack type; lanes are 0 if there is none
  // The oldest PyTorch that is known to read a storage of this type. "1.4" stands for all
  // versions up to 1.4.
  const char* since;

  bool has_dtype() const noexcept { return dtype.lanes != 0; }
};

// `type` is one of the enum. The result lives as long as the process.
const ScalarTypeInfo& scalar_type_info(ScalarType type) noexcept;

// The reverse functions. They return nothing for an unknown number or name.
std::optional<ScalarType> scalar_type_from_number(int64_t number) noexcept;
// The name as in "Float".
std::optional<ScalarType> scalar_type_from_name(std::string_view name) noexcept;
// The name as in "FloatStorage".
std::optional<ScalarType> scalar_type_from_storage_name(std::string_view storage_name) noexcept;
// The name as in "float32".
std::optional<ScalarType> scalar_type_from_dtype_name(std::string_view dtype_name) noexcept;
// The type with exactly this DLPack type, lanes included.
std::optional<ScalarType> scalar_type_from_dtype(tensor::DType dtype) noexcept;

// Floating-point and complex types can carry a gradient. Half, BFloat16 and the types of 8 and 4
// bits (Float8, Float4) are floating-point types. ComplexHalf and BComplex32 are complex.
bool is_floating_point(ScalarType type) noexcept;
bool is_complex(ScalarType type) noexcept;
// True for QInt8, QUInt8, QInt32, QUInt4x2 and QUInt2x4. A tensor of these has a quantizer.
bool is_quantized(ScalarType type) noexcept;
// True for Byte, Char, Short, Int, Long, UInt16, UInt32 and UInt64, but not for Bool.
bool is_integral(ScalarType type) noexcept;

}  // namespace tenon::tensor
