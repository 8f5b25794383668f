// Element types of tensors, in DLPack's numbers. The types of PyTorch's archives are in
// scalar_type.h.
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
  // The bits of one element with all its lanes, at most 255 * 65535.
  uint32_t element_bits() const noexcept { return uint32_t{bits} * lanes; }
};

// Checks that Tenon knows the code, that the code can have this width, and that there is at least
// one lane. Otherwise INVALID_ARGUMENT.
Status check_dtype(DType dtype);

// The name of a type, with its NUL. It needs no allocation, so it can be made in any state of the
// process.
inline constexpr size_t kMaxDTypeNameNbytes = 32;
struct DTypeName {
  char text[kMaxDTypeNameNbytes];
  size_t nbytes = 0;  // without the NUL
};
// The name of a type: "float32", "bfloat16", "float8_e4m3fn", "int32x4". A type without a name is
// called by its code and bits, "dtype_3_64".
DTypeName dtype_name(DType dtype) noexcept;
// The inverse of dtype_name(). INVALID_ARGUMENT if there is no such name. The result may be a type
// that check_dtype() refuses, because such a type has a name too.
Result<DType> parse_dtype(std::string_view name);

}  // namespace tenon::tensor
