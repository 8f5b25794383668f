// What must hold of a tensor before it is one. The numbers come from files: all arithmetic is checked.
#pragma once

#include "base/status.h"
#include "value/tensor_value.h"

namespace tenon::value {

Status check_strided(const StridedSpec& spec);
Status check_sparse(const SparseSpec& spec);

}  // namespace tenon::value
