// What a pickle says, as a tree of nodes that stand for its values and for the calls it wants made.
// Nothing is ever called here.
//
// A node that the pickle refers to twice (by its memo) is one node with two parents, so that what
// is shared stays shared and a small pickle stays small. Two consequences for who walks a tree:
// nodes are visited once each, by id, and a node may have itself below it. Texts are views of the
// pickle's bytes, which must live as long as the tree.
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

// What a kReduce or kNew node is made of. Every list is empty and every id kNoNode if the pickle
// does not say it.
struct PickledCall {
  NodeId callable = kNoNode;
  NodeId args = kNoNode;
  NodeId keyword_args = kNoNode;
  NodeId state = kNoNode;            // of BUILD
  std::span<const NodeId> items;     // of SETITEM and SETITEMS: key, value, key, value, …
  std::span<const NodeId> elements;  // of APPEND and APPENDS
};

class PickleTree {
 public:
  NodeId root() const noexcept { return root_; }
  size_t count() const noexcept { return nodes_.size(); }
  // Up to and with its STOP. PyTorch reads no further, and neither does anything here: what follows
  // is nobody's.
  uint64_t nbytes() const noexcept { return nbytes_; }
  int protocol() const noexcept { return protocol_; }
  // Of the reader's options: what messages call this pickle.
  const std::string& record() const noexcept { return record_; }

  NodeKind kind(NodeId id) const noexcept { return nodes_[id].kind; }
  // Whether the pickle puts it in its memo, referred to or not: PyTorch's pickler does so with what
  // others hold too.
  bool memoised(NodeId id) const noexcept { return nodes_[id].memoised; }
  // Where its opcode stands.
  uint64_t offset(NodeId id) const noexcept { return nodes_[id].offset(); }

  // Each for the kinds that have it only.
  bool boolean(NodeId id) const noexcept { return nodes_[id].content.integer != 0; }
  int64_t integer(NodeId id) const noexcept { return nodes_[id].content.integer; }
  double real(NodeId id) const noexcept { return nodes_[id].content.real; }
  // kStr, kBytes, kLong.
  std::string_view text(NodeId id) const noexcept {
    const Pair& pair = nodes_[id].content.pair;
    return {bytes_ + nodes_[id].offset() + pair.first, pair.second};
  }
  std::string_view module(NodeId id) const noexcept {
    return globals_[nodes_[id].content.pair.first].module;
  }
  std::string_view name(NodeId id) const noexcept {
    return globals_[nodes_[id].content.pair.first].name;
  }
  // kTuple … kSet.
  std::span<const NodeId> children(NodeId id) const noexcept {
    const Pair& pair = nodes_[id].content.pair;
    return nodes_[id].kind == NodeKind::kTuple ? span_of(pair.first, pair.second)
                                               : span_of(lists_[pair.first]);
  }
  NodeId persistent_id(NodeId id) const noexcept { return nodes_[id].content.pair.first; }
  // Which of the persistent ids it is, in the order of the pickle.
  uint32_t persistent_index(NodeId id) const noexcept { return nodes_[id].content.pair.second; }
  uint32_t persistent_count() const noexcept { return persistent_count_; }
  PickledCall call(NodeId id) const noexcept;
  // The same as in call(). As long as the tree, so that it can be a span of one.
  const NodeId& callable(NodeId id) const noexcept {
    const Node& node = nodes_[id];
    return node.is_long_call ? calls_[node.content.pair.first].callable : node.content.pair.first;
  }
  const NodeId& args(NodeId id) const noexcept {
    const Node& node = nodes_[id];
    return node.is_long_call ? calls_[node.content.pair.first].args : node.content.pair.second;
  }
  // Whether a call has more than these two.
  bool is_long_call(NodeId id) const noexcept { return nodes_[id].is_long_call; }
  // Of a call that has one.
  const NodeId& state(NodeId id) const noexcept {
    return calls_[nodes_[id].content.pair.first].state;
  }

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

  // A text: how far behind its opcode it begins, its bytes. A tuple: where in children_ it begins,
  // its length. Other containers and globals: which of lists_, globals_. A persistent id: its node,
  // which it is. A call: callable, arguments; or which of calls_.
  struct Pair {
    uint32_t first;
    uint32_t second;
  };
  union Content {
    int64_t integer = 0;
    double real;
    Pair pair;
  };
  // A pickle has one for every five of its bytes, so their size is felt. No address space has more
  // bytes than 48 bits count.
  struct Node {
    Content content;
    uint32_t offset_low = 0;
    uint16_t offset_high = 0;
    NodeKind kind = NodeKind::kNone;
    bool memoised : 1 = false;
    bool is_long_call : 1 = false;

    uint64_t offset() const noexcept { return uint64_t{offset_high} << 32 | offset_low; }
  };
  static_assert(sizeof(Node) == 16);

  // A part of children_, with room behind it.
  struct List {
    uint32_t begin = 0;
    uint32_t count = 0;
    uint32_t capacity = 0;
  };
  // With more than a callable and arguments.
  struct LongCall {
    NodeId callable = kNoNode;
    NodeId args = kNoNode;
    NodeId keyword_args = kNoNode;
    NodeId state = kNoNode;
    List items;
    List elements;
  };

  std::span<const NodeId> span_of(size_t begin, size_t count) const noexcept {
    return {children_.data() + begin, count};
  }
  std::span<const NodeId> span_of(const List& list) const noexcept {
    return span_of(list.begin, list.count);
  }

  const char* bytes_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<Global> globals_;
  std::vector<List> lists_;
  std::vector<NodeId> children_;
  std::vector<LongCall> calls_;
  std::string record_;
  NodeId root_ = kNoNode;
  uint32_t persistent_count_ = 0;
  uint64_t nbytes_ = 0;
  int protocol_ = 0;
};

inline PickledCall PickleTree::call(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  if (!node.is_long_call)
    return {node.content.pair.first, node.content.pair.second, kNoNode, kNoNode, {}, {}};
  const LongCall& call = calls_[node.content.pair.first];
  return {call.callable, call.args,           call.keyword_args,
          call.state,    span_of(call.items), span_of(call.elements)};
}

// The one form of a message about a record of pickles: "data.pkl, byte 12: …".
Status pickle_error(Code code, const std::string& record, uint64_t offset,
                    const std::string& message);

}  // namespace tenon::archive
