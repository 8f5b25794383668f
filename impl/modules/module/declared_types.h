// DeclaredTypes adds to unpickled values what the pickle does not say and the code does: the types
// of bare lists and dicts (archives of versions 1 and 2), and the names of NamedTuples. Assembly
// and Module call this before they check a value's type.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "modules/value/check.h"
#include "modules/value/value.h"

namespace tenon::module {

// `classes` must outlive the object and not change meanwhile.
class DeclaredTypes {
 public:
  explicit DeclaredTypes(const value::ClassTable& classes) noexcept : classes_(&classes) {}

  // Conforms the attributes of an object, and of all objects below it, to the types that their
  // classes declare. A value that does not fit stays as it is, and value::check_object() refuses it
  // later. The attributes are replaced one by one, so after a failure some are changed.
  Status conform_object(const value::ValueRef& object);
  // Gives the value in the form that `type` demands: the value itself, or a copy that carries the
  // missing types and names.
  Result<value::ValueRef> conform(const value::ValueRef& value, const value::Type& type);

 private:
  Result<value::ValueRef> conform_now(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_items(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_dict(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_named_tuple(const value::ValueRef& value,
                                              const value::Type& type);
  Status conform_attributes(value::Value& object);

  value::LastClass classes_;
  // For each value that was conformed: the value and the result. A shared value gets one result,
  // and so stays shared. The map keeps the old value alive, so that no other value gets its
  // address.
  std::unordered_map<const value::Value*, std::pair<value::ValueRef, value::ValueRef>> done_;
  std::unordered_set<const value::Value*> seen_objects_;
  std::vector<value::ValueRef> objects_;  // not conformed yet
};

}  // namespace tenon::module
