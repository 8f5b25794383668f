// Gives the elements of a tensor in the order of its indices, as a file of weights has them.
// save_weights.cc writes files with it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "modules/value/tensor_value.h"

namespace tenon::weights {

// UNSUPPORTED, with the detail "name": the tensor has no plain elements in the memory of the CPU,
// or none at all.
Status check_savable(std::string_view name, const value::TensorValue& tensor);

// Calls `take` with the elements of a tensor that check_savable() accepted, piece by piece in
// order. A tensor that is not contiguous is copied whole first. CORRUPT: a mapped file was cut
// short. PEER_GONE: the lender of the memory is gone. Other errors are those of `take`.
using TakePiece = std::function<Status(std::span<const std::byte>)>;
Status for_each_piece(const value::TensorValue& tensor, const TakePiece& take);

// The same for the bytes of a storage.
Status for_each_piece(const value::StorageValue& storage, const TakePiece& take);

}  // namespace tenon::weights
