// What a pickle leaves unsaid and the code says: the types of bare lists and dicts (archives of
// versions 1 and 2), the names of NamedTuples.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "value/check.h"
#include "value/value.h"

namespace tenon::module {

class Conformer {
 public:
  explicit Conformer(const value::ClassTable& classes) noexcept : classes_(&classes) {}

  // The attributes of an object, and of all objects below it, as their classes declare them.
  // Whatever does not fit is left as it is, for value::check_object to refuse.
  Status conform_object(const value::ValueRef& object);
  // A value where `type` is declared: itself, or one like it that says more.
  Result<value::ValueRef> conform(const value::ValueRef& value, const value::Type& type);

 private:
  Result<value::ValueRef> conform_now(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_items(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_dict(const value::ValueRef& value, const value::Type& type);
  Result<value::ValueRef> conform_named_tuple(const value::ValueRef& value,
                                              const value::Type& type);
  Status conform_attributes(value::Value& object);

  value::LastClass classes_;
  // What a shared value became, so that it stays shared. Keeps the old one alive, so that its
  // address means it alone.
  std::unordered_map<const value::Value*, std::pair<value::ValueRef, value::ValueRef>> done_;
  std::unordered_set<const value::Value*> seen_objects_;
  std::vector<value::ValueRef> objects_;  // still to be looked into
};

}  // namespace tenon::module
