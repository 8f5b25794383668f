// Reads the names and tensors that a C caller gives as two lists of one length. tenon_save_weights
// and tenon_publish_shared_weights_values take such lists.
#pragma once

#include <tenon/value.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "boundary.h"
#include "handles.h"
#include "modules/weights/save_weights.h"
#include "text.h"

namespace tenon::capi {

// The names stay the caller's. INVALID_ARGUMENT: a list or an item is NULL, a name is no text, or a
// value is no tensor.
inline Result<std::vector<weights::SavedTensor>> read_named_tensors(
    const char* const* names, const tenon_value* const* tensors, size_t count) {
  TENON_TRY(check_argument(count == 0 || (names != nullptr && tensors != nullptr),
                           "the names or the tensors are NULL"));
  std::vector<weights::SavedTensor> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    TENON_ASSIGN(const std::string_view name, read_text(names[i], "a name"));
    TENON_TRY(
        check_argument(tensors[i] != nullptr && object(tensors[i])->is(value::ValueKind::kTensor),
                       "a tensor is NULL or no value of a tensor"));
    all.push_back({name, object(tensors[i])->as_tensor()});
  }
  return all;
}

}  // namespace tenon::capi
