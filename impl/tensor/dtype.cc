#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

namespace tenon::tensor {
namespace {

struct CodeEntry {
  const char* name;                // the whole name, or its part before the number of bits
  bool name_has_bits;              // "float" + "32", but "bool"
  std::array<uint8_t, 11> widths;  // the widths of one lane, up to the first 0
};

// Indexed by DLPack's code. Code 3 is DLPack's "opaque handle", whose elements mean nothing outside
// their process.
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

const CodeEntry* find_code(uint8_t code) noexcept {
  return code < kCodes.size() && kCodes[code].name != nullptr ? &kCodes[code] : nullptr;
}

bool has_width(const CodeEntry& entry, uint8_t bits) noexcept {
  return bits != 0 &&
         std::find(entry.widths.begin(), entry.widths.end(), bits) != entry.widths.end();
}

// The beginning of the name of a type without a name, before its code and bits.
constexpr std::string_view kUnnamed = "dtype_";

// Parses a number without signs, spaces or leading zeros, so that it accepts only the numbers that
// dtype_name() prints.
bool parse_number(std::string_view text, unsigned most, unsigned* out) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out <= most &&
         (text.size() == 1 || text.front() != '0');
}

std::optional<DType> parse_unnamed(std::string_view text) noexcept {
  const size_t line = text.find('_');
  unsigned code = 0;
  unsigned bits = 0;
  if (line == std::string_view::npos || !parse_number(text.substr(0, line), UINT8_MAX, &code) ||
      !parse_number(text.substr(line + 1), UINT8_MAX, &bits)) {
    return std::nullopt;
  }
  const DType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  // A type that has a name must be called by it.
  const CodeEntry* entry = find_code(dtype.code);
  if (entry != nullptr && has_width(*entry, dtype.bits)) return std::nullopt;
  return dtype;
}

std::optional<DType> parse_scalar(std::string_view name) noexcept {
  if (name.starts_with(kUnnamed)) return parse_unnamed(name.substr(kUnnamed.size()));
  for (size_t code = 0; code < kCodes.size(); ++code) {
    const CodeEntry& entry = kCodes[code];
    if (entry.name == nullptr || !name.starts_with(entry.name)) continue;
    const std::string_view rest = name.substr(std::string_view(entry.name).size());
    unsigned bits = entry.widths[0];
    const bool good = entry.name_has_bits ? parse_number(rest, UINT8_MAX, &bits) &&
                                                has_width(entry, static_cast<uint8_t>(bits))
                                          : rest.empty();
    if (good) return DType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  }
  return std::nullopt;
}

}  // namespace

Status check_dtype(DType dtype) {
  const CodeEntry* entry = find_code(dtype.code);
  if (entry == nullptr)
    return {Code::kInvalidArgument, format("element type code %u is not known", dtype.code)};
  if (!has_width(*entry, dtype.bits)) {
    return {Code::kInvalidArgument, format("element type %s (code %u) cannot have %u bits",
                                           entry->name, dtype.code, dtype.bits)};
  }
  if (dtype.lanes == 0)
    return {Code::kInvalidArgument, format("element type %s has 0 lanes", entry->name)};
  return Status::ok();
}

DTypeName dtype_name(DType dtype) noexcept {
  DTypeName name;
  const auto add = [&name](const char* format, auto... numbers) {
    const int count =
        std::snprintf(name.text + name.nbytes, sizeof name.text - name.nbytes, format, numbers...);
    name.nbytes += static_cast<size_t>(std::max(count, 0));
  };
  const CodeEntry* entry = find_code(dtype.code);
  if (entry == nullptr || !has_width(*entry, dtype.bits)) {
    add("dtype_%u_%u", unsigned{dtype.code}, unsigned{dtype.bits});
  } else if (entry->name_has_bits) {
    add("%s%u", entry->name, unsigned{dtype.bits});
  } else {
    add("%s", entry->name);
  }
  if (dtype.lanes != 1) add("x%u", unsigned{dtype.lanes});
  return name;
}

Result<DType> parse_dtype(std::string_view name) {
  if (const std::optional<DType> scalar = parse_scalar(name)) return *scalar;
  // Tried only now, because there is an x in "complex64".
  if (const size_t x = name.rfind('x'); x != std::string_view::npos) {
    std::optional<DType> dtype = parse_scalar(name.substr(0, x));
    unsigned lanes = 0;
    if (dtype && parse_number(name.substr(x + 1), UINT16_MAX, &lanes) && lanes > 1) {
      dtype->lanes = static_cast<uint16_t>(lanes);
      return *dtype;
    }
  }
  return Status(Code::kInvalidArgument, format("there is no element type '%s': use a name such as "
                                               "float32, bfloat16, int64 or float8_e4m3fn",
                                               std::string(name.substr(0, 64)).c_str()));
}

}  // namespace tenon::tensor
