// Visits all values below a value, without recursion.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"
#include "modules/value/value.h"

namespace tenon::value {

inline constexpr size_t kMaxWalkDepth = 4096;

// Calls `visit` for `root` (depth 0) and for every value below it, parents first and children in
// their order. A value with identity is visited once, however often it is shared. Stops at the
// first status that is not OK, and returns it. INVALID_ARGUMENT if the values are nested deeper
// than `max_depth`. `visit` must not change the values that are being walked.
Status for_each(Value& root, const std::function<Status(Value& value, size_t depth)>& visit,
                size_t max_depth = kMaxWalkDepth);

// Whether `target` is `root` or somewhere below it, at any depth. If so, `root` must not become an
// attribute of `target`, because that would be a cycle.
bool reaches(Value& root, const Value& target);

}  // namespace tenon::value
