// What must hold of a tensor before it is one. The numbers come from files: all arithmetic is
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "value/tensor_value.h"

namespace tenon::value {

using tensor::dims_text;

// The elements that a storage of `type` must have for the sizes, strides and offset of `spec`; none
// if they overflow.
std::optional<uint64_t> needed_numel(ScalarType type, const StridedSpec& spec) noexcept;

Status check_strided(const StridedSpec& spec);
Status check_sparse(const SparseSpec& spec);

}  // namespace tenon::value
