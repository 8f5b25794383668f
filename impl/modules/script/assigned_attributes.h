// Finds the attributes of `self` that a method assigns on every path through it.
// impl/modules/module asks this about `__setstate__`.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "modules/script/ast.h"

namespace tenon::script {

struct AssignedAttributes {
  // The attributes that are assigned on every path to the end of the method. A path that ends with
  // `raise` does not count. Assignments in a loop do not count either, because its body may never
  // run.
  std::set<std::string, std::less<>> names;
  // The method passes `self` to a function or stores it in a variable, so other code may assign any
  // attribute.
  bool gives_self_away = false;
};

// Finds a method of the same class by its name. Null: the class has no such method. If the method
// calls `self.f()`, the attributes that f assigns count too.
using FindMethod = std::function<const Function*(std::string_view name)>;

AssignedAttributes assigned_attributes(const Function& method, const FindMethod& find_method);

}  // namespace tenon::script
