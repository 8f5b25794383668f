// The place of a value in a tree, as messages write it: "root.fc.weight", "w[3]", "d['key']", or
// "d.key 2" for a key itself.
#pragma once

#include <cstddef>
#include <string>

#include "modules/value/value.h"

namespace tenon::value {

// The step from `parent` to its child number `index` (counted as Value::child() counts). The caller
// appends it to the path of the parent.
std::string step_text(const Value& parent, size_t index);

}  // namespace tenon::value
