// Replaces a tensor by another wherever a tree of objects holds it. Module::set() and load() use
// this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "modules/module/module.h"

namespace tenon::module {

// Whether the two are one tensor, although it may have been pickled twice: the same value, or views
// of the same elements of one storage.
bool is_same_tensor(const value::Value& a, const value::Value& b);

// Gives the replacement of a parameter: `given`, which is made to require a gradient if `held`
// does, as in PyTorch's load_state_dict. That `given` requires none is not taken as a wish, because
// most sources of tensors cannot express it. A tensor whose elements can have no gradient, such as
// integers, gets none.
Result<ValueRef> with_gradient_of(const value::Value& held, ValueRef given);

// Collects the changes of all objects and then makes them at once, so that an error leaves
// everything as it was. Call collect() once and apply() right after it. The tree must not change in
// between.
class Replacement {
 public:
  // Call this once for each tensor `from`, before collect(). `from` is a tensor.
  void add(ValueRef from, ValueRef to) { pairs_.push_back({std::move(from), std::move(to)}); }
  // Collects the changes below `root`. `around` is the code of the Module that has `root`, and is
  // not null: a class that an object's scope does not name is found there (class_of()). Objects
  // change in place. Lists, tuples and dicts are copied, so another holder of such a container
  // keeps the old tensors. Keys of dicts are not replaced. PERMISSION if code of an object that
  // changes is being exported. INVALID_ARGUMENT if values are nested too deep.
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
    size_t index = 0;  // the index of an attribute, or kState
    ValueRef value;
  };
  static constexpr size_t kMaxDepth = 1024;
  const Pair* find(const value::Value& tensor) const;
  // `value`, or a copy of it with the replaced tensors.
  Result<ValueRef> replaced(const ValueRef& value, size_t depth);
  Result<ValueRef> replaced_inside(const ValueRef& value, size_t depth);
  Status collect_object(const ValueRef& object, CodeSet* around);

  struct ObjectVisit {
    ValueRef object;
    CodeSet* around = nullptr;
  };
  std::vector<Pair> pairs_;
  std::unordered_multimap<const void*, size_t> by_storage_;
  std::vector<Change> changes_;
  std::vector<ObjectVisit> steps_;
  CodeSet* now_ = nullptr;  // the code of the object that is being searched
  std::unordered_map<const value::Value*, ValueRef> done_;
};

}  // namespace tenon::module
