#include "tensor/scalar_type.h"

#include <algorithm>
#include <array>

namespace tenon::tensor {
namespace {

using tensor::DType;

constexpr DType kNone{};
constexpr DType int_of(uint8_t bits) { return {0, bits, 1}; }
constexpr DType uint_of(uint8_t bits) { return {1, bits, 1}; }
constexpr DType float_of(uint8_t bits) { return {2, bits, 1}; }
constexpr DType complex_of(uint8_t bits) { return {5, bits, 1}; }
constexpr DType float8_of(uint8_t code) { return {code, 8, 1}; }

// If it was not established which release first had a type, `since` is a release that certainly has
// it. Integers of less than 8 bits take a byte each in PyTorch and are packed in DLPack, so they
// are not the same types.
constexpr std::array<ScalarTypeInfo, kScalarTypeCount> kInfos = {{
    {ScalarType::kByte, "Byte", "ByteStorage", "uint8", 1, 1, uint_of(8), "1.4"},
    {ScalarType::kChar, "Char", "CharStorage", "int8", 1, 1, int_of(8), "1.4"},
    {ScalarType::kShort, "Short", "ShortStorage", "int16", 2, 1, int_of(16), "1.4"},
    {ScalarType::kInt, "Int", "IntStorage", "int32", 4, 1, int_of(32), "1.4"},
    {ScalarType::kLong, "Long", "LongStorage", "int64", 8, 1, int_of(64), "1.4"},
    {ScalarType::kHalf, "Half", "HalfStorage", "float16", 2, 1, float_of(16), "1.4"},
    {ScalarType::kFloat, "Float", "FloatStorage", "float32", 4, 1, float_of(32), "1.4"},
    {ScalarType::kDouble, "Double", "DoubleStorage", "float64", 8, 1, float_of(64), "1.4"},
    {ScalarType::kComplexHalf, "ComplexHalf", "ComplexHalfStorage", "complex32", 4, 1,
     complex_of(32), "1.4"},
    {ScalarType::kComplexFloat, "ComplexFloat", "ComplexFloatStorage", "complex64", 8, 1,
     complex_of(64), "1.4"},
    {ScalarType::kComplexDouble, "ComplexDouble", "ComplexDoubleStorage", "complex128", 16, 1,
     complex_of(128), "1.4"},
    {ScalarType::kBool, "Bool", "BoolStorage", "bool", 1, 1, {6, 8, 1}, "1.4"},
    {ScalarType::kQInt8, "QInt8", "QInt8Storage", "qint8", 1, 1, kNone, "1.4"},
    {ScalarType::kQUInt8, "QUInt8", "QUInt8Storage", "quint8", 1, 1, kNone, "1.4"},
    {ScalarType::kQInt32, "QInt32", "QInt32Storage", "qint32", 4, 1, kNone, "1.4"},
    {ScalarType::kBFloat16, "BFloat16", "BFloat16Storage", "bfloat16", 2, 1, {4, 16, 1}, "1.4"},
    {ScalarType::kQUInt4x2, "QUInt4x2", "QUInt4x2Storage", "quint4x2", 1, 2, kNone, "1.8"},
    {ScalarType::kQUInt2x4, "QUInt2x4", "QUInt2x4Storage", "quint2x4", 1, 4, kNone, "1.11"},
    {ScalarType::kBits1x8, "Bits1x8", "Bits1x8Storage", "bits1x8", 1, 1, kNone, "2.1"},
    {ScalarType::kBits2x4, "Bits2x4", "Bits2x4Storage", "bits2x4", 1, 1, kNone, "2.1"},
    {ScalarType::kBits4x2, "Bits4x2", "Bits4x2Storage", "bits4x2", 1, 1, kNone, "2.1"},
    {ScalarType::kBits8, "Bits8", "Bits8Storage", "bits8", 1, 1, kNone, "2.1"},
    {ScalarType::kBits16, "Bits16", "Bits16Storage", "bits16", 2, 1, kNone, "2.1"},
    {ScalarType::kFloat8E5m2, "Float8_e5m2", "Float8_e5m2Storage", "float8_e5m2", 1, 1,
     float8_of(12), "2.1"},
    {ScalarType::kFloat8E4m3fn, "Float8_e4m3fn", "Float8_e4m3fnStorage", "float8_e4m3fn", 1, 1,
     float8_of(10), "2.1"},
    {ScalarType::kFloat8E5m2fnuz, "Float8_e5m2fnuz", "Float8_e5m2fnuzStorage", "float8_e5m2fnuz", 1,
     1, float8_of(13), "2.2"},
    {ScalarType::kFloat8E4m3fnuz, "Float8_e4m3fnuz", "Float8_e4m3fnuzStorage", "float8_e4m3fnuz", 1,
     1, float8_of(11), "2.2"},
    {ScalarType::kUInt16, "UInt16", "UInt16Storage", "uint16", 2, 1, uint_of(16), "2.3"},
    {ScalarType::kUInt32, "UInt32", "UInt32Storage", "uint32", 4, 1, uint_of(32), "2.3"},
    {ScalarType::kUInt64, "UInt64", "UInt64Storage", "uint64", 8, 1, uint_of(64), "2.3"},
    {ScalarType::kUInt1, "UInt1", "UInt1Storage", "uint1", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt2, "UInt2", "UInt2Storage", "uint2", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt3, "UInt3", "UInt3Storage", "uint3", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt4, "UInt4", "UInt4Storage", "uint4", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt5, "UInt5", "UInt5Storage", "uint5", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt6, "UInt6", "UInt6Storage", "uint6", 1, 1, kNone, "2.3"},
    {ScalarType::kUInt7, "UInt7", "UInt7Storage", "uint7", 1, 1, kNone, "2.3"},
    {ScalarType::kInt1, "Int1", "Int1Storage", "int1", 1, 1, kNone, "2.6"},
    {ScalarType::kInt2, "Int2", "Int2Storage", "int2", 1, 1, kNone, "2.6"},
    {ScalarType::kInt3, "Int3", "Int3Storage", "int3", 1, 1, kNone, "2.6"},
    {ScalarType::kInt4, "Int4", "Int4Storage", "int4", 1, 1, kNone, "2.6"},
    {ScalarType::kInt5, "Int5", "Int5Storage", "int5", 1, 1, kNone, "2.6"},
    {ScalarType::kInt6, "Int6", "Int6Storage", "int6", 1, 1, kNone, "2.6"},
    {ScalarType::kInt7, "Int7", "Int7Storage", "int7", 1, 1, kNone, "2.6"},
    {ScalarType::kFloat8E8m0fnu, "Float8_e8m0fnu", "Float8_e8m0fnuStorage", "float8_e8m0fnu", 1, 1,
     float8_of(14), "2.7"},
    {ScalarType::kFloat4E2m1fnX2,
     "Float4_e2m1fn_x2",
     "Float4_e2m1fn_x2Storage",
     "float4_e2m1fn_x2",
     1,
     1,
     {17, 4, 2},
     "2.8"},
    {ScalarType::kBComplex32, "BComplex32", "BComplex32Storage", "bcomplex32", 4, 1, kNone, "2.14"},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (static_cast<size_t>(kInfos[i].type) != i) return false;
  }
  return true;
}
static_assert(in_order());

template <typename Matches>
std::optional<ScalarType> find_info(Matches matches) noexcept {
  const auto found = std::find_if(kInfos.begin(), kInfos.end(), matches);
  if (found == kInfos.end()) return std::nullopt;
  return found->type;
}

}  // namespace

const ScalarTypeInfo& scalar_type_info(ScalarType type) noexcept {
  return kInfos[static_cast<size_t>(type)];
}

std::optional<ScalarType> scalar_type_from_number(int64_t number) noexcept {
  if (number < 0 || static_cast<uint64_t>(number) >= kScalarTypeCount) return std::nullopt;
  return static_cast<ScalarType>(number);
}

std::optional<ScalarType> scalar_type_from_name(std::string_view name) noexcept {
  return find_info([name](const ScalarTypeInfo& info) { return info.name == name; });
}

std::optional<ScalarType> scalar_type_from_storage_name(std::string_view storage_name) noexcept {
  return find_info(
      [storage_name](const ScalarTypeInfo& info) { return info.storage_name == storage_name; });
}

std::optional<ScalarType> scalar_type_from_dtype_name(std::string_view dtype_name) noexcept {
  return find_info(
      [dtype_name](const ScalarTypeInfo& info) { return info.dtype_name == dtype_name; });
}

std::optional<ScalarType> scalar_type_from_dtype(tensor::DType dtype) noexcept {
  return find_info(
      [dtype](const ScalarTypeInfo& info) { return info.has_dtype() && info.dtype == dtype; });
}

bool is_floating_point(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::kHalf:
    case ScalarType::kFloat:
    case ScalarType::kDouble:
    case ScalarType::kBFloat16:
    case ScalarType::kFloat8E5m2:
    case ScalarType::kFloat8E4m3fn:
    case ScalarType::kFloat8E5m2fnuz:
    case ScalarType::kFloat8E4m3fnuz:
    case ScalarType::kFloat8E8m0fnu:
    case ScalarType::kFloat4E2m1fnX2: return true;
    default: return false;
  }
}

bool is_complex(ScalarType type) noexcept {
  return type == ScalarType::kComplexHalf || type == ScalarType::kComplexFloat ||
         type == ScalarType::kComplexDouble || type == ScalarType::kBComplex32;
}

bool is_quantized(ScalarType type) noexcept {
  return type == ScalarType::kQInt8 || type == ScalarType::kQUInt8 || type == ScalarType::kQInt32 ||
         type == ScalarType::kQUInt4x2 || type == ScalarType::kQUInt2x4;
}

bool is_integral(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::kByte:
    case ScalarType::kChar:
    case ScalarType::kShort:
    case ScalarType::kInt:
    case ScalarType::kLong:
    case ScalarType::kUInt16:
    case ScalarType::kUInt32:
    case ScalarType::kUInt64: return true;
    default: return false;
  }
}

}  // namespace tenon::tensor
