// A tensor replaced by another wherever a tree has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "module/module.h"

namespace tenon::module {

// One tensor, though it may be pickled twice: the same value, or views of the same elements of one
// storage.
bool is_same_tensor(const value::Value& a, const value::Value& b);

// What takes the place of a parameter: `given`, which requires a gradient if `held` does, as with
// PyTorch's load_state_dict. A tensor that requires none says nothing about it: most have no word
// for it. Elements that can have no gradient, such as integers, get none.
Result<ValueRef> with_gradient_of(const value::Value& held, ValueRef given);

// Collects what has to change in objects and changes it all at once, so that a refusal leaves
// everything as it was.
class Replacement {
 public:
  // Nothing yet has `from`, or what took its place, in two replacements.
  void add(ValueRef from, ValueRef to) { pairs_.push_back({std::move(from), std::move(to)}); }
  // Looks through everything below `root`. PERMISSION if some of the code that this concerns is
  // being exported.
  Status collect(const ValueRef& root, CodeSet* around);
  void apply();

 private:
  struct Pair {
    ValueRef from;
    ValueRef to;
  };
  struct Change {
    static constexpr size_t kState = SIZE_MAX;
    ValueRef object;
    size_t index = 0;  // of an attribute, or kState
    ValueRef value;
  };
  static constexpr size_t kMaxDepth = 1024;
  const Pair* find(const value::Value& tensor) const;
  // `value`, or a copy of it with the replaced tensors.
  Result<ValueRef> replaced(const ValueRef& value, size_t depth);
  Result<ValueRef> replaced_inside(const ValueRef& value, size_t depth);
  Status collect_object(const ValueRef& object, CodeSet* around);

  struct Step {
    ValueRef object;
    CodeSet* around = nullptr;
  };
  std::vector<Pair> pairs_;
  std::unordered_multimap<const void*, size_t> by_storage_;
  std::vector<Change> changes_;
  std::vector<Step> steps_;
  CodeSet* now_ = nullptr;  // the code around the object that is looked through
  std::unordered_map<const value::Value*, ValueRef> done_;
};

}  // namespace tenon::module
