#include "tensor/dtype.h"

#include <array>

namespace tenon::tensor {
namespace {

struct CodeEntry {
  const char* name;                // the whole name, or what stands before the number of bits
  bool name_has_bits;              // "float" + "32", but "bool"
  std::array<uint8_t, 11> widths;  // what one lane may have; ends at the first 0
};

// Indexed by DLPack's code. Code 3 is DLPack's "opaque handle": elements that mean nothing outside their process.
constexpr std::array<CodeEntry, 18> kCodes = {{
    {"int", true, {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64}},
    {"uint", true, {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64}},
    {"float", true, {16, 32, 64, 128}},
    {nullptr, false, {}},
    {"bfloat", true, {16}},
    {"complex", true, {32, 64, 128}},
    {"bool", false, {8}},
    {"float8_e3m4", false, {8}},
    {"float8_e4m3", false, {8}},
    {"float8_e4m3b11fnuz", false, {8}},
    {"float8_e4m3fn", false, {8}},
    {"float8_e4m3fnuz", false, {8}},
    {"float8_e5m2", false, {8}},
    {"float8_e5m2fnuz", false, {8}},
    {"float8_e8m0fnu", false, {8}},
    {"float6_e2m3fn", false, {6}},
    {"float6_e3m2fn", false, {6}},
    {"float4_e2m1fn", false, {4}},
}};

const CodeEntry* find_code(uint8_t code) noexcept { return code < kCodes.size() && kCodes[code].name != nullptr ? &kCodes[code] : nullptr; }

}  // namespace

Status check_dtype(DType dtype) {
  const CodeEntry* entry = find_code(dtype.code);
  if (entry == nullptr) return {Code::kInvalidArgument, format("element type code %u is not known", dtype.code)};
  bool known_width = false;
  for (const uint8_t width : entry->widths) {
    if (width == 0) break;
    if (width == dtype.bits) known_width = true;
  }
  if (!known_width) {
    return {Code::kInvalidArgument, format("element type %s (code %u) cannot have %u bits", entry->name, dtype.code, dtype.bits)};
  }
  if (dtype.lanes == 0) return {Code::kInvalidArgument, format("element type %s has 0 lanes", entry->name)};
  return Status::ok();
}

std::string dtype_name(DType dtype) {
  const CodeEntry* entry = find_code(dtype.code);
  std::string name;
  if (entry == nullptr) {
    name = format("code%ubits%u", dtype.code, dtype.bits);
  } else {
    name = entry->name;
    if (entry->name_has_bits) name += std::to_string(dtype.bits);
  }
  if (dtype.lanes != 1) name += format("x%u", dtype.lanes);
  return name;
}

}  // namespace tenon::tensor
