// The work of pickle_to_values: each node becomes a value once, children first, without recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/pickle_nodes.h"
#include "archive/pickle_tensors.h"
#include "archive/pickle_to_values.h"
#include "base/status.h"
#include "value/type.h"
#include "value/value.h"

namespace tenon::archive {

class PickledValues {
 public:
  PickledValues(const PickleTree& tree, const ToValuesOptions& options);
  Result<UnpickledValue> run();

 private:
  // What a node is, beside its kind: what a call means.
  enum class Role : uint8_t {
    kLeaf,  // no value below it
    kTuple,
    kList,
    kDict,
    kEnum,
    kObject,  // with attributes
    kOpaque,  // with a state
  };
  // A node whose values below are being made.
  struct Frame {
    NodeId node = kNoNode;
    Role role = Role::kLeaf;
    uint32_t height = 0;  // of what is below
    size_t next = 0;      // which child comes next
    size_t step = 1;      // 2 where only every second child is a value
    std::span<const NodeId> children;
    value::TypeRef type;  // of a list or dict that has one
  };

  // Of these no frame is needed: nothing below them is a value.
  bool is_leaf(NodeId id) const noexcept;
  Result<Frame> enter(NodeId id);
  Result<Frame> enter_call(NodeId id);
  Result<Frame> enter_typed_list(NodeId id, const value::TypeRef& element);
  Result<Frame> enter_tagged(NodeId id);
  Result<Frame> enter_object(NodeId id);
  Status leave(Frame& frame);
  Status keep(NodeId id, uint32_t height, Result<value::ValueRef> made);
  Result<value::ValueRef> make(Frame& frame);
  Result<value::ValueRef> make_leaf(NodeId id);
  Result<value::ValueRef> make_complex(NodeId id);
  Result<value::ValueRef> make_device(NodeId id);
  Result<value::ValueRef> make_object(Frame& frame);

  bool has_value(NodeId id) const noexcept { return places_[id] != 0 && places_[id] != kOpen; }
  // Of a node that has a value.
  const value::ValueRef& value_of(NodeId id) const noexcept { return made_[places_[id] - 1].value; }
  Status claim(NodeId id);
  Result<value::TypeRef> type_of_text(NodeId text);
  Result<std::string> class_name(NodeId callable);
  Status check_class(NodeId callable, const std::string& name);
  Result<std::string> copy_name(NodeId node, std::string_view name);
  Status count_names(NodeId node, uint64_t nbytes);
  Status over_limit(NodeId node, const char* limit, uint64_t value) const;
  // INVALID_ARGUMENT of impl/value is CORRUPT here, with the place.
  Status placed(NodeId id, const Status& status) const;

  static constexpr uint32_t kOpen = UINT32_MAX;
  struct Made {
    value::ValueRef value;
    uint32_t height = 0;
  };

  const PickleTree& tree_;
  const ToValuesOptions& options_;
  PickledTensors tensors_;
  // By node: one more than its place in made_; 0: it has no value; kOpen: it is on the stack.
  std::vector<uint32_t> places_;
  std::vector<Made> made_;
  value::ValueRef none_;  // these are not told apart from others that are equal, and there are many
  value::ValueRef bools_[2];
  std::vector<bool> claimed_;  // containers that another node has taken for its own
  std::map<NodeId, value::TypeRef> types_;
  std::set<std::string, std::less<>> classes_;  // those that were checked
  // Of the last one: a pickle has a class's node once, and many objects of it one after the other.
  NodeId class_node_ = kNoNode;
  std::string class_name_;
  uint64_t names_nbytes_ = 0;
};

}  // namespace tenon::archive
