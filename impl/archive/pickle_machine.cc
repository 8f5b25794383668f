#include "archive/pickle_machine.h"

#include <algorithm>
#include <utility>

namespace tenon::archive {
namespace {

unsigned long long wide(uint64_t value) noexcept { return value; }

}  // namespace

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const PickleReadOptions& options) : bytes_(bytes), options_(options) {
  tree_.record_ = options.record;
  // A module of many tensors has a node for every four or five bytes, a third of them tuples and an eighth calls: room for all of them at
  // once, but no more than a few megabytes.
  const size_t expected = std::min<size_t>(bytes.size() / 4, 1U << 16);
  tree_.nodes_.reserve(expected);
  tree_.children_.reserve(expected);
  tree_.lists_.reserve(expected / 3);
  tree_.calls_.reserve(expected / 8);
  memo_.reserve(expected / 4);
}

Status PickleMachine::error(Code code, const std::string& message) const {
  const char* name = opcode_at_ < bytes_.size() ? opcode_name(static_cast<uint8_t>(bytes_[opcode_at_])) : nullptr;
  if (name == nullptr) return pickle_error(code, options_.record, opcode_at_, message);
  return pickle_error(code, options_.record, opcode_at_, std::string(name) + ": " + message).with("opcode", name);
}

Status PickleMachine::over_limit(const char* limit, uint64_t value) const {
  return error(Code::kResourceExhausted, format("the pickle exceeds the limit %s: %llu", limit, wide(value)))
      .with("limit", limit)
      .with("limit_value", value);
}

Result<PickleTree> PickleMachine::run() {
  if (bytes_.size() > options_.limits.max_nbytes) return over_limit("max_nbytes", options_.limits.max_nbytes);
  if (bytes_.empty() || static_cast<Opcode>(bytes_[0]) != Opcode::kProto) {
    return error(Code::kCorrupt, "this is no pickle: it does not begin with PROTO");
  }
  for (bool more = true; more;) TENON_TRY(step(&more));
  TENON_TRY(finish());
  return std::move(tree_);
}

Status PickleMachine::finish() {
  if (!marks_.empty()) return error(Code::kCorrupt, format("%zu marks are left", marks_.size()));
  if (stack_.size() != 1) return error(Code::kCorrupt, format("%zu values are on the stack, expected one", stack_.size()));
  tree_.root_ = stack_.back();
  tree_.nbytes_ = cursor_;
  return Status::ok();
}

Status PickleMachine::unknown_opcode(uint8_t byte) const {
  if (opcode_name(byte) == nullptr) return error(Code::kCorrupt, format("0x%02x is no opcode", byte));
  return error(Code::kUnsupported, "PyTorch reads no such opcode in a module archive");
}

Status PickleMachine::step(bool* more) {
  opcode_at_ = cursor_;
  if (cursor_ >= bytes_.size()) return error(Code::kCorrupt, "the pickle ends without STOP");
  const auto byte = static_cast<uint8_t>(bytes_[cursor_++]);
  const bool known = options_.dialect == PickleDialect::kModule ? opcode_in_module_dialect(byte) : opcode_name(byte) != nullptr;
  if (!known) return unknown_opcode(byte);
  const auto opcode = static_cast<Opcode>(byte);
  switch (opcode) {
    case Opcode::kStop: *more = false; return Status::ok();
    case Opcode::kProto: return read_protocol();
    case Opcode::kFrame: return read_frame();
    case Opcode::kMark: marks_.push_back(stack_.size()); return Status::ok();
    case Opcode::kPop:
      // Python's pickler ends a tuple that contains itself so.
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
        return Status::ok();
      }
      if (!has(1)) return missing_values();
      stack_.pop_back();
      return Status::ok();
    case Opcode::kPopMark: {
      size_t begin = 0;
      if (!pop_mark(&begin)) return missing_mark();
      stack_.resize(begin);
      return Status::ok();
    }
    case Opcode::kDup:
      if (!has(1)) return missing_values();
      stack_.push_back(stack_.back());
      return Status::ok();
    case Opcode::kNone:
    case Opcode::kNewTrue:
    case Opcode::kNewFalse:
    case Opcode::kBinInt:
    case Opcode::kBinInt1:
    case Opcode::kBinInt2:
    case Opcode::kBinFloat: return read_scalar(opcode);
    case Opcode::kLong1: return read_integer(1);
    case Opcode::kLong4: return read_integer(4);
    // Python 2's str. What it holds in a checkpoint are names.
    case Opcode::kShortBinString:
    case Opcode::kShortBinUnicode: return read_text(NodeKind::kStr, 1);
    case Opcode::kBinString:
    case Opcode::kBinUnicode: return read_text(NodeKind::kStr, 4);
    case Opcode::kBinUnicode8: return read_text(NodeKind::kStr, 8);
    case Opcode::kShortBinBytes: return read_text(NodeKind::kBytes, 1);
    case Opcode::kBinBytes: return read_text(NodeKind::kBytes, 4);
    case Opcode::kBinBytes8:
    case Opcode::kByteArray8: return read_text(NodeKind::kBytes, 8);
    case Opcode::kGlobal:
    case Opcode::kStackGlobal: return read_global();
    case Opcode::kEmptyTuple:
    case Opcode::kTuple:
    case Opcode::kTuple1:
    case Opcode::kTuple2:
    case Opcode::kTuple3:
    case Opcode::kEmptyList:
    case Opcode::kList:
    case Opcode::kEmptyDict:
    case Opcode::kDict:
    case Opcode::kEmptySet:
    case Opcode::kFrozenSet: return read_container(opcode);
    case Opcode::kAppend:
    case Opcode::kAppends:
    case Opcode::kSetItem:
    case Opcode::kSetItems:
    case Opcode::kAddItems: return read_addition(opcode);
    case Opcode::kReduce:
    case Opcode::kNewObj:
    case Opcode::kNewObjEx:
    case Opcode::kBinPersId: return read_call(opcode);
    case Opcode::kBuild: return read_build();
    case Opcode::kBinPut:
    case Opcode::kLongBinPut:
    case Opcode::kMemoize:
    case Opcode::kBinGet:
    case Opcode::kLongBinGet: return read_memo(opcode);
    default: return error(Code::kUnsupported, "no pickler of protocol 2 or later writes this, or it needs what is not in the pickle");
  }
}

Status PickleMachine::read_container(Opcode opcode) {
  size_t begin = stack_.size();
  switch (opcode) {
    case Opcode::kEmptyTuple: return push_list(NodeKind::kTuple, begin);
    case Opcode::kEmptyList: return push_list(NodeKind::kList, begin);
    case Opcode::kEmptyDict: return push_list(NodeKind::kDict, begin);
    case Opcode::kEmptySet: return push_list(NodeKind::kSet, begin);
    case Opcode::kTuple1:
    case Opcode::kTuple2:
    case Opcode::kTuple3: {
      const size_t count = static_cast<size_t>(opcode) - static_cast<size_t>(Opcode::kTuple1) + 1;
      if (!has(count)) return missing_values();
      return push_list(NodeKind::kTuple, begin - count);
    }
    default: break;
  }
  if (!pop_mark(&begin)) return missing_mark();
  if (opcode == Opcode::kDict && (stack_.size() - begin) % 2 != 0) return error(Code::kCorrupt, "a key without its value");
  const NodeKind kind = opcode == Opcode::kTuple  ? NodeKind::kTuple
                        : opcode == Opcode::kList ? NodeKind::kList
                        : opcode == Opcode::kDict ? NodeKind::kDict
                                                  : NodeKind::kSet;
  return push_list(kind, begin);
}

Status PickleMachine::read_addition(Opcode opcode) {
  size_t added_count = opcode == Opcode::kAppend ? 1 : 2;
  if (opcode != Opcode::kAppend && opcode != Opcode::kSetItem) {
    size_t begin = 0;
    if (!pop_mark(&begin)) return missing_mark();
    added_count = stack_.size() - begin;
  }
  if (!has(added_count + 1)) return missing_values();
  const std::span<const NodeId> added = std::span<const NodeId>(stack_).last(added_count);
  const NodeId target = stack_[stack_.size() - added_count - 1];
  const Node& node = tree_.nodes_[target];
  const bool is_call = node.kind == NodeKind::kReduce || node.kind == NodeKind::kNew;
  const bool as_items = opcode == Opcode::kSetItem || opcode == Opcode::kSetItems;
  const NodeKind wanted = as_items ? NodeKind::kDict : opcode == Opcode::kAddItems ? NodeKind::kSet : NodeKind::kList;
  if (node.kind != wanted && (!is_call || opcode == Opcode::kAddItems)) {
    return error(Code::kCorrupt, format("%s cannot take this", tree_.describe(target).c_str()));
  }
  if (as_items && added.size() % 2 != 0) return error(Code::kCorrupt, "a key without its value");
  if (is_call) {
    PickledCall& call = tree_.calls_[node.extent];
    std::vector<NodeId>& list = as_items ? call.items : call.elements;
    list.insert(list.end(), added.begin(), added.end());
  } else {
    extend_list(&tree_.lists_[node.extent], added);
  }
  stack_.resize(stack_.size() - added_count);
  return Status::ok();
}

void PickleMachine::extend_list(PickleTree::List* list, std::span<const NodeId> added) {
  std::vector<NodeId>& all = tree_.children_;
  const size_t count = list->count + added.size();
  if (count > list->capacity && list->begin + list->capacity == all.size()) {
    all.resize(list->begin + count);  // nothing lies behind it
    list->capacity = count;
  } else if (count > list->capacity) {
    // To the end. What was filled in one go, as nearly all are, gets no spare room; what grows again gets as much as it has, so that a
    // pickle that fills many lists in turns copies each a few times only.
    const PickleTree::List moved{all.size(), list->count, list->count == 0 ? count : 2 * count};
    all.resize(moved.begin + moved.capacity);
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(list->begin), list->count, all.begin() + static_cast<ptrdiff_t>(moved.begin));
    *list = moved;
  }
  std::ranges::copy(added, all.begin() + static_cast<ptrdiff_t>(list->begin + list->count));
  list->count = count;
}

Status PickleMachine::read_call(Opcode opcode) {
  PickledCall call;
  if (opcode == Opcode::kBinPersId) {
    Node node;
    node.kind = NodeKind::kPersistent;
    if (!pop(&node.extent)) return missing_values();
    return push_node(node);
  }
  if (opcode == Opcode::kNewObjEx && !pop(&call.keyword_args)) return missing_values();
  if (!pop(&call.args) || !pop(&call.callable)) return missing_values();
  if (opcode == Opcode::kNewObjEx && tree_.kind(call.keyword_args) != NodeKind::kDict) {
    return error(Code::kCorrupt, "keyword arguments that are no dict");
  }
  if (tree_.kind(call.callable) != NodeKind::kGlobal) {
    return error(Code::kCorrupt, format("%s cannot be called", tree_.describe(call.callable).c_str()));
  }
  // REDUCE of an enum has its value there, and no tuple: only who knows what is called can say whether that is right.
  if (opcode != Opcode::kReduce && tree_.kind(call.args) != NodeKind::kTuple) return error(Code::kCorrupt, "arguments that are no tuple");
  return push_call(opcode == Opcode::kReduce ? NodeKind::kReduce : NodeKind::kNew, std::move(call));
}

Status PickleMachine::read_build() {
  NodeId state = kNoNode;
  NodeId target = kNoNode;
  if (!pop(&state) || !pop(&target)) return missing_values();
  stack_.push_back(target);
  const Node& node = tree_.nodes_[target];
  if (node.kind != NodeKind::kReduce && node.kind != NodeKind::kNew) {
    return error(Code::kCorrupt, format("%s cannot have a state", tree_.describe(target).c_str()));
  }
  PickledCall& call = tree_.calls_[node.extent];
  if (call.state != kNoNode) return error(Code::kCorrupt, "a second state");
  call.state = state;
  return Status::ok();
}

Status PickleMachine::read_memo(Opcode opcode) {
  uint64_t index = memo_.size() + sparse_memo_.size();
  const size_t nbytes = opcode == Opcode::kBinPut || opcode == Opcode::kBinGet ? 1 : opcode == Opcode::kMemoize ? 0 : 4;
  if (nbytes != 0 && !take_number(nbytes, &index)) return missing_bytes(nbytes);
  if (opcode == Opcode::kBinGet || opcode == Opcode::kLongBinGet) return get(index);
  return put(index);
}

Status PickleMachine::put(uint64_t index) {
  if (!has(1)) return missing_values();
  const NodeId top = stack_.back();
  tree_.nodes_[top].memoised = true;
  if (index < memo_.size()) {
    memo_[index] = top;
    return Status::ok();
  }
  if (memo_.size() + sparse_memo_.size() >= options_.limits.max_memo) return over_limit("max_memo", options_.limits.max_memo);
  if (index == memo_.size() && sparse_memo_.empty()) {
    memo_.push_back(top);
  } else {
    sparse_memo_[index] = top;
  }
  return Status::ok();
}

Status PickleMachine::get(uint64_t index) {
  if (index < memo_.size()) {
    stack_.push_back(memo_[index]);
    return Status::ok();
  }
  const auto found = sparse_memo_.find(index);
  if (found == sparse_memo_.end()) return error(Code::kCorrupt, format("memo %llu was never put", wide(index)));
  stack_.push_back(found->second);
  return Status::ok();
}

Status PickleMachine::push_node(Node node) {
  if (tree_.nodes_.size() >= options_.limits.max_nodes) return over_limit("max_nodes", options_.limits.max_nodes);
  node.offset = opcode_at_;
  stack_.push_back(static_cast<NodeId>(tree_.nodes_.size()));
  tree_.nodes_.push_back(node);
  return Status::ok();
}

Status PickleMachine::push_list(NodeKind kind, size_t begin) {
  const std::span<const NodeId> children = std::span<const NodeId>(stack_).subspan(begin);
  Node node;
  node.kind = kind;
  node.extent = static_cast<uint32_t>(tree_.lists_.size());
  tree_.lists_.push_back({tree_.children_.size(), children.size(), children.size()});
  tree_.children_.insert(tree_.children_.end(), children.begin(), children.end());
  stack_.resize(begin);
  return push_node(node);
}

Status PickleMachine::push_global(std::string_view module, std::string_view name) {
  Node node;
  node.kind = NodeKind::kGlobal;
  node.extent = static_cast<uint32_t>(tree_.globals_.size());
  tree_.globals_.push_back({module, name});
  return push_node(node);
}

Status PickleMachine::push_call(NodeKind kind, PickledCall call) {
  Node node;
  node.kind = kind;
  node.extent = static_cast<uint32_t>(tree_.calls_.size());
  tree_.calls_.push_back(std::move(call));
  return push_node(node);
}

bool PickleMachine::pop(NodeId* out) noexcept {
  if (!has(1)) return false;
  *out = stack_.back();
  stack_.pop_back();
  return true;
}

bool PickleMachine::pop_mark(size_t* begin) noexcept {
  if (marks_.empty()) return false;
  *begin = marks_.back();
  marks_.pop_back();
  return true;
}

Status PickleMachine::missing_values() const { return error(Code::kCorrupt, "the stack has too few values"); }

Status PickleMachine::missing_mark() const { return error(Code::kCorrupt, "there is no mark"); }

}  // namespace tenon::archive
