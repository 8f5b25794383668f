// Gives the elements of a tensor in the order of its indices, as a file of weights has them.
// save_weights.cc writes files with it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "modules/value/tensor_value.h"

namespace tenon::weights {

// The error of a tensor that cannot be saved. `why` follows its name, which is the detail "name"
// too.
Status saved_tensor_error(Code code, std::string_view name, const std::string& why);

// UNSUPPORTED, with the detail "name": the tensor has no elements in the memory of the CPU, or is
// sparse.
Status check_savable(std::string_view name, const value::TensorValue& tensor);

// Calls `take` with the elements of a tensor that check_savable() accepted, piece by piece in
// order. A tensor that is not contiguous is copied whole first. CORRUPT: a mapped file was cut
// short. PEER_GONE: the lender of the memory is gone. Other errors are those of `take`.
using TakePiece = std::function<Status(std::span<const std::byte>)>;
Status for_each_piece(const value::TensorValue& tensor, const TakePiece& take);

// The addresses of a tensor's first element, and of the byte behind its last one. Equal for a
// tensor without elements.
struct ElementRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  auto operator<=>(const ElementRange&) const = default;
};
ElementRange range_of(const value::TensorValue& tensor) noexcept;

// Calls `take` with the bytes of a range of memory. `is_sealed`: no process can cut them off. The
// errors are those of the function above.
Status for_each_piece(ElementRange range, bool is_sealed, const TakePiece& take);

}  // namespace tenon::weights
