// Compares two trees of values, their sharing included. impl/modules/module uses it to find equal
// constants, and tests use it to compare what readers and writers give.
#pragma once

#include <optional>
#include <string>

#include "modules/value/value.h"

namespace tenon::value {

struct CompareOptions {
  bool sharing = true;          // values and storages are shared in the same places in both
  bool attribute_order = true;  // an object's attributes stand in the same order
  bool tensor_bytes = true;     // the storages have equal bytes
};

// Nothing if the trees are equal. Otherwise one line with the path of the first difference:
// "root.fc.weight: sizes [2] and [3]". Floats are equal if their bits are, so a NaN equals itself,
// and 0 differs from -0. The bytes of storages are loaded, which raises SIGBUS if a mapped file was
// cut short. The bytes of a device are not compared: two different ranges there always differ.
std::optional<std::string> difference(Value& a, Value& b, const CompareOptions& options = {});

}  // namespace tenon::value
