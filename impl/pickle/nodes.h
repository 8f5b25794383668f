// The content of a pickle as a tree of nodes. A node stands for a value, or for a call that the
// pickle asks for. No call is ever made here. read_pickle() (reader.h) builds the tree, and
// pickle_to_values() and others read it.
//
// A value to which the pickle refers several times, through its memo, is one node with several
// parents. So shared values stay shared, and a small pickle makes a small tree. A caller that walks
// the tree must therefore visit each node once, by its id, and must expect a node that contains
// itself. Texts are views of the pickle's bytes, which must outlive the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::pickle {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

enum class NodeKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kLong,  // an integer of more than 8 bytes; text() gives its little-endian two's complement
  kFloat,
  kStr,    // not checked to be UTF-8; also a str of Python 2
  kBytes,  // also a bytearray of protocol 5
  kTuple,
  kList,
  kDict,  // children are key, value, key, value, …
  kSet,   // also a frozenset
  kGlobal,
  kPersistent,  // one child, the persistent id
  kReduce,      // callable(args)
  kNew,         // class.__new__(args)
};

const char* node_kind_name(NodeKind kind) noexcept;

// The parts of a kReduce or kNew node. A list is empty and an id is kNoNode if the pickle does not
// have that part.
struct PickledCall {
  NodeId callable = kNoNode;
  NodeId args = kNoNode;
  NodeId keyword_args = kNoNode;
  NodeId state = kNoNode;            // from BUILD
  std::span<const NodeId> items;     // from SETITEM and SETITEMS: key, value, key, value, …
  std::span<const NodeId> elements;  // from APPEND and APPENDS
};

class PickleTree {
 public:
  NodeId root() const noexcept { return root_; }
  size_t count() const noexcept { return nodes_.size(); }
  // The size of the pickle up to its STOP, inclusive. Bytes behind it are ignored, as PyTorch
  // ignores them.
  uint64_t nbytes() const noexcept { return nbytes_; }
  int protocol() const noexcept { return protocol_; }
  // The record's name in messages, from PickleReadOptions.
  const std::string& record() const noexcept { return record_; }

  NodeKind kind(NodeId id) const noexcept { return nodes_[id].kind; }
  // Whether the pickle puts the node into its memo, even if nothing refers to the entry. PyTorch's
  // pickler does this for every value that something besides the pickle holds too.
  bool memoised(NodeId id) const noexcept { return nodes_[id].memoised; }
  // The position of the node's opcode in the pickle, in bytes.
  uint64_t offset(NodeId id) const noexcept { return nodes_[id].offset(); }

  // Each of the following functions is valid only for nodes of the matching kind.
  bool boolean(NodeId id) const noexcept { return nodes_[id].content.integer != 0; }
  int64_t integer(NodeId id) const noexcept { return nodes_[id].content.integer; }
  double real(NodeId id) const noexcept { return nodes_[id].content.real; }
  // For kStr, kBytes and kLong.
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
  // For kTuple, kList, kDict and kSet.
  std::span<const NodeId> children(NodeId id) const noexcept {
    const Pair& pair = nodes_[id].content.pair;
    return nodes_[id].kind == NodeKind::kTuple ? span_of(pair.first, pair.second)
                                               : span_of(lists_[pair.first]);
  }
  NodeId persistent_id(NodeId id) const noexcept { return nodes_[id].content.pair.first; }
  // The node's index among all persistent ids, in the order of the pickle.
  uint32_t persistent_index(NodeId id) const noexcept { return nodes_[id].content.pair.second; }
  uint32_t persistent_count() const noexcept { return persistent_count_; }
  PickledCall call(NodeId id) const noexcept;
  // The same ids as in call(). The references live as long as the tree, so a caller can make a span
  // of one from them.
  const NodeId& callable(NodeId id) const noexcept {
    const Node& node = nodes_[id];
    return node.is_long_call ? calls_[node.content.pair.first].callable : node.content.pair.first;
  }
  const NodeId& args(NodeId id) const noexcept {
    const Node& node = nodes_[id];
    return node.is_long_call ? calls_[node.content.pair.first].args : node.content.pair.second;
  }
  // Whether a call has more parts than the callable and the arguments.
  bool is_long_call(NodeId id) const noexcept { return nodes_[id].is_long_call; }
  // Only for a long call.
  const NodeId& state(NodeId id) const noexcept {
    return calls_[nodes_[id].content.pair.first].state;
  }

  // Describes the node in one short line for messages: "'a text'", "a tuple of 3", "a call of
  // 'torch._utils._rebuild_tensor_v2'".
  std::string describe(NodeId id) const;
  // An error at this node. The record and the offset go into the message and into the details.
  Status error(Code code, NodeId id, const std::string& message) const;

 private:
  friend class PickleMachine;

  struct Global {
    std::string_view module;
    std::string_view name;
  };

  // The meaning of the two numbers depends on the node. A text: its distance in bytes from its
  // opcode, and its size. A tuple: its begin in children_, and its length. Another container or a
  // global: its index in lists_ or globals_, and 0. A persistent id: the node of the id, and
  // persistent_index(). A short call: the callable and the arguments. A long call: its index in
  // calls_, and 0.
  struct Pair {
    uint32_t first;
    uint32_t second;
  };
  union Content {
    int64_t integer = 0;
    double real;
    Pair pair;
  };
  // A pickle can have a node for every five of its bytes, so the size of a node matters. An offset
  // needs no more than 48 bits, because no address space is larger.
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

  // A range of children_, with spare room behind it.
  struct List {
    uint32_t begin = 0;
    uint32_t count = 0;
    uint32_t capacity = 0;
  };
  // A call with more parts than a callable and arguments.
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

// Makes every message about a pickle's record in the same form: "data.pkl, byte 12: …".
Status pickle_error(Code code, const std::string& record, uint64_t offset,
                    const std::string& message);

// Whether a node is the global `module.name`.
bool is_global(const PickleTree& tree, NodeId id, std::string_view module,
               std::string_view name) noexcept;
// Whether a node is a kReduce node that calls that global.
bool is_call_of(const PickleTree& tree, NodeId id, std::string_view module,
                std::string_view name) noexcept;
// The arguments of a call if they are a tuple, else nothing.
std::span<const NodeId> call_arguments(const PickleTree& tree, NodeId id) noexcept;

}  // namespace tenon::pickle
