// Where in a tree a value is, as messages say it: "root.fc.weight", "w[3]", "d['key']", "d.key 2"
// (a key itself).
#pragma once

#include <cstddef>
#include <string>

#include "value/value.h"

namespace tenon::value {

// What leads from `parent` to its child number `index` (as Value::child counts), to be put behind
// the parent's own path.
std::string step_text(const Value& parent, size_t index);

}  // namespace tenon::value
