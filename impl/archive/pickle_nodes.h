// What a pickle says, as a tree of nodes that stand for its values and for the calls it wants made. Nothing is ever called here.
//
// A node that the pickle refers to twice (by its memo) is one node with two parents, so that what is shared stays shared and a small pickle
// stays small. Two consequences for who walks a tree: nodes are visited once each, by id, and a node may have itself below it.
// Texts are views of the pickle's bytes, which must live as long as the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::archive {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

enum class NodeKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kLong,  // an integer of more than 64 bits; text() has its little-endian two's complement
  kFloat,
  kStr,
  kBytes,
  kTuple,
  kList,
  kDict,  // children are key, value, key, value, …
  kSet,
  kGlobal,
  kPersistent,  // one child, the persistent id
  kReduce,      // callable(args)
  kNew,         // class.__new__(args)
};

const char* node_kind_name(NodeKind kind) noexcept;

// What a kReduce or kNew node is made of. Every list is empty and every id kNoNode if the pickle does not say it.
struct PickledCall {
  NodeId callable = kNoNode;
  NodeId args = kNoNode;
  NodeId keyword_args = kNoNode;
  NodeId state = kNoNode;        // of BUILD
  std::vector<NodeId> items;     // of SETITEM and SETITEMS: key, value, key, value, …
  std::vector<NodeId> elements;  // of APPEND and APPENDS
};

class PickleTree {
 public:
  NodeId root() const noexcept { return root_; }
  size_t count() const noexcept { return nodes_.size(); }
  // Up to and with its STOP. PyTorch reads no further, and neither does anything here: what follows is nobody's.
  uint64_t nbytes() const noexcept { return nbytes_; }
  int protocol() const noexcept { return protocol_; }
  // Of the reader's options: what messages call this pickle.
  const std::string& record() const noexcept { return record_; }

  NodeKind kind(NodeId id) const noexcept { return nodes_[id].kind; }
  // Whether the pickle puts it in its memo, referred to or not: PyTorch's pickler does so with what others hold too.
  bool memoised(NodeId id) const noexcept { return nodes_[id].memoised; }
  // Where its opcode stands.
  uint64_t offset(NodeId id) const noexcept { return nodes_[id].offset; }

  // Each for the kinds that have it only.
  bool boolean(NodeId id) const noexcept { return nodes_[id].content.integer != 0; }
  int64_t integer(NodeId id) const noexcept { return nodes_[id].content.integer; }
  double real(NodeId id) const noexcept { return nodes_[id].content.real; }
  std::string_view text(NodeId id) const noexcept { return {nodes_[id].content.text, nodes_[id].extent}; }  // kStr, kBytes, kLong
  std::string_view module(NodeId id) const noexcept { return globals_[nodes_[id].extent].module; }
  std::string_view name(NodeId id) const noexcept { return globals_[nodes_[id].extent].name; }
  // kTuple … kSet.
  std::span<const NodeId> children(NodeId id) const noexcept {
    const List& list = lists_[nodes_[id].extent];
    return {children_.data() + list.begin, list.count};
  }
  NodeId persistent_id(NodeId id) const noexcept { return nodes_[id].extent; }
  const PickledCall& call(NodeId id) const noexcept { return calls_[nodes_[id].extent]; }

  // For messages: "'a text'", "a tuple of 3", "torch._utils._rebuild_tensor_v2(…)". One short line.
  std::string describe(NodeId id) const;
  // A failure at this node: record and offset go into the message and into the details.
  Status error(Code code, NodeId id, const std::string& message) const;

 private:
  friend class PickleMachine;

  struct Global {
    std::string_view module;
    std::string_view name;
  };

  struct Node {
    uint64_t offset = 0;
    union {
      int64_t integer = 0;
      double real;
      const char* text;
    } content;
    uint32_t extent = 0;  // a text's bytes, or which of globals_, lists_, calls_; a persistent id's node
    NodeKind kind = NodeKind::kNone;
    bool memoised = false;
  };

  // A part of children_: a pickle has so many small tuples that memory of its own for each would be most of the work.
  struct List {
    size_t begin = 0;
    size_t count = 0;
    size_t capacity = 0;
  };

  std::vector<Node> nodes_;
  std::vector<Global> globals_;
  std::vector<List> lists_;
  std::vector<NodeId> children_;
  std::vector<PickledCall> calls_;
  std::string record_;
  NodeId root_ = kNoNode;
  uint64_t nbytes_ = 0;
  int protocol_ = 0;
};

// The one form of a message about a record of pickles: "data.pkl, byte 12: …".
Status pickle_error(Code code, const std::string& record, uint64_t offset, const std::string& message);

}  // namespace tenon::archive
