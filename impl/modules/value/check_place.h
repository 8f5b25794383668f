// The place in a tree of values that a check has reached, and the errors about a value that does
// not fit there. Only check.cc uses this.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::value {

// A linked list through the frames of the recursion. It becomes a text only when an error needs it.
// It borrows everything: what it points to must outlive it.
struct CheckPlace {
  const CheckPlace* above;
  const char* separator;  // "." before a name, else null
  std::string_view name;
  const Value* key;  // for a value of a dict: its key
  size_t index;

  std::string text() const;
};

inline CheckPlace item_of(const CheckPlace& above, size_t index) {
  return {&above, nullptr, {}, nullptr, index};
}
inline CheckPlace value_of(const CheckPlace& above, const Value& key) {
  return {&above, nullptr, {}, &key, 0};
}
inline CheckPlace member_of(const CheckPlace& above, std::string_view name) {
  return {&above, ".", name, nullptr, 0};
}

// The text, cut if it is long.
std::string shown(std::string text);
// Describes a value in the words of a type.
std::string found_text(const Value& value);
// "an object of 'C' misses the attributes 'a', 'b' and 7 more".
std::string names_text(const std::string& class_name, const char* what,
                       const std::vector<std::string_view>& names);

// INVALID_ARGUMENT with the detail "where".
Status misfit(const CheckPlace& place, const std::string& what);
// INVALID_ARGUMENT, such as "w: Tensor wanted, int found", with the details "where", "wanted" and
// "found".
Status misfit(const CheckPlace& place, std::string wanted, std::string found);

}  // namespace tenon::value
