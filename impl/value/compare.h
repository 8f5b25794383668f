// Whether two trees of values say the same, sharing included. What tests of readers and writers
// ask.
#pragma once

#include <optional>
#include <string>

#include "value/value.h"

namespace tenon::value {

struct CompareOptions {
  bool sharing = true;          // the same values, and the same storages, are shared in both
  bool attribute_order = true;  // an object's attributes stand in the same order
  bool tensor_bytes = true;     // the storages have equal bytes
};

// Nothing if they are equal; else one line with the path of the first difference: "root.fc.weight:
// sizes [2] and [3]". Floats are equal if their bits are (a NaN is itself, and 0 is not -0).
std::optional<std::string> difference(Value& a, Value& b, const CompareOptions& options = {});

}  // namespace tenon::value
