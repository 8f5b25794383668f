// The implementation of pickle_to_values(). Each node becomes a value once, children before their
// parents, without recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_tensors.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/value/type.h"
#include "modules/value/value.h"
#include "pickle/nodes.h"

namespace tenon::archive {

class PickledValues {
 public:
  // `tree` and `options` must outlive this object. Call run() once.
  PickledValues(const pickle::PickleTree& tree, const ToValuesOptions& options);
  Result<UnpickledValue> run();

 private:
  // The meaning of a node. For a call, the node's kind does not say it.
  enum class Role : uint8_t {
    kLeaf,  // no value below it
    kTuple,
    kList,
    kDict,
    kEnum,
    kObject,  // with attributes
    kOpaque,  // with a state
  };
  // A node whose child values are being made.
  struct Frame {
    pickle::NodeId node = pickle::kNoNode;
    Role role = Role::kLeaf;
    uint32_t height = 0;  // the height of the highest value below this node
    size_t next = 0;      // the index of the next child
    size_t step = 1;      // 2 if only every second child is a value
    std::span<const pickle::NodeId> children;
    value::TypeRef type;  // the type of a list or dict, if the pickle says it
  };

  // Whether the node needs no frame, because no value lies below it.
  bool is_leaf(pickle::NodeId id) const noexcept;
  Result<Frame> enter(pickle::NodeId id);
  Result<Frame> enter_call(pickle::NodeId id);
  Result<Frame> enter_typed_list(pickle::NodeId id, const value::TypeRef& element);
  Result<Frame> enter_tagged(pickle::NodeId id);
  Result<Frame> enter_object(pickle::NodeId id);
  Status leave(Frame& frame);
  Status keep(pickle::NodeId id, uint32_t height, Result<value::ValueRef> made);
  Result<value::ValueRef> make(Frame& frame);
  Result<value::ValueRef> make_leaf(pickle::NodeId id);
  Result<value::ValueRef> make_complex(pickle::NodeId id);
  Result<value::ValueRef> make_device(pickle::NodeId id);
  Result<value::ValueRef> make_object(Frame& frame);

  bool has_value(pickle::NodeId id) const noexcept {
    return places_[id] != 0 && places_[id] != kOpen;
  }
  // Only for a node that has a value.
  const value::ValueRef& value_of(pickle::NodeId id) const noexcept {
    return made_[places_[id] - 1].value;
  }
  Status claim(pickle::NodeId id);
  Result<value::TypeRef> type_of_text(pickle::NodeId text);
  Result<std::string> class_name(pickle::NodeId callable);
  Status check_class(pickle::NodeId callable, const std::string& name);
  Result<std::string> copy_name(pickle::NodeId node, std::string_view name);
  Status count_names(pickle::NodeId node, uint64_t nbytes);
  Status over_limit(pickle::NodeId node, const char* limit, uint64_t value) const;
  // Adds the place to an error of impl/modules/value, and turns INVALID_ARGUMENT into CORRUPT.
  Status placed(pickle::NodeId id, const Status& status) const;

  static constexpr uint32_t kOpen = UINT32_MAX;
  struct Made {
    value::ValueRef value;
    uint32_t height = 0;
  };

  const pickle::PickleTree& tree_;
  const ToValuesOptions& options_;
  PickledTensors tensors_;
  // By node: the index in made_ plus one. 0: the node has no value yet. kOpen: the node is on the
  // stack.
  std::vector<uint32_t> places_;
  std::vector<Made> made_;
  // Nodes of None, True and False share these values, because they are many and have no identity.
  value::ValueRef none_;
  value::ValueRef bools_[2];
  std::vector<bool> claimed_;  // by node: whether a list or dict has become a value or a part of
                               // one
  std::map<pickle::NodeId, value::TypeRef> types_;
  std::set<std::string, std::less<>> classes_;  // the class names that were checked
  // A cache of the last class. A pickle has one node for a class, and often many objects of it in a
  // row.
  pickle::NodeId class_node_ = pickle::kNoNode;
  std::string class_name_;
  uint64_t names_nbytes_ = 0;
};

}  // namespace tenon::archive
