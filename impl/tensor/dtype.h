// Element types, in DLPack's numbers.
#pragma once

#include <cstdint>
#include <string>

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

// "float32", "bfloat16", "float8_e4m3fn", "int32x4", …
std::string dtype_name(DType dtype);

}  // namespace tenon::tensor
