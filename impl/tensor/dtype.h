// Element types, in DLPack's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tenon::tensor {

struct DType {
  uint8_t code = 0;
  uint8_t bits = 0;
  uint16_t lanes = 0;

  bool operator==(const DType&) const = default;
  // Bits of one element, all lanes. At most 255 * 65535.
  uint32_t element_bits() const noexcept { return uint32_t{bits} * lanes; }
};

// A code that Tenon knows with a width that this code can have, and at least one lane.
Status check_dtype(DType dtype);

// A name with its NUL. No memory is needed, so that it can be asked of anything at any time.
inline constexpr size_t kMaxDTypeNameNbytes = 32;
struct DTypeName {
  char text[kMaxDTypeNameNbytes];
  size_t nbytes = 0;  // without the NUL
};
// "float32", "bfloat16", "float8_e4m3fn", "int32x4"; of what has no name "dtype_3_64", code and
// bits.
DTypeName dtype_name(DType dtype) noexcept;
// The inverse. INVALID_ARGUMENT for what is no such name.
Result<DType> parse_dtype(std::string_view name);

}  // namespace tenon::tensor
