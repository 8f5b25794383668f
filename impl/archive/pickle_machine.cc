#include "archive/pickle_machine.h"

#include <utility>

namespace tenon::archive {
namespace {

unsigned long long wide(uint64_t value) noexcept { return value; }

}  // namespace

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const PickleReadOptions& options) : bytes_(bytes), options_(options) {
  tree_.record_ = options.record;
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
  for (;;) {
    TENON_ASSIGN(const bool more, step());
    if (!more) break;
  }
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

Result<bool> PickleMachine::step() {
  opcode_at_ = cursor_;
  if (cursor_ >= bytes_.size()) return error(Code::kCorrupt, "the pickle ends without STOP");
  const auto byte = static_cast<uint8_t>(bytes_[cursor_++]);
  if (opcode_name(byte) == nullptr) return error(Code::kCorrupt, format("0x%02x is no opcode", byte));
  if (options_.dialect == PickleDialect::kModule && !opcode_in_module_dialect(byte)) {
    return error(Code::kUnsupported, "PyTorch reads no such opcode in a module archive");
  }
  const auto opcode = static_cast<Opcode>(byte);
  Status status;
  switch (opcode) {
    case Opcode::kStop: return false;
    case Opcode::kProto: status = read_protocol(); break;
    case Opcode::kFrame: status = read_frame(); break;
    case Opcode::kMark: marks_.push_back(stack_.size()); break;
    case Opcode::kPop:
      // Python's pickler ends a tuple that contains itself so.
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        NodeId ignored = kNoNode;
        status = pop(&ignored);
      }
      break;
    case Opcode::kPopMark: {
      size_t begin = 0;
      status = pop_mark(&begin);
      if (status.is_ok()) stack_.resize(begin);
      break;
    }
    case Opcode::kDup: {
      NodeId top = kNoNode;
      status = pop(&top);
      if (status.is_ok()) stack_.insert(stack_.end(), 2, top);
      break;
    }
    case Opcode::kNone:
    case Opcode::kNewTrue:
    case Opcode::kNewFalse:
    case Opcode::kBinInt:
    case Opcode::kBinInt1:
    case Opcode::kBinInt2:
    case Opcode::kBinFloat: status = read_scalar(opcode); break;
    case Opcode::kLong1: status = read_integer(1); break;
    case Opcode::kLong4: status = read_integer(4); break;
    // Python 2's str. What it holds in a checkpoint are names.
    case Opcode::kShortBinString:
    case Opcode::kShortBinUnicode: status = read_text(NodeKind::kStr, 1); break;
    case Opcode::kBinString:
    case Opcode::kBinUnicode: status = read_text(NodeKind::kStr, 4); break;
    case Opcode::kBinUnicode8: status = read_text(NodeKind::kStr, 8); break;
    case Opcode::kShortBinBytes: status = read_text(NodeKind::kBytes, 1); break;
    case Opcode::kBinBytes: status = read_text(NodeKind::kBytes, 4); break;
    case Opcode::kBinBytes8:
    case Opcode::kByteArray8: status = read_text(NodeKind::kBytes, 8); break;
    case Opcode::kGlobal:
    case Opcode::kStackGlobal: status = read_global(); break;
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
    case Opcode::kFrozenSet: status = read_container(opcode); break;
    case Opcode::kAppend:
    case Opcode::kAppends:
    case Opcode::kSetItem:
    case Opcode::kSetItems:
    case Opcode::kAddItems: status = read_addition(opcode); break;
    case Opcode::kReduce:
    case Opcode::kNewObj:
    case Opcode::kNewObjEx:
    case Opcode::kBinPersId: status = read_call(opcode); break;
    case Opcode::kBuild: status = read_build(); break;
    case Opcode::kBinPut:
    case Opcode::kLongBinPut:
    case Opcode::kMemoize:
    case Opcode::kBinGet:
    case Opcode::kLongBinGet: status = read_memo(opcode); break;
    default: status = error(Code::kUnsupported, "no pickler of protocol 2 or later writes this, or it needs what is not in the pickle");
  }
  if (!status.is_ok()) return status;
  return true;
}

Status PickleMachine::read_container(Opcode opcode) {
  size_t begin = stack_.size();
  switch (opcode) {
    case Opcode::kEmptyTuple: return push_list(NodeKind::kTuple, {});
    case Opcode::kEmptyList: return push_list(NodeKind::kList, {});
    case Opcode::kEmptyDict: return push_list(NodeKind::kDict, {});
    case Opcode::kEmptySet: return push_list(NodeKind::kSet, {});
    case Opcode::kTuple1:
    case Opcode::kTuple2:
    case Opcode::kTuple3: {
      const size_t count = static_cast<size_t>(opcode) - static_cast<size_t>(Opcode::kTuple1) + 1;
      const size_t floor = marks_.empty() ? 0 : marks_.back();
      if (stack_.size() - floor < count) return error(Code::kCorrupt, "the stack has too few values");
      return push_list(NodeKind::kTuple, pop_from(begin - count));
    }
    default: break;
  }
  TENON_TRY(pop_mark(&begin));
  if (opcode == Opcode::kDict && (stack_.size() - begin) % 2 != 0) return error(Code::kCorrupt, "a key without its value");
  const NodeKind kind = opcode == Opcode::kTuple  ? NodeKind::kTuple
                        : opcode == Opcode::kList ? NodeKind::kList
                        : opcode == Opcode::kDict ? NodeKind::kDict
                                                  : NodeKind::kSet;
  return push_list(kind, pop_from(begin));
}

Status PickleMachine::read_addition(Opcode opcode) {
  std::vector<NodeId> added;
  if (opcode == Opcode::kAppend || opcode == Opcode::kSetItem) {
    added.resize(opcode == Opcode::kAppend ? 1 : 2);
    for (size_t i = added.size(); i-- > 0;) TENON_TRY(pop(&added[i]));
  } else {
    size_t begin = 0;
    TENON_TRY(pop_mark(&begin));
    added = pop_from(begin);
  }
  NodeId target = kNoNode;
  TENON_TRY(pop(&target));
  stack_.push_back(target);
  const Node& node = tree_.nodes_[target];
  const bool is_call = node.kind == NodeKind::kReduce || node.kind == NodeKind::kNew;
  const bool as_items = opcode == Opcode::kSetItem || opcode == Opcode::kSetItems;
  const NodeKind wanted = as_items ? NodeKind::kDict : opcode == Opcode::kAddItems ? NodeKind::kSet : NodeKind::kList;
  if (node.kind != wanted && (!is_call || opcode == Opcode::kAddItems)) {
    return error(Code::kCorrupt, format("%s cannot take this", tree_.describe(target).c_str()));
  }
  if (as_items && added.size() % 2 != 0) return error(Code::kCorrupt, "a key without its value");
  std::vector<NodeId>& list = !is_call   ? tree_.lists_[node.extent]
                              : as_items ? tree_.calls_[node.extent].items
                                         : tree_.calls_[node.extent].elements;
  if (list.empty()) {
    list = std::move(added);
  } else {
    list.insert(list.end(), added.begin(), added.end());
  }
  return Status::ok();
}

Status PickleMachine::read_call(Opcode opcode) {
  PickledCall call;
  if (opcode == Opcode::kBinPersId) {
    Node node;
    node.kind = NodeKind::kPersistent;
    TENON_TRY(pop(&node.extent));
    return push_node(node);
  }
  if (opcode == Opcode::kNewObjEx) TENON_TRY(pop(&call.keyword_args));
  TENON_TRY(pop(&call.args));
  TENON_TRY(pop(&call.callable));
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
  TENON_TRY(pop(&state));
  TENON_TRY(pop(&target));
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
  if (opcode == Opcode::kBinPut || opcode == Opcode::kBinGet) TENON_TRY(take_number(1, &index));
  if (opcode == Opcode::kLongBinPut || opcode == Opcode::kLongBinGet) TENON_TRY(take_number(4, &index));
  if (opcode == Opcode::kBinGet || opcode == Opcode::kLongBinGet) return get(index);
  return put(index);
}

Status PickleMachine::put(uint64_t index) {
  NodeId top = kNoNode;
  TENON_TRY(pop(&top));
  stack_.push_back(top);
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

Status PickleMachine::push_list(NodeKind kind, std::vector<NodeId> children) {
  Node node;
  node.kind = kind;
  node.extent = static_cast<uint32_t>(tree_.lists_.size());
  tree_.lists_.push_back(std::move(children));
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

Status PickleMachine::pop(NodeId* out) {
  // A mark is a wall: what lies under it belongs to what the mark begins.
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) return error(Code::kCorrupt, "the stack has too few values");
  *out = stack_.back();
  stack_.pop_back();
  return Status::ok();
}

Status PickleMachine::pop_mark(size_t* begin) {
  if (marks_.empty()) return error(Code::kCorrupt, "there is no mark");
  *begin = marks_.back();
  marks_.pop_back();
  return Status::ok();
}

std::vector<NodeId> PickleMachine::pop_from(size_t begin) {
  std::vector<NodeId> out(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
  stack_.resize(begin);
  return out;
}

}  // namespace tenon::archive
