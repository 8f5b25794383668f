// Which attributes of `self` a method assigns, however it runs.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "script/ast.h"

namespace tenon::script {

struct AssignedAttributes {
  // On every way to the end of the method. A way that ends with `raise` does not count, and what
  // stands in a loop may never run.
  std::set<std::string, std::less<>> names;
  // `self` is given to a function or to a variable, and that may assign any attribute.
  bool gives_self_away = false;
};

// Finds another method of the class, which the method may call; null: there is none of that name.
using FindMethod = std::function<const Function*(std::string_view name)>;

AssignedAttributes assigned_attributes(const Function& method, const FindMethod& find_method);

}  // namespace tenon::script
