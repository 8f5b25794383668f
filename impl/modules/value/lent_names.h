// Names that callers of the C API borrow from an object. An attribute can go, and its text moves
// when an attribute before it goes. So the caller gets a copy, which lives as long as the object.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace tenon::value {

// Any number of threads may call lend() at the same time. A forked child may too.
class LentNames {
 public:
  // Gives the copy of a name. There is one copy of each name.
  const char* lend(std::string_view name);

 private:
  using Names = std::set<std::string, std::less<>>;
  std::unique_ptr<Names> names_;  // null until a caller borrows a name
};

}  // namespace tenon::value
