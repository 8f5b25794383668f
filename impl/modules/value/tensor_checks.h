// The checks that TensorValue makes before it creates a tensor. The numbers come from files, so all
// arithmetic is checked for overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "modules/value/tensor_value.h"

namespace tenon::value {

using tensor::dims_text;

// The number of elements that a storage of `type` must have for the sizes, strides and offset of
// `spec`. Nothing if it overflows, or if the numbers of sizes and strides differ.
std::optional<uint64_t> needed_numel(tensor::ScalarType type, const StridedSpec& spec) noexcept;

// INVALID_ARGUMENT for the reasons that TensorValue::create() and create_sparse() list.
Status check_strided(const StridedSpec& spec);
Status check_sparse(const SparseSpec& spec);

}  // namespace tenon::value
