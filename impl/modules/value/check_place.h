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
// It borrows everything: what it points to must outlive it. The root of the list has a null `above`
// and the caller's name for the value, which may be "". Every other place has a name, a key or an
// index. text() gives a path such as "w.layers[3]".
struct CheckPlace {
  const CheckPlace* above;
  const char* separator;  // "." before a name, else null
  std::string_view name;
  const Value* key;  // for a value of a dict: its key
  size_t index;

  std::string text() const;
};

// These functions make the place of an item of a list or tuple, of a value of a dict, and of an
// attribute.
inline CheckPlace item_of(const CheckPlace& above, size_t index) {
  return {&above, nullptr, {}, nullptr, index};
}
inline CheckPlace value_of(const CheckPlace& above, const Value& key) {
  return {&above, nullptr, {}, &key, 0};
}
inline CheckPlace member_of(const CheckPlace& above, std::string_view name) {
  return {&above, ".", name, nullptr, 0};
}

// The text, cut after 200 bytes.
std::string shown(std::string text);
// Describes a value in the words of a type.
std::string found_text(const Value& value);
// Describes attributes of a class, of which at most 10 are named. With `what` = "misses" it gives
// "an object of 'C' misses the attributes 'a', 'b' and 7 more", for example.
std::string names_text(const std::string& class_name, const char* what,
                       const std::vector<std::string_view>& names);

// INVALID_ARGUMENT with the detail "where", which is the place's text. The message is `what`,
// behind the place and a colon if the place has a text.
Status misfit(const CheckPlace& place, const std::string& what);
// INVALID_ARGUMENT, such as "w: Tensor wanted, int found", with the details "where", "wanted" and
// "found".
Status misfit(const CheckPlace& place, std::string wanted, std::string found);

}  // namespace tenon::value
